"""The section ``descheduler`` of an Audit: the evictions under a descheduler policy, their effect, and plans for the same aims.

After an eviction, the scheduler chooses among the nodes that accept the replacement. Each sequence of choices is a continuation.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from kubestow.models.documents.placement import Doc

#: Holds in all continuations, in some, or in none.
Often = Literal["always", "sometimes", "never"]


class Range(Doc):
    """The range of a number over all continuations."""

    least: Annotated[int, Meta(description="The minimum over all continuations.")]
    most: Annotated[int, Meta(description="The maximum over all continuations.")]


class PolicyEviction(Doc, omit_defaults=True):
    """An eviction that a plugin requests."""

    profile: Annotated[str, Meta(description="The profile.")]
    plugin: Annotated[str, Meta(description="The plugin that requests it.")]
    pod: Annotated[str, Meta(description="The pod, namespace/name.")]
    node: Annotated[str, Meta(description="The node that it runs on.")]
    why: Annotated[str, Meta(description="The plugin's reason.")]
    refused: Annotated[str | None, Meta(description="The budget or policy limit that refuses the eviction, null if it is granted.")] = None
    helps: Annotated[
        Often | None,
        Meta(description="How often the replacement gets a node on which the plugin leaves it; null if refused."),
    ] = None
    returns: Annotated[Often | None, Meta(description="How often the replacement returns to the same node; null if refused.")] = None
    pending: Annotated[Often | None, Meta(description="How often the replacement finds no node; always if nothing replaces the pod.")] = (
        None
    )
    recreated: Annotated[bool, Meta(description="True if a controller creates a replacement.")] = True


class StrategyResult(Doc, omit_defaults=True):
    """The evictions of one plugin of a profile, in total."""

    profile: Annotated[str, Meta(description="The profile.")]
    plugin: Annotated[str, Meta(description="The plugin.")]
    evictions: Annotated[int, Meta(description="The number of granted evictions.")]
    refused: Annotated[int, Meta(description="The number of evictions refused by budgets or limits.")] = 0
    helps: Annotated[dict[Often, int], Meta(description="Granted evictions by how often they help.")] = {}
    returns: Annotated[int, Meta(description="Granted evictions after which the pod can return to the same node.")] = 0
    pending: Annotated[int, Meta(description="Granted evictions after which the pod can stay pending, or is gone.")] = 0
    again: Annotated[Range | None, Meta(description="Evictions that the plugin requests in the next cycle.")] = None
    notes: Annotated[list[str], Meta(description="The reasons for doing nothing, if the plugin gives any.")] = []


class PlanInstead(Doc, omit_defaults=True):
    """A plan of `rebalance` for the aim of some plugins, on the same snapshot."""

    goal: Annotated[str, Meta(description="The goal of the plan, the closest to the plugins' aim.")]
    plugins: Annotated[list[str], Meta(description="The plugins with this aim.")]
    status: Annotated[str, Meta(description="Optimal if every tier of the plan is proved, otherwise feasible.")]
    moves: Annotated[int, Meta(description="The number of moves. Each ends on a node that accepts the pod.")]
    evictions: Annotated[int, Meta(description="The number of pods that the plugins evict for this aim.")]
    again: Annotated[int, Meta(description="Evictions that the plugins request after the plan is applied.")]
    againAfter: Annotated[Range, Meta(description="Evictions that the plugins request after their own cycle.")]
    emptyNodes: Annotated[int, Meta(description="Nodes after the plan without pods, except DaemonSet pods and static pods.")]


class DeschedulerAudit(Doc, omit_defaults=True):
    """The effect of one descheduler cycle."""

    policy: Annotated[str, Meta(description="The file of the policy.")]
    strategies: Annotated[list[StrategyResult], Meta(description="The modelled plugins, in the order in which they run.")]
    evictions: Annotated[list[PolicyEviction], Meta(description="The evictions in order, refused ones included.")]
    continuations: Annotated[int, Meta(description="The number of continuations examined.")]
    exhaustive: Annotated[
        bool, Meta(description="True if these are all continuations; otherwise `always` and `never` refer to the examined ones.")
    ]
    emptyBefore: Annotated[int, Meta(description="Nodes now without pods, except DaemonSet pods and static pods.")]
    emptyAfter: Annotated[Range, Meta(description="Such nodes after the cycle.")]
    instead: Annotated[list[PlanInstead], Meta(description="Plans of `rebalance` for the same aims.")] = []
    skipped: Annotated[str | None, Meta(description="The reason why the descheduler would not run, or null.")] = None
    notModelled: Annotated[list[str], Meta(description="Parts of the policy that are not modelled.")] = []
