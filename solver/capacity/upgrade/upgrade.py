"""From a snapshot to a verified Upgrade: waves of nodes in which every drain gets through, or what is in the way and what would help."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from kubestow.checker.capacity.upgrade import check_upgrade
from kubestow.checker.violation import insist
from kubestow.models.documents import placement as doc
from kubestow.models.documents.upgrade import Blocker, Upgrade
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.solver.capacity.upgrade import blockers, remedies
from kubestow.solver.capacity.upgrade.buffers import in_waves
from kubestow.solver.capacity.upgrade.course import Course, Walk, open_, orders, surging
from kubestow.solver.capacity.upgrade.document import document
from kubestow.solver.capacity.upgrade.exhaustive import Explorer
from kubestow.solver.capacity.upgrade.packing import Packing
from kubestow.solver.capacity.upgrade.pool import Pool, UpgradeOptions, read_pool
from kubestow.solver.capacity.upgrade.state import PoolState
from kubestow.solver.rollout.remedies import least
from kubestow.solver.runtime.deadline import Deadline
from kubestow.solver.runtime.options import OnProgress
from kubestow.solver.runtime.progress_trace import ProgressReporter
from kubestow.solver.runtime.run_context import RunContext

#: Nodes and pods up to which every course is looked at, and the deterministic seconds that a state counts.
NODES, PODS = 40, 150
PER_STATE = 0.001
#: Nodes up to which orders are tried that move fewer pods twice.
FEW = 200


def upgrade(
    snapshot: Snapshot,
    asked: UpgradeOptions,
    *,
    on_progress: OnProgress | None = None,
    stop: threading.Event | None = None,
    began: float | None = None,
) -> Upgrade:
    """Find the waves of a node-pool upgrade. ``stop`` may be set from another thread or a signal handler: the waves so far are returned.
    ``began``: when the caller began, on the monotonic clock; the time limit counts from there.

    Raises:
        InputError: a selector of no node, or quantities and annotations that cannot be read.
        InternalFault: the independent checker found a wave invalid.
    """
    started = time.monotonic()
    report = ProgressReporter(on_progress, started)
    report("compile")
    pool = read_pool(snapshot, asked)
    compiled = time.monotonic()
    report("compile", detail=f"{len(pool.old)} nodes of the pool, {int(pool.problem.start[pool.problem.movable].sum())} pods that may move")
    deadline = Deadline(asked.options, started if began is None else began)
    context = RunContext(asked.options, deadline, stop or threading.Event(), report)
    search = _Search(pool, PoolState(pool), context)
    found = search.run()
    result = document(pool, asked, found.course, search.state.rules, found.blocked)
    if context.stop.is_set():
        result.notes.append("interrupted: the waves are certain, what comes after them was not looked at")
    elif not result.complete:
        result.smallestSurge, result.smallestProved = search.smallest(result.proved)
        remedies.offer(snapshot, result.blocked, lambda changed: _blockers_of(changed, asked, context))
    if not context.stop.is_set():
        result.headroom, notes = in_waves(snapshot, result, context)
        result.notes += notes
    solved = time.monotonic()
    report("verify")
    insist(check_upgrade(snapshot, result).violations)
    if not asked.options.deterministic:
        result.seconds = doc.Seconds(
            compile=round(compiled - started, 3), solve=round(solved - compiled, 3), verify=round(time.monotonic() - solved, 3)
        )
    return result


def _blockers_of(snapshot: Snapshot, asked: UpgradeOptions, context: RunContext) -> list[Blocker] | None:
    """Return what blocks the upgrade of a changed cluster; None if time is up."""
    if context.over():
        return None
    pool = read_pool(snapshot, asked)
    return _Search(pool, PoolState(pool), replace(context, report=ProgressReporter(None, time.monotonic()))).run().blocked


@dataclass
class _Found:
    course: Course
    blocked: list[Blocker]


class _Search:
    """The search for a course of one pool. ``state``: used by all attempts, which leave it where they end."""

    def __init__(self, pool: Pool, state: PoolState, context: RunContext) -> None:
        self.pool, self.state, self.context = pool, state, context
        self._start = state.mark()
        self._packing = Packing(context)
        self.lasting = blockers.lasting(pool, state)
        held = {blocker.node for blocker in self.lasting}
        self.held = [n for n in pool.old if pool.names[n] in held]
        self.free = [n for n in pool.old if pool.names[n] not in held]

    def run(self) -> _Found:
        """Return the best course, and what is in the way of what it leaves."""
        course = self._course(self.pool.surge)
        blocked = list(self.lasting)
        if course.left and not self.context.stop.is_set():
            self._again(course)
            walk = Walk(self.state, self.pool.surge, None, self.context.stop.is_set)
            blocked += blockers.present(self.pool, walk, course.left)
        order = {self.pool.names[n]: k for k, n in enumerate(self.pool.old)}
        blocked.sort(key=lambda blocker: order[blocker.node])
        course.proved = (bool(course.left) and course.proved) or any(blocker.proved for blocker in blocked)
        return _Found(course, blocked)

    def smallest(self, blocked: bool) -> tuple[int | None, bool]:
        """Return the smallest surge beyond that which is asked for with which every drain gets through, and whether it is proved that no
        smaller one does; None: there is none, or none was found. ``blocked``: whether it is proved that the surge asked for does not."""
        if self.held:
            return None, all(any(b.proved for b in self.lasting if b.node == self.pool.names[n]) for n in self.held)
        proved: dict[int, bool] = {}

        def works(surge: int) -> bool:
            if self.context.over():
                return False
            course = self._course(surge)
            proved[surge] = bool(course.left) and course.proved
            return not course.left

        found = least(self.pool.surge + 1, len(self.pool.old), works)
        if found is None:
            return None, proved.get(len(self.pool.old), False)
        return found, blocked if found == self.pool.surge + 1 else proved.get(found - 1, False)

    # --- courses ----------------------------------------------------------------------------------------------------------------------

    def _course(self, surge: int) -> Course:
        """Return the course that drains most nodes: pod by pod, then with packings, then by looking at every course of a small pool."""
        best = Course(left=list(self.free), proved=False)
        tries = orders(self.pool, self._at_start(), self.free)
        pods = int(self.state.counts[self.pool.problem.movable][:, self.free].sum())
        for packer, roomy in ((None, False), (None, True), (self._packing.steps, False)):
            for order in tries:
                if best.waves and self.context.over():
                    return best
                walk = Walk(self._at_start(), surge, packer, self.context.stop.is_set, self._progress)
                walk.roomy = roomy
                course = walk.run(order)
                if (course.drained, -course.moves) > (best.drained, -best.moves) or not best.waves:
                    best = course
                if not best.left and (best.moves == pods or len(self.free) > FEW):
                    return best
            if not best.left:
                return best
        if self.context.over():
            return best
        if len(self.free) <= NODES and pods <= PODS:
            explorer = Explorer(self._at_start(), surge, self.context.over, lambda: self.context.deadline.charge(PER_STATE))
            course_found = explorer.run(self.free)
            if course_found is not None:
                return course_found
            best.proved = explorer.complete and not self.state.restricted and self._node_by_node(surge)
        best.proved = best.proved or self._one_never(best.left, surge) or self._none_first(surge)
        return best

    def _node_by_node(self, surge: int) -> bool:
        """Return whether nodes one after the other reach what several at once do: no pod waits for another one to go, and which of the new
        nodes are there first makes no difference."""
        if surge + self.pool.unavailable == 1:
            return True
        state, new = self._at_start(), list(self.pool.new.values())
        moving = np.flatnonzero(self.pool.problem.movable & (state.counts[:, self.pool.old] > 0).any(axis=1)).tolist()
        if state.holding or any(state.near_or_apart(g) for g in moving):
            return False
        equal = all(len(set(state.lasting(g)[new].tolist())) == 1 for g in moving) and bool(
            (state.fit.free[new] == state.fit.free[new[0]]).all()
        )
        return not surge or surge >= len(self.free) or (equal and bool((state.fit.slots[new] == state.fit.slots[new[0]]).all()))

    def _one_never(self, left: Sequence[int], surge: int) -> bool:
        """Return whether it is proved that one of the nodes that are left can never be empty."""
        state = self._at_start()
        return any(self._packing.confined(state, n, surge) for n in left)

    def _none_first(self, surge: int) -> bool:
        """Return whether it is proved that no node can be the first: the others never have more room than before the first wave."""
        state = self._at_start()
        if surge and surge + self.pool.unavailable > 1:  # whichever join
            there = open_(state.present, list(self.pool.new.values()))
            return all(self._packing.never(state, n, there) for n in self.free)
        return all(
            self._packing.never(state, n, open_(state.present, [self.pool.new[m] for m in surging(state, surge, [n])])) for n in self.free
        )

    def _progress(self, done: int) -> None:
        self.context.report("drain", "nodes", done, len(self.pool.old), detail=f"{done} of {len(self.pool.old)} nodes")

    def _at_start(self) -> PoolState:
        self.state.back_to(self._start)
        return self.state

    def _again(self, course: Course) -> None:
        """Put the state where a course ends."""
        self._at_start()
        for wave in course.waves:
            self.state.begin(open_(self.state.present, [self.pool.new[n] for n in wave.surge]))
            for step in wave.steps:
                self.state.apply(step)
            self.state.present = open_(self.state.present, [self.pool.new[n] for n in wave.joined], gone=wave.drain)
