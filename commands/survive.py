"""``kubestow survive``: check that all pods can be rescheduled after failures."""

from __future__ import annotations

from functools import partial
from typing import Any

import click

from kubestow.commands.common import options
from kubestow.commands.common.exit_codes import DONE, INCOMPLETE, refuse
from kubestow.commands.common.help_text import GroupedCommand
from kubestow.commands.common.options import PolicyChoices, SearchChoices, Streams, WorkerChoices, bundled


@click.command(cls=GroupedCommand)
@options.snapshots
@options.table_output("Survival")
@click.option(
    "--fail",
    required=True,
    metavar="node|zone|KEY",
    help="Failure domain: each node, each zone, or all nodes with the same value of a label.",
)
@click.option("--at-once", type=click.IntRange(1), default=1, metavar="K", help="Number of simultaneous failures, in every combination.")
@click.option("--priority", type=int, metavar="N", help="Lowest priority that must be rescheduled.  [default: all]")
@click.option("--preemption", is_flag=True, help="Allow preemption of pods with a lower priority than --priority.")
@click.option("--no-remedy", is_flag=True, help="Do not search for additional nodes that would help.")
@options.catalogue("for --buy and for remedies that buy nodes")
@options.search
@options.workers
@options.manifests("-w", "--manifests", "--workload")
@options.edits
@options.exempting
@bundled(streams=Streams, search=SearchChoices, choices=PolicyChoices, sharing=WorkerChoices)
def survive(
    streams: Streams,
    search: SearchChoices,
    choices: PolicyChoices,
    sharing: WorkerChoices,
    fail: str,
    at_once: int,
    priority: int | None,
    preemption: bool,
    catalogue: str | None,
    no_remedy: bool,
    **edits: Any,
) -> None:
    """Check that every pod can be rescheduled after any single node, zone or domain failure.

    The answer is a proof or a counterexample. With --at-once, several domains fail together.

    Exit codes: 0 if every failure is survived, 3 if one is not or was not decided in time (the result is written), 130 if interrupted (what
    is proved so far is written).
    """
    refuse(preemption and priority is None, "--preemption requires --priority: only pods of lower priority are preempted")
    refuse(not fail, "--fail: expected node, zone or the key of a node label")
    streams.check()
    from kubestow.commands import VERSION
    from kubestow.commands.common import inputs, output, searching
    from kubestow.report.documents import results
    from kubestow.report.terminal.capacity import survival as terminal
    from kubestow.report.writers import WrittenResult
    from kubestow.solver.capacity.survive.answer import Wishes, answer
    from kubestow.solver.capacity.survive.options import SurviveOptions

    pool = searching.workers(sharing)
    nodes = inputs.read_catalogue(catalogue)
    changes = inputs.what_if(edits, streams, catalogue=nodes)
    policy = inputs.read_policy(choices)
    run = searching.SearchRun(streams)
    before = inputs.load(streams, policy, empty=bool(edits["buy"]))
    edited = inputs.edit(before, streams, changes)
    snapshot, run.loaded = edited.snapshot, run.seconds()
    remaining_catalogue = nodes.without(edits["buy"]) if nodes is not None else None
    made = {
        "workloads": tuple(edited.workloads),
        "edits": changes,
        "unmodelled": tuple(edited.unmodelled),
        "catalogue": remaining_catalogue,
    }
    survive_options = SurviveOptions(fail, at_once, priority, preemption)
    wishes = Wishes(place=changes is not None or bool(streams.manifests), remedy=not no_remedy, catalogue=remaining_catalogue)
    search_options = searching.search_options(search, choices, policy, **made)
    found = run.search(partial(answer, snapshot, survive_options, search_options, wishes, pool=pool))
    run.accept(found, snapshot)
    output.write_document(
        streams,
        partial(terminal.survival, found, snapshot),
        partial(results.result_document, found),
        WrittenResult(found, snapshot, VERSION, lambda: run.seconds() if found.seconds is not None else None),
    )
    run.end(DONE if found.certified else INCOMPLETE, f"{terminal.verdict_line(found)}; {run.seconds():.1f} s")
