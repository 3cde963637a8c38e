"""Pod-by-pod updates of StatefulSets and DaemonSets during a change.

Sources: pkg/controller/statefulset/stateful_set_control.go (updateStatefulSet) and pkg/controller/daemon/update.go
(rollingUpdate).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

from kubestow.audit.gate.admission import AdmittedPods, Blame
from kubestow.audit.gate.changes import WorkloadChange
from kubestow.audit.gate.states import ordinal, orphaned, without_pods
from kubestow.models.documents.findings.check import Fit
from kubestow.models.documents.placement import Placement, WorstEnd
from kubestow.models.kube import objects
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.models.workloads import replicas
from kubestow.models.workloads.daemon_sets import target
from kubestow.models.workloads.deployment_rollout import is_ready, scaled
from kubestow.models.workloads.expand import owned
from kubestow.models.workloads.view import view

TOO_LATE: Final = "its rolling update was not judged to its end: the time was up (--time-limit)"


@dataclass
class Rolled:
    """An update that halted or could not be simulated."""

    placed: int
    proved: bool
    cause: str
    blame: tuple[Blame, ...] = ()
    fix: str | None = None


@dataclass
class StepCourse:
    """The result of one order of events.

    Attributes:
        halts: Updates that did not complete, by workload.
        before: The cluster before the placement.
        placement: Placement of the remaining pods.
        settled: Workloads whose pending pods were placed.
        ends: Worst ends of rollouts that complete, by workload.
    """

    halts: dict[str, Rolled] = field(default_factory=dict)
    before: Snapshot = field(default_factory=Snapshot)
    placement: Placement | None = None
    settled: set[str] = field(default_factory=set)
    ends: dict[str, Sequence[WorstEnd]] = field(default_factory=dict)

    @property
    def whole(self) -> bool:
        return not self.halts and (self.placement is None or not self.placement.unplaced)


@dataclass(frozen=True)
class FitVerdict:
    """The result for one workload.

    Attributes:
        change: The workload and its change.
        fit: Result: fits, does not fit or unproved.
        replicas: Desired number of pods.
        placed: Number of placed pods.
        cause: Cause as text.
        blame: The rules of the cause with their messages.
        fix: Proved remedies.
        ends: Worst ends of its rolling update, by constraint.
    """

    change: WorkloadChange
    fit: Fit
    replicas: int
    placed: int
    cause: str | None = None
    blame: tuple[Blame, ...] = ()
    fix: str | None = None
    ends: Sequence[WorstEnd] = ()


class Placer(Protocol):
    """Interface for placing pods during an update; see :class:`kubestow.audit.gate.placing.Placing`."""

    start: Snapshot
    waiting: AdmittedPods

    def over(self) -> bool: ...

    def alone(self, change: WorkloadChange, state: Snapshot) -> bool: ...

    def place(self, state: Snapshot, wanted: Sequence[WorkloadChange], course: StepCourse) -> None: ...

    def after(self, course: StepCourse, *, claimed: bool = False) -> Snapshot: ...

    def unplaced(self, change: WorkloadChange, course: StepCourse) -> FitVerdict: ...

    def with_pod_placed(self, state: Snapshot, pod: objects.Pod) -> Snapshot | None: ...


# --- StatefulSets -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Ordinals:
    """The update of a StatefulSet, one pod at a time from the highest ordinal down."""

    placing: Placer
    change: WorkloadChange

    def after(self, state: Snapshot, course: StepCourse) -> Snapshot:
        """Return the cluster after the update. If the update halts, record it in ``course`` and return the cluster unchanged."""
        found = self._updated(self._scaled_down(state))
        if isinstance(found, Rolled):
            course.halts[self.change.ref] = found
            return state
        return found

    def _updated(self, state: Snapshot) -> Snapshot | Rolled:
        settled = self._settled(state)
        if isinstance(settled, Rolled) or self.change.rests:
            return settled
        state, first = settled, settled
        order = [name for name in self._names(state) if ordinal(name) >= self.change.first_updated]
        for number, name in enumerate(order):
            if self.placing.over():
                return Rolled(number, False, TOO_LATE)
            found = self._placed(without_pods(state, self.change, {name}))
            if isinstance(found, Snapshot):
                state = found
                continue
            proved = number == 0 and found.proved and first is self.placing.start and self.placing.alone(self.change, first)
            text = f"its rolling update comes to a halt at pod {name}, {number} of {len(order)} replaced: {found.cause}"
            return Rolled(number, proved, text if proved else f"{text}; not proved", found.blame, found.fix)
        return state

    def _settled(self, state: Snapshot) -> Snapshot | Rolled:
        """Return the cluster once all pods exist and are ready, as OrderedReady requires, or the halt if one never is."""
        if (self.change.obj.spec.podManagementPolicy or "OrderedReady") == "OrderedReady":
            for pod in sorted(self.placing.waiting.own.get(self.change.ref, ()), key=lambda pod: ordinal(pod.metadata.name or "")):
                if not self._wanted(pod.metadata.name or ""):
                    continue
                occupied = self.placing.with_pod_placed(state, pod)
                if occupied is None:
                    return self._waits(state, pod.metadata.name or "", "no node takes", sure=True)
                state = occupied
            for i in owned(state, self.change.kind, self.change.namespace, self.change.name):
                if not is_ready(state.pods[i]):
                    return self._waits(state, state.pods[i].metadata.name or "", "is not ready on its node", sure=False)
        return state

    def _waits(self, state: Snapshot, name: str, why: str, *, sure: bool) -> Rolled:
        """Return the halt of an update that waits for a pod. Deleting the pod is a remedy if the update then completes."""
        proved = sure and self.placing.alone(self.change, self.placing.start)
        tail = f"OrderedReady updates no pod before all are ready, so {name} keeps its old template until it is deleted"
        cause = f"its update waits for pod {name}, which {why}: {tail}" + ("" if proved else "; not proved")
        again = self._placed(without_pods(state, self.change, {name}))
        return Rolled(0, proved, cause, (), f"delete pod {name}" if isinstance(again, Snapshot) else None)

    def _placed(self, state: Snapshot) -> Snapshot | Rolled:
        """Return the cluster with the missing pods of the set placed, or the reason why this fails."""
        part = StepCourse()
        self.placing.place(state, [self.change], part)
        if part.whole:
            return self.placing.after(part, claimed=True)
        found = self.placing.unplaced(self.change, part)
        return Rolled(0, found.fit == "does not fit", found.cause or "", found.blame, found.fix)

    def _scaled_down(self, state: Snapshot) -> Snapshot:
        surplus = {name for name in self._names(state) if not self._wanted(name)}
        return without_pods(state, self.change, surplus) if surplus else state

    def _wanted(self, name: str) -> bool:
        workload = view(self.change.obj)
        return workload is None or ordinal(name) < self.change.start + replicas.stated_pods(workload)

    def _names(self, state: Snapshot) -> list[str]:
        pods = owned(state, self.change.kind, self.change.namespace, self.change.name)
        return sorted((state.pods[i].metadata.name or "" for i in pods), key=ordinal, reverse=True)


# --- DaemonSets -------------------------------------------------------------------------------------------------------------


def surging(placing: Placer, change: WorkloadChange, state: Snapshot) -> Rolled | None:
    """Return the halt of a DaemonSet update with maxSurge, where a new pod must run next to the old one on its
    node.

    Pods that are not ready are deleted at once. The others stay until the new one on their node is available.
    """
    rolling = change.obj.spec.updateStrategy.rollingUpdate if change.obj.spec.updateStrategy is not None else None
    pods = owned(state, change.kind, change.namespace, change.name)
    surge = scaled(rolling.maxSurge or 0, len(pods), up=True) if rolling is not None else 0
    serving = [i for i in pods if is_ready(state.pods[i])]
    if not surge or not serving or placing.over():
        return None
    untouched = placing.alone(change, state)
    state = replace(state, resource_quotas={})  # checked afterwards, pod by pod
    remaining_state = without_pods(state, change, {state.pods[i].metadata.name or "" for i in pods if i not in serving})
    names = [state.pods[i].metadata.name or "" for i in serving]
    part = StepCourse()
    placing.place(orphaned(remaining_state, change, set(names)), [change], part)
    if part.whole:
        return None
    found = placing.unplaced(change, part)
    stuck = without_a_pod(part)
    first = next((i for i in serving if state.pods[i].spec.nodeName == (stuck[0] if stuck else None)), None)
    if first is None:  # no ready pod on the node: the end state decides
        return None
    alone = StepCourse()
    placing.place(orphaned(remaining_state, change, {state.pods[first].metadata.name or ""}), [change], alone)
    proved = stuck[0] in without_a_pod(alone) and untouched
    done = len(serving) - len(stuck)
    text = f"its rolling update (maxSurge {surge}) sticks on node {stuck[0]}: the new pod does not run next to the old one, which stays"
    fix = "maxUnavailable 1 and maxSurge 0 instead of maxSurge " + str(surge) if _fits_in_place(placing, change, state) else None
    return Rolled(done, proved, f"{text}: {found.cause}" + ("" if proved else "; not proved"), found.blame, fix)


def without_a_pod(course: StepCourse, among: Collection[str] | None = None) -> list[str]:
    """Return the nodes whose DaemonSet pod was not placed. ``among`` restricts the result to these pod keys."""
    if course.placement is None:
        return []
    unplaced = {entry.pod for entry in course.placement.unplaced if among is None or entry.pod in among}
    return sorted(node for pod in course.before.pods if objects.pod_key(pod) in unplaced and (node := target(pod)) is not None)


def _fits_in_place(placing: Placer, change: WorkloadChange, state: Snapshot) -> bool:
    names = {state.pods[i].metadata.name or "" for i in owned(state, change.kind, change.namespace, change.name)}
    part = StepCourse()
    placing.place(without_pods(state, change, names), [change], part)
    return part.whole
