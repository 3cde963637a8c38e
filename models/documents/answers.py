"""The documents that ``kubestow verify`` and ``kubestow explain`` print as JSON or YAML.

They answer one question about one snapshot and nothing reads them back, so they carry neither ``kind`` nor ``apiVersion``; their version
is that of their schema (:mod:`report.documents.schemas`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from models.documents.placement import Cause, Doc


class Violation(Doc):
    """A rule that a document breaks."""

    pod: Annotated[str, Meta(description="The pod that breaks it, `namespace/name`; empty where it is the document.")]
    node: Annotated[str | None, Meta(description="The node concerned, empty or null where there is none.")]
    rule: Annotated[str, Meta(description="The scheduler plugin's name, or what else is broken.")]
    why: Annotated[str, Meta(description="What is wrong, as a sentence.")]


class Verification(Doc, omit_defaults=True):
    """What ``verify`` found in a Placement or a RebalancePlan."""

    valid: Annotated[bool, Meta(description="Whether nothing is wrong.")]
    violations: Annotated[list[Violation], Meta(description="The rules that are broken, and by what.")]
    says: Annotated[
        list[str], Meta(description="What the document says for itself that decides what is valid, such as exemptions and its policy.")
    ] = []
    notChecked: Annotated[list[str], Meta(description="What of the document is not checked.")] = []
    notes: Annotated[list[str], Meta(description="What of the input is not taken into account.")] = []


class PodCounts(Doc):
    """Where a pod could go, in numbers."""

    pod: Annotated[str, Meta(description="The pod, `namespace/name`.")]
    feasible: Annotated[int, Meta(description="How many nodes no rule rejects.")]
    rejected: Annotated[
        dict[str, int], Meta(description="The number of nodes that each rule (scheduler plugin) rejects; a node may count under several.")
    ]


class Explanation(Doc, omit_defaults=True):
    """What ``explain`` answers."""

    pods: Annotated[list[PodCounts], Meta(description="The pods asked about.")]
    causes: Annotated[list[Cause], Meta(description="Why pods that fit nowhere do not, and what would help; absent if all fit.")] = []
    notes: Annotated[list[str], Meta(description="What of the input is not taken into account; absent if all is.")] = []


class PodNodes(Doc):
    """Where a pod could go, node by node."""

    pod: Annotated[str, Meta(description="The pod, `namespace/name`.")]
    feasible: Annotated[Sequence[str], Meta(description="The nodes that no rule rejects.")]
    rejected: Annotated[Mapping[str, Sequence[str]], Meta(description="The rules (scheduler plugins) that reject each of the other nodes.")]


class NodeExplanation(Doc, omit_defaults=True):
    """What ``explain --per-node`` answers."""

    pods: Annotated[list[PodNodes], Meta(description="The pods asked about.")]
    notes: Annotated[list[str], Meta(description="What of the input is not taken into account; absent if all is.")] = []


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
