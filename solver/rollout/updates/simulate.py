"""``solve --rollout`` of a StatefulSet or a DaemonSet: the update pod by pod, or the reason for a halt and its remedies."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Literal

from kubestow.models.cluster import unmodelled
from kubestow.models.documents import placement as doc
from kubestow.models.documents.policy import DEFAULT
from kubestow.models.kube.objects import pod_key
from kubestow.models.snapshot.scope import Scope, select
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.models.workloads.updates.update_input import MAX_UNAVAILABLE, read_update
from kubestow.solver import rules
from kubestow.solver.devices.result import devices
from kubestow.solver.explain.undecided import is_undecided
from kubestow.solver.refused_pods import refuse_domain_blocking
from kubestow.solver.rollout.updates import sentences
from kubestow.solver.rollout.updates.remedies import UpdateRemedies
from kubestow.solver.rollout.updates.search import UpdateCourse, UpdateSearch
from kubestow.solver.rollout.updates.state import UpdateEvent, UpdateProblem, UpdateState
from kubestow.solver.rollout.verified_result import verified
from kubestow.solver.runtime.deadline import Deadline
from kubestow.solver.runtime.options import OnProgress, Options
from kubestow.solver.runtime.progress_trace import ProgressReporter
from kubestow.solver.runtime.run_context import RunContext

#: Fraction of the time limit for the search; the rest is for remedies and the check.
SEARCH_TIME_FRACTION = 0.6


def roll_update(
    snapshot: Snapshot,
    name: tuple[str, Literal["StatefulSet", "DaemonSet"], str],
    manifests: Snapshot | None,
    options: Options,
    *,
    on_progress: OnProgress | None = None,
    stop: threading.Event | None = None,
    began: float | None = None,
) -> doc.Placement:
    """Update a StatefulSet or a DaemonSet.

    Args:
        snapshot: The cluster.
        name: The name as given, the kind, and ``[NAMESPACE/]NAME``.
        manifests: The manifests with the new template; None if it is unchanged, and all pods are replaced.
        options: Options of the search.
        on_progress: Called with progress.
        stop: Ends the search when it is set.
        began: Time at which the run began, on the monotonic clock.

    Raises:
        InputError: There is no such workload, or several, or its strategy cannot be read.
        InternalFault: The independent checker found the result invalid.
    """
    started = time.monotonic()
    report = ProgressReporter(on_progress, started)
    report("compile")
    update = read_update(snapshot, name[1], name[2], manifests, options.edits)
    problem = UpdateProblem.of(update, options.exempt, options.policy)
    refuse_domain_blocking(update.snapshot, Scope(pending=[member.index for member in update.new]), options.policy)
    clock = started if began is None else began
    limit = options.time_limit
    context = RunContext(options, Deadline(options, clock), stop or threading.Event(), report)
    searching = Deadline(replace(options, time_limit=limit and limit * SEARCH_TIME_FRACTION), clock)
    search = UpdateSearch(problem, context.until(searching))
    report("search", detail=f"{len(update.new)} new pods in place of {sum(m.there for m in update.members)}")
    course = search.run()
    course = _without_doubtful_proof(search, course)
    remedies: list[doc.Remedy] = []
    if not course.complete:
        report("search", detail="remedies")
        remedies = UpdateRemedies(search, context).find()
    solved = time.monotonic()
    result = _UpdateDocument(snapshot, name[0], search, course).placement(options)
    return verified(result, remedies, snapshot, manifests, context, started=started, solved=solved)


def _without_doubtful_proof(search: UpdateSearch, course: UpdateCourse) -> UpdateCourse:
    """Return the course without a proof if a pod may become ready on its own, or volumes are undecided."""
    if course.complete or not course.proved:
        return course
    update, state = search.problem.update, search.state
    k = search.controller.blocker(state)
    waits = update.kind == "StatefulSet" and update.strategy != "OnDelete" and search.controller.refused(state) is None
    ailing = k is not None and waits and state.where[k] is not None and state.members[k].node is not None
    if ailing or is_undecided(update.snapshot, [member.index for member in update.members if member.node is None]):
        return replace(course, proved=False, bound=len(update.new))
    return course


class _UpdateDocument:
    """The document of a course. The state of ``search`` is at its end."""

    def __init__(self, snapshot: Snapshot, name: str, search: UpdateSearch, course: UpdateCourse) -> None:
        self.snapshot, self.name, self.search, self.course = snapshot, name, search, course
        self.update, self.state = search.problem.update, search.state
        self.assignments: list[doc.Assignment] = []
        self.waves = list(self._waves(self._replayed()))

    def _replayed(self) -> list[tuple[UpdateEvent, list[doc.DeviceResult]]]:
        """Return the steps of the course, each with the devices that its pod gets."""
        events = self.course.events
        if self.state.cluster.devices is None:
            return [(event, []) for event in events]
        state, steps = UpdateState(self.search.problem), []
        faces = [rules.plan_face(rule) for rule in state.rules]
        assert state.cluster.devices is not None
        for event in events:
            state.apply(event)
            got: list[doc.DeviceResult] = []
            taken = (face.picks(state.kind(event.member), event.node) for face in faces) if event.what == "bind" else ()
            for picks in taken:
                if picks is not None:
                    got = devices(state.cluster.devices, state.members[event.member].index, picks)
            steps.append((event, got))
        return steps

    def _waves(self, events: Sequence[tuple[UpdateEvent, list[doc.DeviceResult]]]) -> Iterator[doc.Wave]:
        """Yield the waves: a wave ends with deleted pods, or with the course. Add each binding to ``assignments``.

        Args:
            events: The steps, each with the devices that its pod gets.
        """
        members, names, number = self.update.members, self.state.cluster.nodes.names, 1
        waiting = {k: None for k, member in enumerate(members) if member.there and member.node is None}
        create, gone, waits = list[doc.RolloutPod](), list[str](), list[str]()
        for event, got in events:
            k, member = event.member, members[event.member]
            if gone and event.what != "delete":
                yield doc.Wave(number, create, waits, gone)
                number, create, gone = number + 1, [], []
            if event.what == "create":
                waiting[k] = None
            elif event.what == "bind":
                waiting.pop(k, None)
                order = len(self.assignments) + 1
                create.append(doc.RolloutPod(member.key, names[event.node], order, got, not member.new))
                self.assignments.append(doc.Assignment(member.key, names[event.node], order, devices=got))
            else:
                if not gone:
                    waits = [members[each].key for each in waiting]
                waiting.pop(k, None)
                gone.append(member.key)
            if not gone:
                waits = [members[each].key for each in waiting]
        if events:
            yield doc.Wave(number, create, waits, gone)

    def placement(self, options: Options) -> doc.Placement:
        """Return the document."""
        update, course = self.update, self.course
        new = update.new
        status: doc.Status = "optimal" if course.complete else "feasible"
        bound = course.placed if course.complete else max(course.placed, course.bound)
        if new and not self.assignments and bound == 0 and course.proved:
            status = "infeasible"
        priority = (update.snapshot.pods[new[0].index].spec.priority or 0) if new else 0
        return doc.Placement(
            snapshot=doc.SnapshotRef(
                self.snapshot.sha256, len(self.snapshot.nodes), len(self.snapshot.pods), len(new),
                daemonNamespaces=list(options.exempt), edits=options.edits, rollout=self.name,
                kubernetesVersion=self.snapshot.gates.version, featureGates=dict(self.snapshot.gates.given),
            ),
            engine="exact",
            status=status,
            objective=[doc.TierResult("placed", course.placed, bound, priority)] if new else [],
            assignments=self.assignments,
            unplaced=[] if course.complete else self._unplaced(),
            rollout=self._rollout(),
            unmodelled=[
                *unmodelled.find(update.snapshot, (update.snapshot.pods[m.index] for m in new), tiers=options.policy.networkTiers),
                *update.unmodelled,
                *self._not_read(),
            ],
            policy=options.policy if options.policy != DEFAULT else None,
            notes=self._notes(),
        )  # fmt: skip

    def _rollout(self) -> doc.Rollout:
        update, course, state, controller = self.update, self.course, self.state, self.search.controller
        refused = None if course.complete else controller.refused(state)
        refusal = state.refusal(refused) if refused is not None else None
        stateful = update.kind == "StatefulSet"
        return doc.Rollout(
            workload=f"{update.kind} {update.workload}",
            strategy=update.strategy,
            replicas=update.replicas,
            maxSurge=update.surge,
            maxUnavailable=update.unavailable,
            complete=course.complete,
            proved=course.proved,
            waves=self.waves,
            stuck=[] if course.complete else self._stuck(),
            refused=doc.Reason(refusal[0], 0, f"cannot be created: {refusal[1]}") if refusal is not None else None,
            halted=None if course.complete else sentences.halted(state, controller),
            withoutPod=[] if course.complete else sentences.without_pod(state),
            partition=update.partition if stateful else None,
            podManagementPolicy=("Parallel" if update.parallel else "OrderedReady") if stateful else None,
        )

    def _stuck(self) -> list[doc.Unplaced]:
        state, members = self.state, self.update.members
        unattached = [k for k in state.where if members[k].node is None and state.lacking(k)]
        tail = "it can be attached to only one node (ReadWriteOnce)"
        unplaced = [
            doc.Unplaced(
                members[k].key,
                [doc.Reason("MultiAttach", 1, f"volume {volume} is attached to node {node}: {tail}") for volume, node in state.lacking(k)],
            )
            for k in sorted(unattached)
        ]
        return unplaced + [doc.Unplaced(members[k].key, sentences.reasons(state, k)) for k in state.waiting()]

    def _unplaced(self) -> list[doc.Unplaced]:
        """Return the new pods without a node: those that wait, and those that were never created."""
        state, unplaced = self.state, []
        stopped = self.search.context.stop.is_set()
        why = "not created before the search was stopped" if stopped else "never created: the update comes to a halt before"
        for k, member in enumerate(self.update.members):
            if member.there or not member.new or state.where.get(k) is not None:
                continue
            waits = k in state.where
            reasons = sentences.reasons(state, k) if waits else [doc.Reason(self.update.kind, 0, why)]
            unplaced.append(doc.Unplaced(member.key, reasons))
        return unplaced

    def _not_read(self) -> list[doc.Unmodelled]:
        """Return maxUnavailable of a StatefulSet if its feature gate is off."""
        strategy = self.update.obj.spec.updateStrategy
        rolling = strategy.rollingUpdate if strategy is not None else None
        if self.update.kind != "StatefulSet" or self.update.counts or rolling is None or rolling.maxUnavailable in (None, 1):
            return []
        effect = f"taken as 1: the feature gate {MAX_UNAVAILABLE} is off"
        return [doc.Unmodelled(f"StatefulSet/{self.update.workload}", "spec.updateStrategy.rollingUpdate.maxUnavailable", effect)]

    def _notes(self) -> list[str]:
        update, notes = self.update, []
        mine = {member.index for member in update.members}
        others = [i for i in select(update.snapshot, include_gated=True).pending if i not in mine]
        if others:
            named = ", ".join(pod_key(update.snapshot.pods[i]) for i in others[:3]) + (", ..." if len(others) > 3 else "")
            notes.append(f"other pending pods are left out of the rollout: {len(others)} ({named})")
        if update.going:
            notes.append(f"pods of the {update.kind} that are being deleted, or whose node is gone, are taken as gone: {len(update.going)}")
        if update.partition:
            notes.append(f"partition {update.partition} keeps {update.partition} of {update.replicas} pods at their revision")
        if self.search.zones_held():
            notes.append("the NUMA zones of old pods count as taken after the pods have gone, because the released zones are unknown")
        if self.search.problem.policy.quotaCharge != "requests" and update.snapshot.resource_quotas:
            notes.append("quotas count the requests of new pods, not opportunity cost")
        if any(update.snapshot.pods[member.index].spec.schedulingGates for member in update.new[:1]):
            notes.append("the template's scheduling gates are taken as lifted")
        return notes
