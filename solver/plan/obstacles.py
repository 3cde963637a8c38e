"""What is in the way of a goal that a plan does not reach, in sentences."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from models import kube
from models.plan import Obstacle
from models.selectors import Bools
from solver.plan.case import Case, Step
from solver.plan.options import PlanOptions
from solver.plan.state import State
from solver.plan.values import Values

#: Obstacles listed of one kind; the rest is summed up in the last one.
LISTED = 50

_WHY = {
    "bare": "it has no controller that would replace it (--also-move bare)",
    "owner": "its controller would not replace it elsewhere",
    "do-not-disrupt": "an annotation forbids to disrupt it",
    "gang": "it is a member of a running gang",
    "local-storage": "it keeps data on the node (--also-move local-storage)",
    "budgets": "its PodDisruptionBudget allows no eviction, or several select it",
    "terminating": "it is being deleted",
}


def obstacles(case: Case, values: Values, steps: Sequence[Step], asked: PlanOptions, bounds: Sequence[int]) -> list[Obstacle]:
    """Of every goal that the steps do not reach: pods left on drained nodes, rules still broken, pods still pending."""
    state = State(case)
    for step in steps:
        state.apply(step)
    found: list[Obstacle] = []
    if case.drain:
        found += _left(case, state)
    if "repair" in asked.goals:
        found += _broken(case, state)
    if "admit" in asked.goals:
        found += _pending(case, state)
    reached = dict(zip(values.tiers, zip(values.of_steps(steps), bounds, strict=True), strict=True))
    for obstacle in found:
        tier = {"drain": "drained", "repair": "rules", "admit": "placed"}[obstacle.goal]
        obstacle.proved |= all(value >= bound for t, (value, bound) in reached.items() if t.name == tier)
    return found


def _short(entries: list[Obstacle], goal: str) -> list[Obstacle]:
    if len(entries) > LISTED:
        more = len(entries) - LISTED + 1
        return [*entries[: LISTED - 1], Obstacle(goal, f"{more} more like these")]
    return entries


def _left(case: Case, state: State) -> list[Obstacle]:
    snapshot, names = case.cluster.snapshot, case.cluster.nodes.names
    why = {name: entry.reason for entry in case.excluded for name in entry.pods}
    found = []
    for i in case.left_over:
        key, node = kube.pod_key(snapshot.pods[i]), snapshot.pods[i].spec.nodeName or ""
        found.append(Obstacle("drain", f"{key} stays on {node}: {_WHY.get(why.get(key, ''), 'it is not moved')}", key, node, proved=True))
    for n in case.drain:
        for g in np.flatnonzero(case.movable & (state.counts[:, n] > 0)).tolist():
            why_not, here = _nowhere(case, state, g, n), _named(case, g, n, int(state.counts[g, n]))
            found += [Obstacle("drain", f"{key} stays on {names[n]}: {why_not}", key, names[n]) for key in here]
    return _short(found, "drain")


def _named(case: Case, g: int, n: int, k: int) -> list[str]:
    """Names of the pods of a class that are left on a node: the last ones, as those that leave are taken from the front."""
    snapshot, name = case.cluster.snapshot, case.cluster.nodes.names[n]
    here = [i for i in case.cluster.classes[g].pods if snapshot.pods[i].spec.nodeName == name]
    return [kube.pod_key(snapshot.pods[i]) for i in here[len(here) - k :]]


def _nowhere(case: Case, state: State, g: int, n: int) -> str:
    """Why a pod of class g on node n finds no other place in the end."""
    if state.landing(g, n).any():
        return "the limits of the plan do not allow its move"
    open_nodes = ~case.closed
    open_nodes[n] = False
    if not open_nodes.any():
        return "there is no other node"
    state.apply(Step(g, n, -1))
    parts = _rejections(state, g, open_nodes)
    state.undo(Step(g, n, -1))
    return f"no other node takes it: {parts}"


def _rejections(state: State, g: int, nodes: Bools) -> str:
    told = []
    total = int(np.count_nonzero(nodes))
    for rule in state.rules:
        mask = rule.rejects(g) & nodes
        if mask.any():
            told.append(f"{rule.name} on {int(mask.sum())} of {total} ({rule.message(g, mask)})")
    if not told:
        return "a rule of pods that run would be broken without it, or more than before"
    return "; ".join(told)


def _broken(case: Case, state: State) -> list[Obstacle]:
    names = case.cluster.nodes.names
    found = []
    for g in np.flatnonzero(case.subjects).tolist():
        nodes = np.flatnonzero(state.counts[g])
        for rule, mask in state.breaks(g, nodes).items():
            for n in nodes[mask].tolist():
                why = _nowhere(case, state, g, n) if case.movable[g] else "it is not moved"
                here = _named(case, g, n, int(state.counts[g, n]))
                found += [Obstacle("repair", f"{key} on {names[n]} still breaks {rule}: {why}", key, names[n]) for key in here]
    return _short(found, "repair")


def _pending(case: Case, state: State) -> list[Obstacle]:
    snapshot = case.cluster.snapshot
    every = np.ones(case.cluster.n_nodes, dtype=bool)
    found = []
    for g in np.flatnonzero(case.pending).tolist():
        cls = case.cluster.classes[g]
        left = cls.count - int(state.counts[g].sum())
        if not left:
            continue
        gang = case.cluster.gangs[cls.gang] if cls.gang is not None else None
        placed = int(state.counts[list(gang.classes)].sum()) if gang is not None else 0
        if gang is not None and placed >= gang.needed > 0:
            why = "its gang has all that it needs, and no node takes more: " + _rejections(state, g, every)
        elif gang is not None:
            why = f"no room for {gang.needed} pods of gang {gang.name} at once"
        elif state.landing(g, -1).any():
            why = "no order was found in which it can be bound"
        else:
            why = "no node takes it, whoever moves: " + _rejections(state, g, every)
        for i in cls.pods[cls.count - left :]:
            key = kube.pod_key(snapshot.pods[i])
            found.append(Obstacle("admit", f"{key} stays pending: {why}", key))
    return _short(found, "admit")
