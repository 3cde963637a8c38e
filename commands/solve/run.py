"""The work of ``kubestow solve``."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NoReturn

from kubestow.commands import VERSION
from kubestow.commands.common.exit_codes import DONE, INCOMPLETE
from kubestow.commands.core.given import Given
from kubestow.commands.running import inputs, output, searching
from kubestow.commands.solve import SolveRequest
from kubestow.models.documents.placement import Placement
from kubestow.models.execution.template_nodes import template_nodes
from kubestow.report.documents import manifests, results
from kubestow.report.terminal import placement as terminal
from kubestow.report.writers import WrittenResult
from kubestow.solver.rollout.simulate import roll_out
from kubestow.solver.solve import place


def run(request: SolveRequest) -> NoReturn:
    """Search for the placement and write the result."""
    streams, template = request.streams, request.template
    changes = inputs.what_if(streams, request.edits, inputs.read_catalogue(request.catalogue), template)
    streams.check(template)
    policy = inputs.read_policy(request.choices)
    run = searching.SearchRun(streams)
    given = run.read(policy, changes)
    snapshot = given.after
    placement = run.search(_search(request, given))
    given.sign(placement)
    run.accept(placement)
    templates = template_nodes(given.before, snapshot, given.workloads, placement) if streams.wants("manifests") else []
    asked_for = manifests.ManifestRequest(
        given.files, templates, request.edits["namespace"], request.gates, streams.allow_unknown_fields, snapshot.sha256
    )
    output.write_document(
        streams,
        partial(terminal.placement, placement, snapshot),
        partial(results.result_document, placement),
        WrittenResult(placement, snapshot, VERSION, lambda: run.seconds() if placement.seconds is not None else None, manifests=asked_for),
    )
    searching.warn_of_gates(streams, request.choices, "create the bindings")
    without = results.without_binding(placement, snapshot) if streams.wants("kubectl") else []
    inputs.note([*without, *manifests.notes(templates, gates=request.gates)])
    halted = placement.rollout is not None and not placement.rollout.complete
    waiting = halted or any(not entry.gated for entry in placement.unplaced)
    run.end(INCOMPLETE if waiting or placement.status == "unknown" else DONE, terminal.summary(placement, run.seconds()))


def _search(request: SolveRequest, given: Given) -> Callable[..., Placement]:
    """Return the function that searches for a placement, or simulates the rollout."""
    chosen = searching.search_options(request.search, request.choices, given.policy, search_strategy=request.choices.strategy is not None)
    if request.workload is None:
        return partial(place, given.after, given.solve_options(chosen))
    paths = [request.template] if request.template else []
    revision = inputs.manifests(request.streams, paths).read(given.before.gates, given.edits)
    return partial(roll_out, given.after, request.workload, revision, given.solve_options(chosen))
