"""The obstacles to goals that a plan does not reach, as sentences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from kubestow.models.documents.rebalance_plan import Obstacle
from kubestow.models.kube import objects
from kubestow.models.kube.selectors import Bools
from kubestow.solver.rebalance.problem.options import PlanOptions
from kubestow.solver.rebalance.problem.problem import RebalanceProblem, Step
from kubestow.solver.rebalance.problem.state import PlanState
from kubestow.solver.rebalance.result import PlanSearchResult
from kubestow.solver.rebalance.tiers.objective import PlanObjective
from kubestow.solver.rebalance.tiers.pods import BrokenRulesTier, DrainedTier, PlacedTier
from kubestow.solver.rebalance.tiers.tier import Tier

#: Obstacles listed per kind; the last one sums up the others.
MAX_LISTED_OBSTACLES = 50
#: Number of obstacles of one kind, and a function that describes them.
_Described = tuple[int, Callable[[], list[Obstacle]]]

_WHY = {
    "bare": "it has no controller that would replace it (--also-move bare)",
    "owner": "its controller would not replace it elsewhere",
    "do-not-disrupt": "an annotation forbids to disrupt it",
    "gang": "it is a member of a running gang",
    "local-storage": "it keeps data on the node (--also-move local-storage)",
    "devices": "it holds devices, which plans do not move",
    "terminating": "it is being deleted",
    "eviction-requested": "its eviction has already been requested",
}


def obstacles(problem: RebalanceProblem, values: PlanObjective, reached: PlanSearchResult, plan_options: PlanOptions) -> list[Obstacle]:
    """Return the obstacles of every goal that the steps do not reach.

    These are pods left on drained nodes, rules still broken, pods still pending, and moves that wait for each
    other.
    """
    goals = {*plan_options.goals, *(["drain"] if problem.drain else [])}
    if goals.isdisjoint(kind.goal for kind in _FIND):
        return []
    state = PlanState(problem)
    for step in reached.steps:
        state.apply(step)
    found = [obstacle for kind, find in _FIND.items() if kind.goal in goals for obstacle in find(problem, state)]
    if found and reached.stuck:
        found.append(_circle(problem, found[0].goal, reached.stuck))
    ends = dict(zip(values.tiers, zip(reached.values, reached.bounds, strict=True), strict=True))
    for obstacle in found:
        obstacle.proved |= all(
            value >= bound for tier, (value, bound) in ends.items() if type(tier) in _FIND and tier.goal == obstacle.goal
        )
    return found


def _circle(problem: RebalanceProblem, goal: str, stuck: Sequence[Step]) -> Obstacle:
    """Return the obstacle of moves that a better end state needs although none can be first."""
    names, pods, words = problem.cluster.nodes.names, problem.cluster.snapshot.pods, []
    for step in stuck[:MAX_LISTED_OBSTACLES]:
        every = problem.cluster.classes[step.g].pods
        here = [i for i in every if step.a >= 0 and pods[i].spec.nodeName == names[step.a]] or list(every)
        source = f" from {names[step.a]}" if step.a >= 0 else ""
        words.append(f"{objects.pod_key(pods[here[0]])}{source}" + (f" to {names[step.b]}" if step.b >= 0 else " evicted"))
    return Obstacle(goal, f"moves that wait for each other in a cycle, with no spare node to break it: {', '.join(words)}")


def _short(goal: str, entries: list[_Described]) -> list[Obstacle]:
    """Return the first obstacles and a summary of the remaining ones.

    Args:
        entries: Per kind, the number of obstacles and a function that describes them, which is slow.
    """
    found: list[Obstacle] = []
    total = sum(number for number, _ in entries)
    for _, describe in entries:
        found += describe()
        if len(found) >= MAX_LISTED_OBSTACLES:
            break
    if total > MAX_LISTED_OBSTACLES:
        return [*found[: MAX_LISTED_OBSTACLES - 1], Obstacle(goal, f"{total - MAX_LISTED_OBSTACLES + 1} more like these")]
    return found


def _left(problem: RebalanceProblem, state: PlanState) -> list[Obstacle]:
    snapshot, names = problem.cluster.snapshot, problem.cluster.nodes.names
    why = {name: entry.reason for entry in problem.excluded for name in entry.pods}

    def stays(i: int) -> list[Obstacle]:
        key, node = objects.pod_key(snapshot.pods[i]), snapshot.pods[i].spec.nodeName or ""
        reason = _guarded(problem, i) if why.get(key) == "budgets" else _WHY.get(why.get(key, ""), "it is not moved")
        return [Obstacle("drain", f"{key} stays on {node}: {reason}", key, node, proved=True)]

    def moves_not(g: int, n: int) -> list[Obstacle]:
        reason = _nowhere(problem, state, g, n)
        here = _named(problem, g, n, int(state.counts[g, n]))
        return [Obstacle("drain", f"{key} stays on {names[n]}: {reason}", key, names[n]) for key in here]

    found: list[_Described] = [(1, partial(stays, i)) for i in problem.stranded]
    for n in problem.drain:
        cells = np.flatnonzero(problem.movable & (state.counts[:, n] > 0)).tolist()
        found += [(int(state.counts[g, n]), partial(moves_not, g, n)) for g in cells]
    return _short("drain", found)


def _guarded(problem: RebalanceProblem, i: int) -> str:
    """Return the budgets that keep a pod in place."""
    names = [budget.name for budget in problem.budgets if i in budget.pods]
    if len(names) > 1:
        return f"{len(names)} PodDisruptionBudgets select it ({', '.join(names)}), and the Eviction API refuses such pods"
    return f"PodDisruptionBudget {', '.join(names)} allows no disruption"


def _named(problem: RebalanceProblem, g: int, n: int, k: int) -> list[str]:
    """Return the names of the last k pods of a class on a node. Leaving pods are taken from the front."""
    snapshot, name = problem.cluster.snapshot, problem.cluster.nodes.names[n]
    here = [i for i in problem.cluster.classes[g].pods if snapshot.pods[i].spec.nodeName == name]
    return [objects.pod_key(snapshot.pods[i]) for i in here[len(here) - k :]]


def _nowhere(problem: RebalanceProblem, state: PlanState, g: int, n: int) -> str:
    """Return the reason why a pod of class g on node n finds no other place at the end."""
    if state.landing(g, n).any():
        return _too_many_evictions(problem, state, g) or _held_back(problem, "move")
    open_nodes = ~problem.closed
    open_nodes[n] = False
    if not open_nodes.any():
        return "there is no other node"
    state.apply(Step(g, n, -1))
    parts = _rejections(state, g, open_nodes)
    state.undo(Step(g, n, -1))
    return f"no other node takes it: {parts}"


def _held_back(problem: RebalanceProblem, what: str) -> str:
    """Return the reason why a step that would be accepted at the end is not taken.

    Args:
        what: The word for the step, ``move`` or ``binding``.
    """
    limits = problem.limits
    move_limits = [limits.maxMoves, limits.maxMovesPerNamespace, limits.maxMovesPerWorkload] if what == "move" else []
    if any(limit is not None for limit in (*move_limits, limits.maxWaves)):
        few = f" (at most {_waves(limits.maxWaves)})" if limits.maxWaves is not None else ""
        return f"the limits of the plan{few} do not allow its {what}, or an earlier goal would get worse"
    return f"its {what} would be accepted, but an earlier goal would get worse, or time ran out"


def _too_many_evictions(problem: RebalanceProblem, state: PlanState, g: int) -> str | None:
    """Return the reason why no more pods of a class are evicted, if it is the budget and the number of waves."""
    budget = problem.budget[g]
    limit = problem.eviction_limits.get(budget) if budget is not None else None
    if budget is None or limit is None:
        return None
    evicted = np.maximum(problem.start - state.counts, 0)[(problem.guarded == budget) & problem.movable]
    if int(evicted.sum()) < limit:
        return None
    name = problem.budgets[budget].name
    evictions = f"{limit} eviction{'s' * (limit != 1)}"
    return f"PodDisruptionBudget {name} allows {evictions} in {_waves(problem.limits.maxWaves)}, already used by other pods"


def _waves(limit: int | None) -> str:
    return f"{limit} wave{'s' if limit != 1 else ''}"


def _rejections(state: PlanState, g: int, nodes: Bools) -> str:
    words = []
    total = int(np.count_nonzero(nodes))
    if not total:
        return "there is no node"
    for rule in state.rules:
        mask = rule.rejects(g) & nodes
        if mask.any():
            words.append(f"{rule.name} on {int(mask.sum())} of {total} ({rule.message(g, mask)})")
    crowded = state.blocks_waiting_resizes(g) & nodes & ~np.logical_or.reduce([rule.rejects(g) for rule in state.rules])
    if crowded.any():
        words.append(f"{state.fit.name} on {int(crowded.sum())} of {total} (the free resources are kept for another pod's waiting resize)")
    if not words:
        return "without it, a rule of a running pod would be broken or broken further"
    return "; ".join(words)


def _broken(problem: RebalanceProblem, state: PlanState) -> list[Obstacle]:
    names = problem.cluster.nodes.names

    def describe(g: int, n: int, rule: str, k: int) -> list[Obstacle]:
        why = _nowhere(problem, state, g, n) if problem.movable[g] else "it is not moved"
        here = _named(problem, g, n, k)
        return [Obstacle("repair", f"{key} on {names[n]} still breaks {rule}: {why}", key, names[n]) for key in here]

    found: list[_Described] = []
    for g in np.flatnonzero(problem.subjects).tolist():
        nodes = np.flatnonzero(state.counts[g])
        for rule, pods in problem.counted_rules(g, state.breaking(g, nodes)).items():
            found += [(k, partial(describe, g, n, rule, k)) for n, k in zip(nodes.tolist(), pods.tolist(), strict=True) if k]
    return _short("repair", found)


def _pending(problem: RebalanceProblem, state: PlanState) -> list[Obstacle]:
    snapshot = problem.cluster.snapshot
    every = np.ones(problem.cluster.n_nodes, dtype=bool)
    gangs = problem.limits.allowEviction and any(entry.reason == "gang" for entry in problem.excluded)
    stay = "; a plan evicts no pods of running gangs" if gangs else ""

    def describe(g: int, unplaced: int) -> list[Obstacle]:
        cls = problem.cluster.classes[g]
        gang = problem.cluster.gangs[cls.gang] if cls.gang is not None else None
        placed = int(state.counts[list(gang.classes)].sum()) if gang is not None else 0
        if gang is not None and placed >= gang.needed > 0:
            why = "its gang has all that it needs, and no node takes more: " + _rejections(state, g, every)
        elif gang is not None:
            why = f"no room for {gang.needed} pods of gang {gang.name} at once{stay}"
        elif state.landing(g, -1).any():
            why = _held_back(problem, "binding")
        else:
            why = "no node takes it: " + _rejections(state, g, every) + stay
        keys = [objects.pod_key(snapshot.pods[i]) for i in cls.pods[cls.count - unplaced :]]
        return [Obstacle("admit", f"{key} stays pending: {why}", key) for key in keys]

    found: list[_Described] = []
    for g in np.flatnonzero(problem.pending).tolist():
        pods = problem.cluster.classes[g].count - int(state.counts[g].sum())
        if pods:
            found.append((pods, partial(describe, g, pods)))
    return _short("admit", found)


#: Tiers that may have obstacles, and the functions that find them.
_FIND: dict[type[Tier], Callable[[RebalanceProblem, PlanState], list[Obstacle]]] = {
    DrainedTier: _left, BrokenRulesTier: _broken, PlacedTier: _pending,
}  # fmt: skip
