"""The documents that ``kubestow verify`` and ``kubestow explain`` print as JSON or YAML.

They answer one question about one snapshot and nothing reads them back, so they carry neither ``kind`` nor ``apiVersion``; their version
is that of their schema (:mod:`kubestow.report.documents.schemas`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from kubestow.models.documents.placement import Cause, Doc


class Violation(Doc):
    """A rule that a document breaks."""

    pod: Annotated[str, Meta(description="The pod that breaks it, `namespace/name`; empty where it is the document.")]
    node: Annotated[str | None, Meta(description="The node concerned, empty or null where there is none.")]
    rule: Annotated[str, Meta(description="The scheduler plugin's name, or what else is broken.")]
    why: Annotated[str, Meta(description="What is wrong, as a sentence.")]


class Share(Doc):
    """How many of a kind are done."""

    done: Annotated[int, Meta(description="Those that are done.")]
    of: Annotated[int, Meta(description="Those that the document asks for.")]


class CarriedWave(Doc, omit_defaults=True):
    """A wave as it was carried out."""

    wave: Annotated[int, Meta(description="Its number; of a Placement there is one.")]
    pods: Annotated[int, Meta(description="The pods that it is about.")]
    done: Annotated[int, Meta(description="Those of them that are done.")]
    seconds: Annotated[float | None, Meta(description="From its beginning to the last of its pods, without pauses of the run.")] = None


class Outstanding(Doc, omit_defaults=True):
    """A pod of a step that is not done."""

    step: Annotated[int, Meta(description="The step.")]
    wave: Annotated[int, Meta(description="Its wave.")]
    pod: Annotated[str, Meta(description="The pod as the document names it, namespace/name.")]
    node: Annotated[str | None, Meta(description="The node that it is to go to, null if it goes for good.")]
    begun: Annotated[bool, Meta(description="Whether the cluster was asked to do something for it, and did not refuse.")] = False
    why: Annotated[str, Meta(description="What the API server said when it last refused.")] = ""


class SentRequests(Doc):
    """The requests of a journal by what they ask for, and what became of them."""

    evictions: Annotated[int, Meta(description="Evictions, refused ones included.")]
    bindings: Annotated[int, Meta(description="Bindings, refused ones included.")]
    nodes: Annotated[int, Meta(description="Changes of nodes.")]
    others: Annotated[int, Meta(description="All others.")]
    refused: Annotated[int, Meta(description="Those of all that the API server refused.")]
    unanswered: Annotated[int, Meta(description="Those of all that may or may not have been carried out.")]


class ClusterEnd(Doc):
    """A cluster after a run, beside what the document says."""

    missed: Annotated[list[str], Meta(description="What the document says and is not so, what is left of it included.")]
    foreign: Annotated[list[str], Meta(description="What others have changed since the snapshot of the document.")]


class CarriedOut(Doc, omit_defaults=True):
    """What a journal tells of a run."""

    run: Annotated[str, Meta(description="The id of the run.")]
    began: Annotated[str, Meta(description="When it began, RFC 3339.")]
    moves: Annotated[Share, Meta(description="Pods that get another node.")]
    evictions: Annotated[Share, Meta(description="Pods that go for good.")]
    bindings: Annotated[Share, Meta(description="Pending pods that get a node.")]
    waves: Annotated[list[CarriedWave], Meta(description="The waves in their order.")]
    left: Annotated[list[Outstanding], Meta(description="What is not done.")]
    requests: Annotated[SentRequests, Meta(description="What was asked of the cluster.")]
    nodesClosed: Annotated[int, Meta(description="Nodes that were closed for the run.")]
    leftClosed: Annotated[list[str], Meta(description="Nodes of these that were not opened again.")] = []
    resumed: Annotated[int, Meta(description="How often it was resumed.")] = 0
    ended: Annotated[str | None, Meta(description="When it ended by itself, RFC 3339; null if it was cut off, or goes on.")] = None
    messages: Annotated[list[str], Meta(description="Drift, and why the run stopped, as it was said.")] = []
    end: Annotated[ClusterEnd | None, Meta(description="The cluster's end, where a snapshot of it was given.")] = None


class Verification(Doc, omit_defaults=True):
    """What ``verify`` found in a Placement or a RebalancePlan."""

    valid: Annotated[bool, Meta(description="Whether nothing is wrong.")]
    violations: Annotated[list[Violation], Meta(description="The rules that are broken, and by what.")]
    says: Annotated[
        list[str], Meta(description="What the document says for itself that decides what is valid, such as exemptions and its policy.")
    ] = []
    notChecked: Annotated[list[str], Meta(description="What of the document is not checked.")] = []
    notes: Annotated[list[str], Meta(description="What of the input is not taken into account.")] = []
    journal: Annotated[CarriedOut | None, Meta(description="What the journal of a run tells, where one was given.")] = None


class PodCounts(Doc, omit_defaults=True):
    """Where a pod could go, in numbers."""

    pod: Annotated[str, Meta(description="The pod, `namespace/name`.")]
    feasible: Annotated[int, Meta(description="How many nodes no rule rejects.")]
    rejected: Annotated[
        dict[str, int], Meta(description="The number of nodes that each rule (scheduler plugin) rejects; a node may count under several.")
    ]
    node: Annotated[str | None, Meta(description="The node that it runs on, if it is bound; it is judged as if it were taken off.")] = None
    rejectedThere: Annotated[list[str], Meta(description="The rules that reject it on the node that it runs on.")] = []


class Explanation(Doc, omit_defaults=True):
    """What ``explain`` answers."""

    pods: Annotated[list[PodCounts], Meta(description="The pods asked about.")]
    causes: Annotated[list[Cause], Meta(description="Why pods that fit nowhere do not, and what would help; absent if all fit.")] = []
    notes: Annotated[list[str], Meta(description="What of the input is not taken into account; absent if all is.")] = []
    kubernetesVersion: Annotated[str, Meta(description="The version of Kubernetes by whose rules it was judged.")] = ""
    featureGates: Annotated[dict[str, bool], Meta(description="Feature gates that were set otherwise than is the version's default.")] = {}


class PodNodes(Doc, omit_defaults=True):
    """Where a pod could go, node by node."""

    pod: Annotated[str, Meta(description="The pod, `namespace/name`.")]
    feasible: Annotated[Sequence[str], Meta(description="The nodes that no rule rejects.")]
    rejected: Annotated[Mapping[str, Sequence[str]], Meta(description="The rules (scheduler plugins) that reject each of the other nodes.")]
    node: Annotated[str | None, Meta(description="The node that it runs on, if it is bound; it is judged as if it were taken off.")] = None


class NodeExplanation(Doc, omit_defaults=True):
    """What ``explain --per-node`` answers."""

    pods: Annotated[list[PodNodes], Meta(description="The pods asked about.")]
    notes: Annotated[list[str], Meta(description="What of the input is not taken into account; absent if all is.")] = []
    kubernetesVersion: Annotated[str, Meta(description="The version of Kubernetes by whose rules it was judged.")] = ""
    featureGates: Annotated[dict[str, bool], Meta(description="Feature gates that were set otherwise than is the version's default.")] = {}


class ContainerPair(Doc):
    """What one container wants of another, both ``namespace/pod/container``."""

    source: Annotated[str, Meta(description="The container that wants something.")] = msgspec.field(name="from")
    to: Annotated[str, Meta(description="The container that it wants near, or far.")]
    weight: Annotated[int, Meta(description="A(from, to); below zero it wants it far.")]


class ContainerAffinity(Doc):
    """What ``explain --affinity`` answers."""

    pod: Annotated[str, Meta(description="The pod, or the workload whose template it is (`namespace/name`).")]
    containers: Annotated[list[str], Meta(description="The containers of the pod.")]
    affinity: Annotated[list[ContainerPair], Meta(description="The pairs whose A is not zero, from or to one of them.")]


class FittingPod(Doc):
    """The most that one more pod can request on a node, whatever rules say of it."""

    node: Annotated[str, Meta(description="The node.")]
    cpu: Annotated[int, Meta(description="The most CPU that it can request there, in mCPU.")]
    memory: Annotated[int, Meta(description="The most memory that it can request there, in bytes.")]


class NodeRow(Doc, omit_defaults=True):
    """A node, or all nodes of a zone, or what the pods of a namespace take. Amounts by resource: CPU in mCPU, others in whole units."""

    name: Annotated[str, Meta(description="The node, zone or namespace; empty: nodes without a zone.")]
    nodes: Annotated[int, Meta(description="The number of nodes; of a namespace: those that its pods run on.")]
    pods: Annotated[int, Meta(description="Pods on these nodes that have not ended; of a namespace: its own.")]
    requests: Annotated[dict[str, int], Meta(description="What these pods request.")]
    limits: Annotated[dict[str, int], Meta(description="Their limits; a container without one adds nothing.")]
    pending: Annotated[int, Meta(description="Of a namespace: its pods without a node, gated ones included.")] = 0
    allocatable: Annotated[dict[str, int], Meta(description="What the nodes have for pods, `pods` included; not of a namespace.")] = {}
    free: Annotated[dict[str, int], Meta(description="Allocatable less requests and pods; below zero where more is taken.")] = {}
    largest: Annotated[
        list[FittingPod],
        Meta(description="The largest pods that still fit, most CPU first; of a zone those that no other exceeds in CPU and memory."),
    ] = []
    zone: Annotated[str, Meta(description="The zone of a node, by its label.")] = ""
    cordoned: Annotated[bool, Meta(description="Whether a node takes no new pods (spec.unschedulable).")] = False
    taints: Annotated[list[str], Meta(description="Taints of a node that keep pods away, key=value:Effect.")] = []
    devices: Annotated[
        dict[str, int],
        Meta(description="The devices in ResourceSlices that pods there can get, by driver; one that several nodes reach counts on each."),
    ] = {}
    freeDevices: Annotated[dict[str, int], Meta(description="Those of them of which no claim has any, by driver.")] = {}


class NodeTable(Doc, omit_defaults=True):
    """What ``kubestow nodes`` answers."""

    by: Annotated[Literal["node", "zone", "namespace"], Meta(description="What a row is about.")]
    rows: Annotated[list[NodeRow], Meta(description="The nodes, zones or namespaces, in the order asked for.")]
    total: Annotated[NodeRow, Meta(description="All nodes that were chosen together.")]
    notes: Annotated[list[str], Meta(description="What of the input is not taken into account.")] = []
    kubernetesVersion: Annotated[str, Meta(description="The version of Kubernetes by whose rules it was judged.")] = ""
    featureGates: Annotated[dict[str, bool], Meta(description="Feature gates that were set otherwise than is the version's default.")] = {}
