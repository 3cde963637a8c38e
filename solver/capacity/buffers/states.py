"""The headroom in several states of a cluster, one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kubestow.models.buffers.chunks import without_chunks
from kubestow.models.documents.headroom import Headroom
from kubestow.models.documents.placement import Assignment, Placement
from kubestow.models.kube.objects import pod_key
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.solver.capacity.buffers.headroom import beside, headroom
from kubestow.solver.runtime.run_context import RunContext

#: Seconds that one state gets, whatever is left.
SHORT: Final = 0.05
#: Deterministic seconds that compiling one state counts.
LOOK: Final = 0.01
#: Fraction of the remaining time that one state may take.
STATE_FRACTION: Final = 0.25


def of_fit(edited: Snapshot, placement: Placement, context: RunContext) -> list[Headroom] | None:
    """Return the headroom without the new replicas, and with them; None where there are no buffers. ``edited``: with the new replicas
    waiting, all of which ``placement`` places."""
    if not edited.capacity_buffers:
        return None
    new, edited = set(edited.to_create), without_chunks(edited)
    now = edited.copy()
    now.pods = [pod for pod in edited.pods if pod_key(pod) not in new]
    now.to_create = []
    found = [in_state(now, "now", context)]
    there = {pod_key(pod) for pod in edited.pods}
    room = in_state(edited, "placed", context, [entry for entry in placement.assignments if entry.pod in there])
    if new <= {entry.pod for entry in room.assignments}:  # else the search was too short to say anything
        found.append(room)
    return found


def in_state(snapshot: Snapshot, state: str, context: RunContext, sure: Sequence[Assignment] = ()) -> Headroom:
    """Return the headroom in one state, and charge its time. ``sure``: a valid placement of the real pods that wait, in case that none as
    good is found in time."""
    limited = context.part(max(SHORT, context.deadline.left() * STATE_FRACTION))
    found = headroom(snapshot, state, limited)
    if found.left and sure and not any(entry.devices for entry in sure):
        found = beside(snapshot, state, sure, context.part(max(SHORT, context.deadline.left() * STATE_FRACTION)))
    context.deadline.charge(LOOK + limited.deadline.elapsed())
    return found


def undone(done: int, all_: int, what: str) -> list[str]:
    """Return what is to be said where only some states were looked at."""
    return [] if done == all_ else [f"the headroom of CapacityBuffers is known in {done:,} of {all_:,} {what}"]
