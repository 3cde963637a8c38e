"""What the checker says of a result, and why pods wait."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from kubestow.checker.claims.statement import not_checked
from kubestow.checker.violation import Violation
from kubestow.models.cluster import unmodelled
from kubestow.models.documents.capacity import Capacity
from kubestow.models.documents.placement import Cause, Edits, Placement
from kubestow.models.documents.policy import DEFAULT, Policy
from kubestow.models.documents.rebalance_plan import RebalancePlan
from kubestow.models.documents.upgrade import Upgrade
from kubestow.models.snapshot.scope import select
from kubestow.models.snapshot.snapshot import InputError, Snapshot
from kubestow.models.workloads.expand import Expansion

if TYPE_CHECKING:
    from kubestow.models.catalogue.catalogue import Catalogue
    from kubestow.solver.explain.per_node import PodVerdict
    from kubestow.solver.explain.unplaced import Left

Result = Placement | RebalancePlan | Capacity


class Judged(NamedTuple):
    """``snapshot``: as the result says that it was edited; ``revision``: the manifests of a rollout; ``violations``: what is wrong;
    ``open``: what is not checked."""

    snapshot: Snapshot
    revision: Snapshot | None
    violations: list[Violation]
    open: list[str]


class Given(Protocol):
    """The manifests that are given with a result. ``paths``: their files."""

    @property
    def paths(self) -> Sequence[str]: ...

    def edit(self, snapshot: Snapshot, edits: Edits | None, *, manifests: bool = True) -> Expansion:
        """Return the snapshot with these edits, and with or without the manifests."""

    def revision(self, snapshot: Snapshot, edits: Edits | None) -> Snapshot | None:
        """Return the manifests, None if there are none."""


def judge(snapshot: Snapshot, result: Result, given: Given, earlier: Sequence[Snapshot] = ()) -> Judged:
    """Check a result; a plan for another snapshot is not replayed. ``earlier``: snapshots by which it is judged what a plan forgives.

    Raises:
        InputError: the manifests are not those of the result, or it cannot be judged.
    """
    if isinstance(result, RebalancePlan):
        snapshot = given.edit(snapshot, result.snapshot.edits).snapshot
        violations = [*_plan_violations(snapshot, result, earlier), *_unsaid(snapshot, result)]
        return Judged(snapshot, None, violations, not_checked(result, proved_grace=bool(earlier)))
    ref = result.snapshot
    if ref.workloads and not given.paths:
        raise InputError([f"the result was made with manifests ({ref.workloads[0]}): give the same files with -w"])
    if ref.rollout is None:
        return _judge_edited(snapshot, result, given)
    if not isinstance(result, Placement):
        raise InputError([f"a {result.kind} is of no rollout, and this one says so"])
    from kubestow.checker.rollout import verify_rollout

    edited = given.edit(snapshot, ref.edits, manifests=False).snapshot
    revision = given.revision(snapshot, ref.edits)
    return Judged(edited, revision, list(verify_rollout(edited, result, revision)), not_checked(result))


def _judge_edited(snapshot: Snapshot, result: Placement | Capacity, given: Given) -> Judged:
    ref = result.snapshot
    found = given.edit(snapshot, ref.edits)
    if found.workloads != ref.workloads:
        names = [", ".join(listed) or "nothing" for listed in (found.workloads, ref.workloads)]
        raise InputError([f"-w adds {names[0]}, the result was made with {names[1]}"])
    if isinstance(result, Placement):
        from kubestow.checker.placement import check

        told = check(found.snapshot, result)
        return Judged(found.snapshot, None, [*told.violations, *_unsaid(found.snapshot, result)], not_checked(result, told.unjudged))
    from kubestow.checker.capacity.document import check_capacity

    of_capacity = check_capacity(snapshot, found.snapshot, result)
    return Judged(found.snapshot, None, [*of_capacity.violations, *unsaid_within(found.snapshot, result)], of_capacity.open)


def manifests_misused(result: Result, purpose: str) -> str | None:
    """Return why a result takes no manifests, None if it does; ``purpose``: what happens to it."""
    if not isinstance(result, RebalancePlan | Upgrade):
        return None
    return f"a{'n' if result.kind == 'Upgrade' else ''} {result.kind} is {purpose} without manifests (-w)"


def _unsaid(snapshot: Snapshot, result: Placement | RebalancePlan) -> list[Violation]:
    """What the document should say is not modelled, and does not."""
    ref = result.snapshot
    if ref.sha256 != snapshot.sha256 or (isinstance(result, RebalancePlan) and "admit" not in result.goals):
        return []  # of another snapshot, or pods that wait are none of its business
    scope = select(snapshot, from_scratch=ref.fromScratch, include_gated=ref.includeGated)
    tiers = (result.policy or DEFAULT).networkTiers
    said = {(entry.pod, entry.field, entry.effect) for entry in result.unmodelled}
    found = list(unmodelled.find(snapshot, (snapshot.pods[i] for i in scope.pending), tiers=tiers))
    silent = [entry for entry in found if (entry.pod, entry.field, entry.effect) not in said]
    return [Violation(entry.pod, "", result.kind, f"{entry.field} is not modelled, and the document does not say so") for entry in silent]


def unsaid_within(snapshot: Snapshot, result: Capacity) -> list[Violation]:
    """Return what the placement that a document carries should say is not modelled, and does not."""
    placement = None if isinstance(result, Upgrade) else result.placement
    return _unsaid(snapshot, placement) if placement is not None else []


def _plan_violations(snapshot: Snapshot, plan: RebalancePlan, earlier: Sequence[Snapshot]) -> list[Violation]:
    from kubestow.checker.plan.plan import verify_plan

    if plan.snapshot.sha256 != snapshot.sha256:
        why = f"the plan is for another snapshot: its sha256 is {plan.snapshot.sha256[:12]}, that of this one {snapshot.sha256[:12]}"
        return [Violation("", "", plan.kind, why)]
    grace = plan.executionGrace
    known = earlier if earlier or grace is None or not grace.earlier else None
    return list(verify_plan(snapshot, plan, claims=True, earlier=known))


@dataclass(frozen=True)
class Waiting:
    """The pods that wait in a snapshot. ``exempt``: namespaces exempt from hard anti-affinity; none: the policy's."""

    snapshot: Snapshot
    policy: Policy
    include_gated: bool = False
    exempt: tuple[str, ...] = ()

    def judge(self, **only: Any) -> list[PodVerdict]:
        """Return which nodes take each of them; ``only``: the pod, workload or node to judge.

        Raises:
            InputError: there is none of this name, or what is asked of a pod cannot be read.
        """
        from kubestow.solver.explain import per_node

        asked = {**only, "include_gated": self.include_gated, "daemon_namespaces": self._exempt, "policy": self.policy}
        try:
            return per_node.explain(self.snapshot, **asked)
        except per_node.UnknownPod as error:
            raise InputError([f"{'--workload' if only.get('workload') is not None else '--pod'}: {error}"]) from None
        except per_node.UnknownNode as error:
            raise InputError([f"--node: {error}: no such node in the snapshot"]) from None

    def questions(self, verdicts: Sequence[PodVerdict], *, whole: bool = False) -> list[Left]:
        """Return what is asked of pods that fit nowhere and of gangs, ``whole`` of all of these pods together."""
        from kubestow.solver.explain.unplaced import asked

        return asked(self.snapshot, verdicts, whole=whole, tiers=self.policy.networkTiers)

    def causes(self, left: Sequence[Left], seconds: float | None, catalogue: Catalogue | None, stop: Any = None) -> list[Cause]:
        """Return minimal causes and remedies. ``catalogue``: nodes that can be had; ``stop``: an event that ends the search."""
        from kubestow.solver.explain.unplaced import explain_left
        from kubestow.solver.runtime.options import Options
        from kubestow.solver.runtime.run_context import RunContext

        options = Options(time_limit=seconds, daemon_namespaces=self._exempt, policy=self.policy, catalogue=catalogue)
        return [cause for _, cause in explain_left(self.snapshot, list(left), [], RunContext.start(options, stop))]

    @property
    def _exempt(self) -> tuple[str, ...]:
        return self.exempt or self.policy.daemonNamespaces
