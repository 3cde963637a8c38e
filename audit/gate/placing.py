"""Placement of the pods of manifests: rollouts one after another, then all other pods together."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Final

import msgspec

from kubestow.audit.gate.admission import AdmittedPods, QuotaClusters, rejected, remaining
from kubestow.audit.gate.changes import WorkloadChange, placeable
from kubestow.audit.gate.states import bound, mounted, without
from kubestow.audit.gate.stepping import TOO_LATE, FitVerdict, Ordinals, Rolled, StepCourse, surging, without_a_pod
from kubestow.audit.gate.updates import followed
from kubestow.audit.view.finding import some
from kubestow.audit.view.usable_nodes import INDIFFERENT
from kubestow.models.cluster.storage.attachments import split_volumes
from kubestow.models.cluster.storage.never_bound import never_bound
from kubestow.models.devices.shared_gpus import adapter
from kubestow.models.documents.findings.check import Fit
from kubestow.models.documents.placement import Placement, Unmodelled
from kubestow.models.edits.edits import shrink
from kubestow.models.gangs import unreadable
from kubestow.models.kube import objects
from kubestow.models.kube.pod_spec import required_terms
from kubestow.models.snapshot.snapshot import InputError, Snapshot
from kubestow.models.workloads import replicas
from kubestow.models.workloads.deployment_rollout import ranked_alike
from kubestow.models.workloads.expand import expand, owned
from kubestow.models.workloads.rollout_input import read
from kubestow.models.workloads.view import view
from kubestow.solver.rollout.quota_flow import halts
from kubestow.solver.rollout.simulate import OVERTAKEN, problem_of, roll_out
from kubestow.solver.runtime.options import OnProgress, Options
from kubestow.solver.solve import place

#: Fraction of the remaining time for one search.
_SEARCH_TIME_FRACTION: Final = 0.5
_NO_ORDER: Final = (
    "an end state exists in which everything is placed, but no order of rollouts and new pods was found that reaches it without "
    "them blocking each other"
)
#: Start of the node affinity term that binds each pod of a DaemonSet to its node.
_OWN_NODE: Final = "metadata.name In"
_OPEN_ORDER: Final = ": the controller ranks some old pods equally and may delete them in another order"


@dataclass
class PlacingOutcome:
    """The result of placing.

    Attributes:
        verdicts: Results per workload.
        after: The cluster with all placed pods running.
        newcomers: Keys of the pods that this run placed.
    """

    verdicts: list[FitVerdict]
    after: Snapshot
    newcomers: frozenset[str]
    unmodelled: list[Unmodelled]
    notes: list[str]
    warnings: list[str]


@dataclass
class Placing:
    """The placement of the pods of manifests.

    Attributes:
        start: The cluster with the manifests' objects, without pending pods.
        manifests: The manifests with replicas filled in.
        changes: Their workloads.
        options: Search options.
        until: Deadline for searches on the monotonic clock, in seconds.
            waiting: Pending pods, which ``start`` lacks.
        newcomers: Keys of the pods that this run placed.
        unmodelled: Features of the input that are not modelled.
        notes: Notes for the document.
        warnings: Warnings about the input.
    """

    start: Snapshot
    manifests: Snapshot
    changes: Sequence[WorkloadChange]
    options: Options
    until: float
    stop: threading.Event
    on_progress: OnProgress | None = None
    waiting: AdmittedPods = field(default_factory=lambda: AdmittedPods({}, []))
    newcomers: set[str] = field(default_factory=set)
    unmodelled: list[Unmodelled] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def run(self) -> PlacingOutcome:
        """Return the verdicts on all workloads and the resulting cluster.

        Raises:
            InputError: An API server would reject the manifests, or quantities cannot be summed.
        """
        good = [change for change in self.changes if not change.refused]
        self.notes += [f"{change.ref} keeps its pods: {change.rests}" for change in good if change.rests]
        rolling = [change for change in good if change.rolls]
        course = self._rollouts_first(good, rolling)
        end = None
        if not course.whole and any(change.renews for change in good) and not self.over():
            end = self._end_state(good)
            if end.whole and rolling and not any(halt.proved for halt in course.halts.values()):
                other = self._newcomers_first(good, rolling)
                course = other if other.whole else course
        after = self.after(course)
        clusters = QuotaClusters(self.start, after, self.changes, self.options)
        verdicts = [self._followed(_halted(self._verdict(change, course, end), clusters)) for change in self.changes]
        self.notes += [*clusters.notes(), *self._split(after)]
        newcomers = frozenset(self.newcomers)
        return PlacingOutcome(verdicts, after, newcomers, self.unmodelled, self.notes, list(dict.fromkeys(self.warnings)))

    def _followed(self, verdict: FitVerdict) -> FitVerdict:
        """Return the verdict on an update, simulated step by step if no other workload changes."""
        change = verdict.change
        if any(each is not change and not each.refused and each.action != "unchanged" for each in self.changes) or self.over():
            return verdict
        state = self.waiting.at_start_of(self.start, change, set())
        return followed(verdict, state, lambda state, name: roll_out(state, name, None, self._limited(), stop=self.stop))

    # --- orders of events -------------------------------------------------------------------------------------------------

    def _rollouts_first(self, good: Sequence[WorkloadChange], rolling: Sequence[WorkloadChange]) -> StepCourse:
        course = StepCourse()
        state = self._step(self._roll(self.start, rolling, course), good, course)
        state = without(state, [change for change in good if change.replaces and change.ref not in course.halts])
        explain = not any(change.renews for change in good)  # otherwise the end state explains
        self.place(state, [change for change in good if change.ref not in course.halts], course, causes=explain)
        return course

    def _newcomers_first(self, good: Sequence[WorkloadChange], rolling: Sequence[WorkloadChange]) -> StepCourse:
        """Place new pods next to those that rollouts will replace, then run the rollouts."""
        course = StepCourse()
        state = without(self.start, [change for change in good if change.replaces])
        self.place(state, [change for change in good if not change.rolls and not change.steps], course, causes=False)
        if course.whole:
            course.settled.update(change.ref for change in good if not change.rolls and not change.steps)
            course.before = self._step(self._roll(self.after(course), rolling, course), good, course)
            course.placement = None
        return course

    def _end_state(self, good: Sequence[WorkloadChange]) -> StepCourse:
        """Place all new pods next to the unchanged pods. A pod without room there has none in any order of events."""
        course = StepCourse()
        self.place(without(self.start, [change for change in good if change.renews]), good, course)
        return course

    # --- steps ------------------------------------------------------------------------------------------------------------

    def _limited(self) -> Options:
        """Return the options of one search: find any valid place, without preferences, and ignore scheduling gates."""
        policy = msgspec.structs.replace(
            self.options.policy, multipliers=INDIFFERENT, strategy="none", refuseAllNamespacesAntiAffinity=False, antiAffinityUsers=()
        )  # the audit reports violations of the policy
        options = replace(self.options, policy=policy, include_gated=True)
        if options.time_limit is None or options.deterministic:
            return options
        return replace(options, time_limit=max(0.5, (self.until - time.monotonic()) * _SEARCH_TIME_FRACTION))

    def over(self) -> bool:
        """Return True if no further search may start."""
        late = not self.options.deterministic and self.options.time_limit is not None and time.monotonic() > self.until
        return late or self.stop.is_set()

    def _roll(self, state: Snapshot, rolling: Sequence[WorkloadChange], course: StepCourse) -> Snapshot:
        """Return the cluster after the rollouts that complete. Record these in ``course.settled``, the others in ``course.halts``."""
        for change in rolling:
            if self.over():
                course.halts[change.ref] = Rolled(0, False, TOO_LATE)
                continue
            name = f"Deployment/{change.namespace}/{change.name}"
            try:
                begun = self.waiting.at_start_of(state, change, course.settled)
                placement = roll_out(begun, name, None, self._limited(), on_progress=self.on_progress, stop=self.stop)
            except InputError as error:
                course.halts[change.ref] = Rolled(0, True, "; ".join(error.problems))
                continue
            self._note(placement)
            rollout = placement.rollout
            assert rollout is not None
            if rollout.complete and OVERTAKEN in placement.notes:
                course.halts[change.ref] = Rolled(0, False, OVERTAKEN)
                continue
            if rollout.complete:
                state = replace(self._rolled(begun, name, placement), left_out=state.left_out)
                course.settled.add(change.ref)
                course.ends[change.ref] = rollout.worstEnds
                continue
            text, reasons = rejected(rollout)
            halted = f"its rollout comes to a halt with {len(placement.assignments)} of {rollout.replicas} new pods placed"
            open_order = self._order_matters(placement, begun, name)
            proved = rollout.proved and not open_order and (self.alone(change, state) or self._halts_anyway(change))
            course.halts[change.ref] = Rolled(
                len(placement.assignments),
                proved,
                f"{halted} (maxSurge {rollout.maxSurge}, maxUnavailable {rollout.maxUnavailable})"
                + (f": {text}" if text else "")
                + ("" if proved else "; not proved" + _OPEN_ORDER * open_order),
                tuple((reason.rule, reason.message) for reason in reasons),
                "; or ".join(way.message for way in rollout.waysOut) or None,
            )
        return state

    def _others(self, change: WorkloadChange) -> list[WorkloadChange]:
        """Return the other workloads that lose pods, whose old and new places may affect this one."""
        return [each for each in self.changes if each is not change and not each.refused and (each.renews or each.action == "scaled")]

    def alone(self, change: WorkloadChange, state: Snapshot) -> bool:
        """Return True if no other change affects a result for this workload in the given state."""
        return state is self.start and not self._others(change)

    def _halts_anyway(self, change: WorkloadChange) -> bool:
        """Return True if a rollout provably halts even without the pods of other changing workloads, apart from
        their minimum quota usage.

        This proves the halt for every order of the changes, provided that pods of others can only obstruct.
        """
        workload = view(change.obj)
        hard = any(c.whenUnsatisfiable == "DoNotSchedule" for c in (workload.spec.topologySpreadConstraints if workload else None) or ())
        if workload is None or hard or required_terms(objects.Pod(objects.ObjectMeta(), workload.spec), "podAffinity"):
            return False
        try:
            others = self._others(change)
            freest = self.waiting.at_start_of(without(self.start, others), change, {other.ref for other in self.changes})
            freest.left_out += [pod for other in others for pod in remaining(other, self.start, self.options)]
            placement = roll_out(
                freest, f"Deployment/{change.namespace}/{change.name}", None, self._limited(), on_progress=self.on_progress, stop=self.stop
            )
        except InputError:
            return False
        halted = placement.rollout is not None and not placement.rollout.complete and placement.rollout.proved
        return halted and not self._order_matters(placement, freest, f"Deployment/{change.namespace}/{change.name}")

    def _order_matters(self, found: Placement, state: Snapshot, name: str) -> bool:
        """Return True if a halted rollout may continue when old pods go in another order, which the controller leaves open."""
        assert found.rollout is not None
        goes_on = any(wave.delete for wave in found.rollout.waves) or any(tier.bound for tier in found.objective if tier.tier == "placed")
        if not goes_on or not ranked_alike(read(state, name, None).old):
            return False
        problem = problem_of(read(state, name, None), self._limited())
        return not (problem.admission.uniform and halts(problem.admission, problem.pace, problem.old))

    def _step(self, state: Snapshot, good: Sequence[WorkloadChange], course: StepCourse) -> Snapshot:
        """Return the cluster after the pod-by-pod updates of StatefulSets. Record DaemonSet updates that get stuck."""
        for change in good:
            if change.steps or (change.kind == "StatefulSet" and change.rests):
                state = Ordinals(self, change).after(state, course)
            halt = surging(self, change, state) if change.kind == "DaemonSet" and change.replaces else None
            if halt is not None:
                course.halts[change.ref] = halt
        return state

    def with_pod_placed(self, state: Snapshot, pod: objects.Pod) -> Snapshot | None:
        """Return the cluster with a pending pod placed on a node. None if no node takes it."""
        placement = place(replace(state, pods=[*state.pods, pod]), self._limited(), stop=self.stop)
        at = next((entry.node for entry in placement.assignments if entry.pod == objects.pod_key(pod)), None)
        return None if at is None else replace(state, pods=[*state.pods, bound(pod, at)])

    def _rolled(self, state: Snapshot, name: str, found: Placement) -> Snapshot:
        revision = read(state, name, None)
        gone = {*(entry.index for entry in revision.old), *revision.going}
        at = {entry.pod: entry.node for entry in found.assignments}
        pods = [pod for i, pod in enumerate(revision.snapshot.pods) if i not in gone]
        self.newcomers.update(at)
        return replace(revision.snapshot, pods=pods + [bound(pod, at[objects.pod_key(pod)]) for pod in revision.new])

    def place(self, state: Snapshot, wanted: Sequence[WorkloadChange], course: StepCourse, *, causes: bool = True) -> None:
        """Place the missing pods of the given workloads. With ``causes``, explain unplaced pods."""
        names = {change.ref for change in wanted}
        manifests = placeable(self.manifests, [change for change in self.changes if change.ref not in names])
        expansion = expand(state, manifests)
        course.before = expansion.snapshot
        if course.before.shared_gpus != "none":
            adapter.apply(course.before, course.before.shared_gpus)
        for change in wanted:
            workload = view(change.obj) if change.kind not in ("Pod", "DaemonSet") else None
            if workload is not None and workload.job is None:
                shrink(course.before, (change.kind, change.namespace, change.name), replicas.stated_pods(workload))
        self.warnings += expansion.snapshot.warnings[len(state.warnings) :]
        options = replace(self._limited(), workloads=tuple(expansion.workloads), unmodelled=tuple(expansion.unmodelled), causes=causes)
        judged = course.before.copy()
        self.notes += [text for text in unreadable.set_aside(judged) if text not in self.notes]
        course.placement = place(judged, options, on_progress=self.on_progress, stop=self.stop)
        self._note(course.placement)

    def _note(self, found: Placement) -> None:
        self.unmodelled += [entry for entry in found.unmodelled if entry not in self.unmodelled]
        self.notes += [note for note in found.notes if note not in self.notes and "NUMA" in note]

    def after(self, course: StepCourse, *, claimed: bool = False) -> Snapshot:
        """Return the cluster with the pods of a course running. With ``claimed``, treat unbound claims as bound where their pods are."""
        at = {entry.pod: entry.node for entry in course.placement.assignments} if course.placement is not None else {}
        self.newcomers.update(at)
        before = course.before
        pods = [
            bound(pod, at[key]) if (key := objects.pod_key(pod)) in at and (claimed or mounted(pod, before)) else pod for pod in before.pods
        ]
        return replace(before, pods=pods)

    def _split(self, after: Snapshot) -> list[str]:
        """Return a note for each single-node volume whose pods end up on several nodes."""
        pods = {objects.pod_key(pod): i for i, pod in enumerate(after.pods)}
        return split_volumes(after, pods.values(), {i for key, i in pods.items() if key in self.newcomers})

    # --- verdicts ---------------------------------------------------------------------------------------------------------

    def _verdict(self, change: WorkloadChange, course: StepCourse, end: StepCourse | None) -> FitVerdict:
        """Return the verdict on a workload. ``end``: all new pods next to unchanged ones, to explain a failure; None if not computed."""
        if change.refused:
            return FitVerdict(change, "does not fit", _asked(change, ()), 0, "; ".join(change.refused), (("", change.refused[0]),))
        halt = course.halts.get(change.ref)
        if halt is not None:
            fit: Fit = "does not fit" if halt.proved else "unproved"
            verdict = FitVerdict(change, fit, _asked(change, _pods(course.before, change)), halt.placed, halt.cause, halt.blame, halt.fix)
        else:
            verdict = self.unplaced(change, course)
        if end is None or verdict.fit == "fits" or (halt is not None and halt.proved):
            return verdict
        if end.whole:
            return verdict if halt is not None else replace(verdict, fit="unproved", cause=_NO_ORDER, blame=(), fix=None)
        last = self.unplaced(change, end)
        if last.fit != "fits":
            return last
        return replace(verdict, fit="does not fit" if halt is None and _most(end.placement) else "unproved")

    def unplaced(self, change: WorkloadChange, course: StepCourse) -> FitVerdict:
        """Return the verdict on a workload from the placement of a course."""
        pods, placement = _pods(course.before, change), course.placement
        desired = _asked(change, pods)
        unplaced = {entry.pod: entry for entry in placement.unplaced} if placement is not None else {}
        waiting = [key for key in pods if key in unplaced]
        if not waiting or placement is None:
            return replace(_started(change, course.before, set(pods), desired), ends=course.ends.get(change.ref, []))
        mine, placed = set(waiting), max(0, desired - len(waiting))
        cause = next((cause for cause in placement.causes if mine.intersection(cause.pods)), None)
        fit: Fit = "does not fit" if _most(placement) or (cause is not None and cause.alone and cause.proved) else "unproved"
        if cause is not None and cause.facts:
            facts, ways, nodes = cause.facts, [way.message for way in cause.waysOut], ""
            if change.kind == "DaemonSet":  # that each pod belongs to one node explains nothing
                facts = [fact for fact in facts if _OWN_NODE not in fact.message] or facts
                ways = [way for way in ways if _OWN_NODE not in way]
                nodes = f"without a pod: {some([f'node {name}' for name in without_a_pod(course, mine)])}: "
            text, blame = nodes + "; ".join(fact.message for fact in facts), tuple((fact.rule, fact.message) for fact in facts)
            return FitVerdict(change, fit, desired, placed, text, blame, "; or ".join(ways) or None)
        reasons = unplaced[waiting[0]].reasons
        text = "; ".join(f"{r.rule} on {r.nodes} node{'s' * (r.nodes != 1)}: {r.message}" for r in reasons) or "no place was found for it"
        text = text if fit != "unproved" else f"{text}; not proved: the time was up (--time-limit)"
        return FitVerdict(change, fit, desired, placed, text, tuple((reason.rule, reason.message) for reason in reasons))


def _started(change: WorkloadChange, state: Snapshot, pods: Set[str], desired: int) -> FitVerdict:
    """Return the verdict on pods that all have a node. Pods with ``nodeName`` may wait for a claim that is never bound."""
    waiting = never_bound(state)
    mine = {key: claims for i, claims in waiting.items() if (key := objects.pod_key(state.pods[i])) in pods}
    if not mine:
        return FitVerdict(change, "fits", desired, desired)
    claims = list(dict.fromkeys(key for keys in mine.values() for key in keys))
    why = f"nobody binds claim {some(claims)}: kube-scheduler does not see pods that name their node"
    fix = "select the node by nodeSelector or node affinity instead of nodeName"
    return FitVerdict(
        change, "does not fit", desired, desired - len(mine), f"{some(list(mine))} never starts: {why}", (("VolumeBinding", why),), fix
    )


def _halted(found: FitVerdict, clusters: QuotaClusters) -> FitVerdict:
    """Return the verdict on an update, including a halt by quotas if its pods fit in the end state."""
    halt = clusters.halt(found.change) if found.fit == "fits" else None
    if halt is None:
        return found
    return FitVerdict(
        found.change, "does not fit" if halt.proved else "unproved", found.replicas, halt.placed, halt.cause, halt.blame, halt.fix
    )


def _most(placement: Placement | None) -> bool:
    """Return True if the number of placed pods is proved to be maximal."""
    return placement is not None and all(tier.value == tier.bound for tier in placement.objective if tier.tier == "placed")


def _asked(change: WorkloadChange, pods: Sequence[str]) -> int:
    """Return the desired number of pods. For DaemonSets and Jobs, return the current number."""
    workload = view(change.obj) if change.kind != "Pod" else None
    if workload is None:
        return 1 if change.kind == "Pod" else 0
    return len(pods) if workload.kind == "DaemonSet" or workload.job is not None else replicas.stated_pods(workload)


def _pods(snapshot: Snapshot, change: WorkloadChange) -> list[str]:
    if change.kind == "Pod":
        return [f"{change.namespace}/{change.name}"]
    return [objects.pod_key(snapshot.pods[i]) for i in owned(snapshot, change.kind, change.namespace, change.name)]
