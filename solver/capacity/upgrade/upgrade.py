"""The entry point of ``upgrade``: a snapshot in, a verified Upgrade out with waves of nodes, or with blockers and remedies."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from kubestow.checker.capacity.upgrade import check_upgrade
from kubestow.checker.violation import insist
from kubestow.models.documents.upgrade import Blocker, Upgrade
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.solver.capacity.upgrade import blockers, remedies
from kubestow.solver.capacity.upgrade.buffers import in_waves
from kubestow.solver.capacity.upgrade.course import UpgradeCourse, Walk, open_, orders, surging
from kubestow.solver.capacity.upgrade.document import document
from kubestow.solver.capacity.upgrade.exhaustive import UpgradeExplorer
from kubestow.solver.capacity.upgrade.packing import NodePacking
from kubestow.solver.capacity.upgrade.pool import UpgradeOptions, UpgradePool, read_pool
from kubestow.solver.capacity.upgrade.state import PoolState
from kubestow.solver.rollout.remedies import least
from kubestow.solver.runtime.deadline import Deadline
from kubestow.solver.runtime.options import OnProgress
from kubestow.solver.runtime.phase_seconds import phase_seconds
from kubestow.solver.runtime.progress_trace import ProgressReporter
from kubestow.solver.runtime.run_context import RunContext

#: Numbers of nodes and of pods up to which every course is explored, and deterministic seconds charged for each
#: state.
MAX_EXPLORED_NODES, MAX_EXPLORED_PODS = 40, 150
SECONDS_PER_STATE = 0.001
#: Number of nodes up to which further orders are tried to reduce repeated moves.
MAX_REORDERED_NODES = 200


def upgrade(
    snapshot: Snapshot,
    request: UpgradeOptions,
    *,
    on_progress: OnProgress | None = None,
    stop: threading.Event | None = None,
    began: float | None = None,
) -> Upgrade:
    """Find the waves of a node-pool upgrade.

    Args:
        stop: May be set from another thread or a signal handler. Then the waves found so far are returned.
        began: Time at which the caller began, on the monotonic clock. The time limit counts from there.

    Raises:
        InputError: A selector that selects no node, or quantities or annotations that cannot be read.
        InternalFault: The independent checker found a wave invalid.
    """
    started = time.monotonic()
    report = ProgressReporter(on_progress, started)
    report("compile")
    pool = read_pool(snapshot, request)
    compiled = time.monotonic()
    report("compile", detail=f"{len(pool.old)} nodes of the pool, {int(pool.problem.start[pool.problem.movable].sum())} pods that may move")
    deadline = Deadline(request.options, started if began is None else began)
    context = RunContext(request.options, deadline, stop or threading.Event(), report)
    search = _UpgradeSearch(pool, PoolState(pool), context)
    outcome = search.run()
    result = document(pool, request, outcome.course, search.state.rules, outcome.blocked)
    if context.stop.is_set():
        result.notes.append("interrupted: the waves are valid, but the search for further waves was not completed")
    elif not result.complete:
        result.smallestSurge, result.smallestProved = search.smallest(result.proved)
        remedies.offer(snapshot, result.blocked, lambda changed: _blockers_of(changed, request, context))
    if not context.stop.is_set():
        result.headroom, notes = in_waves(snapshot, result, context)
        result.notes += notes
    solved = time.monotonic()
    report("verify")
    insist(check_upgrade(snapshot, result).violations)
    result.seconds = phase_seconds(request.options, started, solved, compiled)
    return result


def _blockers_of(snapshot: Snapshot, request: UpgradeOptions, context: RunContext) -> list[Blocker] | None:
    """Return the blockers of the upgrade of a changed cluster; None if time is up."""
    if context.over():
        return None
    pool = read_pool(snapshot, request)
    return _UpgradeSearch(pool, PoolState(pool), replace(context, report=ProgressReporter(None, time.monotonic()))).run().blocked


@dataclass
class _UpgradeOutcome:
    course: UpgradeCourse
    blocked: list[Blocker]


class _UpgradeSearch:
    """The search for a course of one pool.

    Attributes:
        state: The state shared by all attempts, which leave it where they end.
    """

    def __init__(self, pool: UpgradePool, state: PoolState, context: RunContext) -> None:
        self.pool, self.state, self.context = pool, state, context
        self._start = state.mark()
        self._packing = NodePacking(context)
        self.permanent = blockers.permanent(pool, state)
        blocked_nodes = {blocker.node for blocker in self.permanent}
        self.blocked_nodes = [n for n in pool.old if pool.names[n] in blocked_nodes]
        self.drainable_nodes = [n for n in pool.old if pool.names[n] not in blocked_nodes]

    def run(self) -> _UpgradeOutcome:
        """Return the best course, and the blockers of the nodes it leaves."""
        course = self._course(self.pool.surge)
        blocked = list(self.permanent)
        if course.undrained and not self.context.stop.is_set():
            self._replay(course)
            walk = Walk(self.state, self.pool.surge, None, self.context.stop.is_set)
            blocked += blockers.present(self.pool, walk, course.undrained)
        order = {self.pool.names[n]: k for k, n in enumerate(self.pool.old)}
        blocked.sort(key=lambda blocker: order[blocker.node])
        course.proved = (bool(course.undrained) and course.proved) or any(blocker.proved for blocker in blocked)
        return _UpgradeOutcome(course, blocked)

    def smallest(self, blocked: bool) -> tuple[int | None, bool]:
        """Return the smallest larger surge with which every node drains, and True if it is proved that no smaller surge does.

        The surge is None if there is none, or none was found.

        Args:
            blocked: True if it is proved that the requested surge does not suffice.
        """
        if self.blocked_nodes:
            return None, all(any(b.proved for b in self.permanent if b.node == self.pool.names[n]) for n in self.blocked_nodes)
        proved: dict[int, bool] = {}

        def works(surge: int) -> bool:
            if self.context.over():
                return False
            course = self._course(surge)
            proved[surge] = bool(course.undrained) and course.proved
            return not course.undrained

        smallest_surge = least(self.pool.surge + 1, len(self.pool.old), works)
        if smallest_surge is None:
            return None, proved.get(len(self.pool.old), False)
        return smallest_surge, blocked if smallest_surge == self.pool.surge + 1 else proved.get(smallest_surge - 1, False)

    # --- courses ----------------------------------------------------------------------------------------------------------------------

    def _course(self, surge: int) -> UpgradeCourse:
        """Return the course that drains the most nodes: by greedy moves, then with packings, then by exploring
        all courses of a small pool."""
        best = UpgradeCourse(undrained=list(self.drainable_nodes), proved=False)
        tries = orders(self.pool, self._at_start(), self.drainable_nodes)
        pods = int(self.state.counts[self.pool.problem.movable][:, self.drainable_nodes].sum())
        for packer, roomy in ((None, False), (None, True), (self._packing.steps, False)):
            for order in tries:
                if best.waves and self.context.over():
                    return best
                walk = Walk(self._at_start(), surge, packer, self.context.stop.is_set, self._progress)
                walk.roomy = roomy
                course = walk.run(order)
                if (course.drained, -course.moves) > (best.drained, -best.moves) or not best.waves:
                    best = course
                if not best.undrained and (best.moves == pods or len(self.drainable_nodes) > MAX_REORDERED_NODES):
                    return best
            if not best.undrained:
                return best
        if self.context.over():
            return best
        if len(self.drainable_nodes) <= MAX_EXPLORED_NODES and pods <= MAX_EXPLORED_PODS:
            explorer = UpgradeExplorer(self._at_start(), surge, self.context.over, lambda: self.context.deadline.charge(SECONDS_PER_STATE))
            course_found = explorer.run(self.drainable_nodes)
            if course_found is not None:
                return course_found
            best.proved = explorer.complete and not self.state.restricted and self._sequential_suffices(surge)
        best.proved = best.proved or self._some_never_empties(best.undrained, surge) or self._no_first_node(surge)
        return best

    def _sequential_suffices(self, surge: int) -> bool:
        """Return True if draining nodes one after another reaches everything that draining several at once does.

        That is the case if no pod waits for another one to leave, and the order in which new nodes join does
        not matter.
        """
        if surge + self.pool.unavailable == 1:
            return True
        state, new = self._at_start(), list(self.pool.new.values())
        moving = np.flatnonzero(self.pool.problem.movable & (state.counts[:, self.pool.old] > 0).any(axis=1)).tolist()
        if state.holding or any(state.near_or_apart(g) for g in moving):
            return False
        equal = all(len(set(state.lasting(g)[new].tolist())) == 1 for g in moving) and bool(
            (state.fit.free[new] == state.fit.free[new[0]]).all()
        )
        return not surge or surge >= len(self.drainable_nodes) or (equal and bool((state.fit.slots[new] == state.fit.slots[new[0]]).all()))

    def _some_never_empties(self, undrained: Sequence[int], surge: int) -> bool:
        """Return True if it is proved that one of the remaining nodes can never be emptied."""
        state = self._at_start()
        return any(self._packing.confined(state, n, surge) for n in undrained)

    def _no_first_node(self, surge: int) -> bool:
        """Return True if it is proved that no node can be the first, because later nodes never have more room."""
        state = self._at_start()
        if surge and surge + self.pool.unavailable > 1:  # any nodes may join
            there = open_(state.present, list(self.pool.new.values()))
            return all(self._packing.never(state, n, there) for n in self.drainable_nodes)
        return all(
            self._packing.never(state, n, open_(state.present, [self.pool.new[m] for m in surging(state, surge, [n])]))
            for n in self.drainable_nodes
        )

    def _progress(self, done: int) -> None:
        self.context.report("drain", "nodes", done, len(self.pool.old), detail=f"{done} of {len(self.pool.old)} nodes")

    def _at_start(self) -> PoolState:
        self.state.back_to(self._start)
        return self.state

    def _replay(self, course: UpgradeCourse) -> None:
        """Put the state where a course ends."""
        self._at_start()
        for wave in course.waves:
            self.state.begin(open_(self.state.present, [self.pool.new[n] for n in wave.surge]))
            for step in wave.steps:
                self.state.apply(step)
            self.state.present = open_(self.state.present, [self.pool.new[n] for n in wave.joined], gone=wave.drain)
