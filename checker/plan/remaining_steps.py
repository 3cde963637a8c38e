"""The remaining steps of a plan, judged on a later snapshot.

The plan was judged as a whole on its own snapshot. Here only the remaining steps are replayed: whether each pod may
be moved and is accepted, what budgets allow, and that no pod is worse off than now. Claims about the plan's own
snapshot (hashes, numbers, summaries, tiers, goals of steps) are not judged again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from kubestow.checker import rules
from kubestow.checker.placement_document import why_not_pending
from kubestow.checker.plan.disruption_budgets import Guards
from kubestow.checker.plan.document import PLAN, PlanEntry, entries, history_faults
from kubestow.checker.plan.movable import Exclusions
from kubestow.checker.plan.replay import PlanReplay
from kubestow.checker.plan.state import Board, cordoned
from kubestow.checker.reading import gang_roster
from kubestow.checker.violation import DOCUMENT, Violation
from kubestow.models.documents.placement import Assignment, Placement
from kubestow.models.documents.policy import DEFAULT
from kubestow.models.documents.rebalance_plan import RebalancePlan
from kubestow.models.kube import objects
from kubestow.models.snapshot.gc_pause import no_gc
from kubestow.models.snapshot.snapshot import Snapshot


def rest_faults(snapshot: Snapshot, plan: RebalancePlan, *, cordon: bool = True) -> list[Violation]:
    """Return the faults of a plan's remaining steps on a later snapshot.

    Args:
        snapshot: The later snapshot.
        plan: The remaining steps, with the pods' names in ``snapshot``; steps and waves keep their numbers. A move
            whose pod is already stopped has no source.
        cordon: True if the nodes to be drained have the taint of a cordon.

    Raises:
        QuantityError: a quantity in the snapshot is malformed or beyond 64 bits.
        InputError: the declaration of a pending gang cannot be read.
    """
    with no_gc():
        return list(_faults(cordoned(snapshot, plan.drain) if cordon else snapshot, plan))


def _faults(snapshot: Snapshot, plan: RebalancePlan) -> Iterator[Violation]:
    policy, listed = plan.policy or DEFAULT, entries(plan)
    pods = {objects.pod_key(pod): pod for pod in snapshot.pods}
    names = frozenset(node.metadata.name or "" for node in snapshot.nodes)
    refusals = {key: why_not_pending(pod, names, plan.snapshot) for key, pod in pods.items()}
    pending = {key for key, why in refusals.items() if why is None}
    roster = gang_roster.read_roster(snapshot, pending, policy)
    guards = Guards(snapshot)
    board = Board(snapshot, pending, plan.snapshot.daemonNamespaces)
    exclusions = Exclusions(snapshot, guards, plan.limits.alsoMove, policy)
    for name in plan.drain:
        if name not in names:
            yield Violation("", name, PLAN, "the node that is to be drained is gone")
    yield from history_faults(listed)
    broken = board.all_broken()
    for runner in board.runners.values():
        runner.broke = broken.get(runner.key, frozenset())
        board.settle_down(runner)
    replay = PlanReplay(plan, board, pods, refusals, roster, guards, exclusions, justified=False)
    yield from replay.faults(listed)
    yield from _gang_faults(snapshot, replay, listed)
    yield from refused(snapshot, pods, listed)


def refused(snapshot: Snapshot, pods: Mapping[str, objects.Pod], listed: Sequence[PlanEntry]) -> Iterator[Violation]:
    """Yield moved pods whose replacements would be rejected by quotas, limits or a missing priority class."""
    replaced = {entry.pod: entry for entry in listed if entry.source is not None and entry.target is not None and entry.pod in pods}
    for key, (rule, why) in rules.refused(replace(snapshot, to_create=list(replaced))).items():
        yield Violation(key, replaced[key].place, rule, f"step {replaced[key].step}: its replacement would be refused: {why}")
    for key, entry in replaced.items():
        name = pods[key].spec.priorityClassName
        if name and snapshot.priority_classes and name not in snapshot.priority_classes:
            why = f"step {entry.step}: its replacement would be refused: there is no PriorityClass {name}"
            yield Violation(key, entry.place, "Priority", why)


def _gang_faults(snapshot: Snapshot, replay: PlanReplay, listed: Sequence[PlanEntry]) -> Iterator[Violation]:
    """Yield gangs that are bound in part, or outside a required common domain."""
    board, roster = replay.board, replay.roster
    bound = {entry.pod: entry.step for entry in listed if entry.source is None}
    at = {key: runner.node for key in bound if (runner := board.runners.get(key)) is not None and key in roster.gang_of}
    found = [Assignment(key, node, bound[key], roster.gang_of[key]) for key, node in at.items() if node is not None]
    stand_in = Placement(replay.plan.snapshot, "", "feasible", [], found)
    for fault in rules.document_faults(snapshot, stand_in, roster, found, replay.refusals):
        if fault.rule != DOCUMENT:
            yield fault
