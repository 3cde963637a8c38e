"""A few pod classes that no order of steps brings to their end state, wherever all other movable pods are.

The others are taken out of the cluster, which is a relaxation. The list of reachable states is a combinatorial
Benders cut for the model of end states. See docs/algorithms/plans.md (Branch and check).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from kubestow.models.cluster.cluster import Ints
from kubestow.models.kube.selectors import Bools
from kubestow.solver.rebalance.problem.problem import RebalanceProblem, Step
from kubestow.solver.rebalance.problem.state import PlanState
from kubestow.solver.rebalance.sequencing.deadlocks import waiting_in_cycle

#: Classes that are searched together. The number of states grows exponentially with them.
MAX_CLASSES: Final = 12
#: States of all searches for one end state. A cycle of three classes over ten nodes has no more.
MAX_STATES: Final = 4_000
#: States of groups larger than a cycle, within ``MAX_STATES``. Most end states without an order by then have one
#: after all.
MAX_EXTENDED_STATES: Final = 1_500


@dataclass(frozen=True)
class Confinement:
    """All states that steps can reach with a few classes.

    Attributes:
        classes: The pod classes, ascending.
        reachable: For each reachable state the pods of each class on each node, int64[len(classes), N].
        moves: For each reachable state the fewest moves that lead there.
    """

    classes: tuple[int, ...]
    reachable: tuple[Ints, ...]
    moves: tuple[int, ...]

    def detours(self, problem: RebalanceProblem, counts: Ints) -> int | None:
        """Return the moves beyond those that an end state int64[G, N] needs by its counts; None if no steps lead there."""
        rows = list(self.classes)
        for each, moves in zip(self.reachable, self.moves, strict=True):
            if np.array_equal(each, counts[rows]):
                return moves - arrivals(problem, rows, each)
        return None


def arrivals(problem: RebalanceProblem, classes: Sequence[int], counts: Ints) -> int:
    """Return a lower bound on the moves that bring some classes to ``counts``, int64[len(classes), N]."""
    rows = np.array(classes, dtype=np.int64)
    return int(np.maximum(counts - problem.start[rows], 0)[problem.movable[rows]].sum())


class DeadlockStudy:
    """Proofs about one end state from a few classes.

    Attributes:
        confinements: Confinements. One that excludes the end state is the only one; otherwise no two share a class.
        excluded: True if no order of steps leads to the end state.
        detours: Moves that any order needs beyond those that the counts require.
    """

    def __init__(self, problem: RebalanceProblem, state: PlanState, target: Ints, over: Callable[[], bool]) -> None:
        self.problem, self.state, self.target, self.over = problem, state, target, over
        self.confinements: list[Confinement] = []
        self.excluded = False
        self.detours = 0
        self._tried: set[tuple[int, ...]] = set()
        self._left = MAX_STATES

    def run(self, waiting: Sequence[Step]) -> None:
        """Search the cycles among the moves that remain when no direct move is accepted any more."""
        for group in _cycles(waiting):
            self._search(group)

    def extend(self, waiting: Sequence[Step], needed: Sequence[Step]) -> None:
        """Search larger groups.

        Args:
            needed: All moves that lead from the start to the end state.
        """
        cycles = _cycles(waiting)
        self._left = min(self._left, MAX_EXTENDED_STATES)
        for group in self._larger(cycles[0], waiting, needed) if cycles else ():
            self._search(group, detours=False)

    def _search(self, group: Collection[int], *, detours: bool = True) -> None:
        """Search for a confinement of a group, first with the classes that its rules count, then alone, and record it in ``confinements``.

        Args:
            detours: Record also a confinement that needs detours. Otherwise only one that excludes the target.
        """
        if self.excluded:
            return
        for chosen in dict.fromkeys((_closed(self.problem, self.state, group), tuple(sorted(group)))):
            confinement = self._reach(chosen)
            extra = 0 if confinement is None else confinement.detours(self.problem, self.target)
            if confinement is not None and extra is None:
                self.confinements, self.excluded, self.detours = [confinement], True, 0
                return
            if confinement is not None and extra and detours and not any({*each.classes} & {*chosen} for each in self.confinements):
                self.confinements.append(confinement)
                self.detours += extra
                return

    def _reach(self, chosen: tuple[int, ...]) -> Confinement | None:
        problem = self.problem
        if not chosen or len(chosen) > MAX_CLASSES or chosen in self._tried or self._left <= 0 or self.over():
            return None
        self._tried.add(chosen)
        if any(problem.pending[g] and problem.cluster.classes[g].gang is not None for g in chosen):
            return None  # members of a gang bind as a unit
        search = _ConfinedSearch(problem, self.state, chosen, self.over)
        confinement = search.run(self._left)
        self._left -= search.states
        return confinement

    def _larger(self, cycle: set[int], waiting: Sequence[Step], needed: Sequence[Step]) -> list[set[int]]:
        """Return groups with more classes than the cycle, the smaller ones first.

        The classes with the largest pods on the cycle's nodes are added first.
        """
        problem, cluster = self.problem, self.problem.cluster
        nodes = sorted({n for step in waiting if step.g in cycle for n in (step.a, step.b) if n >= 0})
        size = (cluster.demand * 1000 // np.maximum(cluster.allocatable.max(axis=0, initial=1), 1)).max(axis=1, initial=0)
        near = problem.start[:, nodes].sum(axis=1)
        others = [g for g in np.flatnonzero(problem.movable).tolist() if g not in cycle]
        others.sort(key=lambda g: (near[g] == 0, -int(size[g]), g))
        max_others = MAX_CLASSES - len(cycle)
        with_others = [cycle | set(others[:extra]) for extra in (1, 2, 4, max_others) if 0 < extra <= max_others]
        return [{step.g for step in waiting}, {step.g for step in needed}, *with_others]


def _cycles(waiting: Sequence[Step]) -> list[set[int]]:
    """Return the classes of moves that wait for each other, cycle by cycle; no two cycles share a class."""
    cycles, remaining = list[set[int]](), list(waiting)
    while remaining:
        cycle = {step.g for step in waiting_in_cycle(remaining)}
        cycles.append(cycle)
        remaining = [step for step in remaining if step.g not in cycle]
    return cycles


def _matched(state: PlanState, g: int) -> Bools:
    """Return the classes without whose pods a rule may get stricter for class g, bool[G]."""
    known = (face.counted(g) for face in state.faces)
    matched: Bools = np.logical_or.reduce([np.zeros(len(state.counts), dtype=bool), *(mask for mask in known if mask is not None)])
    return matched


def _closed(problem: RebalanceProblem, state: PlanState, group: Collection[int]) -> tuple[int, ...]:
    """Return the group with all classes that its rules count, transitively.

    Empty if the group gets too large.
    """
    able = problem.movable | problem.pending
    found, queue = set(group), list(group)
    while queue:
        fresh = set(np.flatnonzero(_matched(state, queue.pop()) & able).tolist()) - found
        found |= fresh
        queue += sorted(fresh)
        if len(found) > MAX_CLASSES:
            return ()
    return tuple(sorted(found))


class _ConfinedSearch:
    """A search of all states that accepted steps of some classes reach while the bystanders are absent."""

    def __init__(self, problem: RebalanceProblem, full: PlanState, classes: Sequence[int], over: Callable[[], bool]) -> None:
        self.problem, self.classes, self.over = problem, tuple(classes), over
        self.states = 0  # number of visited states
        self._path: list[Step] = []
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
        """Return the room for bystanders and moving classes on each node, int64[N, R + 1]; pods are the last column."""
        free = np.concatenate([problem.room, problem.cluster.slots[:, None]], axis=1)
        room = np.maximum(free, problem.start.T @ self._demand)
        stays = ~away
        stays[self._rows] = False
        return np.asarray(room - self.state.problem.start[stays].T @ self._demand[stays], dtype=np.int64)

    def run(self, max_states: int) -> Confinement | None:
        """Return all reachable states, those with the fewest moves first; None at ``max_states`` states or if time is up."""
        state, seen = self.state, set[tuple[bytes, bytes]]()
        ends: dict[bytes, tuple[Ints, int]] = {}
        queue: deque[tuple[int, tuple[Step, ...]]] = deque([(0, ())])
        while queue:
            moves, steps = queue.popleft()
            self._go(steps)
            if (key := self._key()) in seen:
                continue
            seen.add(key)
            self.states = len(seen)
            if self.states > max_states or self.over():
                return None
            ends.setdefault(key[0], (self._counts(), moves))
            before = self._left()
            for step in list(self._successors()):
                state.apply(step)
                if self._key() not in seen and self._fits(before):
                    if step.a >= 0 and step.b >= 0:
                        queue.append((moves + 1, (*steps, step)))
                    else:  # bindings and evictions are no moves
                        queue.appendleft((moves, (*steps, step)))
                state.undo(step)
        return Confinement(self.classes, tuple(counts for counts, _ in ends.values()), tuple(moves for _, moves in ends.values()))

    def _go(self, steps: tuple[Step, ...]) -> None:
        """Bring the state from where it is to the end of some steps."""
        same = 0
        while same < min(len(steps), len(self._path)) and steps[same] == self._path[same]:
            same += 1
        while len(self._path) > same:
            self.state.undo(self._path.pop())
        for step in steps[same:]:
            self.state.apply(step)
            self._path.append(step)

    def _counts(self) -> Ints:
        return np.asarray(self.state.counts[self._rows], dtype=np.int64)

    def _key(self) -> tuple[bytes, bytes]:
        return self._counts().tobytes(), self.state.arrived[self._rows].tobytes()

    def _left(self) -> Ints:
        """Return the room that the classes leave to bystanders, int64[N, R + 1]."""
        return np.asarray(np.maximum(self._room - self._counts().T @ self._demand[self._rows], 0), dtype=np.int64)

    def _fits(self, before: Ints) -> bool:
        """Return True if the bystanders can rest somewhere during a step.

        Args:
            before: Room left to them before the step, int64[N, R + 1].
        """
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
    """Return the classes that no step can ever move from their nodes, bool[G]."""
    found = np.zeros(len(problem.start), dtype=bool)
    for g in np.flatnonzero(problem.movable & ~problem.evictable).tolist():
        homes = np.flatnonzero(problem.start[g])
        targets = np.flatnonzero(~state.never(g))
        found[g] = len(targets) == 0 or (len(targets) == 1 and len(homes) == 1 and homes[0] == targets[0])
    return found


def _without(problem: RebalanceProblem, full: PlanState, away: Bools) -> PlanState:
    """Return the start state without the classes ``away``, bool[G]. Its verdicts are never stricter than with
    them.

    Args:
        problem: The problem without these classes.
        full: The start state with them.
    """
    state = PlanState(problem)
    state.keep_waiting(full, ~away)
    for name, residents in state.residents.items():
        residents.relax(full.residents[name], away)
    for g in np.flatnonzero(problem.movable | problem.pending).tolist():
        depends = (_matched(state, g) & away).any()
        state.judge_only_by(g, [f.rule.name for f in state.faces if f.monotone or not (depends or f.counted(g) is None)])
    return state
