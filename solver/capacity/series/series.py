"""From snapshots of one cluster over time and a catalogue to one verified Sizing for all of them."""

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
from kubestow.solver.capacity.series.search import Joint, Shared
from kubestow.solver.capacity.size.menu import menus
from kubestow.solver.capacity.size.options import SizeOptions
from kubestow.solver.capacity.size.search import Found, Search
from kubestow.solver.capacity.size.size import CHECKING, LATER, answer, reference
from kubestow.solver.capacity.size.world import World, world
from kubestow.solver.runtime.deadline import Deadline
from kubestow.solver.runtime.options import OnProgress, Options
from kubestow.solver.runtime.progress_trace import ProgressReporter
from kubestow.solver.runtime.run_context import RunContext

#: Share of the time for the snapshots alone.
ALONE = 0.5


def size_series(
    snapshots: Sequence[Snapshot],
    catalogue: Catalogue,
    asked: Sequence[SizeOptions],
    options: Options,
    *,
    on_progress: OnProgress | None = None,
    stop: threading.Event | None = None,
    began: float | None = None,
) -> Sizing:
    """Find the cheapest nodes that hold everything that waits, in each of several snapshots of a cluster. ``snapshots``: in the order of
    their times, two at least; ``asked``: of each of them, alike but for names of nodes, without failures; else as
    :func:`kubestow.solver.capacity.size.size.size` has it.

    Raises:
        InputError: quantities that cannot be summed, edits that cannot be made.
        InternalFault: the independent checker found the result invalid.
    """
    started = time.monotonic()
    report = ProgressReporter(on_progress, started)
    report("compile")
    if asked[0].mode == "from-scratch":
        options = replace(options, from_scratch=True)
    worlds = [world(snapshot, each, options.edits) for snapshot, each in zip(snapshots, asked, strict=True)]
    offered = menus(worlds, catalogue, options)
    compiled = time.monotonic()
    checking = min(CHECKING * (compiled - started), (options.time_limit or 0.0) / 3)
    clock = (started if began is None else began) - checking - min(10.0, (options.time_limit or 100.0) * LATER)
    context = RunContext(options, Deadline(options, clock), stop or threading.Event(), report)
    searches = [Search(each, one, catalogue, question, context) for each, one, question in zip(worlds, offered, asked, strict=True)]
    found = _search(searches, catalogue, context)
    solved = time.monotonic()
    part = None if options.time_limit is None else options.time_limit / len(worlds)
    after = replace(context, options=replace(options, time_limit=part))
    answers = {i: answer(worlds[i], offered[i], catalogue, asked[i], found.of(i), after) for i in found.to_answer}
    result = answers[found.chosen]
    for i, each in answers.items():
        _stamp(each, snapshots[i])
        result.notes += [note for note in each.notes if note not in result.notes]
        known = {(entry.pod, entry.field, entry.effect) for entry in result.unmodelled}
        result.unmodelled += [entry for entry in each.unmodelled if (entry.pod, entry.field, entry.effect) not in known]
    if found.wrong is not None:
        result.notes.append(f"of the snapshots it is that of {result.snapshot.capturedAt} of which no purchase places everything")
    result.series = [_moment(worlds[i], options, found, i, answers.get(i)) for i in range(len(worlds))]
    if not options.deterministic:
        seconds = time.monotonic() - solved
        result.seconds = doc.Seconds(compile=round(compiled - started, 3), solve=round(solved - compiled, 3), verify=round(seconds, 3))
    return result


@dataclass
class _Found:
    """What was found: ``alone``: for each snapshot; ``shared``: for all; ``decides``: those that decide; ``wrong``: one of which no
    purchase places everything."""

    alone: list[Found]
    shared: Shared
    decides: list[int]
    wrong: int | None = None

    @property
    def chosen(self) -> int:
        """The snapshot that the document is of."""
        return max(self.decides or range(len(self.alone)), key=lambda i: (self.alone[i].cost, self.alone[i].bound, -i))

    @property
    def to_answer(self) -> Sequence[int]:
        return range(len(self.alone)) if self.shared.trials else [self.chosen]

    def of(self, i: int) -> Found:
        """What was found for all, as it was for one of them; of what no purchase does for, that."""
        if self.wrong is not None:
            return self.alone[i]
        shared, trial = self.shared, self.shared.trials[i] if self.shared.trials else None
        return Found(shared.cost, shared.count, shared.bound, shared.least, shared.infeasible, trial)


def _search(searches: Sequence[Search], catalogue: Catalogue, context: RunContext) -> _Found:
    alone = _alone(searches, context)
    wrong = next((i for i, found in enumerate(alone) if found.infeasible), None)
    if wrong is not None:
        return _Found(alone, Shared(infeasible=True), [wrong], wrong)
    joint = Joint(searches, alone, catalogue, searches[0].asked, context)
    shared = joint.run()
    return _Found(alone, shared, deciding(joint) if shared.trials else [])


def _alone(searches: Sequence[Search], context: RunContext) -> list[Found]:
    """What each snapshot needs alone, each in its share of the time."""
    found = []
    for i, search in enumerate(searches):
        context.report("search", detail=f"snapshot {i + 1} of {len(searches)} alone")
        if search.menu.hopeless():
            found.append(Found(infeasible=True))
            return found + [Found() for _ in searches[i + 1 :]]
        left = context.options.time_limit
        own = context.part(None if left is None else max(0.05, left * ALONE / len(searches)))
        found.append(Search(search.world, search.menu, search.catalogue, search.asked, own).run())
        context.deadline.charge(own.deadline.elapsed())
        if found[-1].infeasible:
            return found + [Found() for _ in searches[i + 1 :]]
    return found


def _moment(cluster: World, options: Options, found: _Found, i: int, part: Sizing | None) -> Moment:
    """Return what the document says of a snapshot. ``part``: the answer for it."""
    own, decides = found.alone[i], i in found.decides
    cost = min(own.cost, found.shared.cost) if found.shared.trials else own.cost  # what does for all does for each
    alone = None if own.trial is None else Cost(float(number(cost)), float(number(min(own.bound, cost))))
    if part is not None:
        placement = None if i == found.chosen else part.placement
        return Moment(part.snapshot, alone, decides, part.buy, placement, part.removed, part.replaced, part.utilisation)
    moment = Moment(reference(cluster.before.snapshot, options, cluster, cluster.base), alone, decides, [])
    _name(moment.snapshot, cluster.snapshot)
    return moment


def _stamp(result: Sizing, snapshot: Snapshot) -> None:
    _name(result.snapshot, snapshot)
    if result.placement is not None:
        _name(result.placement.snapshot, snapshot)


def _name(ref: doc.SnapshotRef, snapshot: Snapshot) -> None:
    """Say in a document of which cluster and time a snapshot is: by these, those who check it find the snapshots."""
    if snapshot.capture is not None:
        ref.cluster, ref.capturedAt = snapshot.capture.cluster or None, snapshot.capture.time or None
