"""The section ``karpenter`` of an Audit: what Karpenter could consolidate under its budgets, what blocks it, and the optimum beside it."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from kubestow.models.documents.placement import Doc

#: Karpenter's methods, in the order in which it tries them.
Method = Literal["empty", "multi", "single"]


class NodePoolState(Doc, omit_defaults=True):
    """A NodePool and its nodes."""

    name: Annotated[str, Meta(description="Its name.")]
    nodes: Annotated[int, Meta(description="Nodes of it in the snapshot.")]
    policy: Annotated[str, Meta(description="Its consolidationPolicy.")]
    allowed: Annotated[dict[str, int], Meta(description="Nodes that its budgets let go at once now, by reason (Empty, Underutilized).")]
    consolidateAfter: Annotated[str | None, Meta(description="Its consolidateAfter; null: never, consolidation is off.")] = None


class Command(Doc, omit_defaults=True):
    """What Karpenter does in one step."""

    step: Annotated[int, Meta(description="Its position, from 1; each step is taken once the one before it is done.")]
    method: Annotated[Method, Meta(description="The method that finds it.")]
    nodes: Annotated[list[str], Meta(description="The nodes that go.")]
    moves: Annotated[int, Meta(description="Pods that have to go elsewhere.")] = 0
    replacement: Annotated[str | None, Meta(description="The node that takes their place, SHAPE@ZONE; null: none is needed.")] = None
    saves: Annotated[int | float | None, Meta(description="What it saves per hour; null where prices are not known.")] = None
    lost: Annotated[list[str], Meta(description="Pods on these nodes that no controller makes again.")] = []


class BlockedNode(Doc):
    """A node of a NodePool that stays."""

    node: Annotated[str, Meta(description="The node.")]
    pool: Annotated[str, Meta(description="Its NodePool.")]
    why: Annotated[str, Meta(description="What keeps Karpenter from disrupting it.")]


class Optimum(Doc, omit_defaults=True):
    """What could be had with the same pods."""

    freed: Annotated[list[str], Meta(description="Nodes that a plan of `rebalance --goal consolidate` frees.")]
    emptyBefore: Annotated[int, Meta(description="Nodes that are empty already, of all but DaemonSet and static pods.")]
    moves: Annotated[int, Meta(description="Its moves.")]
    bound: Annotated[int, Meta(description="Nodes that no plan exceeds.")]
    proved: Annotated[bool, Meta(description="Whether no plan frees more.")]
    ofPools: Annotated[int, Meta(description="How many of the freed nodes are of the NodePools.")]
    saves: Annotated[int | float | None, Meta(description="What the freed nodes of the NodePools cost per hour.")] = None
    cheapest: Annotated[
        int | float | None, Meta(description="What the cheapest nodes in place of all nodes of the NodePools cost per hour.")
    ] = None
    cheapestBound: Annotated[int | float | None, Meta(description="What no nodes in their place cost less than.")] = None


class KarpenterAudit(Doc, omit_defaults=True):
    """What Karpenter could consolidate."""

    pools: Annotated[list[NodePoolState], Meta(description="The NodePools that were given.")]
    commands: Annotated[list[Command], Meta(description="What it does, step by step, until nothing is left to do.")]
    blocked: Annotated[list[BlockedNode], Meta(description="Nodes of the pools that stay, and why.")]
    unmanaged: Annotated[int, Meta(description="Nodes that are of none of these pools.")]
    costBefore: Annotated[
        int | float | None, Meta(description="What the nodes of the pools cost per hour; null where prices are not known.")
    ] = None
    costAfter: Annotated[int | float | None, Meta(description="What they cost per hour when nothing is left to do.")] = None
    optimum: Annotated[Optimum | None, Meta(description="What could be had instead; null where there was no time for it.")] = None
    notModelled: Annotated[list[str], Meta(description="What of the NodePools and of Karpenter is not modelled.")] = []
