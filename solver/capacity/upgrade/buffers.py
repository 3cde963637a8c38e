"""The headroom of CapacityBuffers during an upgrade."""

from __future__ import annotations

from kubestow.models.documents.headroom import Headroom
from kubestow.models.documents.upgrade import Upgrade
from kubestow.models.edits import nodes as edits_nodes
from kubestow.models.edits import upgrade as edits
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.solver.capacity.buffers.states import in_state, incomplete_note
from kubestow.solver.runtime.run_context import RunContext


def in_waves(snapshot: Snapshot, upgrade: Upgrade, context: RunContext) -> tuple[list[Headroom] | None, list[str]]:
    """Return the headroom in each wave, after its moves and before replacements join, with notes on missing parts.

    The headroom is None without buffers.
    """
    if not snapshot.capacity_buffers:
        return None, []
    rooms: list[Headroom] = []
    now = snapshot
    for wave in upgrade.waves:
        if context.over():
            break
        now = edits.before(now, wave, upgrade.to)
        missing = edits.moved(now, wave).copy()
        edits_nodes.remove(missing, set(wave.drain))
        rooms.append(in_state(missing, str(wave.wave), context))
        now = edits.left_by(now, wave, upgrade.to)
    return rooms, incomplete_note(len(rooms), len(upgrade.waves), "waves")
