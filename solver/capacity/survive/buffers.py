"""The headroom of CapacityBuffers after each failure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from math import comb
from typing import Final

from models.documents.headroom import Headroom
from models.documents.survival import Scenario
from models.snapshot.snapshot import Snapshot
from solver.capacity.buffers.states import in_state, undone
from solver.capacity.survive.failures import after, domains
from solver.capacity.survive.options import SurviveOptions
from solver.runtime.run_context import RunContext

#: Failures beyond which the rest is left out: each has a compiled instance of its own.
MAX_FAILURES: Final = 2_000


def after_failures(
    snapshot: Snapshot, asked: SurviveOptions, outcomes: Sequence[Scenario], context: RunContext
) -> tuple[list[Headroom], list[str]]:
    """Return the headroom after each failure, beside all pods that come back; and what a reader must know. ``outcomes``: what is known of
    the failures."""
    sure = {tuple(each.failed): each.assignments for each in outcomes if not each.preempted}
    survived = {tuple(failed) for each in outcomes if each.outcome == "survives" for failed in (each.failed, *each.alike)}
    nodes = domains(snapshot, asked)
    context = replace(context, options=replace(context.options, include_gated=False))
    found: list[Headroom] = []
    for failed in combinations(nodes, asked.at_once):
        if context.over() or len(found) == MAX_FAILURES:
            break
        left = after(snapshot, [name for domain in failed for name in nodes[domain]], asked).snapshot
        room = in_state(left, ",".join(failed), context, sure.get(failed, ()))
        if not room.left or asked.preemption or failed not in survived:  # else the search was too short to say anything
            found.append(room)
    return found, undone(len(found), comb(len(nodes), asked.at_once), "failures")
