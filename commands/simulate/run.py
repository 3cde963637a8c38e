"""The work of ``kubestow simulate``."""

from __future__ import annotations

from functools import partial
from typing import Any, NoReturn

from kubestow.commands import VERSION
from kubestow.commands.common.exit_codes import DONE, INCOMPLETE
from kubestow.commands.running import inputs, output, searching
from kubestow.commands.simulate import SimulateRequest
from kubestow.models.documents.placement import Placement
from kubestow.models.scheduler.profiles import unmodelled
from kubestow.report.documents import results
from kubestow.report.terminal import placement as terminal
from kubestow.report.writers import WrittenResult
from kubestow.solver.kube_scheduler.simulate import simulate
from kubestow.solver.runtime.options import Options


def run(request: SimulateRequest) -> NoReturn:
    """Simulate the scheduler and write the result."""
    streams, edits = request.streams, request.edits
    nodes = inputs.read_catalogue(request.catalogue)
    changes = inputs.what_if(edits, streams, catalogue=nodes)
    policy = inputs.read_policy(request.choices)
    profiles = inputs.read_schedulers(request.scheduler_config)
    run = searching.SearchRun(streams)
    inputs.note_omissions(unmodelled(profiles), streams)
    edited = inputs.edit(inputs.load(streams, policy, empty=bool(edits["buy"])), streams, changes)
    run.loaded = run.seconds()
    options = Options(
        seed=request.seed,
        include_gated=request.choices.include_gated,
        daemon_namespaces=request.choices.daemon_namespaces,
        policy=policy,
        workloads=tuple(edited.workloads),
        edits=changes,
        unmodelled=tuple(edited.unmodelled),
    )

    def work(*, stop: Any, **_: Any) -> Placement:
        return simulate(edited.snapshot, options, profiles, runs=request.runs, stop=stop)

    placement = run.search(work)
    run.accept(placement, edited.snapshot)
    output.write_document(
        streams,
        lambda surface: [*terminal.placement(placement, edited.snapshot, surface), *terminal.simulation(placement, surface)],
        partial(results.result_document, placement),
        WrittenResult(placement, edited.snapshot, VERSION, lambda: None),
    )
    waiting = any(not entry.gated for entry in placement.unplaced)
    run.end(INCOMPLETE if waiting else DONE, terminal.summary(placement, run.seconds()))
