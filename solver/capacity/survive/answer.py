"""The complete answer of ``kubestow survive``: the certificate, and the causes, consequences and remedies of
failures it does not cover."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Unpack

from kubestow.checker.capacity.survival import headroom_faults
from kubestow.checker.violation import insist
from kubestow.models.catalogue.catalogue import Catalogue
from kubestow.models.documents.placement import Placement
from kubestow.models.documents.survival import Survival
from kubestow.models.edits.binding import placed_as
from kubestow.models.snapshot.scope import select
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.solver.capacity.buffers.states import HEADROOM_TIME_FRACTION
from kubestow.solver.capacity.survive.buffers import after_failures
from kubestow.solver.capacity.survive.consequences import Stakes
from kubestow.solver.capacity.survive.failures import domains
from kubestow.solver.capacity.survive.options import SurviveOptions
from kubestow.solver.capacity.survive.remedy import RemedySearch
from kubestow.solver.capacity.survive.survive import survive
from kubestow.solver.executors.pool import WorkerPool
from kubestow.solver.runtime.invocation import Caller, Invocation
from kubestow.solver.runtime.options import Options
from kubestow.solver.runtime.run_context import RunContext
from kubestow.solver.solve import place

#: Fractions of the time limit for the certificate: with a subsequent search for a remedy, and without.
_CERTIFICATE_TIME_FRACTION, _CERTIFICATE_ONLY_TIME_FRACTION = 0.6, 0.9
#: Fraction of the time limit for placing pending pods first.
_PLACEMENT_TIME_FRACTION = 0.2
#: Fraction of the time after the certificate for remedies after one failure.
_REMEDY_TIME_FRACTION = 0.3
#: Maximum number of seconds for remedies after one failure.
_MAX_REMEDY_SECONDS = 15.0


@dataclass(frozen=True)
class Wishes:
    """The results that are wanted in addition to the certificate.

    Attributes:
        place: True to place pending pods first.
        ways: True to look for changes that help after one failure.
        remedy: True to look for additional nodes that help after all failures.
        catalogue: Source of these nodes; None for clones of existing nodes.
    """

    place: bool = False
    ways: bool = True
    remedy: bool = True
    catalogue: Catalogue | None = None


def answer(
    snapshot: Snapshot,
    request: SurviveOptions,
    options: Options,
    wishes: Wishes = Wishes(),
    *,
    pool: WorkerPool | None = None,
    **caller: Unpack[Caller],
) -> Survival:
    """Return the result of :func:`survive`, with causes, consequences and a remedy.

    Raises:
        InputError: As :func:`survive`.
        InternalFault: As :func:`survive`.
    """
    run = Invocation(caller)
    first = None
    if wishes.place:
        snapshot, first = _placed(snapshot, options, run)
    until, ways = options.time_limit, _MAX_REMEDY_SECONDS
    if options.time_limit is not None:
        more = wishes.remedy or snapshot.capacity_buffers
        until = options.time_limit * (_CERTIFICATE_TIME_FRACTION if more else _CERTIFICATE_ONLY_TIME_FRACTION)
        ways = min(ways, (options.time_limit - until) * (_REMEDY_TIME_FRACTION if wishes.remedy else 1))
    survival = survive(snapshot, request, replace(options, time_limit=until), pool=pool, ways=ways if wishes.ways else None, **run.caller)
    survival.placement = first
    context = run.context(options)
    if snapshot.capacity_buffers and not context.stop.is_set():
        _headroom(snapshot, request, survival, context)
    nodes, stakes = domains(snapshot, request), Stakes(snapshot)
    survival.exposed = stakes.over_all(nodes, request.at_once)
    for each in survival.counterexamples:
        each.consequences = stakes.of((name for failed in each.failed for name in nodes[failed]), each.pending)
    context = run.context(options)
    if wishes.remedy and any(each.least for each in survival.counterexamples) and not context.over():
        survival.remedy = RemedySearch(snapshot, request, context, wishes.catalogue, pool).find(survival)
        if survival.remedy is not None and select(snapshot, include_gated=options.include_gated).pending:
            survival.notes.append("the remedy leaves out pods that are already pending; they may occupy its nodes first")
    return survival


def _placed(snapshot: Snapshot, options: Options, run: Invocation) -> tuple[Snapshot, Placement | None]:
    """Return a snapshot in which pending pods run where they are placed, and the placement; None without pending pods."""
    if not select(snapshot, include_gated=options.include_gated).pending:
        return snapshot, None
    seconds = None if options.time_limit is None else options.time_limit * _PLACEMENT_TIME_FRACTION
    limited = replace(options, time_limit=seconds, causes=False)
    placement = place(snapshot, limited, on_progress=run.caller["on_progress"], stop=run.stop)
    return placed_as(snapshot, placement), placement


def _headroom(snapshot: Snapshot, request: SurviveOptions, survival: Survival, context: RunContext) -> None:
    """Fill in the headroom of CapacityBuffers after each failure, and check it."""
    context.report("headroom")
    limited = context.fraction(HEADROOM_TIME_FRACTION)
    survival.headroom, notes = after_failures(snapshot, request, survival.outcomes, limited)
    survival.notes += notes
    insist(list(headroom_faults(snapshot, survival)))
