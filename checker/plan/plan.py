"""The independent checker of RebalancePlans. It replays a plan wave by wave on the raw objects and recomputes its claims.

It reads no compiled instance and shares no rule with the planner. A valid plan moves only movable pods, each from
its current node. It respects its limits and, in every wave, every PodDisruptionBudget. In any order inside a wave,
each pod is accepted on its target (:mod:`kubestow.checker.plan.waves`) and no pod is worse off than in the
snapshot. NUMA zones of kubelets are not replayed, because the zones of running pods are unknown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from kubestow.checker.claims.plan import PlanEnd, plan_claims
from kubestow.checker.placement_document import why_not_pending
from kubestow.checker.plan import execution_grace
from kubestow.checker.plan.disruption_budgets import Guards
from kubestow.checker.plan.document import (
    PLAN,
    Workloads,
    entries,
    goal_faults,
    history_faults,
    limit_faults,
    numbering_faults,
)
from kubestow.checker.plan.execution_violators import preempting, violators
from kubestow.checker.plan.movable import Exclusions, holds_rules
from kubestow.checker.plan.move_cost import Cost, cost_of
from kubestow.checker.plan.objective import PlanLedger, summary_faults, tier_faults
from kubestow.checker.plan.replay import BUDGET, PlanReplay
from kubestow.checker.plan.state import Board, cordoned
from kubestow.checker.reading import gang_roster
from kubestow.checker.rules import document_faults as rule_faults
from kubestow.checker.violation import DOCUMENT, Violation
from kubestow.models.documents.placement import Assignment, GangResult, Placement
from kubestow.models.documents.policy import DEFAULT
from kubestow.models.documents.rebalance_plan import RebalancePlan, Summary
from kubestow.models.kube import objects
from kubestow.models.snapshot.gc_pause import no_gc
from kubestow.models.snapshot.snapshot import Snapshot

__all__ = ["BUDGET", "summary", "verify_plan"]


def verify_plan(
    snapshot: Snapshot, plan: RebalancePlan, *, claims: bool = False, earlier: Sequence[Snapshot] | None = None
) -> list[Violation]:
    """Return all violations of a plan: faults of the document, of each wave in turn, then of its claimed values.

    A plan for another snapshot has that as its only violation.

    Args:
        snapshot: The snapshot.
        plan: The plan.
        claims: True to judge also obstacles and claims about the plan itself.
        earlier: Snapshots that determine which violations the plan forgives; None to trust the plan.

    Raises:
        QuantityError: a quantity in the snapshot is malformed or beyond 64 bits.
        InputError: the declaration of a pending gang cannot be read.
    """
    if plan.snapshot.sha256 != snapshot.sha256:
        return [Violation("", "", PLAN, f"the plan is for snapshot {plan.snapshot.sha256}, this is {snapshot.sha256}")]
    with no_gc():
        return list(_Check(snapshot, plan).faults(cost_of(snapshot, plan.policy or DEFAULT), claims=claims, earlier=earlier))


def summary(snapshot: Snapshot, plan: RebalancePlan) -> tuple[Summary, Summary, int]:
    """Return the cluster before and after a plan, and a lower bound on its number of waves.

    The moves are not judged. Only snapshot, goals, limits, policy, moves and evictions of the plan are read.

    Raises:
        QuantityError, InputError: as for :func:`verify_plan`.
    """
    with no_gc():
        return _Check(snapshot, plan).summaries()


class _Check:
    """One plan and its snapshot."""

    def __init__(self, snapshot: Snapshot, plan: RebalancePlan) -> None:
        snapshot = cordoned(snapshot, plan.drain)
        self.snapshot, self.plan = snapshot, plan
        policy = plan.policy or DEFAULT
        self.pods = {objects.pod_key(pod): pod for pod in snapshot.pods}
        self.names = frozenset(node.metadata.name or "" for node in snapshot.nodes)
        self.refusals = {key: why_not_pending(pod, self.names, plan.snapshot) for key, pod in self.pods.items()}
        self.pending = {key for key, why in self.refusals.items() if why is None}
        self.roster = gang_roster.read_roster(snapshot, self.pending, policy)
        self.priorities = {self.roster.ranks.get(key, self.pods[key].spec.priority or 0) for key in self.pending}
        self.listed = entries(plan)
        guards = Guards(snapshot)
        exclusions = Exclusions(snapshot, guards, plan.limits.alsoMove, policy)
        self.board = Board(snapshot, self.pending, plan.snapshot.daemonNamespaces)
        self.excluded = {key: why for key, runner in self.board.runners.items() if runner.at and (why := exclusions.of(runner.pod))}
        movable = {key for key, runner in self.board.runners.items() if runner.at and key not in self.excluded}
        anchored = {key for key in self.excluded if self.board.runners[key].steady and holds_rules(self.pods[key])}
        self.ledger = PlanLedger(self.board, policy, movable | anchored, self.pending, self.roster.gangs, admits="admit" in plan.goals)
        self._replay = PlanReplay(plan, self.board, self.pods, self.refusals, self.roster, guards, exclusions)
        self.start = self._where()

    def _where(self) -> dict[str, str | None]:
        """Return the current nodes of the pods that the plan mentions."""
        named = {entry.pod for entry in self.listed}
        return {key: self.board.runners[key].node for key in named if key in self.board.runners}

    def _touched(self) -> set[str]:
        """Return the nodes that the plan mentions."""
        return {name for entry in self.listed for name in (entry.source, entry.target) if name is not None and name in self.board.nodes}

    def _changed(self) -> set[str]:
        """Return the nodes whose pods at the end differ from those at the start."""
        now = self._where()
        return {name for key, before in self.start.items() if before != now[key] for name in (before, now[key]) if name is not None}

    # --- summaries ----------------------------------------------------------------------------------------------------------

    def summaries(self) -> tuple[Summary, Summary, int]:
        """Apply the moves; return the summaries before and after them, and the lower bound on waves."""
        least = self._replay.least_waves(self.listed)
        before = self.ledger.summary(self.board.all_broken(), self._touched())
        for entry in self.listed:
            runner = self.board.runners.get(entry.pod)
            if runner is None or (entry.target is not None and entry.target not in self.board.nodes):
                continue
            if runner.at is not None:
                self.board.lift(runner.at)
                self.board.enter(runner.at, -1)
            runner.at = runner.presence(entry.target) if entry.target is not None else None
            if runner.at is not None:
                self.board.bind(runner.at)
                self.board.put(runner.at)
                self.board.enter(runner.at)
        return self._trimmed(before), self.ledger.summary(self.board.all_broken(), self._changed()), least

    def _trimmed(self, before: Summary) -> Summary:
        """Limit the first summary to nodes that change."""
        changed = self._changed()
        before.nodes = [use for use in before.nodes if use.node in changed]
        return before

    # --- faults -------------------------------------------------------------------------------------------------------------

    def faults(self, cost: Cost, *, claims: bool, earlier: Sequence[Snapshot] | None) -> Iterator[Violation]:
        """Yield all violations."""
        plan = self.plan
        yield from goal_faults(plan, self.snapshot, self.names, len(self.pending))
        yield from numbering_faults(plan, self.listed, self.roster.gang_of)
        yield from history_faults(self.listed)
        owners = Workloads(self.snapshot)
        moving = {entry.pod: owners.of(self.pods[entry.pod]) for entry in self.listed if entry.pod in self.pods}
        yield from limit_faults(plan, self.listed, moving)
        least = self._replay.least_waves(self.listed)
        if plan.leastWaves > least:
            yield Violation("", "", PLAN, f"leastWaves is {plan.leastWaves}, budgets and pods that wait for others need only {least}")
        yield from self._excluded_faults()
        broken = self.board.all_broken()
        yield from self._grace_faults(broken, earlier)
        before = self.ledger.summary(broken, self._touched())
        free = self.ledger.freed()
        gone = {entry.pod for entry in self.listed if entry.target is None}
        self._replay.preempting = preempting(self.pods[key] for key in self.pending) if "admit" in plan.goals else None
        self._replay.violators = violators(self.board, gone, self.ledger.counting(broken)) if "repair" in plan.goals else frozenset()
        for runner in self.board.runners.values():
            runner.broke = broken.get(runner.key, frozenset())
            self.board.settle_down(runner)
        yield from self._replay.faults(self.listed)
        yield from self._gang_faults()
        broken = self.board.all_broken()
        yield from summary_faults(plan.before, self._trimmed(before), "before")
        after = self.ledger.summary(broken, self._changed())
        yield from summary_faults(plan.after, after, "after")
        yield from self._freed_faults(self.ledger.freed() - free)
        yield from self._tier_faults(broken, after, cost)
        if claims:
            yield from plan_claims(plan, self._end(broken))

    def _end(self, broken: dict[str, frozenset[str]]) -> PlanEnd:
        """Return the final state with everything that the goals leave undone."""
        runners, drain = self.board.runners, frozenset(self.plan.drain)
        remaining = {key for key, runner in runners.items() if self.ledger.is_left(runner, drain)}
        waiting = {key for key in self.pending if key not in runners or runners[key].at is None}
        nodes = {key: runners[key].node if key in runners else None for key in self.pods}
        return PlanEnd(nodes, remaining, self.ledger.counting(broken).keys() & self.ledger.subjects, waiting)

    # --- forgiven rules -----------------------------------------------------------------------------------------------------

    def _grace_faults(self, broken: Mapping[str, frozenset[str]], earlier: Sequence[Snapshot] | None) -> Iterator[Violation]:
        """Record the rules that the plan forgives in the ledger, and yield false claims about them.

        A claim is false if the pod does not break the rule, or if the earlier snapshots lead to other forgiven rules.

        Args:
            broken: Names of the broken rules by pod key.
            earlier: Snapshots that determine the forgiven rules; None to trust the plan.
        """
        grace = self.plan.executionGrace
        if grace is None:
            return
        said = {(each.pod, each.rule) for each in grace.forgiven}
        for key, rule in sorted(said):
            if rule not in broken.get(key, ()):
                yield Violation(key, "", PLAN, f"the plan forgives that the pod breaks {rule}, and it does not break it")
        if earlier is not None:
            hashes = sorted(each.sha256 for each in earlier)
            if hashes != sorted(each.sha256 for each in grace.earlier):
                yield Violation("", "", PLAN, f"the plan is made with {len(grace.earlier)} earlier snapshots, and not with these")
            else:
                expected = self._excused(broken, earlier, grace.seconds)
                for key, rule in sorted(said ^ expected):
                    forgives = "the plan forgives" if (key, rule) in said else "the plan does not forgive"
                    yield Violation(key, "", PLAN, f"{forgives} that the pod breaks {rule}: the earlier snapshots say otherwise")
        for key, rule in said:
            self.ledger.excused[key] = self.ledger.excused.get(key, frozenset()) | {rule}

    def _excused(self, broken: Mapping[str, frozenset[str]], earlier: Sequence[Snapshot], seconds: int) -> set[tuple[str, str]]:
        """Return pairs of pod key and filter: the filters that pods break only because of forgiven rules."""
        exempt, found = self.plan.snapshot.daemonNamespaces, set()
        rules = execution_grace.forgiven(self.snapshot, earlier, seconds, exempt) if "repair" in self.plan.goals else set()
        parts = {"NodeAffinity": ("nodeAffinity",), "InterPodAffinity": ("podAffinity", "podAntiAffinity")}
        for name, fields in parts.items():
            if any(rule.part in fields for rule in rules):
                remaining = Board(execution_grace.lifted(self.snapshot, rules, fields), self.pending, exempt).all_broken()
                found |= {
                    (key, name)
                    for key, rules_of in broken.items()
                    if name in rules_of and name not in remaining.get(key, ()) and key in self.ledger.subjects
                }
        return found

    # --- claims -------------------------------------------------------------------------------------------------------------

    def _excluded_faults(self) -> Iterator[Violation]:
        """Yield pods whose exclusion differs from the recomputed one."""
        said: dict[str, str] = {}
        for group in self.plan.excluded:
            for key in group.pods:
                if key in said:
                    yield Violation(key, "", PLAN, "the pod is listed as excluded twice")
                said[key] = group.reason
        for key in sorted(said.keys() | self.excluded.keys()):
            if said.get(key) != self.excluded.get(key):
                why = f"the pod is said to be excluded for {said.get(key) or 'nothing'}, it is for {self.excluded.get(key) or 'nothing'}"
                yield Violation(key, "", PLAN, why)

    def _gang_faults(self) -> Iterator[Violation]:
        """Yield gangs of pending pods that are placed in part, or outside a required common domain."""
        runners = self.board.runners
        bound = {entry.pod: entry for entry in self.listed if entry.source is None and entry.pod in runners and entry.pod in self.pending}
        at = {key: there.node for key in bound if (there := runners[key].at) is not None}
        gang_of = self.roster.gang_of  # the entries' own gang names are judged with the numbering
        found = [Assignment(key, node, bound[key].step, gang_of.get(key)) for key, node in at.items()]
        placed = {entry.pod for entry in found}
        results = [
            GangResult(gang.name, len(gang.pods), sum(objects.pod_key(self.snapshot.pods[i]) in placed for i in gang.pods), gang.needed,
                       len(gang.bound))
            for gang in self.roster.gangs
        ]  # fmt: skip
        stand_in = Placement(self.plan.snapshot, "", "feasible", [], found, gangs=results)
        for fault in rule_faults(self.snapshot, stand_in, self.roster, found, self.refusals):
            yield Violation(fault.pod, fault.node, PLAN if fault.rule == DOCUMENT else fault.rule, fault.why)

    def _freed_faults(self, freed: set[str]) -> Iterator[Violation]:
        said = self.plan.freed
        expected = sorted(freed) if "consolidate" in self.plan.goals else []
        if sorted(said) != expected:
            yield Violation("", "", PLAN, f"freed is {', '.join(said) or 'empty'}, it should be {', '.join(expected) or 'empty'}")

    def _tier_faults(self, broken: dict[str, frozenset[str]], after: Summary, cost: Cost) -> Iterator[Violation]:
        listed = [entry for entry in self.listed if entry.pod in self.board.runners]
        gone = {self.pods[entry.pod].spec.priority or 0 for entry in listed if entry.target is None}
        yield from tier_faults(self.plan, self.priorities, gone)
        for tier in self.plan.objective:
            value = self.ledger.value(tier, self.plan, listed, self.roster.ranks, broken, after, cost)
            if value is None:
                yield Violation("", "", PLAN, f"tier {tier.tier}: a node has no price in the label that the policy names")
            elif value != tier.value:
                name = tier.tier if tier.priority is None else f"{tier.tier} of priority {tier.priority}"
                yield Violation("", "", PLAN, f"tier {name}: the value is {tier.value}, the plan is worth {value}")
