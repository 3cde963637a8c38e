"""The work of ``kubestow survive``."""

from __future__ import annotations

from functools import partial
from typing import NoReturn

from kubestow.commands import VERSION
from kubestow.commands.common.exit_codes import DONE, INCOMPLETE
from kubestow.commands.running import inputs, output, searching
from kubestow.commands.running.worker_pool import workers
from kubestow.commands.survive import SurviveRequest
from kubestow.report.documents import results
from kubestow.report.terminal.capacity import survival as terminal
from kubestow.report.writers import WrittenResult
from kubestow.solver.capacity.survive.answer import Wishes, answer
from kubestow.solver.capacity.survive.options import SurviveOptions


def run(request: SurviveRequest) -> NoReturn:
    """Check the failures and write the result."""
    streams = request.streams
    pool = workers(request.sharing)
    changes = inputs.what_if(streams, request.edits, inputs.read_catalogue(request.catalogue))
    policy = inputs.read_policy(request.choices)
    run = searching.SearchRun(streams)
    given = run.read(policy, changes)
    snapshot = given.after
    survive_options = SurviveOptions(request.fail, request.at_once, request.priority, request.preemption)
    edited = changes.edits is not None or bool(streams.manifests)
    wishes = Wishes(place=edited, remedy=not request.no_remedy, catalogue=given.catalogue)
    search_options = given.options(searching.search_options(request.search, request.choices, policy))
    found = run.search(partial(answer, snapshot, survive_options, search_options, wishes, pool=pool))
    given.sign(found)
    run.accept(found)
    output.write_document(
        streams,
        partial(terminal.survival, found, snapshot),
        partial(results.result_document, found),
        WrittenResult(found, snapshot, VERSION, lambda: run.seconds() if found.seconds is not None else None),
    )
    run.end(DONE if found.certified else INCOMPLETE, f"{terminal.verdict_line(found)}; {run.seconds():.1f} s")
