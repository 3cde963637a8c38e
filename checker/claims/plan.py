"""Claims of a RebalancePlan that its replay does not settle: status, obstacles, and whom it speaks of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from kubestow.checker.claims.document import unknown_pods
from kubestow.checker.violation import Violation
from kubestow.models.documents.rebalance_plan import Obstacle, RebalancePlan

#: Obstacles that are listed of a goal at most.
LISTED = 50


@dataclass(frozen=True)
class End:
    """The cluster once a plan is done. ``nodes``: of each pod, None if it is pending, by key; ``left``: pods that stay on drained nodes;
    ``broken``: pods that may be moved and break rules; ``waiting``: pods to be placed that are not."""

    nodes: Mapping[str, str | None]
    left: Collection[str]
    broken: Collection[str]
    waiting: Collection[str]


def plan_claims(plan: RebalancePlan, end: End) -> Iterator[Violation]:
    """Yield what a plan says wrongly of its status, of obstacles and of what is not modelled."""
    if plan.status == "feasible" and all(tier.bound == tier.value for tier in plan.objective):
        yield Violation("", "", plan.kind, "the status is feasible, and every tier is proved")
    yield from unknown_pods(plan.unmodelled, end.nodes.keys(), plan.kind)
    undone = {"drain": end.left, "repair": end.broken, "admit": end.waiting}
    named: Counter[str] = Counter()
    for obstacle in plan.obstacles:
        if obstacle.goal not in plan.goals:
            yield Violation(obstacle.pod or "", "", plan.kind, f"an obstacle is of the goal {obstacle.goal}, which the plan does not have")
        named[obstacle.goal] += 1
        yield from _obstacle_faults(plan, obstacle, undone.get(obstacle.goal, ()), end)
    for goal, pods in undone.items():
        told = {obstacle.pod for obstacle in plan.obstacles if obstacle.goal == goal}
        silent = sorted(set(pods) - told) if goal in plan.goals and named[goal] < LISTED else []
        if silent:
            yield Violation(silent[0], "", plan.kind, f"the goal {goal} leaves the pod, and no obstacle tells of it")


def _obstacle_faults(plan: RebalancePlan, obstacle: Obstacle, undone: Collection[str], end: End) -> Iterator[Violation]:
    if obstacle.pod is None or obstacle.pod not in end.nodes:
        return  # a circle of moves, or a summary; an unknown pod is told elsewhere
    at = end.nodes[obstacle.pod]
    if obstacle.pod not in undone:
        why = f"an obstacle says that the goal {obstacle.goal} leaves the pod, and it does not"
        yield Violation(obstacle.pod, at or "", plan.kind, why)
    elif obstacle.node != at:
        why = f"an obstacle says that the pod is left on {obstacle.node or 'no node'}, it is on {at or 'none'}"
        yield Violation(obstacle.pod, at or "", plan.kind, why)
