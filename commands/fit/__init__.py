"""``kubestow fit``: the maximum number of additional replicas that fit."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Literal

import click

from kubestow.commands.common import options
from kubestow.commands.common.help_text import GroupedCommand
from kubestow.commands.common.options import PolicyChoices, SearchChoices, Streams, requested

#: A percentage to keep free, of every node or of every zone.
_Kept = tuple[int, Literal["node", "zone"]]


@dataclass(frozen=True)
class FitRequest:
    """The options of ``kubestow fit``. ``edits``: what-if edits by field of :class:`kubestow.models.documents.placement.Edits`."""

    streams: Streams
    search: SearchChoices
    choices: PolicyChoices
    keep: _Kept | None
    catalogue: str | None
    with_pending: bool
    keep_buffers: bool
    edits: dict[str, Any]


def _keep(ctx: click.Context, param: click.Parameter, value: str | None) -> _Kept | None:
    """Parse ``PERCENT[:node|:zone]``, 1 to 99 per cent. The default is ``node``."""
    if value is None:
        return None
    found = re.fullmatch(r"([0-9]{1,2})%?(?::(node|zone))?", value, re.ASCII)
    if found is None or found[1].strip("0") == "":
        raise click.BadParameter(f"{value!r} is not a percentage (expected PERCENT or PERCENT:zone, from 1 to 99)")
    return int(found[1]), "zone" if found[2] == "zone" else "node"


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
@requested(FitRequest, streams=Streams, search=SearchChoices, choices=PolicyChoices, edits=dict)
def fit(request: FitRequest) -> None:
    """Compute how many more replicas of pod templates fit.

    Exit codes: 0 if at least one unit fits, 3 if none does (the result is written), 130 if interrupted (what is proved so far is
    written).
    """
    request.streams.check()
    from kubestow.commands.fit.run import run

    run(request)
