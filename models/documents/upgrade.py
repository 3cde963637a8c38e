"""The Upgrade document, a node-pool upgrade in waves: ``kubestow upgrade`` prints it, ``kubestow verify`` checks it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta

from kubestow.models.documents.headroom import Headroom
from kubestow.models.documents.placement import API_VERSION, Doc, Seconds, SnapshotRef, Unmodelled
from kubestow.models.documents.policy import Policy
from kubestow.models.documents.rebalance_plan import Move


class NewNode(Doc):
    """A node that joins the pool."""

    name: Annotated[str, Meta(description="A name for it; the cloud may choose another.")]
    like: Annotated[str, Meta(description="The node of the pool that it replaces. The new node is a clone, changed as in `to`.")]


class UpgradeWave(Doc, omit_defaults=True):
    """Nodes upgraded together. Only pods of the drained nodes move, each once, and none to another drained node."""

    wave: Annotated[int, Meta(description="Its number, from 1.")]
    drain: Annotated[list[str], Meta(description="Nodes of the pool that are drained and removed.")]
    surge: Annotated[list[NewNode], Meta(description="New nodes that join before the drain begins.")] = []
    joined: Annotated[list[NewNode], Meta(description="New nodes that join after the drained ones are removed.")] = []
    moves: Annotated[
        list[Move],
        Meta(description="The moves of the drained nodes' pods. Steps and waves count within the drain, from 1."),
    ] = []
    domain: Annotated[str | None, Meta(description="The domain of the wave, key=value, if `by` is set.")] = None


class Blocker(Doc, omit_defaults=True):
    """An obstacle to draining a node."""

    node: Annotated[str, Meta(description="The node.")]
    kind: Annotated[
        Literal["PodDisruptionBudget", "localVolume", "barePod", "room", "rule", "notEvictable"],
        Meta(description="The kind of obstacle: budget, local volume, bare pod, capacity, rule, or a pod marked as not evictable."),
    ]
    object: Annotated[str, Meta(description="The object concerned, `Kind namespace/name`.")]
    message: Annotated[str, Meta(description="The obstacle as a sentence.")]
    pods: Annotated[list[str], Meta(description="The pods concerned, namespace/name.")] = []
    proved: Annotated[bool, Meta(description="True if it blocks every upgrade, for all earlier moves and any surge.")] = False
    remedies: Annotated[list[str], Meta(description="Changes that remove the obstacle, each checked by another search.")] = []


class Upgrade(Doc):
    """A node-pool upgrade."""

    snapshot: Annotated[SnapshotRef, Meta(description="The cluster before the upgrade, and the options that change it.")]
    pool: Annotated[str, Meta(description="The selector of the pool's nodes.")]
    nodes: Annotated[list[str], Meta(description="The nodes of the pool.")]
    maxUnavailable: Annotated[int, Meta(description="Nodes allowed to be missing at the same time, percentages resolved.")]
    surge: Annotated[int, Meta(description="Additional nodes allowed at the same time, percentages resolved.")]
    complete: Annotated[bool, Meta(description="True if every node can be drained.")]
    proved: Annotated[bool, Meta(description="If incomplete, true if no upgrade within these limits is complete.")]
    waves: Annotated[list[UpgradeWave], Meta(description="The waves that succeed, in order.")]
    blocked: Annotated[list[Blocker], Meta(description="The obstacles to draining nodes.")] = []
    by: Annotated[str | None, Meta(description="The label whose domains are upgraded one after the other.")] = None
    to: Annotated[dict[str, Any] | None, Meta(description="The changes that turn an old Node into a new one.")] = None
    smallestSurge: Annotated[
        int | None, Meta(description="If incomplete, the smallest surge that makes the upgrade complete, null if none was found.")
    ] = None
    smallestProved: Annotated[bool, Meta(description="True if it is proved that no smaller surge (if null, no surge) suffices.")] = False
    headroom: Annotated[
        list[Headroom] | None,
        Meta(description="Headroom of CapacityBuffers in each wave while its nodes are missing, or null."),
    ] = None
    policy: Annotated[Policy | None, Meta(description="The policy, if it is not the default.")] = None
    unmodelled: Annotated[list[Unmodelled], Meta(description="Fields of the input that kubestow does not model.")] = []
    notes: Annotated[list[str], Meta(description="Remarks on the answer.")] = []
    seconds: Annotated[Seconds | None, Meta(description="Run time by phase, absent in a deterministic run.")] = None
    apiVersion: str = API_VERSION
    kind: str = "Upgrade"
