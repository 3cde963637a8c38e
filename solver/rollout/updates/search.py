"""The search for a course of an update: first one that reuses the pods' nodes, then every other one if that halts.

A course is any order of the steps of the controller, which may have choices, and of the scheduler. Pods get
nodes one by one, and the controller need not wait until all have one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from kubestow.models.cluster.cluster import Cluster
from kubestow.solver.rollout.updates.controllers import Batch, Controller, controller
from kubestow.solver.rollout.updates.state import UpdateEvent, UpdateProblem, UpdateState
from kubestow.solver.runtime.run_context import RunContext

#: Maximum number of states that the exhaustive part explores.
MAX_STATES = 20_000
#: Maximum number of stuck pods of a DaemonSet that are tried one by one for a proof.
MAX_PROOF_PODS = 8
#: Deterministic seconds charged for each state.
SECONDS_PER_STATE = 0.0002


@dataclass
class UpdateCourse:
    """A course of an update.

    Attributes:
        events: The steps, in order.
        complete: True if it reaches the end.
        proved: True if no course completes, or this one does.
        placed: Number of new pods with a node at the end.
        bound: Upper bound on the placed new pods of any course.
    """

    events: list[UpdateEvent] = field(default_factory=list)
    complete: bool = False
    proved: bool = False
    placed: int = 0
    bound: int = 0


@dataclass
class UpdateSearch:
    """The search for one update.

    Attributes:
        states: Maximum number of states of the exhaustive part.
        raising: True to raise quotas that refuse a pod.
    """

    problem: UpdateProblem
    context: RunContext
    states: int = MAX_STATES
    raising: bool = False
    state: UpdateState = field(init=False)
    controller: Controller = field(init=False)

    def __post_init__(self) -> None:
        self.state = UpdateState(self.problem)
        self.controller = controller(self.problem.update)

    @property
    def cluster(self) -> Cluster:
        return self.state.cluster

    def run(self) -> UpdateCourse:
        """Return the first course that completes, or the one that places the most pods. The state is left at its end."""
        course = self._followed()
        if course.complete or self.context.over():
            return course
        n_new = len(self.problem.update.new)
        if self.zones_held():
            return course
        hopeless = self._hopeless()
        if hopeless:
            course.proved, course.bound = True, n_new - hopeless
            return course
        for event in reversed(course.events):
            self.state.revert(event)
        explored = self._explored(course)
        for event in explored.events:
            self.state.apply(event)
        return explored

    def zones_held(self) -> bool:
        """Return True if old pods run where the kubelet aligns NUMA zones. Which zones they release is unknown."""
        nodes = (self.state.node.get(member.node or "", -1) for member in self.problem.update.members)
        return any(self.cluster.trees[n].rejects for n in nodes if n in self.cluster.trees)

    # --- one course ---------------------------------------------------------------------------------------------------------

    def _followed(self) -> UpdateCourse:
        """Return the course in which all pods that can be placed are placed before the controller continues.

        The state is left at its end.
        """
        events: list[UpdateEvent] = []
        n_new = len(self.problem.update.new)
        home = {member.slot: self.state.node.get(member.node or "", -1) for member in self.problem.update.members if member.there}
        while not self.context.stop.is_set():
            placed = self._placed(home)
            events += placed
            due = self.controller.batch(self.state)
            for event in due:
                self.state.apply(event)
            events += due
            if not due and not placed:
                refused = self.controller.refused(self.state) if self.raising else None
                if refused is not None:
                    self.state.raise_limits(refused)
                    continue
                break
        complete = self.controller.complete(self.state)
        return UpdateCourse(events, complete, complete, self.state.placed(), n_new)

    def _placed(self, home: dict[int, int]) -> list[UpdateEvent]:
        """Bind waiting pods one by one until no node accepts another, and return the steps. The state includes them.

        Args:
            home: Node of the last pod of each slot, which is preferred.
        """
        events: list[UpdateEvent] = []
        progress = True
        while progress:
            progress = False
            for k in self.state.waiting():
                nodes = self.state.accepted(k)
                if len(nodes):
                    before = home.get(self.state.members[k].slot, -1)
                    event = UpdateEvent("bind", k, before if before in nodes else int(nodes[0]))
                    self.state.apply(event)
                    events.append(event)
                    progress = True
        return events

    # --- proofs -------------------------------------------------------------------------------------------------------------

    def _hopeless(self) -> int:
        """Return the number of nodes of a DaemonSet that can never take their new pod, as far as that is proved.

        Only pods without affinity, spread and claims are examined, up to MAX_PROOF_PODS pods. For these, other pods can
        only be in the way.
        """
        update, state = self.problem.update, self.state
        if update.kind != "DaemonSet" or update.strategy == "OnDelete" or self.controller.refused(state) is not None:
            return 0
        unplaced = [k for k, m in enumerate(update.members) if m.new and not m.there and state.where.get(k) is None]
        new = sorted(unplaced, key=lambda k: (k not in state.where, k))
        return sum(self._never(k) for k in new[:MAX_PROOF_PODS] if self._is_independent(k))

    def _never(self, k: int) -> bool:
        """Return True if no node accepts pod k even without the workload's other pods.

        The old pod that k replaces is present if it stays until k serves.
        """
        state, stays = self.state, self._staying(k)
        gone = [UpdateEvent("delete", each) for each in list(state.where) if each not in (k, stays)]
        for event in gone:
            state.apply(event)
        rejected = not len(state.accepted(k))
        for event in reversed(gone):
            state.revert(event)
        return rejected

    def _is_independent(self, k: int) -> bool:
        cls = self.cluster.classes[self.state.kind(k)]
        return not cls.affinity and not cls.spread and not cls.claims

    def _staying(self, k: int) -> int | None:
        """Return the old pod that stays on a new one's node until the new one serves: with maxSurge, one that served from the start."""
        if not self.problem.update.surge:
            return None
        members = self.problem.update.members
        mates = self.state.at(members[k].slot)
        return next((each for each in mates if not members[each].new and members[each].ready), None)

    # --- all courses --------------------------------------------------------------------------------------------------------

    def _explored(self, fallback: UpdateCourse) -> UpdateCourse:
        """Search depth first for a course that completes, without visiting a state twice.

        Return ``fallback`` if none is found, as ``proved`` if all states were visited. The state is left at its start.
        """
        state, best, most_placed = self.state, fallback, fallback.placed
        seen = {state.key()}
        events: list[UpdateEvent] = []
        stack: list[tuple[int, Iterator[Batch]]] = [(0, self._steps())]
        limit = max(200, min(self.states, 4_000_000 // max(1, len(self.problem.update.members))))
        while stack:
            mark, steps = stack[-1]
            batch = next(steps, None)
            if batch is None:
                stack.pop()
                while len(events) > mark:
                    state.revert(events.pop())
                continue
            if len(seen) > limit or self.context.over():
                for event in reversed(events):
                    state.revert(event)
                return best
            before = len(events)
            for event in batch:
                state.apply(event)
                events.append(event)
            key = state.key()
            if key in seen:
                while len(events) > before:
                    state.revert(events.pop())
                continue
            seen.add(key)
            self.context.deadline.charge(SECONDS_PER_STATE)
            placed = state.placed()
            most_placed = max(most_placed, placed)
            if self.controller.complete(state):
                completed = UpdateCourse(list(events), True, True, placed, len(self.problem.update.new))
                for event in reversed(events):
                    state.revert(event)
                return completed
            stack.append((before, self._steps()))
        best.proved, best.bound = True, most_placed
        return best

    def _steps(self) -> Iterator[Batch]:
        """Yield the possible next steps in the current state."""
        state = self.state
        options: list[Batch] = []
        for k in state.waiting():
            options += [[UpdateEvent("bind", k, n)] for n in np.asarray(state.accepted(k)).tolist()]
        return iter([*options, *self.controller.choices(state)])
