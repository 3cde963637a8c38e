"""``kubestow survive``: whether all pods come back when nodes or domains fail."""

from __future__ import annotations

from functools import partial
from typing import Any

import click

from kubestow.commands.common import options
from kubestow.commands.common.exit_codes import DONE, INCOMPLETE, refuse
from kubestow.commands.common.help_text import Command
from kubestow.commands.common.options import PolicyChoices, SearchChoices, Streams, WorkerChoices, bundled


@click.command(cls=Command)
@options.snapshots
@options.table_output("openmetrics")
@click.option(
    "--fail",
    required=True,
    metavar="node|zone|KEY",
    help="What fails: each node, each zone, or the nodes of each value of a label.",
)
@click.option("--at-once", type=click.IntRange(1), default=1, metavar="K", help="So many of them fail at once, in every combination.")
@click.option("--priority", type=int, metavar="N", help="Pods of at least this priority have to come back.  [default: all]")
@click.option("--preemption", is_flag=True, help="Pods of a lower priority than --priority may be preempted for them.")
@click.option("--no-remedy", is_flag=True, help="Do not look for nodes with which all would come back.")
@options.catalogue("a remedy buys of these, where there is one")
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
    """Say whether all pods find a place again when any node, zone or other domain fails, with a proof or a counterexample.

    Exits with 0 when every failure is survived, 3 when one is not or was not decided in time (the result is written all the same), 130
    when interrupted (what is certain by then is written).
    """
    refuse(preemption and priority is None, "--preemption needs --priority: pods of lower ones make room")
    refuse(not fail, "--fail: expected node, zone or the key of a node label")
    streams.check()
    from kubestow.commands import VERSION
    from kubestow.commands.common import inputs, output, searching
    from kubestow.report.documents import csv_rows, metrics, results
    from kubestow.report.terminal.capacity import survival as terminal
    from kubestow.solver.capacity.survive.answer import Wishes, answer
    from kubestow.solver.capacity.survive.options import SurviveOptions

    pool = searching.workers(sharing)
    nodes = inputs.read_catalogue(catalogue)
    changes = inputs.what_if(edits, streams, catalogue=nodes)
    policy = inputs.read_policy(choices)
    run = searching.Run(streams)
    before = inputs.load(streams, policy, empty=bool(edits["buy"]))
    edited = inputs.edit(before, streams, changes)
    snapshot, run.loaded = edited.snapshot, run.seconds()
    left = nodes.without(edits["buy"]) if nodes is not None else None
    made = {"workloads": tuple(edited.workloads), "edits": changes, "unmodelled": tuple(edited.unmodelled), "catalogue": left}
    asked = SurviveOptions(fail, at_once, priority, preemption)
    wishes = Wishes(place=changes is not None or bool(streams.manifests), remedy=not no_remedy, catalogue=left)
    search_options = searching.search_options(search, choices, policy, **made)
    found = run.search(partial(answer, snapshot, asked, search_options, wishes, pool=pool))
    run.accept(found, snapshot)
    output.write_document(
        streams,
        partial(terminal.survival, found, snapshot),
        partial(results.result_document, found),
        csv=partial(csv_rows.survival, found),
        openmetrics=lambda: metrics.survival(found, VERSION, run.seconds() if found.seconds is not None else None),
        snapshot=snapshot,
    )
    run.end(DONE if found.certified else INCOMPLETE, f"{terminal.verdict_line(found)}; {run.seconds():.1f} s")
