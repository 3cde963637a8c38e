"""The work of ``kubestow fit``."""

from __future__ import annotations

from functools import partial
from typing import NoReturn

from kubestow.commands.common.exit_codes import DONE, INCOMPLETE
from kubestow.commands.core.given import sign
from kubestow.commands.core.reading import Reading
from kubestow.commands.fit import FitRequest
from kubestow.commands.running import inputs, output, searching
from kubestow.models.documents.fit import Keep
from kubestow.models.documents.placement import Edits
from kubestow.report.documents import results
from kubestow.report.terminal.capacity import fit as terminal
from kubestow.report.writers import WrittenResult
from kubestow.solver.capacity.fit import fit as engine


def run(request: FitRequest) -> NoReturn:
    """Find the number of replicas and write the result."""
    streams = request.streams
    chosen = {**request.edits, "partial": False, "withoutPending": not request.with_pending, "buffers": request.keep_buffers}
    changes = inputs.what_if(streams, chosen, inputs.read_catalogue(request.catalogue))
    edits = changes.edits or Edits()
    policy = inputs.read_policy(request.choices)
    run = searching.SearchRun(streams)
    snapshot = inputs.load(streams, Reading(policy, empty=changes.buys))
    manifests = changes.manifests.read(snapshot.gates, edits)
    assert manifests is not None, "-w is required"
    loaded = run.seconds()
    keep = Keep(*request.keep) if request.keep is not None else None
    search_options = searching.search_options(request.search, request.choices, policy)
    found = run.search(partial(engine.fit, snapshot, manifests, search_options, edits=edits, keep=keep))
    if found.units:
        changes.manifests.edit(snapshot, found.placement.snapshot.edits)  # prints warnings about the manifests
    sign(found, snapshot, loaded)
    run.accept(found)
    result = WrittenResult(found, snapshot)
    output.write_document(streams, partial(terminal.fit, found), partial(results.result_document, found), result)
    run.end(DONE if found.units else INCOMPLETE, f"{terminal.outcome(found)}; {run.seconds():.1f} s")
