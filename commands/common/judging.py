"""Checking of results and explanation of pending pods. Bad input ends the command."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from kubestow.checker.violation import Violation
from kubestow.commands.common.exit_codes import fail, refuse
from kubestow.commands.common.inputs import checked, edit, load_manifests, load_over_time
from kubestow.commands.common.options import PolicyChoices, Streams
from kubestow.commands.common.searching import SearchRun
from kubestow.commands.core import judging as core
from kubestow.commands.core import reading
from kubestow.commands.core.reading import set_gates_of
from kubestow.models.documents.placement import Cause, Edits, Placement
from kubestow.models.documents.policy import Policy
from kubestow.models.documents.rebalance_plan import RebalancePlan
from kubestow.models.documents.sizing import Sizing
from kubestow.models.kube.quantity import QuantityError
from kubestow.models.snapshot.snapshot import InputError, Snapshot
from kubestow.models.workloads.expand import Expansion
from kubestow.report.documents import results
from kubestow.report.documents.output import counted

if TYPE_CHECKING:
    from kubestow.checker.journal.judge import Judgement, ReleaseClusters
    from kubestow.live.apply.drift import Rejection
    from kubestow.models.catalogue.catalogue import Catalogue
    from kubestow.report.documents.results import Result
    from kubestow.solver.explain.per_node import PodVerdict


@dataclass(frozen=True)
class _WorkloadManifests:
    """The manifests of -w; reading them prints their warnings."""

    streams: Streams

    @property
    def paths(self) -> Sequence[str]:
        return self.streams.manifests

    def edit(self, snapshot: Snapshot, edits: Edits | None, *, manifests: bool = True) -> Expansion:
        return edit(snapshot, self.streams if manifests else replace(self.streams, manifests=()), edits)

    def revision(self, snapshot: Snapshot, edits: Edits | None) -> Snapshot | None:
        return load_manifests(self.paths, self.streams, snapshot.gates, edits)


def read_result(path: str, streams: Streams, purpose: str) -> Result:
    """Read the document of --result. ``purpose`` is a participle for messages, such as "checked"."""
    return read_with_digest(path, streams, purpose)[0]


def read_with_digest(path: str, streams: Streams, purpose: str) -> tuple[Result, str]:
    """Read the document of --result, and return it with the SHA-256 that its journal records."""
    result, digest = checked(lambda: results.read_with_digest(path))
    misused = core.manifests_misused(result, purpose)
    refuse(misused is not None and streams.manifests, misused or "")
    return result, digest


def judge(snapshot: Snapshot, result: Result, streams: Streams, since: Sequence[str] = ()) -> core.JudgedResult:
    """Return the judgement on a result. End the command if its manifests are missing.

    A plan for another snapshot is not replayed. ``since``: paths of earlier snapshots, for plans with a grace period.
    """
    refuse(since and not isinstance(result, RebalancePlan), f"--since requires a RebalancePlan, not a {result.kind}")
    earlier = checked(lambda: reading.earlier(snapshot, reading.labels(streams.snapshots), since))
    return checked(lambda: core.judge(snapshot, result, _WorkloadManifests(streams), earlier))


def judge_series(streams: Streams, sizing: Sizing) -> tuple[core.JudgedResult, Snapshot]:
    """Return the judgement on a Sizing of several snapshots, one for each path, and the snapshot that it belongs to."""
    from kubestow.checker.capacity.series import check_series, parts

    series = {moment.snapshot.capturedAt or "": moment.snapshot for moment in sizing.series or ()}
    if sizing.snapshot.workloads and not streams.manifests:
        fail([f"the result was made with manifests ({sizing.snapshot.workloads[0]}): give the same files with -w"])
    read = {
        snapshot.capture.time: snapshot
        for _, snapshot in load_over_time(streams, result=sizing.snapshot, of=sizing.policy)
        if snapshot.capture is not None
    }
    missing = [time for time in dict.fromkeys([*series, sizing.snapshot.capturedAt or ""]) if time not in read]
    strange = [time for time in read if time not in series]
    if missing or strange:
        more = f"{len(missing)} missing, among these that of {missing[0]}" if missing else ""
        fail([f"the result is of {counted(len(series), 'snapshot')}: {more or f'none has the time {strange[0]}'}"])
    each = {part.snapshot.capturedAt or "": part for part in parts(sizing)}
    edited = {time: edit(read[time], streams, part.snapshot.edits).snapshot for time, part in each.items()}
    verdict = checked(lambda: check_series({time: (read[time], found) for time, found in edited.items()}, sizing))
    unsaid = [fault for time, part in each.items() for fault in core.unsaid_within(edited[time], part)]
    own = sizing.snapshot.capturedAt or ""
    return core.JudgedResult(edited[own], None, [*verdict.violations, *unsaid], verdict.open), read[own]


def judge_rest(snapshot: Snapshot, remainder: Placement | RebalancePlan) -> list[Rejection]:
    """Return the violations of a result's remaining steps on the current cluster, without checking its claims.

    See :data:`kubestow.live.apply.drift.Judge`.
    """
    from kubestow.checker.plan.replay import BUDGET
    from kubestow.live.apply.drift import Rejection

    try:
        set_gates_of(snapshot, remainder.snapshot)
        if isinstance(remainder, RebalancePlan):
            from kubestow.checker.plan.remaining_steps import rest_faults as plan_faults

            found = plan_faults(snapshot, remainder)
        else:
            from kubestow.checker.placement import rest_faults

            found = rest_faults(snapshot, remainder)
    except (InputError, QuantityError) as error:
        return [Rejection(f"the cluster cannot be judged: {line}") for line in str(error).splitlines()]
    return [Rejection(_told(fault), fault.pod, fault.node, fault.rule == BUDGET) for fault in found]


def _told(fault: Violation) -> str:
    place = " on ".join(part for part in (fault.pod, fault.node) if part)
    return f"{place}: {fault.rule}: {fault.why}" if place else f"{fault.rule}: {fault.why}"


def judge_run(path: str, clusters: ReleaseClusters, result: Placement | RebalancePlan, digest: str) -> Judgement:
    """Check the journal of a run against its document. If the document is of another snapshot, check nothing.

    ``digest``: as returned by :func:`read_with_digest`.
    """
    from kubestow.checker.journal.judge import Judgement, judge_gated, judge_journal
    from kubestow.models.documents import journal

    record = checked(lambda: journal.read(path))
    if result.snapshot.sha256 != clusters.snapshot.sha256:
        return Judgement([], None)
    if isinstance(result, Placement) and result.snapshot.workloads:
        return checked(lambda: judge_gated(record, result, clusters, digest=digest))
    return checked(lambda: judge_journal(record, result, clusters.snapshot, digest=digest, end=clusters.end))


@dataclass(frozen=True)
class Pending:
    """The pending pods of a snapshot."""

    run: SearchRun
    snapshot: Snapshot
    policy: Policy
    choices: PolicyChoices

    def judge(self, **only: Any) -> list[PodVerdict]:
        """Return the accepting nodes of each pod. ``only`` restricts the pod, workload or node."""
        return checked(lambda: self._waiting.judge(**only))

    def causes(
        self, verdicts: Sequence[PodVerdict], seconds: float, *, whole: bool = False, catalogue: Catalogue | None = None
    ) -> list[Cause]:
        """Return minimal causes and remedies of pods that fit nowhere.

        ``whole``: explain all pods together. ``catalogue``: shapes that remedies may buy.
        """
        questions = checked(lambda: self._waiting.questions(verdicts, whole=whole))

        def work(*, stop: Any, **_: Any) -> list[Cause]:
            return self._waiting.causes(questions, seconds, catalogue, stop)

        return self.run.search(work) if questions else []

    @property
    def _waiting(self) -> core.WaitingPods:
        return core.WaitingPods(self.snapshot, self.policy, self.choices.include_gated, self.choices.daemon_namespaces)
