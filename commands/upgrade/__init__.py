"""``kubestow upgrade``: check that a node pool can be upgraded, wave by wave."""

from __future__ import annotations

import re
from dataclasses import dataclass

import click

from kubestow.commands.common import options
from kubestow.commands.common.exit_codes import refuse
from kubestow.commands.common.help_text import GroupedCommand
from kubestow.commands.common.options import PolicyChoices, SearchChoices, Streams, requested

_ZONE = "topology.kubernetes.io/zone"


@dataclass(frozen=True)
class UpgradeRequest:
    """The options of ``kubestow upgrade``."""

    streams: Streams
    search: SearchChoices
    choices: PolicyChoices
    pool: str
    max_unavailable: str
    surge: str
    by: str | None
    change: str | None

    def check(self) -> None:
        """Refuse contradictory options."""
        refuse(not self.pool, "--pool: expected a label selector, such as pool=old")
        refuse(
            self.max_unavailable.rstrip("%").strip("0") == "" and self.surge.rstrip("%").strip("0") == "",
            "--max-unavailable and --surge are both 0: no node could ever be drained",
        )
        self.streams.check()


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
@requested(UpgradeRequest, streams=Streams, search=SearchChoices, choices=PolicyChoices)
def upgrade(request: UpgradeRequest) -> None:
    """Plan the upgrade of a node pool in waves, or show what blocks it.

    If a drain is blocked, the result names the blockers and the smallest surge that would help.

    Exit codes: 0 if every node can be drained, 3 if one is blocked (the waves that succeed are written), 130 if interrupted (the waves so
    far are proved and written).
    """
    request.check()
    from kubestow.commands.upgrade.run import run

    run(request)
