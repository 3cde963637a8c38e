"""Few pod classes that no order of steps brings where an end state has them, wherever all other movable pods are.

A deadlock is refuted once, not once for each place of the pods that have no part in it. Those pods, the *bystanders*, are taken out of
the cluster. The remainder is a relaxation: nodes have more room and fewer pods keep others away. Rules that need other pods to be present
are checked only if no bystander matches them. So where the remaining classes cannot get without bystanders, they cannot get with them. The
search lists all that they can reach; the model of end states takes the list as a combinatorial Benders cut (Codato and Fischetti 2006,
doi:10.1287/opre.1060.0286).

Room is not given away: during a step the bystanders rest, so all of them fit into what the remaining classes leave free both before and
after the step, summed over the nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from models.cluster.cluster import Ints
from models.kube.selectors import Bools
from solver.rebalance.problem.problem import RebalanceProblem, Step
from solver.rebalance.problem.state import PlanState
from solver.rules.inter_pod_affinity import InterPodAffinity
from solver.rules.node_ports import NodePorts
from solver.rules.node_resources_fit import NodeResourcesFit
from solver.rules.pod_topology_spread import PodTopologySpread

#: Classes that are searched together. The states grow exponentially with them.
MAX_CLASSES: Final = 12
#: States of all searches for one end state. A circle of three classes over ten nodes has no more.
MAX_STATES: Final = 4_000


@dataclass(frozen=True)
class Confinement:
    """``classes``: pod classes; ``reachable``: int64[len(classes), N], the pods of each on each node, for all that steps can lead to."""

    classes: tuple[int, ...]
    reachable: tuple[Ints, ...]


def confine(
    problem: RebalanceProblem, state: PlanState, target: Ints, groups: Sequence[Collection[int]], over: Callable[[], bool]
) -> Confinement | None:
    """Return classes that cannot get where a target has them, and where they can get; None if no group of classes proves that.

    Args:
        problem: The instance of the plan.
        state: The state at the start.
        target: int64[G, N], running pods in the end.
        groups: Classes that are tried together, the smaller groups first.
        over: Returns True if time is up.
    """
    tried: set[tuple[int, ...]] = set()
    left = MAX_STATES
    for group in groups:
        for chosen in dict.fromkeys((_closed(problem, state, group), tuple(sorted(group)))):
            if not chosen or len(chosen) > MAX_CLASSES or chosen in tried:
                continue
            tried.add(chosen)
            if any(problem.pending[g] and problem.cluster.classes[g].gang is not None for g in chosen):
                continue  # members of a gang bind as a unit
            search = _Search(problem, state, chosen, over)
            found = search.run(left)
            if found is not None and not any(np.array_equal(counts, target[list(chosen)]) for counts in found.reachable):
                return found
            left -= search.states
            if left <= 0 or over():
                return None
    return None


def groups(problem: RebalanceProblem, stuck: Sequence[Step], waiting: Sequence[Step], needed: Sequence[Step]) -> list[set[int]]:
    """Return groups of classes that may prove a deadlock, the smaller ones first.

    Args:
        problem: The instance of the plan.
        stuck: Moves that wait for each other in a circle.
        waiting: All moves that remain when no direct one is accepted any more.
        needed: All moves that lead from the start to the end state.
    """
    circle = {step.g for step in stuck}
    found = [circle, {step.g for step in waiting}, {step.g for step in needed}]
    nodes = sorted({n for step in stuck for n in (step.a, step.b) if n >= 0})
    share = problem.cluster.demand * 1000 // np.maximum(problem.cluster.allocatable.max(axis=0, initial=1), 1)
    size = share.max(axis=1, initial=0)
    near = problem.start[:, nodes].sum(axis=1)
    others = [g for g in np.flatnonzero(problem.movable).tolist() if g not in circle]
    others.sort(key=lambda g: (near[g] == 0, -int(size[g]), g))
    most = MAX_CLASSES - len(circle)
    return [*found, *(circle | set(others[:extra]) for extra in (1, 2, 4, most) if 0 < extra <= most)]


def _matched(state: PlanState, g: int) -> Bools:
    """Return bool[G]: the classes whose pods a rule of class g counts, whether they help or hinder: required affinity and spread."""
    found = np.zeros(len(state.counts), dtype=bool)
    affinity, spread = InterPodAffinity.of(state.rules), PodTopologySpread.of(state.rules)
    index = affinity.attraction(g)
    if index is not None:
        found |= affinity.attractions[index].matches
    for _, tally in spread.own(g):
        if tally is not None:
            found |= spread.tallies[tally].matches
    return found


def _closed(problem: RebalanceProblem, state: PlanState, group: Collection[int]) -> tuple[int, ...]:
    """Return the group with all classes that its required affinity and spread count, and theirs in turn; nothing if these are too many."""
    able = problem.movable | problem.pending
    found, queue = set(group), list(group)
    while queue:
        fresh = set(np.flatnonzero(_matched(state, queue.pop()) & able).tolist()) - found
        found |= fresh
        queue += sorted(fresh)
        if len(found) > MAX_CLASSES:
            return ()
    return tuple(sorted(found))


class _Search:
    """All states that accepted steps of some classes lead to when the bystanders are out of the way."""

    def __init__(self, problem: RebalanceProblem, full: PlanState, classes: Sequence[int], over: Callable[[], bool]) -> None:
        self.problem, self.classes, self.over = problem, tuple(classes), over
        self.states = 0  # that were visited
        self._rows = np.array(self.classes, dtype=np.int64)
        chosen = np.zeros(len(problem.start), dtype=bool)
        chosen[self._rows] = True
        away = (problem.movable | problem.pending) & ~chosen & ~_stuck(problem, full)
        start = problem.start.copy()
        start[away] = 0
        self.state = _without(replace(problem, start=start, movable=problem.movable & chosen, pending=problem.pending & chosen), full, away)
        self._demand = np.concatenate([problem.cluster.demand, np.ones((len(start), 1), dtype=np.int64)], axis=1)
        self._bystanders = problem.start[away & ~problem.evictable].sum(axis=1) @ self._demand[away & ~problem.evictable]
        self._room = self._room_of(problem, away)

    def _room_of(self, problem: RebalanceProblem, away: Bools) -> Ints:
        """Return int64[N, R + 1]: what bystanders and classes that move may ask for in all on each node; pods are the last column."""
        free = np.concatenate([problem.room, problem.cluster.slots[:, None]], axis=1)
        room = np.maximum(free, problem.start.T @ self._demand)
        stays = ~away
        stays[self._rows] = False
        return np.asarray(room - self.state.problem.start[stays].T @ self._demand[stays], dtype=np.int64)

    def run(self, most: int) -> Confinement | None:
        """Return all that can be reached; None if that takes more states than ``most``, or time is up."""
        state, path, seen = self.state, list[Step](), {self._key()}
        ends = {self._counts().tobytes(): self._counts()}
        queue = [iter(list(self._successors()))]
        while queue:
            step = next(queue[-1], None)
            if step is None:
                queue.pop()
                if path:
                    state.undo(path.pop())
                continue
            self.states = len(seen)
            if self.states > most or self.over():
                return None
            before = self._left()
            state.apply(step)
            key = self._key()
            if key in seen or not self._fits(before):
                state.undo(step)
                continue
            seen.add(key)
            ends.setdefault(self._counts().tobytes(), self._counts())
            path.append(step)
            queue.append(iter(list(self._successors())))
        return Confinement(self.classes, tuple(ends.values()))

    def _counts(self) -> Ints:
        return np.asarray(self.state.counts[self._rows], dtype=np.int64)

    def _key(self) -> tuple[bytes, bytes]:
        return self._counts().tobytes(), self.state.arrived[self._rows].tobytes()

    def _left(self) -> Ints:
        """Return int64[N, R + 1]: what the classes leave to bystanders."""
        return np.asarray(np.maximum(self._room - self._counts().T @ self._demand[self._rows], 0), dtype=np.int64)

    def _fits(self, before: Ints) -> bool:
        """Return True if bystanders can rest somewhere during a step. ``before``: what was left to them before it."""
        return bool((np.minimum(before, self._left()).sum(axis=0) >= self._bystanders).all())

    def _successors(self) -> Iterator[Step]:
        problem, state = self.problem, self.state
        for g in self.classes:
            if problem.pending[g]:
                if int(state.counts[g].sum()) < problem.cluster.classes[g].count:
                    yield from (Step(g, -1, b) for b in np.flatnonzero(state.landing(g, -1)).tolist())
                continue
            for a in np.flatnonzero(state.counts[g]).tolist():
                if problem.evictable[g] and state.may_go(g, a):
                    yield Step(g, a, -1)
                yield from (Step(g, a, b) for b in np.flatnonzero(state.landing(g, a)).tolist())


def _stuck(problem: RebalanceProblem, state: PlanState) -> Bools:
    """Return bool[G]: classes that no step can move from where they are, whatever the others do."""
    found = np.zeros(len(problem.start), dtype=bool)
    for g in np.flatnonzero(problem.movable & ~problem.evictable).tolist():
        homes = np.flatnonzero(problem.start[g])
        targets = np.flatnonzero(~state.never(g))
        found[g] = len(targets) == 0 or (len(targets) == 1 and len(homes) == 1 and homes[0] == targets[0])
    return found


def _without(problem: RebalanceProblem, full: PlanState, away: Bools) -> PlanState:
    """Return the state at the start without the classes ``away``, bool[G]. No verdict of it is stricter than with them there.

    ``problem``: without these classes; ``full``: the state with them, at the start.
    """
    state = PlanState(problem)
    state.providers.broken = full.providers.broken
    state.keep_waiting(full, ~away)
    affinity, spread = InterPodAffinity.of(state.rules), PodTopologySpread.of(state.rules)
    for index, attraction in enumerate(affinity.attractions):
        if (attraction.matches & away).any():
            state.providers.holders[index] = []
    for index, tally in enumerate(spread.tallies):
        if (tally.matches & away).any():
            state.skews.release(index)
    for g in np.flatnonzero(problem.movable | problem.pending).tolist():
        exact = (NodeResourcesFit, NodePorts) if (_matched(state, g) & away).any() else (
            NodeResourcesFit, NodePorts, InterPodAffinity, PodTopologySpread,
        )  # fmt: skip
        state.ask_only(g, exact)
    return state
