"""Checking of results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from kubestow.checker.capacity.document import check_capacity
from kubestow.checker.claims.statement import not_checked
from kubestow.checker.placement import check
from kubestow.checker.plan.plan import verify_plan
from kubestow.checker.rollout import verify_rollout
from kubestow.checker.violation import Violation
from kubestow.commands.core.reading import Manifests
from kubestow.models.cluster import unmodelled
from kubestow.models.documents.capacity import Capacity
from kubestow.models.documents.placement import Placement
from kubestow.models.documents.policy import DEFAULT
from kubestow.models.documents.rebalance_plan import RebalancePlan
from kubestow.models.documents.upgrade import Upgrade
from kubestow.models.snapshot.scope import select
from kubestow.models.snapshot.snapshot import InputError, Snapshot
from kubestow.report.documents.results import Result


class JudgedResult(NamedTuple):
    """The outcome of a check.

    Attributes:
        snapshot: The snapshot with the result's edits.
        revision: The manifests of a rollout; None without one.
        violations: The violations found.
        open: Claims that the check leaves open, one sentence each.
    """

    snapshot: Snapshot
    revision: Snapshot | None
    violations: list[Violation]
    open: list[str]


def judge(snapshot: Snapshot, result: Result, given: Manifests, earlier: Sequence[Snapshot] = ()) -> JudgedResult:
    """Return the judgement on a result. A plan for another snapshot is not replayed.

    Args:
        snapshot: The snapshot.
        result: The result.
        given: The manifests given with the result.
        earlier: Snapshots that justify a plan's grace period.

    Raises:
        InputError: the manifests differ from those of the result, or the result cannot be checked.
    """
    if isinstance(result, RebalancePlan):
        snapshot = given.edit(snapshot, result.snapshot.edits).snapshot
        violations = [*_plan_violations(snapshot, result, earlier), *_unsaid(snapshot, result)]
        return JudgedResult(snapshot, None, violations, not_checked(result, proved_grace=bool(earlier)))
    ref = result.snapshot
    if ref.workloads and not given.paths:
        raise InputError([f"the result was made with manifests ({ref.workloads[0]}): give the same files with -w"])
    if ref.rollout is None:
        return _judge_edited(snapshot, result, given)
    if not isinstance(result, Placement):
        raise InputError([f"a {result.kind} cannot have a rollout"])
    edited = replace(given, paths=()).edit(snapshot, ref.edits).snapshot
    revision = given.read(snapshot.gates, ref.edits)
    return JudgedResult(edited, revision, list(verify_rollout(edited, result, revision)), not_checked(result))


def _judge_edited(snapshot: Snapshot, result: Placement | Capacity, given: Manifests) -> JudgedResult:
    ref = result.snapshot
    found = given.edit(snapshot, ref.edits)
    if found.workloads != ref.workloads:
        names = [", ".join(listed) or "nothing" for listed in (found.workloads, ref.workloads)]
        raise InputError([f"-w adds {names[0]}, the result was made with {names[1]}"])
    if isinstance(result, Placement):
        verdict = check(found.snapshot, result)
        return JudgedResult(
            found.snapshot, None, [*verdict.violations, *_unsaid(found.snapshot, result)], not_checked(result, verdict.unjudged)
        )
    of_capacity = check_capacity(snapshot, found.snapshot, result)
    return JudgedResult(found.snapshot, None, [*of_capacity.violations, *unsaid_within(found.snapshot, result)], of_capacity.open)


def manifests_misused(result: Result, purpose: str) -> str | None:
    """Return the error for manifests given with a plan or an upgrade; None for other results. ``purpose``: a participle."""
    if not isinstance(result, RebalancePlan | Upgrade):
        return None
    return f"a{'n' if result.kind == 'Upgrade' else ''} {result.kind} is {purpose} without manifests (-w)"


def _unsaid(snapshot: Snapshot, result: Placement | RebalancePlan) -> list[Violation]:
    """Return a violation for each unmodelled field that the document does not list."""
    ref = result.snapshot
    if ref.sha256 != snapshot.sha256 or (isinstance(result, RebalancePlan) and "admit" not in result.goals):
        return []  # another snapshot, or a plan without the goal admit, which ignores pending pods
    scope = select(snapshot, from_scratch=ref.fromScratch, include_gated=ref.includeGated)
    tiers = (result.policy or DEFAULT).networkTiers
    said = {(entry.pod, entry.field, entry.effect) for entry in result.unmodelled}
    found = list(unmodelled.find(snapshot, (snapshot.pods[i] for i in scope.pending), tiers=tiers))
    silent = [entry for entry in found if (entry.pod, entry.field, entry.effect) not in said]
    return [Violation(entry.pod, "", result.kind, f"{entry.field} is not modelled, and the document does not say so") for entry in silent]


def unsaid_within(snapshot: Snapshot, result: Capacity) -> list[Violation]:
    """Return a violation for each unmodelled field that the document's placement does not list."""
    placement = None if isinstance(result, Upgrade) else result.placement
    return _unsaid(snapshot, placement) if placement is not None else []


def _plan_violations(snapshot: Snapshot, plan: RebalancePlan, earlier: Sequence[Snapshot]) -> list[Violation]:
    if plan.snapshot.sha256 != snapshot.sha256:
        why = f"the plan is for another snapshot: its sha256 is {plan.snapshot.sha256[:12]}, that of this one {snapshot.sha256[:12]}"
        return [Violation("", "", plan.kind, why)]
    grace = plan.executionGrace
    known = earlier if earlier or grace is None or not grace.earlier else None
    return list(verify_plan(snapshot, plan, claims=True, earlier=known))
