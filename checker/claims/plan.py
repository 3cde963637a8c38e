"""Claims of a RebalancePlan that its replay does not settle: status, obstacles and the pods that it names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from kubestow.checker.claims.document import unknown_pods
from kubestow.checker.violation import Violation
from kubestow.models.documents.rebalance_plan import Obstacle, RebalancePlan

#: Largest number of obstacles that a plan lists per goal.
MAX_LISTED_OBSTACLES = 50


@dataclass(frozen=True)
class PlanEnd:
    """The cluster at the end of a plan.

    Attributes:
        nodes: Node of each pod by key; None if it is pending.
        undrained: Pods that remain on drained nodes.
        broken: Movable pods that break rules.
        waiting: Pods to be placed that are still pending.
    """

    nodes: Mapping[str, str | None]
    undrained: Collection[str]
    broken: Collection[str]
    waiting: Collection[str]


def plan_claims(plan: RebalancePlan, end: PlanEnd) -> Iterator[Violation]:
    """Yield false claims of a plan about its status, its obstacles and unmodelled features."""
    if plan.status == "feasible" and all(tier.bound == tier.value for tier in plan.objective):
        yield Violation("", "", plan.kind, "the status is feasible, and every tier is proved")
    yield from unknown_pods(plan.unmodelled, end.nodes.keys(), plan.kind)
    undone = {"drain": end.undrained, "repair": end.broken, "admit": end.waiting}
    named: Counter[str] = Counter()
    for obstacle in plan.obstacles:
        if obstacle.goal not in plan.goals:
            yield Violation(obstacle.pod or "", "", plan.kind, f"an obstacle is of the goal {obstacle.goal}, which the plan does not have")
        named[obstacle.goal] += 1
        yield from _obstacle_faults(plan, obstacle, undone.get(obstacle.goal, ()), end)
    for goal, pods in undone.items():
        explained = {obstacle.pod for obstacle in plan.obstacles if obstacle.goal == goal}
        silent = sorted(set(pods) - explained) if goal in plan.goals and named[goal] < MAX_LISTED_OBSTACLES else []
        if silent:
            yield Violation(silent[0], "", plan.kind, f"the goal {goal} leaves the pod, and no obstacle mentions it")


def _obstacle_faults(plan: RebalancePlan, obstacle: Obstacle, undone: Collection[str], end: PlanEnd) -> Iterator[Violation]:
    if obstacle.pod is None or obstacle.pod not in end.nodes:
        return  # a cycle of moves, or a summary; another check reports unknown pods
    at = end.nodes[obstacle.pod]
    if obstacle.pod not in undone:
        why = f"an obstacle says that the goal {obstacle.goal} leaves the pod, and it does not"
        yield Violation(obstacle.pod, at or "", plan.kind, why)
    elif obstacle.node != at:
        why = f"an obstacle says that the pod is left on {obstacle.node or 'no node'}, it is on {at or 'none'}"
        yield Violation(obstacle.pod, at or "", plan.kind, why)
