"""The controllers of StatefulSets and DaemonSets: their next steps for the existing pods.

minReadySeconds and the duration of a pod's termination are not modelled, because a snapshot does not contain
them.

Sources: pkg/controller/statefulset/stateful_set_control.go (updateStatefulSet,
updateStatefulSetAfterInvariantEstablished) and pkg/controller/daemon/{daemon_controller,update}.go
(podsShouldBeOnNode, rollingUpdate) of Kubernetes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from kubestow.models.workloads.updates.update_input import Update
from kubestow.solver.rollout.updates.state import UpdateEvent, UpdateState

Batch = list[UpdateEvent]


class Controller(Protocol):
    """The part of an update that the scheduler does not decide."""

    def choices(self, state: UpdateState) -> list[Batch]:
        """Return the controller's choices: one list of consecutive steps for each."""

    def batch(self, state: UpdateState) -> Batch:
        """Return the controller's next steps, in the order of slots where it has a choice."""

    def complete(self, state: UpdateState) -> bool:
        """Return True if the update has reached its end."""

    def refused(self, state: UpdateState) -> int | None:
        """Return a due pod that quotas or LimitRanges refuse; None if there is none."""

    def blocker(self, state: UpdateState) -> int | None:
        """Return the pod that the update waits for; None if there is none."""


def controller(update: Update) -> Controller:
    """Return the controller of an update."""
    return StatefulSets(update) if update.kind == "StatefulSet" else DaemonSets(update)


class StatefulSets:
    """The controller of StatefulSets. It is deterministic."""

    def __init__(self, update: Update) -> None:
        self.update = update
        self._fresh = {m.slot: k for k, m in enumerate(update.members) if not m.there}
        self._condemned = sorted({m.slot for m in update.members if m.there and m.slot not in update.runs}, reverse=True)

    def choices(self, state: UpdateState) -> list[Batch]:
        batch = self.batch(state)
        return [batch] if batch else []

    def batch(self, state: UpdateState) -> Batch:
        if not self.update.parallel:
            blocked, due = self._ordered_steps(state)
        else:
            blocked, due = self._parallel_steps(state)
        if blocked or due or self.update.strategy == "OnDelete":
            return due
        return self._counted(state) if self.update.counts else self._one(state)

    def _ordered_steps(self, state: UpdateState) -> tuple[bool, Batch]:
        """Return the steps of a set with OrderedReady that must come before updates.

        It creates missing pods, waits for each to be available, and then deletes pods beyond the replicas one by one.

        Returns:
            True if no pod may be updated yet, and the steps; none while the set waits for a pod.
        """
        for slot in range(self.update.replicas):
            pods = state.at(slot)
            if not pods:
                return True, self._created(state, slot)
            if not state.available(pods[0]):
                return True, []
        there = [k for slot in self._condemned for k in state.at(slot)]
        ailing = [k for k in there if not state.available(k)]
        for k in there:
            if not state.available(k) and k != ailing[-1]:
                return True, []
            return True, [UpdateEvent("delete", k)]
        return False, []

    def _created(self, state: UpdateState, slot: int) -> Batch:
        """Return the creation of a slot's missing pod. Empty if its template is unknown or a quota refuses it."""
        return [UpdateEvent("create", self._fresh[slot])] if slot in self._fresh and state.admits(self._fresh[slot]) else []

    def _parallel_steps(self, state: UpdateState) -> tuple[bool, Batch]:
        """Return the steps of a set with Parallel that must come before updates.

        It creates missing pods, and then deletes all pods beyond the replicas at once.

        Returns:
            True if a pod is missing, so that nothing else may happen yet, and the steps.
        """
        for slot in range(self.update.replicas):
            if not state.at(slot):
                return True, self._created(state, slot)
        return False, [UpdateEvent("delete", k) for slot in self._condemned for k in state.at(slot)]

    def _one(self, state: UpdateState) -> Batch:
        """Return the deletion of the next old pod, from the highest ordinal down to the partition.

        Empty if a new pod above it is not available, or if there is no old pod.
        """
        for slot in range(self.update.replicas - 1, self.update.partition - 1, -1):
            k = state.at(slot)[0]
            if not state.members[k].new:
                return [UpdateEvent("delete", k)]
            if not state.available(k):
                return []
        return []

    def _counted(self, state: UpdateState) -> Batch:
        """Return the deletion of the next old pods, from the highest ordinal down to the partition.

        Their number is what maxUnavailable allows beyond pods that are unavailable already (gate MaxUnavailableStatefulSet).
        """
        pods = [state.at(slot)[0] for slot in range(self.update.replicas)]
        spare = self.update.unavailable - sum(not state.available(k) for k in pods)
        old = [k for k in reversed(pods[self.update.partition :]) if not state.members[k].new]
        return [UpdateEvent("delete", k) for k in old[: max(0, spare)]]

    def complete(self, state: UpdateState) -> bool:
        if any(state.at(slot) for slot in self._condemned):
            return False
        for slot in range(self.update.replicas):
            pods = state.at(slot)
            if not pods or (slot >= self.update.partition and not (state.members[pods[0]].new and state.available(pods[0]))):
                return False
        return True

    def refused(self, state: UpdateState) -> int | None:
        missing = next((slot for slot in range(self.update.replicas) if not state.at(slot)), None)
        if missing is None or missing not in self._fresh or state.admits(self._fresh[missing]):
            return None
        due = self.update.parallel or all(state.available(state.at(slot)[0]) for slot in range(missing))
        return self._fresh[missing] if due else None

    def blocker(self, state: UpdateState) -> int | None:
        """Return the pod that the update waits for."""
        if not self.update.parallel:
            for slot in range(self.update.replicas):
                pods = state.at(slot)
                if not pods:
                    return None
                if not state.available(pods[0]):
                    return pods[0]
            return next((k for slot in self._condemned for k in state.at(slot) if not state.available(k)), None)
        slots = range(self.update.replicas - 1, -1 if self.update.counts else self.update.partition - 1, -1)
        return next((k for slot in slots for k in state.at(slot) if not state.available(k)), None)


@dataclass
class _DueSteps:
    """Steps of a DaemonSet's update.

    Attributes:
        sure: Steps that are taken in any case.
        open: Steps of which ``limit`` are taken.
        leaving: Deletions on nodes that must have no pod, of which ``spare`` are taken.
    """

    sure: Batch = field(default_factory=list)
    open: Batch = field(default_factory=list)
    leaving: Batch = field(default_factory=list)
    limit: int = 0
    spare: int = 0

    def limited(self) -> _DueSteps:
        """Return the steps without those that are not taken."""
        self.open = self.open if self.limit > 0 else []
        self.leaving = self.leaving if self.spare > 0 else []
        return self


class DaemonSets:
    """The controller of DaemonSets. It takes nodes in any order."""

    def __init__(self, update: Update) -> None:
        self.update = update
        self._fresh = {m.slot: k for k, m in enumerate(update.members) if not m.there}
        self._slots = sorted({m.slot for m in update.members} | update.runs)

    def choices(self, state: UpdateState) -> list[Batch]:
        managed = list(self._managed(state))
        if managed or self._missing_refused(state):
            return [[event] for event in managed]
        due = self._rolled(state)
        return [[event] for event in (*due.sure, *due.leaving, *due.open)]

    def batch(self, state: UpdateState) -> Batch:
        managed = list(self._managed(state))
        if managed or self._missing_refused(state):
            return managed
        due = self._rolled(state)
        return [*due.sure, *due.leaving[: due.spare], *due.open[: due.limit]]

    def _missing_refused(self, state: UpdateState) -> bool:
        """Return True if a node lacks a pod that is refused. Then nothing is updated (syncNodes returns an error)."""
        return not state.room() and any(not state.at(slot) for slot in self.update.runs)

    def _managed(self, state: UpdateState) -> Iterator[UpdateEvent]:
        """Yield the steps apart from updates: exactly one pod on each eligible node."""
        room = state.room()
        for slot in self._slots:
            pods = state.at(slot)
            if not pods:
                if slot in self.update.runs and room > 0:
                    room -= 1
                    yield UpdateEvent("create", self._fresh[slot])
            elif slot not in self.update.keeps:
                yield from (UpdateEvent("delete", k) for k in pods)
            elif len(pods) > 1:
                yield from self._surplus(state, pods)

    def _surplus(self, state: UpdateState, pods: Sequence[int]) -> Iterator[UpdateEvent]:
        """Yield the deletion of surplus pods of a node."""
        ranked = sorted(pods, key=lambda k: (state.where[k] is None, state.members[k].born, k))
        if not self.update.surge:
            yield from (UpdateEvent("delete", k) for k in ranked[1:])
            return
        new = [k for k in ranked if state.members[k].new]
        old = [k for k in ranked if not state.members[k].new]
        yield from (UpdateEvent("delete", k) for k in (*new[1:], *old[1:]))
        if new and old and (state.available(new[0]) or not state.available(old[0])):
            yield UpdateEvent("delete", old[0])

    def _rolled(self, state: UpdateState) -> _DueSteps:
        """Return the steps of a rolling update."""
        if self.update.strategy == "OnDelete":
            return _DueSteps()
        return self._surged(state) if self.update.surge else self._replaced(state)

    def _replaced(self, state: UpdateState) -> _DueSteps:
        """Return the steps if old pods leave first: those that do not serve at once, others up to maxUnavailable."""
        due, unavailable = _DueSteps(), 0
        for slot in self._slots:
            pods = state.at(slot)
            if not pods:
                unavailable += slot in self.update.runs
            elif not state.available(pods[0]):
                unavailable += 1
                if not state.members[pods[0]].new:
                    due.sure.append(UpdateEvent("delete", pods[0]))
            elif not state.members[pods[0]].new:
                due.open.append(UpdateEvent("delete", pods[0]))
        due.limit = self.update.unavailable - unavailable
        return due.limited()

    def _surged(self, state: UpdateState) -> _DueSteps:
        """Return the steps if new pods come first.

        New pods are created up to maxSurge, or if the old one does not serve. Old pods leave when the new one
        serves.
        """
        due, surging, available = _DueSteps(), 0, 0
        for slot in self._slots:
            pods = state.at(slot)
            old = next((k for k in pods if not state.members[k].new), None)
            new = next((k for k in pods if state.members[k].new), None)
            counted = new if old is None else old
            available += counted is not None and state.available(counted)
            if old is None:
                continue
            if new is not None:
                surging += not state.available(new)
            elif slot not in self.update.runs:
                (due.leaving if state.available(old) else due.sure).append(UpdateEvent("delete", old))
            elif not state.available(old):
                due.sure.append(UpdateEvent("create", self._fresh[slot]))
            else:
                due.open.append(UpdateEvent("create", self._fresh[slot]))
        due.limit, due.spare = self.update.surge - surging, available - len(self.update.runs)
        room = state.room()
        going = [event for event in due.sure if event.what == "delete"]
        coming = [event for event in due.sure if event.what == "create"][:room]
        due.sure, due.limit = going + coming, min(due.limit, room - len(coming))
        return due.limited()

    def complete(self, state: UpdateState) -> bool:
        for slot in self._slots:
            pods = state.at(slot)
            if slot not in self.update.runs and pods:
                return False
            if slot in self.update.runs and (len(pods) != 1 or not state.members[pods[0]].new or not state.available(pods[0])):
                return False
        return True

    def refused(self, state: UpdateState) -> int | None:
        if state.room():
            return None
        missing = [slot for slot in sorted(self.update.runs) if not state.at(slot)]
        if not missing and self.update.surge and self.update.strategy != "OnDelete":
            pods = {slot: state.at(slot) for slot in sorted(self.update.runs)}
            twice = [there for there in pods.values() if len(there) > 1]
            spare = self.update.surge > sum(not any(state.available(k) for k in there if state.members[k].new) for there in twice)
            single = [slot for slot, there in pods.items() if len(there) == 1 and not state.members[there[0]].new]
            missing = [slot for slot in single if spare or not state.available(pods[slot][0])]
        return self._fresh[missing[0]] if missing else None

    def blocker(self, state: UpdateState) -> int | None:
        """Return the first pod that waits or does not serve."""
        there = [k for slot in self._slots for k in state.at(slot)]
        waits = [k for k in there if not state.available(k)]
        return waits[0] if waits else None
