"""``kubestow upgrade``: check that a node pool can be upgraded, wave by wave."""

from __future__ import annotations

import re
from functools import partial

import click

from kubestow.commands.common import options
from kubestow.commands.common.exit_codes import DONE, INCOMPLETE, refuse
from kubestow.commands.common.help_text import GroupedCommand
from kubestow.commands.common.options import PolicyChoices, SearchChoices, Streams, bundled

_ZONE = "topology.kubernetes.io/zone"


def _share(ctx: click.Context, param: click.Parameter, value: str) -> str:
    if not re.fullmatch(r"[0-9]{1,6}%?", value, re.ASCII):
        raise click.BadParameter(f"{value!r} is not a number of nodes (expected N or N%)")
    return value


def _domain(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    if value == "":
        raise click.BadParameter("expected zone or the key of a node label")
    return _ZONE if value == "zone" else value


@click.command(cls=GroupedCommand)
@options.snapshots
@options.table_output("Upgrade")
@click.option("--pool", required=True, metavar="SELECTOR", help="Label selector of the pool's nodes, as for kubectl.")
@click.option(
    "--max-unavailable", callback=_share, default="0", metavar="N|N%", help="Maximum number of pool nodes that may be missing at once."
)
@click.option("--surge", callback=_share, default="1", metavar="N|N%", help="Maximum number of extra nodes at once.")
@click.option("--by", callback=_domain, metavar="zone|KEY", help="Upgrade zone by zone, or domain by domain of another label.")
@click.option(
    "--to", "change", metavar="FILE", type=options.READ, help="Changes from an old node to a new one, or a complete new Node (YAML)."
)
@options.time_limit(60.0, "Time limit for finding a way around blockers.")
@options.repeatable
@options.exempting
@bundled(streams=Streams, search=SearchChoices, choices=PolicyChoices)
def upgrade(
    streams: Streams,
    search: SearchChoices,
    choices: PolicyChoices,
    pool: str,
    max_unavailable: str,
    surge: str,
    by: str | None,
    change: str | None,
) -> None:
    """Plan the upgrade of a node pool in waves, or show what blocks it.

    If a drain is blocked, the result names the blockers and the smallest surge that would help.

    Exit codes: 0 if every node can be drained, 3 if one is blocked (the waves that succeed are written), 130 if interrupted (the waves so
    far are proved and written).
    """
    refuse(not pool, "--pool: expected a label selector, such as pool=old")
    refuse(
        max_unavailable.rstrip("%").strip("0") == "" and surge.rstrip("%").strip("0") == "",
        "--max-unavailable and --surge are both 0: no node could ever be drained",
    )
    streams.check()
    from kubestow.commands.common import inputs, output, searching
    from kubestow.models.edits.upgrade import read
    from kubestow.report.documents import results
    from kubestow.report.terminal.capacity import upgrade as terminal
    from kubestow.report.writers import WrittenResult
    from kubestow.solver.capacity.upgrade.pool import UpgradeOptions
    from kubestow.solver.capacity.upgrade.upgrade import upgrade as find

    policy = inputs.read_policy(choices)
    to = inputs.checked(partial(read, change)) if change is not None else None
    run = searching.SearchRun(streams)
    snapshot = inputs.load(streams, policy)
    run.loaded = run.seconds()
    upgrade_options = UpgradeOptions(pool, max_unavailable, surge, by, to, searching.search_options(search, choices, policy))
    found = run.search(partial(find, snapshot, upgrade_options))
    run.accept(found, snapshot)
    table, result = partial(terminal.upgrade, found, snapshot), WrittenResult(found, snapshot)
    output.write_document(streams, table, partial(results.result_document, found), result)
    run.end(DONE if found.complete else INCOMPLETE, f"{terminal.verdict_line(found)}; {run.seconds():.1f} s")
