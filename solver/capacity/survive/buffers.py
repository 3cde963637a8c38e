"""The headroom of CapacityBuffers after each failure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from math import comb
from typing import Final

from kubestow.models.buffers.chunks import buffer_of, with_chunks
from kubestow.models.documents.headroom import Headroom
from kubestow.models.documents.survival import Scenario
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.solver.capacity.buffers.headroom import HeadroomReader
from kubestow.solver.capacity.buffers.states import COMPILE_SECONDS, STATE_FRACTION, in_state, incomplete_note
from kubestow.solver.capacity.survive.failures import after, domains
from kubestow.solver.capacity.survive.instance import FailureInstance
from kubestow.solver.capacity.survive.options import SurviveOptions
from kubestow.solver.explain.undecided import is_undecided
from kubestow.solver.runtime.options import Options
from kubestow.solver.runtime.run_context import RunContext

#: Maximum number of failures for which headroom is computed.
MAX_FAILURES: Final = 2_000
#: Maximum number of assignments in all of these failures together. They make the document large.
MAX_ASSIGNMENTS: Final = 500_000


def after_failures(
    snapshot: Snapshot, request: SurviveOptions, outcomes: Sequence[Scenario], context: RunContext
) -> tuple[list[Headroom], list[str]]:
    """Return the headroom after each failure, in addition to all returning pods, and notes on missing parts.

    Args:
        outcomes: The decided failures.
    """
    sure = {tuple(each.failed): each.assignments for each in outcomes if not each.preempted}
    survived = {tuple(failed) for each in outcomes if each.outcome == "survives" for failed in (each.failed, *each.alike)}
    nodes = domains(snapshot, request)
    context = replace(context, options=replace(context.options, include_gated=False))
    derived = _Derived(snapshot, request, context.options)
    rooms: list[Headroom] = []
    entries = 0
    for failed in combinations(nodes, request.at_once):
        if context.over() or len(rooms) == MAX_FAILURES or entries > MAX_ASSIGNMENTS:
            break
        gone, state = [name for domain in failed for name in nodes[domain]], ",".join(failed)
        room = derived.room(gone, state, context)
        if room is None or (room.left and failed in survived):
            room = in_state(after(snapshot, gone, request).snapshot, state, context, sure.get(failed, ()))
        if not room.left or request.preemption or failed not in survived:  # otherwise the search was too short for a meaningful result
            rooms.append(room)
            entries += len(room.assignments)
    return rooms, incomplete_note(len(rooms), comb(len(nodes), request.at_once), "failures")


class _Derived:
    """The headroom after failures, derived from one compiled instance that includes the pending chunks."""

    def __init__(self, snapshot: Snapshot, request: SurviveOptions, options: Options) -> None:
        edited, demands = with_chunks(snapshot)
        chunks = [pod for pod in edited.pods if buffer_of(pod) is not None]
        self._instance: FailureInstance | None = None
        if any(pod.spec.volumes or pod.spec.resourceClaims for pod in chunks) or snapshot.device_classes:
            return
        self._instance = FailureInstance(snapshot, request, options, chunks)
        cluster = self._instance.cluster
        self._reader = HeadroomReader(cluster.snapshot, demands, unsure=is_undecided(cluster.snapshot, cluster.scope.pending))

    def room(self, gone: Sequence[str], state: str, context: RunContext) -> Headroom | None:
        """Return the headroom after one failure; None if it cannot be derived."""
        instance = self._instance
        if instance is None or not instance.derivable(instance.nodes(gone).tolist()):
            return None
        limited = context.fraction(STATE_FRACTION)
        room = self._reader.read(instance.surviving(gone), state, limited)
        context.deadline.charge(COMPILE_SECONDS + limited.deadline.elapsed())
        return room
