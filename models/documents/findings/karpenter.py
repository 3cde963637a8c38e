"""The section ``karpenter`` of an Audit: Karpenter's consolidation under its budgets, its obstacles, and the optimum to compare."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from kubestow.models.documents.placement import Doc

#: Karpenter's methods, in the order in which it tries them.
Method = Literal["empty", "multi", "single"]


class NodePoolState(Doc, omit_defaults=True):
    """A NodePool and the disruption that it allows."""

    name: Annotated[str, Meta(description="The name of the NodePool.")]
    nodes: Annotated[int, Meta(description="The number of its nodes in the snapshot.")]
    policy: Annotated[str, Meta(description="Its consolidationPolicy.")]
    allowed: Annotated[
        dict[str, int], Meta(description="Nodes that its budgets allow to disrupt together now, by reason (Empty, Underutilized).")
    ]
    consolidateAfter: Annotated[str | None, Meta(description="Its consolidateAfter; null if consolidation is off.")] = None


class Command(Doc, omit_defaults=True):
    """One consolidation step of Karpenter."""

    step: Annotated[int, Meta(description="Its position, from 1. A step begins when the previous one is done.")]
    method: Annotated[Method, Meta(description="The method that finds it.")]
    nodes: Annotated[list[str], Meta(description="The removed nodes.")]
    moves: Annotated[int, Meta(description="The number of pods to reschedule.")] = 0
    replacement: Annotated[str | None, Meta(description="The replacement node, SHAPE@ZONE; null if none is needed.")] = None
    saves: Annotated[int | float | None, Meta(description="The savings per hour, null if prices are unknown.")] = None
    lost: Annotated[list[str], Meta(description="Bare pods on these nodes, which no controller recreates.")] = []


class BlockedNode(Doc):
    """A node of a NodePool that stays."""

    node: Annotated[str, Meta(description="The node.")]
    pool: Annotated[str, Meta(description="Its NodePool.")]
    why: Annotated[str, Meta(description="The reason why Karpenter does not disrupt it.")]


class Optimum(Doc, omit_defaults=True):
    """The best result for the same pods, to compare with Karpenter's."""

    freed: Annotated[list[str], Meta(description="Nodes freed by a plan of `rebalance --goal consolidate`.")]
    emptyBefore: Annotated[int, Meta(description="Nodes already without pods, except DaemonSet pods and static pods.")]
    moves: Annotated[int, Meta(description="The number of moves in the plan.")]
    bound: Annotated[int, Meta(description="The upper bound on freed nodes.")]
    proved: Annotated[bool, Meta(description="True if it is proved that no plan frees more nodes.")]
    ofPools: Annotated[int, Meta(description="The number of freed nodes that belong to the NodePools.")]
    saves: Annotated[int | float | None, Meta(description="The cost of the freed nodes of the NodePools per hour.")] = None
    cheapest: Annotated[
        int | float | None, Meta(description="The lowest cost found for replacing all nodes of the NodePools, per hour.")
    ] = None
    cheapestBound: Annotated[int | float | None, Meta(description="The lower bound on that cost.")] = None


class KarpenterAudit(Doc, omit_defaults=True):
    """Karpenter's possible consolidation."""

    pools: Annotated[list[NodePoolState], Meta(description="The given NodePools.")]
    commands: Annotated[list[Command], Meta(description="The steps until no further consolidation is possible.")]
    blocked: Annotated[list[BlockedNode], Meta(description="Nodes of the pools that stay, with the reason.")]
    unmanaged: Annotated[int, Meta(description="The number of nodes outside these pools.")]
    costBefore: Annotated[int | float | None, Meta(description="The cost of the pools' nodes per hour, null if prices are unknown.")] = None
    costAfter: Annotated[int | float | None, Meta(description="Their cost per hour after the last step.")] = None
    optimum: Annotated[Optimum | None, Meta(description="The best result for the same pods, null if there was no time to compute it.")] = (
        None
    )
    notModelled: Annotated[list[str], Meta(description="Parts of the NodePools and of Karpenter that are not modelled.")] = []
