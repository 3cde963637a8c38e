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
    streams = request.streams
    changes = inputs.what_if(streams, request.edits, inputs.read_catalogue(request.catalogue))
    policy = inputs.read_policy(request.choices)
    profiles = inputs.read_schedulers(request.scheduler_config)
    run = searching.SearchRun(streams)
    inputs.note_omissions(unmodelled(profiles), streams)
    given = run.read(policy, changes)
    snapshot = given.after
    choices = Options(seed=request.seed, include_gated=request.choices.include_gated, daemon_namespaces=request.choices.daemon_namespaces)
    options = given.options(choices)

    def work(*, stop: Any, **_: Any) -> Placement:
        return simulate(snapshot, options, profiles, runs=request.runs, stop=stop)

    placement = run.search(work)
    given.sign(placement)
    run.accept(placement)
    output.write_document(
        streams,
        lambda surface: [*terminal.placement(placement, snapshot, surface), *terminal.simulation(placement, surface)],
        partial(results.result_document, placement),
        WrittenResult(placement, snapshot, VERSION, lambda: None),
    )
    waiting = any(not entry.gated for entry in placement.unplaced)
    run.end(INCOMPLETE if waiting else DONE, terminal.summary(placement, run.seconds()))
