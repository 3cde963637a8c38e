"""The Upgrade document: a node-pool upgrade wave by wave, which ``kubestow upgrade`` prints and ``kubestow verify`` judges."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta

from kubestow.models.documents.headroom import Headroom
from kubestow.models.documents.placement import API_VERSION, Doc, Seconds, SnapshotRef, Unmodelled
from kubestow.models.documents.policy import Policy
from kubestow.models.documents.rebalance_plan import Move


class NewNode(Doc):
    """A node that joins the pool."""

    name: Annotated[str, Meta(description="Its name, which the cloud may choose otherwise.")]
    like: Annotated[str, Meta(description="The node of the pool that it stands in for: the new one is its clone, changed as `to` says.")]


class UpgradeWave(Doc, omit_defaults=True):
    """Nodes that are upgraded at once. Only pods of the nodes that are drained move, each of them once, and to none of these nodes."""

    wave: Annotated[int, Meta(description="Its number, from 1.")]
    drain: Annotated[list[str], Meta(description="Nodes of the pool that are drained and go.")]
    surge: Annotated[list[NewNode], Meta(description="New nodes that join before the drain begins.")] = []
    joined: Annotated[list[NewNode], Meta(description="New nodes that join once the drained ones are gone.")] = []
    moves: Annotated[
        list[Move],
        Meta(description="Where the pods of the drained nodes go; steps and waves are those within the drain, each from 1."),
    ] = []
    domain: Annotated[str | None, Meta(description="The domain of the wave, key=value, with by.")] = None


class Blocker(Doc, omit_defaults=True):
    """Something that keeps a node from being drained."""

    node: Annotated[str, Meta(description="The node.")]
    kind: Annotated[
        Literal["PodDisruptionBudget", "localVolume", "barePod", "room", "rule", "notEvictable"],
        Meta(description="A budget, a volume of the node, a pod that nothing makes again, room, a rule, or a pod that says no."),
    ]
    object: Annotated[str, Meta(description="The object in the way, `Kind namespace/name`.")]
    message: Annotated[str, Meta(description="What is in the way, as a sentence.")]
    pods: Annotated[list[str], Meta(description="The pods concerned, namespace/name.")] = []
    proved: Annotated[bool, Meta(description="Whether no upgrade gets past it, whatever moves before and however many nodes surge.")] = (
        False
    )
    remedies: Annotated[list[str], Meta(description="Changes after which it is in the way no more, each tried by another search.")] = []


class Upgrade(Doc):
    """A node-pool upgrade."""

    snapshot: Annotated[SnapshotRef, Meta(description="The cluster before, and how it was asked for.")]
    pool: Annotated[str, Meta(description="The selector of the pool's nodes.")]
    nodes: Annotated[list[str], Meta(description="The nodes of the pool.")]
    maxUnavailable: Annotated[int, Meta(description="Nodes that may be missing at once, percentages resolved.")]
    surge: Annotated[int, Meta(description="Nodes that may be there beyond the pool at once, percentages resolved.")]
    complete: Annotated[bool, Meta(description="Whether every drain gets through.")]
    proved: Annotated[bool, Meta(description="Where it does not: whether no upgrade with these limits does.")]
    waves: Annotated[list[UpgradeWave], Meta(description="The waves that get through, in order.")]
    blocked: Annotated[list[Blocker], Meta(description="What keeps nodes from being drained.")] = []
    by: Annotated[str | None, Meta(description="The label whose domains are upgraded one after the other.")] = None
    to: Annotated[dict[str, Any] | None, Meta(description="What is changed in a Node to make the new one.")] = None
    smallestSurge: Annotated[
        int | None, Meta(description="Where it does not: the smallest surge with which every drain gets through, null: none was found.")
    ] = None
    smallestProved: Annotated[bool, Meta(description="Whether no smaller one helps (null: none at all), proved.")] = False
    headroom: Annotated[
        list[Headroom] | None,
        Meta(description="What CapacityBuffers have in each wave while its nodes are missing; null where there are none."),
    ] = None
    policy: Annotated[Policy | None, Meta(description="The policy, if it is not the default.")] = None
    unmodelled: Annotated[list[Unmodelled], Meta(description="What of the input kubestow does not model.")] = []
    notes: Annotated[list[str], Meta(description="What a reader must know to read the answer.")] = []
    seconds: Annotated[Seconds | None, Meta(description="How long it took, absent in a deterministic run.")] = None
    apiVersion: str = API_VERSION
    kind: str = "Upgrade"
