"""The entry point of a series: snapshots of one cluster over time and a catalogue in, one verified Sizing for all of them out."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from kubestow.models.catalogue.catalogue import Catalogue
from kubestow.models.catalogue.money import number
from kubestow.models.documents import placement as doc
from kubestow.models.documents.sizing import Cost, Moment, Sizing
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.solver.capacity.series.deciding import deciding
from kubestow.solver.capacity.series.search import Joint, SeriesIncumbent
from kubestow.solver.capacity.size.brands import menus
from kubestow.solver.capacity.size.options import SizeOptions
from kubestow.solver.capacity.size.purchase_cluster import PurchaseBase, purchase_base
from kubestow.solver.capacity.size.search import SizeOutcome, SizeSearch
from kubestow.solver.capacity.size.size import MAX_CHECK_TO_COMPILE_RATIO, PREFERENCE_TIME_FRACTION, answer, reference
from kubestow.solver.runtime.deadline import Deadline
from kubestow.solver.runtime.options import OnProgress, Options
from kubestow.solver.runtime.phase_seconds import phase_seconds
from kubestow.solver.runtime.progress_trace import ProgressReporter
from kubestow.solver.runtime.run_context import RunContext

#: Fraction of the time limit for solving the snapshots alone.
ALONE_TIME_FRACTION = 0.5


def size_series(
    snapshots: Sequence[Snapshot],
    catalogue: Catalogue,
    requests: Sequence[SizeOptions],
    options: Options,
    *,
    on_progress: OnProgress | None = None,
    stop: threading.Event | None = None,
    began: float | None = None,
) -> Sizing:
    """Find the cheapest nodes that hold all pending pods in each of several snapshots of a cluster.

    Args:
        snapshots: At least two, in the order of their times.
        requests: Options for each snapshot. They may differ only in names of nodes, and ask for no failures.

    Raises:
        InputError: Quantities that cannot be summed, or edits that cannot be made.
        InternalFault: The independent checker found the result invalid.

    The other arguments are those of :func:`kubestow.solver.capacity.size.size.size`.
    """
    started = time.monotonic()
    report = ProgressReporter(on_progress, started)
    report("compile")
    if requests[0].mode == "from-scratch":
        options = replace(options, from_scratch=True)
    purchase_bases = [purchase_base(snapshot, each, options.edits) for snapshot, each in zip(snapshots, requests, strict=True)]
    offered = menus(purchase_bases, catalogue, options)
    compiled = time.monotonic()
    checking = min(MAX_CHECK_TO_COMPILE_RATIO * (compiled - started), (options.time_limit or 0.0) / 3)
    clock = (started if began is None else began) - checking - min(10.0, (options.time_limit or 100.0) * PREFERENCE_TIME_FRACTION)
    context = RunContext(options, Deadline(options, clock), stop or threading.Event(), report)
    searches = [
        SizeSearch(each, one, catalogue, question, context) for each, one, question in zip(purchase_bases, offered, requests, strict=True)
    ]
    outcome = _search(searches, catalogue, context)
    solved = time.monotonic()
    part = None if options.time_limit is None else options.time_limit / len(purchase_bases)
    after = replace(context, options=replace(options, time_limit=part))
    answers = {i: answer(purchase_bases[i], offered[i], catalogue, requests[i], outcome.of(i), after) for i in outcome.to_answer}
    result = answers[outcome.chosen]
    for i, each in answers.items():
        _stamp(each, snapshots[i])
        result.notes += [note for note in each.notes if note not in result.notes]
        known = {(entry.pod, entry.field, entry.effect) for entry in result.unmodelled}
        result.unmodelled += [entry for entry in each.unmodelled if (entry.pod, entry.field, entry.effect) not in known]
    if outcome.infeasible_index is not None:
        result.notes.append(f"no purchase places all pods of the snapshot of {result.snapshot.capturedAt}")
    result.series = [_moment(purchase_bases[i], options, outcome, i, answers.get(i)) for i in range(len(purchase_bases))]
    result.seconds = phase_seconds(options, started, solved, compiled)
    return result


@dataclass
class _SeriesOutcome:
    """The result of the search.

    Attributes:
        alone: The result for each snapshot alone.
        shared: The result for all snapshots together.
        decides: Indices of the deciding snapshots.
        infeasible_index: Index of a snapshot for which no purchase places everything; None without one.
    """

    alone: list[SizeOutcome]
    shared: SeriesIncumbent
    decides: list[int]
    infeasible_index: int | None = None

    @property
    def chosen(self) -> int:
        """Index of the snapshot that the document describes."""
        return max(self.decides or range(len(self.alone)), key=lambda i: (self.alone[i].cost, self.alone[i].bound, -i))

    @property
    def to_answer(self) -> Sequence[int]:
        return range(len(self.alone)) if self.shared.trials else [self.chosen]

    def of(self, i: int) -> SizeOutcome:
        """Return the shared result as a result of one snapshot. If some snapshot is infeasible, return the snapshot's own result."""
        if self.infeasible_index is not None:
            return self.alone[i]
        shared, trial = self.shared, self.shared.trials[i] if self.shared.trials else None
        return SizeOutcome(shared.cost, shared.count, shared.bound, shared.least, shared.infeasible, trial)


def _search(searches: Sequence[SizeSearch], catalogue: Catalogue, context: RunContext) -> _SeriesOutcome:
    alone = _alone(searches, context)
    infeasible_index = next((i for i, outcome in enumerate(alone) if outcome.infeasible), None)
    if infeasible_index is not None:
        return _SeriesOutcome(alone, SeriesIncumbent(infeasible=True), [infeasible_index], infeasible_index)
    joint = Joint(searches, alone, catalogue, searches[0].request, context)
    shared = joint.run()
    return _SeriesOutcome(alone, shared, deciding(joint) if shared.trials else [])


def _alone(searches: Sequence[SizeSearch], context: RunContext) -> list[SizeOutcome]:
    """Return the result of each snapshot alone. Each gets an equal part of the time."""
    outcomes = []
    for i, search in enumerate(searches):
        context.report("search", detail=f"snapshot {i + 1} of {len(searches)} alone")
        if search.menu.hopeless():
            outcomes.append(SizeOutcome(infeasible=True))
            return outcomes + [SizeOutcome() for _ in searches[i + 1 :]]
        remaining_seconds = context.options.time_limit
        own = context.part(None if remaining_seconds is None else max(0.05, remaining_seconds * ALONE_TIME_FRACTION / len(searches)))
        outcomes.append(SizeSearch(search.purchase_base, search.menu, search.catalogue, search.request, own).run())
        context.deadline.charge(own.deadline.elapsed())
        if outcomes[-1].infeasible:
            return outcomes + [SizeOutcome() for _ in searches[i + 1 :]]
    return outcomes


def _moment(cluster: PurchaseBase, options: Options, outcome: _SeriesOutcome, i: int, part: Sizing | None) -> Moment:
    """Return the document's entry for a snapshot.

    Args:
        part: The answer for this snapshot, if it was computed.
    """
    own, decides = outcome.alone[i], i in outcome.decides
    cost = min(own.cost, outcome.shared.cost) if outcome.shared.trials else own.cost  # nodes that suffice for all suffice for each
    alone = None if own.trial is None else Cost(float(number(cost)), float(number(min(own.bound, cost))))
    if part is not None:
        placement = None if i == outcome.chosen else part.placement
        return Moment(part.snapshot, alone, decides, part.buy, placement, part.removed, part.replaced, part.utilisation)
    moment = Moment(reference(cluster.before.snapshot, options, cluster, cluster.base), alone, decides, [])
    _name(moment.snapshot, cluster.snapshot)
    return moment


def _stamp(result: Sizing, snapshot: Snapshot) -> None:
    _name(result.snapshot, snapshot)
    if result.placement is not None:
        _name(result.placement.snapshot, snapshot)


def _name(ref: doc.SnapshotRef, snapshot: Snapshot) -> None:
    """Record the cluster and time of a snapshot in a document. The checker finds the snapshot by them."""
    if snapshot.capture is not None:
        ref.cluster, ref.capturedAt = snapshot.capture.cluster or None, snapshot.capture.time or None
