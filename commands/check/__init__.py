"""``kubestow check``: check that manifests fit a cluster, and find problems in them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import click

from kubestow.commands.common import cluster_choice, options, selecting
from kubestow.commands.common.exit_codes import refuse
from kubestow.commands.common.help_text import GroupedCommand
from kubestow.commands.common.options import PolicyChoices, SearchChoices, Streams, requested
from kubestow.commands.common.selecting import FindingSelection


@dataclass(frozen=True)
class CheckRequest:
    """The options of ``kubestow check``. The manifests of ``streams`` include those of ``more``."""

    streams: Streams
    search: SearchChoices
    choices: PolicyChoices
    chosen: FindingSelection
    more: tuple[str, ...]
    base: tuple[str, ...]
    fail_on: str
    namespace: str | None
    charts: tuple[str, ...]
    allow_unknown_kinds: bool
    show_known: bool

    def check(self) -> None:
        """Refuse contradictory options."""
        streams = self.streams
        refuse(not streams.manifests, "no manifests: name files or folders, or - for standard input")
        refuse("-" in self.base and "-" in (*streams.manifests, *streams.snapshots), "only one of the inputs can be standard input")
        streams.check()


@click.command(cls=GroupedCommand)
@click.argument("more", metavar="[MANIFEST]...", nargs=-1, type=options.FILE)
@options.manifests("-w", "--manifests", "--workload", text="Manifests to check: files, folders, - for standard input; repeatable.")
@click.option(
    "--cluster",
    "snapshots",
    multiple=True,
    metavar="SNAPSHOT",
    type=options.FILE,
    help="Snapshot of the target cluster; repeatable.  [default: check the manifests alone]",
)
@cluster_choice.in_place
@click.option("--base", multiple=True, metavar="FILE", type=options.FILE, help="Previous manifests: report only new findings; repeatable.")
@click.option(
    "--chart",
    "charts",
    multiple=True,
    metavar="DIR",
    type=options.READ,
    help="Chart rendered to standard input: findings name its templates in DIR; repeatable.",
)
@click.option("--allow-unknown-kinds", is_flag=True, help="Ignore pod templates in unknown kinds instead of reporting them (KS809).")
@click.option("--show-known", is_flag=True, help="Also list findings that --base or --baseline knows.")
@selecting.fail_on
@selecting.codes
@selecting.known
@options.namespace
@options.table_output("Check")
@options.search
@options.exempting
@requested(CheckRequest, streams=Streams, search=SearchChoices, choices=PolicyChoices, chosen=FindingSelection)
def check(request: CheckRequest) -> None:
    """Check that manifests fit a cluster, and find problems in them.

    Exit codes: 0 if everything fits, 3 if something does not fit or is not proved to, 4 if a new finding reaches the severity of
    --fail-on.
    """
    given = request.streams
    request = replace(request, streams=replace(given, manifests=(*given.manifests, *request.more)))
    request.check()
    from kubestow.commands.check.run import run

    run(request)
