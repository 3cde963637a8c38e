"""The work of ``kubestow size``."""

from __future__ import annotations

from functools import partial
from typing import NoReturn

from kubestow.commands.common.exit_codes import DONE, INCOMPLETE
from kubestow.commands.core.given import sign
from kubestow.commands.core.reading import Reading
from kubestow.commands.running import inputs, output, searching
from kubestow.commands.size import SizeRequest
from kubestow.models.disruption.node_selection import pool
from kubestow.models.documents.sizing import Mode
from kubestow.models.edits.edits import apply
from kubestow.models.snapshot.snapshot import InputError, Snapshot
from kubestow.report.documents import results
from kubestow.report.terminal.capacity import sizing as terminal
from kubestow.report.writers import WrittenResult
from kubestow.solver.capacity.series.series import size_series
from kubestow.solver.capacity.size.options import SizeOptions
from kubestow.solver.capacity.size.size import size as engine
from kubestow.solver.capacity.survive.options import SurviveOptions


def run(request: SizeRequest) -> NoReturn:
    """Find the cheapest nodes and write the result."""
    streams = request.streams
    changes = inputs.what_if(streams, request.edits)
    offered = inputs.read_catalogue(request.catalogue)
    assert offered is not None, "--catalogue is required"
    policy = inputs.read_policy(request.choices)
    run = searching.SearchRun(streams)
    how = Reading(policy, empty=True)
    several = inputs.load_over_time(streams, how) if request.problem.series else [("", inputs.load(streams, how))]
    manifests = changes.manifests.read(several[0][1].gates, changes.edits)
    before = [changes.manifests.edit(each, changes.edits, manifests) for _, each in several]
    questions = [_options(request, each, manifests, path) for path, each in several]
    loaded = run.seconds()
    chosen = searching.search_options(request.search, request.choices, policy, edits=changes.edits)
    if request.problem.series:
        found = run.search(partial(size_series, [each for _, each in several], offered, questions, chosen))
    else:
        found = run.search(partial(engine, several[0][1], offered, questions[0], chosen))
    own = found.of_moment
    snapshot, given = several[own][1], before[own].snapshot
    after = apply(snapshot, manifests, found.snapshot.edits).snapshot if found.snapshot.edits is not None else given
    inputs.warn([text for text in after.warnings if text not in given.warnings], streams)
    sign(found, snapshot, loaded)
    run.accept(found)
    output.write_document(
        streams,
        lambda surface: terminal.sizing(found, after, surface),
        lambda: results.result_document(found),
        WrittenResult(found, after),
    )
    run.end(DONE if found.status in ("optimal", "feasible") else INCOMPLETE, terminal.summary(found, run.seconds()))


def _options(request: SizeRequest, snapshot: Snapshot, manifests: Snapshot | None, path: str = "") -> SizeOptions:
    """Return the engine's options. ``path`` names the snapshot in messages about an invalid pool."""
    problem = request.problem
    failures = SurviveOptions(problem.survive, problem.at_once or 1, problem.priority) if problem.survive is not None else None
    buffers = not problem.without_buffers
    if problem.pool is None:
        mode: Mode = "from-scratch" if request.search.from_scratch else "add"
        return SizeOptions(mode, kinds=problem.kinds, survive=failures, manifests=manifests, buffers=buffers)
    try:
        gone = pool(snapshot, problem.pool)
    except InputError as error:
        raise InputError([f"{path}{': ' if path else ''}{text}" for text in error.problems]) from None
    return SizeOptions("replace", problem.pool, tuple(gone), problem.kinds, failures, manifests, buffers)
