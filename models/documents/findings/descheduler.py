"""The section ``descheduler`` of an Audit: what the descheduler would do under a policy, what of it helps, and what a plan does instead.

What happens to pods after their eviction depends on which of the nodes that accept them the scheduler takes; each way is a continuation.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from kubestow.models.documents.placement import Doc

#: Of all continuations, of some, or of none.
Often = Literal["always", "sometimes", "never"]


class Range(Doc):
    """A number that differs from continuation to continuation."""

    least: Annotated[int, Meta(description="The least of all continuations.")]
    most: Annotated[int, Meta(description="The most of all continuations.")]


class PolicyEviction(Doc, omit_defaults=True):
    """An eviction that a strategy asks for."""

    profile: Annotated[str, Meta(description="The profile.")]
    plugin: Annotated[str, Meta(description="The plugin that asks for it.")]
    pod: Annotated[str, Meta(description="The pod, namespace/name.")]
    node: Annotated[str, Meta(description="The node that it runs on.")]
    why: Annotated[str, Meta(description="What the plugin finds wrong.")]
    refused: Annotated[str | None, Meta(description="What refuses the eviction: a budget or a limit of the policy; null: it goes.")] = None
    helps: Annotated[
        Often | None,
        Meta(description="Whether its replacement gets a node where the plugin leaves it; null where the eviction is refused."),
    ] = None
    returns: Annotated[Often | None, Meta(description="Whether its replacement gets the very node that it left.")] = None
    pending: Annotated[Often | None, Meta(description="Whether its replacement finds no node; always where nothing replaces it.")] = None
    recreated: Annotated[bool, Meta(description="Whether a controller makes a replacement.")] = True


class StrategyResult(Doc, omit_defaults=True):
    """What one plugin of a profile does."""

    profile: Annotated[str, Meta(description="The profile.")]
    plugin: Annotated[str, Meta(description="The plugin.")]
    evictions: Annotated[int, Meta(description="Evictions that are granted.")]
    refused: Annotated[int, Meta(description="Evictions that are refused, by budgets or limits.")] = 0
    helps: Annotated[dict[Often, int], Meta(description="Granted evictions by how often they help.")] = {}
    returns: Annotated[int, Meta(description="Granted evictions after which the pod may come back to the node it left.")] = 0
    pending: Annotated[int, Meta(description="Granted evictions after which the pod may stay without a node, or is gone.")] = 0
    again: Annotated[Range | None, Meta(description="Evictions that the plugin asks for in the next cycle.")] = None
    notes: Annotated[list[str], Meta(description="Why it does nothing, where it says so.")] = []


class PlanInstead(Doc, omit_defaults=True):
    """What `rebalance` does for the aim of some plugins, on the same snapshot."""

    goal: Annotated[str, Meta(description="The goal of the plan that is nearest to the plugins' aim.")]
    plugins: Annotated[list[str], Meta(description="The plugins whose aim it is.")]
    status: Annotated[str, Meta(description="Optimal where every tier of the plan is proved, else feasible.")]
    moves: Annotated[int, Meta(description="Its moves; every one ends on a node that accepts the pod.")]
    evictions: Annotated[int, Meta(description="What the plugins evict for this aim.")]
    again: Annotated[int, Meta(description="Evictions that the plugins ask for once the plan is carried out.")]
    againAfter: Annotated[Range, Meta(description="Evictions that they ask for after their own cycle.")]
    emptyNodes: Annotated[int, Meta(description="Nodes with no pods other than those of DaemonSets and static ones, after the plan.")]


class DeschedulerAudit(Doc, omit_defaults=True):
    """What the descheduler would do."""

    policy: Annotated[str, Meta(description="The file of the policy.")]
    strategies: Annotated[list[StrategyResult], Meta(description="The plugins that are modelled, in the order in which they run.")]
    evictions: Annotated[list[PolicyEviction], Meta(description="The evictions in their order, the refused ones among them.")]
    continuations: Annotated[int, Meta(description="The number of continuations that were looked at.")]
    exhaustive: Annotated[bool, Meta(description="Whether these are all there are; if not, always and never are of those looked at.")]
    emptyBefore: Annotated[int, Meta(description="Nodes with no pods other than those of DaemonSets and static ones, now.")]
    emptyAfter: Annotated[Range, Meta(description="Such nodes after the cycle.")]
    instead: Annotated[list[PlanInstead], Meta(description="What `rebalance` does for the same aims.")] = []
    skipped: Annotated[str | None, Meta(description="Why there is no cycle at all.")] = None
    notModelled: Annotated[list[str], Meta(description="What of the policy is not modelled.")] = []
