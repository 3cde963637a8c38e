"""``kubestow fit``: the maximum number of additional replicas that fit."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from kubestow.commands.common import options
from kubestow.commands.common.exit_codes import DONE, INCOMPLETE
from kubestow.commands.common.help_text import GroupedCommand
from kubestow.commands.common.options import PolicyChoices, SearchChoices, Streams, bundled

if TYPE_CHECKING:
    from kubestow.models.documents.fit import Keep


def _keep(ctx: click.Context, param: click.Parameter, value: str | None) -> Keep | None:
    """Parse ``PERCENT[:node|:zone]``, 1 to 99 per cent. The default is ``node``."""
    if value is None:
        return None
    from kubestow.models.documents.fit import Keep

    found = re.fullmatch(r"([0-9]{1,2})%?(?::(node|zone))?", value, re.ASCII)
    if found is None or found[1].strip("0") == "":
        raise click.BadParameter(f"{value!r} is not a percentage (expected PERCENT or PERCENT:zone, from 1 to 99)")
    return Keep(int(found[1]), "zone" if found[2] == "zone" else "node")


@click.command(cls=GroupedCommand)
@options.snapshots
@options.table_output("Fit")
@options.search
@options.manifests(
    "-w", "--manifests", "--workload", text="Pod templates; several are added in the ratio of their replicas.", required=True
)
@click.option("--keep", callback=_keep, metavar="PERCENT[:zone]", help="Keep this percentage of every node, or of every zone, free.")
@click.option("--with-pending", is_flag=True, help="Also place all pending pods of the snapshot.")
@click.option("--keep-buffers", is_flag=True, help="Keep the capacity of all CapacityBuffer chunks free.")
@options.namespace
@options.node_edits
@options.catalogue("for --buy")
@options.scoped
@bundled(streams=Streams, search=SearchChoices, choices=PolicyChoices)
def fit(
    streams: Streams,
    search: SearchChoices,
    choices: PolicyChoices,
    keep: Keep | None,
    catalogue: str | None,
    *,
    with_pending: bool,
    keep_buffers: bool,
    **edits: Any,
) -> None:
    """Compute how many more replicas of pod templates fit.

    Exit codes: 0 if at least one unit fits, 3 if none does (the result is written), 130 if interrupted (what is proved so far is
    written).
    """
    streams.check()
    from kubestow.commands.common import inputs, output, searching
    from kubestow.models.documents.placement import Edits
    from kubestow.report.documents import results
    from kubestow.report.terminal.capacity import fit as terminal
    from kubestow.report.writers import WrittenResult
    from kubestow.solver.capacity.fit import fit as engine

    chosen = {**edits, "partial": False, "withoutPending": not with_pending, "buffers": keep_buffers}
    changes = inputs.what_if(chosen, streams, catalogue=inputs.read_catalogue(catalogue)) or Edits()
    policy = inputs.read_policy(choices)
    run = searching.SearchRun(streams)
    snapshot = inputs.load(streams, policy, empty=bool(edits["buy"]))
    manifests = inputs.load_manifests(streams.manifests, streams, snapshot.gates, changes)
    assert manifests is not None, "-w is required"
    run.loaded = run.seconds()
    search_options = searching.search_options(search, choices, policy)
    found = run.search(partial(engine.fit, snapshot, manifests, search_options, edits=changes, keep=keep))
    if found.units:
        inputs.edit(snapshot, streams, found.placement.snapshot.edits)  # prints warnings about the manifests
    run.accept(found, snapshot)
    result = WrittenResult(found, snapshot)
    output.write_document(streams, partial(terminal.fit, found), partial(results.result_document, found), result)
    run.end(DONE if found.units else INCOMPLETE, f"{terminal.outcome(found)}; {run.seconds():.1f} s")
