"""The work of ``kubestow solve``."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NoReturn

from kubestow.commands import VERSION
from kubestow.commands.common.exit_codes import DONE, INCOMPLETE
from kubestow.commands.running import inputs, output, searching
from kubestow.commands.solve import SolveRequest
from kubestow.models.documents.placement import Placement
from kubestow.models.execution.template_nodes import template_nodes
from kubestow.models.snapshot import sources
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.report.documents import manifests, results
from kubestow.report.terminal import placement as terminal
from kubestow.report.writers import WrittenResult
from kubestow.solver.rollout.simulate import roll_out
from kubestow.solver.runtime.options import Options
from kubestow.solver.solve import place


def run(request: SolveRequest) -> NoReturn:
    """Search for the placement and write the result."""
    streams, edits, template = request.streams, request.edits, request.template
    nodes = inputs.read_catalogue(request.catalogue)
    changes = inputs.what_if(edits, streams, template, catalogue=nodes)
    streams.check(template)
    policy = inputs.read_policy(request.choices)
    run = searching.SearchRun(streams)
    snapshot = inputs.load(streams, policy, empty=bool(edits["buy"]))
    revision = inputs.load_manifests([template] if template else [], streams, snapshot.gates, changes)
    with sources.keeping() as files:
        edited = inputs.edit(snapshot, streams, changes)
    before, snapshot, run.loaded = snapshot, edited.snapshot, run.seconds()
    search_options = searching.search_options(
        request.search,
        request.choices,
        policy,
        search_strategy=request.choices.strategy is not None or policy.strategy != "spread",
        workloads=tuple(edited.workloads),
        edits=changes,
        catalogue=nodes.without(edits["buy"]) if nodes is not None else None,
        unmodelled=tuple(edited.unmodelled),
    )
    placement = run.search(_search(snapshot, request.workload, revision, search_options))
    run.accept(placement, snapshot)
    templates = template_nodes(before, snapshot, edited.workloads, placement) if streams.wants("manifests") else []
    asked_for = manifests.ManifestRequest(
        files, templates, edits["namespace"], request.gates, streams.allow_unknown_fields, snapshot.sha256
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


def _search(snapshot: Snapshot, rollout: str | None, revision: Snapshot | None, search_options: Options) -> Callable[..., Placement]:
    """Return the function that searches for a placement, or simulates the rollout."""
    if rollout is None:
        return partial(place, snapshot, search_options)
    return partial(roll_out, snapshot, rollout, revision, search_options)
