"""The result that the map shows for a document about capacity: its placement, or the moves of an upgrade as a plan on all its nodes."""

from __future__ import annotations

import msgspec

from kubestow.models.documents.placement import Placement
from kubestow.models.documents.rebalance_plan import RebalancePlan, Summary
from kubestow.models.documents.upgrade import Upgrade
from kubestow.models.edits import upgrade as edits
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.report.documents.results import Result

_change = msgspec.structs.replace


def stand_in(snapshot: Snapshot, result: Result) -> tuple[Snapshot, Placement | RebalancePlan | None]:
    """Return the snapshot of the map and the result drawn on it, or None if the document has no placement."""
    if isinstance(result, Placement | RebalancePlan):
        return snapshot, result
    return _upgrade(snapshot, result) if isinstance(result, Upgrade) else (snapshot, result.placement)


def _upgrade(snapshot: Snapshot, upgrade: Upgrade) -> tuple[Snapshot, RebalancePlan]:
    """Return a snapshot with all nodes of the upgrade, and its moves as a plan with one wave per wave."""
    joining = [new for wave in upgrade.waves for new in (*wave.surge, *wave.joined)]
    moves = [_change(move, wave=wave.wave) for wave in upgrade.waves for move in wave.moves]
    moves = [_change(move, step=step) for step, move in enumerate(moves, 1)]
    nothing = Summary(0, 0)
    plan = RebalancePlan(
        upgrade.snapshot, ["drain"], "", "feasible", [], moves, [], nothing, nothing,
        drain=upgrade.nodes, unmodelled=upgrade.unmodelled, policy=upgrade.policy, notes=upgrade.notes, seconds=upgrade.seconds,
    )  # fmt: skip
    return edits.with_new(snapshot, joining, upgrade.to), plan
