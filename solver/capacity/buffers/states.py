"""The headroom in several states of a cluster, in sequence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kubestow.models.buffers.chunks import without_chunks
from kubestow.models.documents.headroom import Headroom
from kubestow.models.documents.placement import Assignment, Placement
from kubestow.models.kube.objects import pod_key
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.solver.capacity.buffers.headroom import headroom, headroom_with
from kubestow.solver.runtime.run_context import RunContext

#: Fraction of the remaining time of another question for its headroom.
HEADROOM_TIME_FRACTION: Final = 0.2
#: Deterministic seconds charged for compiling one state.
COMPILE_SECONDS: Final = 0.01
#: Fraction of the remaining time that one state may take.
STATE_FRACTION: Final = 0.25


def of_fit(edited: Snapshot, placement: Placement, context: RunContext) -> list[Headroom] | None:
    """Return the headroom without and with the new replicas; None without buffers.

    Args:
        edited: The cluster with the new replicas pending.
        placement: Places all of these replicas.
    """
    if not edited.capacity_buffers:
        return None
    new, edited = set(edited.to_create), without_chunks(edited)
    now = edited.copy()
    now.pods = [pod for pod in edited.pods if pod_key(pod) not in new]
    now.to_create = []
    rooms = [in_state(now, "now", context)]
    there = {pod_key(pod) for pod in edited.pods}
    room = in_state(edited, "placed", context, [entry for entry in placement.assignments if entry.pod in there])
    if new <= {entry.pod for entry in room.assignments}:  # otherwise the search was too short for a meaningful result
        rooms.append(room)
    return rooms


def in_state(snapshot: Snapshot, state: str, context: RunContext, sure: Sequence[Assignment] = ()) -> Headroom:
    """Return the headroom in one state, and charge its time.

    Args:
        sure: A valid placement of the pending real pods, used if the search finds none as good.
    """
    limited = context.fraction(STATE_FRACTION)
    room = headroom(snapshot, state, limited)
    if room.left and sure and not any(entry.devices for entry in sure):
        room = headroom_with(snapshot, state, sure, context.fraction(STATE_FRACTION))
    context.deadline.charge(COMPILE_SECONDS + limited.deadline.elapsed())
    return room


def incomplete_note(done: int, all_: int, what: str) -> list[str]:
    """Return a note if only some states were examined."""
    return [] if done == all_ else [f"the headroom of CapacityBuffers is known in {done:,} of {all_:,} {what}"]
