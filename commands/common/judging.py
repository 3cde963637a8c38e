"""What the checker says of a result, and why pods wait."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from checker.claims.statement import not_checked
from checker.violation import Violation
from commands.common.exit_codes import fail, refuse
from commands.common.inputs import checked, edit, load_manifests, load_over_time, set_gates_of
from commands.common.options import PolicyChoices, Streams
from commands.common.searching import Run
from models.cluster import unmodelled
from models.documents.capacity import Capacity
from models.documents.placement import Cause, Placement
from models.documents.policy import DEFAULT, Policy
from models.documents.rebalance_plan import RebalancePlan
from models.documents.sizing import Sizing
from models.documents.upgrade import Upgrade
from models.kube.quantity import QuantityError
from models.snapshot.scope import select
from models.snapshot.snapshot import InputError, Snapshot
from report.documents import results
from report.documents.output import counted

if TYPE_CHECKING:
    from checker.journal.judge import Clusters, Judgement
    from live.apply.drift import Rejection
    from models.catalogue.catalogue import Catalogue
    from report.documents.results import Result
    from solver.explain.per_node import PodVerdict


class Judged(NamedTuple):
    """``snapshot``: as the result says that it was edited; ``revision``: the manifests of a rollout; ``violations``: what is wrong;
    ``open``: what is not checked."""

    snapshot: Snapshot
    revision: Snapshot | None
    violations: list[Violation]
    open: list[str]


def read_result(path: str, streams: Streams, purpose: str) -> Result:
    """Read the document of --result; ``purpose``: what happens to it, for messages."""
    return read_with_digest(path, streams, purpose)[0]


def read_with_digest(path: str, streams: Streams, purpose: str) -> tuple[Result, str]:
    """Read the document of --result; return with it the SHA-256 by which its journal knows it."""
    result, digest = checked(lambda: results.read_with_digest(path))
    alone = isinstance(result, RebalancePlan | Upgrade)
    refuse(alone and streams.manifests, f"a{'n' if result.kind == 'Upgrade' else ''} {result.kind} is {purpose} without manifests (-w)")
    return result, digest


def judge(snapshot: Snapshot, result: Result, streams: Streams) -> Judged:
    """Check a result; a plan for another snapshot is not replayed."""
    if isinstance(result, RebalancePlan):
        snapshot = edit(snapshot, streams, result.snapshot.edits).snapshot
        return Judged(snapshot, None, [*_plan_violations(snapshot, result), *_unsaid(snapshot, result)], not_checked(result))
    ref, manifests = result.snapshot, streams.manifests
    if ref.workloads and not manifests:
        fail([f"the result was made with manifests ({ref.workloads[0]}): give the same files with -w"])
    if ref.rollout is None:
        given = edit(snapshot, streams, ref.edits)
        if given.workloads != ref.workloads:
            names = [", ".join(found) or "nothing" for found in (given.workloads, ref.workloads)]
            fail([f"-w adds {names[0]}, the result was made with {names[1]}"])
        if isinstance(result, Placement):
            from checker.placement import check

            found = checked(lambda: check(given.snapshot, result))
            return Judged(given.snapshot, None, [*found.violations, *_unsaid(given.snapshot, result)], not_checked(result, found.unjudged))
        from checker.capacity.document import check_capacity

        told = checked(lambda: check_capacity(snapshot, given.snapshot, result))
        return Judged(given.snapshot, None, [*told.violations, *_unsaid_within(given.snapshot, result)], told.open)
    if not isinstance(result, Placement):
        fail([f"a {result.kind} is of no rollout, and this one says so"])
    from checker.rollout import verify_rollout

    edited = edit(snapshot, replace(streams, manifests=()), ref.edits).snapshot
    revision = load_manifests(manifests, streams, snapshot.gates, ref.edits)
    return Judged(edited, revision, checked(lambda: list(verify_rollout(edited, result, revision))), not_checked(result))


def judge_series(streams: Streams, sizing: Sizing) -> tuple[Judged, Snapshot]:
    """Check a Sizing for several snapshots against these, each path one of them; return with it the one that the document is of, as it was
    read."""
    from checker.capacity.series import check_series, parts

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
        more = f"{len(missing)} of them missing, that of {missing[0]} among them" if missing else ""
        fail([f"the result is of {counted(len(series), 'snapshot')}: {more or f'none of them is of {strange[0]}'}"])
    each = {part.snapshot.capturedAt or "": part for part in parts(sizing)}
    edited = {time: edit(read[time], streams, part.snapshot.edits).snapshot for time, part in each.items()}
    told = checked(lambda: check_series({time: (read[time], found) for time, found in edited.items()}, sizing))
    unsaid = [fault for time, part in each.items() for fault in _unsaid_within(edited[time], part)]
    own = sizing.snapshot.capturedAt or ""
    return Judged(edited[own], None, [*told.violations, *unsaid], told.open), read[own]


def judge_rest(snapshot: Snapshot, left: Placement | RebalancePlan) -> list[Rejection]:
    """Return what is wrong with what is left of a result on the cluster as it is now, without what the result claims: see
    :data:`live.apply.drift.Judge`."""
    from checker.plan.replay import BUDGET
    from live.apply.drift import Rejection

    try:
        set_gates_of(snapshot, left.snapshot)
        if isinstance(left, RebalancePlan):
            from checker.plan.rest import rest_faults as plan_faults

            found = plan_faults(snapshot, left)
        else:
            from checker.placement import rest_faults

            found = rest_faults(snapshot, left)
    except (InputError, QuantityError) as error:
        return [Rejection(f"the cluster cannot be judged: {line}") for line in str(error).splitlines()]
    return [Rejection(_told(fault), fault.pod, fault.node, fault.rule == BUDGET) for fault in found]


def _told(fault: Violation) -> str:
    place = " on ".join(part for part in (fault.pod, fault.node) if part)
    return f"{place}: {fault.rule}: {fault.why}" if place else f"{fault.rule}: {fault.why}"


def judge_run(path: str, clusters: Clusters, result: Placement | RebalancePlan, digest: str) -> Judgement:
    """Check the journal of a run against the document that it carried out. ``digest``: as of :func:`read_with_digest`. If the document is
    of another snapshot, nothing is."""
    from checker.journal.judge import Judgement, judge_gated, judge_journal
    from models.documents import journal

    record = checked(lambda: journal.read(path))
    if result.snapshot.sha256 != clusters.snapshot.sha256:
        return Judgement([], None)
    if isinstance(result, Placement) and result.snapshot.workloads:
        return checked(lambda: judge_gated(record, result, clusters, digest=digest))
    return checked(lambda: judge_journal(record, result, clusters.snapshot, digest=digest, end=clusters.end))


def _unsaid(snapshot: Snapshot, result: Placement | RebalancePlan) -> list[Violation]:
    """What the document should say is not modelled, and does not."""
    ref = result.snapshot
    if ref.sha256 != snapshot.sha256 or (isinstance(result, RebalancePlan) and "admit" not in result.goals):
        return []  # of another snapshot, or pods that wait are none of its business
    scope = select(snapshot, from_scratch=ref.fromScratch, include_gated=ref.includeGated)
    tiers = (result.policy or DEFAULT).networkTiers
    said = {(entry.pod, entry.field, entry.effect) for entry in result.unmodelled}
    found = checked(lambda: list(unmodelled.find(snapshot, (snapshot.pods[i] for i in scope.pending), tiers=tiers)))
    silent = [entry for entry in found if (entry.pod, entry.field, entry.effect) not in said]
    return [Violation(entry.pod, "", result.kind, f"{entry.field} is not modelled, and the document does not say so") for entry in silent]


def _unsaid_within(snapshot: Snapshot, result: Capacity) -> list[Violation]:
    """The same of the placement that a document carries."""
    placement = None if isinstance(result, Upgrade) else result.placement
    return _unsaid(snapshot, placement) if placement is not None else []


def _plan_violations(snapshot: Snapshot, plan: RebalancePlan) -> list[Violation]:
    from checker.plan.plan import verify_plan

    if plan.snapshot.sha256 != snapshot.sha256:
        why = f"the plan is for another snapshot: its sha256 is {plan.snapshot.sha256[:12]}, that of this one {snapshot.sha256[:12]}"
        return [Violation("", "", plan.kind, why)]
    return checked(lambda: list(verify_plan(snapshot, plan, claims=True)))


@dataclass(frozen=True)
class Pending:
    """The pods that wait in a snapshot."""

    run: Run
    snapshot: Snapshot
    policy: Policy
    choices: PolicyChoices

    @property
    def exempt(self) -> tuple[str, ...]:
        """Return the namespaces exempt from hard anti-affinity."""
        return self.choices.daemon_namespaces or self.policy.daemonNamespaces

    def judge(self, **only: Any) -> list[PodVerdict]:
        """Return which nodes take each of them; ``only``: the pod, workload or node to judge."""
        from solver.explain import per_node

        asked = {**only, "include_gated": self.choices.include_gated, "daemon_namespaces": self.exempt, "policy": self.policy}
        return checked(lambda: per_node.explain(self.snapshot, **asked))

    def causes(
        self, verdicts: Sequence[PodVerdict], seconds: float, *, whole: bool = False, catalogue: Catalogue | None = None
    ) -> list[Cause]:
        """Return minimal causes and remedies of what fits nowhere, ``whole`` for all of these pods together. ``catalogue``: nodes that can
        be had."""
        from solver.explain.unplaced import asked, explain_left
        from solver.runtime.options import Options
        from solver.runtime.run_context import RunContext

        left = checked(lambda: asked(self.snapshot, verdicts, whole=whole, tiers=self.policy.networkTiers))

        def work(*, stop: Any, **_: Any) -> list[Cause]:
            options = Options(time_limit=seconds, daemon_namespaces=self.exempt, policy=self.policy, catalogue=catalogue)
            found = explain_left(self.snapshot, left, [], RunContext.start(options, stop))
            return [cause for _, cause in found]

        return self.run.search(work) if left else []
