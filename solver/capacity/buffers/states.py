"""The states of a cluster in which a document says how much headroom CapacityBuffers have.

Every function returns None where there are no buffers. A state that was not looked at in time is left out, and a note says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Final

from models.documents.headroom import Headroom
from models.documents.upgrade import Upgrade
from models.edits import nodes as edits_nodes
from models.edits import upgrade as edits
from models.kube.objects import pod_key
from models.snapshot.snapshot import Snapshot
from solver.capacity.buffers.headroom import headroom
from solver.capacity.survive.failures import after, domains
from solver.capacity.survive.options import SurviveOptions
from solver.runtime.run_context import RunContext

#: Seconds that one state gets, whatever is left.
SHORT: Final = 0.05
#: Deterministic seconds that compiling one state counts.
LOOK: Final = 0.01
#: Fraction of the remaining time that one state may take.
STATE_FRACTION: Final = 0.25
#: Failures beyond which the rest is left out: each has a compiled instance of its own.
MAX_FAILURES: Final = 2_000


def of_fit(edited: Snapshot, context: RunContext) -> list[Headroom] | None:
    """Return the headroom without the new replicas, and with them. ``edited``: with the new replicas waiting."""
    if not edited.capacity_buffers:
        return None
    new = set(edited.to_create)
    now = edited.copy()
    now.pods = [pod for pod in edited.pods if pod_key(pod) not in new]
    now.to_create = []
    return [_one(now, "now", context), _one(edited, "placed", context)]


def of_failures(snapshot: Snapshot, asked: SurviveOptions, context: RunContext) -> tuple[list[Headroom] | None, list[str]]:
    """Return the headroom after each failure, once all pods that come back are placed; and what a reader must know."""
    if not snapshot.capacity_buffers:
        return None, []
    nodes = domains(snapshot, asked)
    failures = list(_first(combinations(nodes, asked.at_once)))
    context = replace(context, options=replace(context.options, include_gated=False))
    found = []
    for failed in failures:
        if context.over() or len(found) == MAX_FAILURES:
            break
        left = after(snapshot, [name for domain in failed for name in nodes[domain]], asked).snapshot
        found.append(_one(left, ",".join(failed), context))
    return found, _undone(len(found), len(failures), "failures")


def of_waves(snapshot: Snapshot, upgrade: Upgrade, context: RunContext) -> tuple[list[Headroom] | None, list[str]]:
    """Return the headroom in each wave, once its moves are made and its nodes are gone, before others join; and what a reader must know."""
    if not snapshot.capacity_buffers:
        return None, []
    found = []
    for wave, state in during(snapshot, upgrade):
        if context.over():
            break
        found.append(_one(state, wave, context))
    return found, _undone(len(found), len(upgrade.waves), "waves")


def during(snapshot: Snapshot, upgrade: Upgrade) -> Iterator[tuple[str, Snapshot]]:
    """Yield the number of each wave with the snapshot while its nodes are missing."""
    now = snapshot
    for wave in upgrade.waves:
        now = edits.before(now, wave, upgrade.to)
        state = edits.moved(now, wave).copy()
        edits_nodes.remove(state, set(wave.drain))
        yield str(wave.wave), state
        now = edits.left_by(now, wave, upgrade.to)


def _first(failures: Iterator[Sequence[str]]) -> Iterator[Sequence[str]]:
    """Yield failures, one more than are looked at."""
    for number, failed in enumerate(failures):
        if number > MAX_FAILURES:
            return
        yield failed


def _one(snapshot: Snapshot, state: str, context: RunContext) -> Headroom:
    """Return the headroom in one state, and charge its time."""
    limited = context.part(max(SHORT, context.deadline.left() * STATE_FRACTION))
    found = headroom(snapshot, state, limited)
    context.deadline.charge(LOOK + limited.deadline.elapsed())
    return found


def _undone(done: int, all_: int, what: str) -> list[str]:
    more = "more than " if all_ > MAX_FAILURES else ""
    return [] if done == all_ else [f"the headroom of CapacityBuffers is known in {done} of {more}{min(all_, MAX_FAILURES)} {what}"]
