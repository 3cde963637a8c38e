"""The documents that ``verify``, ``explain`` and ``nodes`` print as JSON or YAML.

Each answers one question about one snapshot. No command reads them back, so they have neither ``kind`` nor ``apiVersion``. Their version
is that of their schema (:mod:`kubestow.report.documents.schemas`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from kubestow.models.documents.placement import Cause, Doc


class Violation(Doc):
    """A rule that a document violates."""

    pod: Annotated[str, Meta(description="The pod concerned, `namespace/name`; empty if the whole document is wrong.")]
    node: Annotated[str | None, Meta(description="The node concerned, or empty or null.")]
    rule: Annotated[str, Meta(description="The scheduler plugin's name, or the name of another rule.")]
    why: Annotated[str, Meta(description="The problem as a sentence.")]


class Share(Doc):
    """Progress of the steps of one kind."""

    done: Annotated[int, Meta(description="The number of steps done.")]
    of: Annotated[int, Meta(description="The number of steps in the document.")]


class CarriedWave(Doc, omit_defaults=True):
    """The progress of one wave."""

    wave: Annotated[int, Meta(description="Its number, from 1; a Placement has one wave.")]
    pods: Annotated[int, Meta(description="The number of pods in the wave.")]
    done: Annotated[int, Meta(description="The number of pods done.")]
    seconds: Annotated[float | None, Meta(description="Seconds from its start to its last pod, pauses of the run excluded.")] = None


class Outstanding(Doc, omit_defaults=True):
    """A pod of an unfinished step."""

    step: Annotated[int, Meta(description="The number of the step.")]
    wave: Annotated[int, Meta(description="The number of the wave.")]
    pod: Annotated[str, Meta(description="The pod as the document names it, namespace/name.")]
    node: Annotated[str | None, Meta(description="The target node, null for an eviction.")]
    begun: Annotated[bool, Meta(description="True if a request for the pod was sent and not refused.")] = False
    why: Annotated[str, Meta(description="The latest refusal of the API server.")] = ""


class SentRequests(Doc):
    """The requests in a journal, by kind and outcome."""

    evictions: Annotated[int, Meta(description="Evictions, refused ones included.")]
    bindings: Annotated[int, Meta(description="Bindings, refused ones included.")]
    nodes: Annotated[int, Meta(description="Changes to nodes.")]
    others: Annotated[int, Meta(description="All other requests.")]
    refused: Annotated[int, Meta(description="Requests of any kind that the API server refused.")]
    unanswered: Annotated[int, Meta(description="Requests of any kind whose outcome is unknown.")]


class ClusterEnd(Doc):
    """The cluster after a run, compared with the document."""

    missed: Annotated[list[str], Meta(description="Differences from the document's end state, unfinished steps included.")]
    foreign: Annotated[list[str], Meta(description="Changes made by others since the document's snapshot.")]


class CarriedOut(Doc, omit_defaults=True):
    """The record of a run, from its journal."""

    run: Annotated[str, Meta(description="The id of the run.")]
    began: Annotated[str, Meta(description="Start time, RFC 3339.")]
    moves: Annotated[Share, Meta(description="Moves to another node.")]
    evictions: Annotated[Share, Meta(description="Evictions without a new place.")]
    bindings: Annotated[Share, Meta(description="Bindings of pending pods.")]
    waves: Annotated[list[CarriedWave], Meta(description="The waves, in order.")]
    left: Annotated[list[Outstanding], Meta(description="The unfinished steps, one entry per pod.")]
    requests: Annotated[SentRequests, Meta(description="The requests sent to the cluster.")]
    nodesClosed: Annotated[int, Meta(description="The number of nodes closed for the run.")]
    leftClosed: Annotated[list[str], Meta(description="Closed nodes that were not opened again.")] = []
    resumed: Annotated[int, Meta(description="The number of times the run was resumed.")] = 0
    ended: Annotated[str | None, Meta(description="End time, RFC 3339; null if it was interrupted or is still running.")] = None
    messages: Annotated[list[str], Meta(description="The recorded messages about drift and about the reason for stopping.")] = []
    end: Annotated[ClusterEnd | None, Meta(description="The cluster after the run, if a snapshot of it was given.")] = None


class Verification(Doc, omit_defaults=True):
    """The answer of ``verify``: whether a document is valid, and the rules that it violates."""

    valid: Annotated[bool, Meta(description="True if there is no violation.")]
    violations: Annotated[list[Violation], Meta(description="The violated rules, one entry for each pod and node.")]
    says: Annotated[list[str], Meta(description="Statements of the document that decide validity, such as exemptions and the policy.")] = []
    notChecked: Annotated[list[str], Meta(description="Parts of the document that are not checked.")] = []
    notes: Annotated[list[str], Meta(description="Parts of the input that are ignored.")] = []
    journal: Annotated[CarriedOut | None, Meta(description="The record of a run, if a journal was given.")] = None


class PodCounts(Doc, omit_defaults=True):
    """The number of feasible nodes of a pod, and of nodes per rejecting rule."""

    pod: Annotated[str, Meta(description="The pod, `namespace/name`.")]
    feasible: Annotated[int, Meta(description="The number of nodes that no rule rejects.")]
    rejected: Annotated[
        dict[str, int], Meta(description="Rejected nodes by rule (scheduler plugin). A node can count under several rules.")
    ]
    node: Annotated[str | None, Meta(description="Its current node, or null. The pod is checked as if it were removed from there.")] = None
    rejectedThere: Annotated[list[str], Meta(description="The rules that reject it on its current node.")] = []
    scores: Annotated[
        dict[str, dict[str, int]] | None,
        Meta(description="With `--scores`: kube-scheduler's weighted points by feasible node and plugin, best node first."),
    ] = None
    total: Annotated[dict[str, int] | None, Meta(description="With `--scores`: the sum of the points of each node.")] = None


class Explanation(Doc, omit_defaults=True):
    """The answer of ``explain``."""

    pods: Annotated[list[PodCounts], Meta(description="The requested pods.")]
    causes: Annotated[list[Cause], Meta(description="Causes and remedies for pods that fit no node; absent if all pods fit.")] = []
    notes: Annotated[list[str], Meta(description="Parts of the input that are ignored; absent if there are none.")] = []
    kubernetesVersion: Annotated[str, Meta(description="The Kubernetes version whose rules apply.")] = ""
    featureGates: Annotated[dict[str, bool], Meta(description="Feature gates that differ from the defaults of the version.")] = {}


class PodNodes(Doc, omit_defaults=True):
    """The feasible nodes of a pod, and the rules that reject every other node."""

    pod: Annotated[str, Meta(description="The pod, `namespace/name`.")]
    feasible: Annotated[Sequence[str], Meta(description="The nodes that no rule rejects.")]
    rejected: Annotated[
        Mapping[str, Sequence[str]], Meta(description="Every other node, with the rules (scheduler plugins) that reject the pod.")
    ]
    node: Annotated[str | None, Meta(description="Its current node, or null. The pod is checked as if it were removed from there.")] = None


class NodeExplanation(Doc, omit_defaults=True):
    """The answer of ``explain --per-node``."""

    pods: Annotated[list[PodNodes], Meta(description="The requested pods.")]
    notes: Annotated[list[str], Meta(description="Parts of the input that are ignored; absent if there are none.")] = []
    kubernetesVersion: Annotated[str, Meta(description="The Kubernetes version whose rules apply.")] = ""
    featureGates: Annotated[dict[str, bool], Meta(description="Feature gates that differ from the defaults of the version.")] = {}


class ContainerPair(Doc):
    """The affinity of one container to another, both ``namespace/pod/container``."""

    source: Annotated[str, Meta(description="The container that has the preference.")] = msgspec.field(name="from")
    to: Annotated[str, Meta(description="The container that it attracts or repels.")]
    weight: Annotated[int, Meta(description="A(from, to); negative values repel.")]


class ContainerAffinity(Doc):
    """The answer of ``explain --affinity``."""

    pod: Annotated[str, Meta(description="The pod, or the workload of a pod template, `namespace/name`.")]
    containers: Annotated[list[str], Meta(description="The containers of the pod.")]
    affinity: Annotated[list[ContainerPair], Meta(description="The pairs with a nonzero weight that involve one of these containers.")]


class FittingPod(Doc):
    """The largest requests of one more pod on a node, scheduling rules aside."""

    node: Annotated[str, Meta(description="The node.")]
    cpu: Annotated[int, Meta(description="The largest CPU request, in mCPU.")]
    memory: Annotated[int, Meta(description="The largest memory request, in bytes.")]


class NodeRow(Doc, omit_defaults=True):
    """A row for a node, a zone or a namespace. Amounts are by resource: CPU in mCPU, others in whole units."""

    name: Annotated[str, Meta(description="The node, zone or namespace; empty for nodes without a zone.")]
    nodes: Annotated[int, Meta(description="The number of nodes; for a namespace, the nodes that run its pods.")]
    pods: Annotated[int, Meta(description="Pods on these nodes, except terminated ones; for a namespace, only its own.")]
    requests: Annotated[dict[str, int], Meta(description="The requests of these pods.")]
    limits: Annotated[dict[str, int], Meta(description="The limits of these pods; a container without a limit counts as 0.")]
    pending: Annotated[int, Meta(description="For a namespace, its pods without a node, gated pods included.")] = 0
    allocatable: Annotated[dict[str, int], Meta(description="Allocatable resources, `pods` included; empty for a namespace.")] = {}
    free: Annotated[dict[str, int], Meta(description="Allocatable minus requests and pods; negative if overcommitted.")] = {}
    largest: Annotated[
        list[FittingPod],
        Meta(description="The largest pods that still fit, most CPU first; for a zone, the Pareto-optimal ones in CPU and memory."),
    ] = []
    zone: Annotated[str, Meta(description="The zone label of a node.")] = ""
    cordoned: Annotated[bool, Meta(description="True if the node accepts no new pods (spec.unschedulable).")] = False
    taints: Annotated[list[str], Meta(description="Taints of a node that repel pods, key=value:Effect.")] = []
    devices: Annotated[
        dict[str, int],
        Meta(description="Devices in ResourceSlices by driver. A device that several nodes can reach counts on each."),
    ] = {}
    freeDevices: Annotated[dict[str, int], Meta(description="Devices without any allocation, by driver.")] = {}


class NodeTable(Doc, omit_defaults=True):
    """The answer of ``kubestow nodes``."""

    by: Annotated[Literal["node", "zone", "namespace"], Meta(description="The kind of row.")]
    rows: Annotated[list[NodeRow], Meta(description="The nodes, zones or namespaces, in the requested order.")]
    total: Annotated[NodeRow, Meta(description="The total over all selected nodes.")]
    notes: Annotated[list[str], Meta(description="Parts of the input that are ignored.")] = []
    kubernetesVersion: Annotated[str, Meta(description="The Kubernetes version whose rules apply.")] = ""
    featureGates: Annotated[dict[str, bool], Meta(description="Feature gates that differ from the defaults of the version.")] = {}
