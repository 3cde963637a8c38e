"""``kubestow apply``: carries a RebalancePlan or a Placement out on a cluster."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from commands.common import options
from commands.common.exit_codes import DONE, VIOLATED, fail, refuse, say
from commands.common.help_text import Command
from commands.common.options import ApplyChoices, Streams, bundled, positive

if TYPE_CHECKING:
    from models.documents.placement import Placement
    from models.documents.rebalance_plan import RebalancePlan
    from models.snapshot.snapshot import Snapshot


def _pause(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
    """Return the seconds between waves, 0 for asking, None for no pause."""
    if value is None or value == "ask":
        return None if value is None else 0.0
    try:
        return positive(ctx, param, float(value))
    except ValueError:
        raise click.BadParameter(f"{value!r} is neither 'ask' nor a number of seconds") from None


@click.command(cls=Command)
@click.argument("snapshots", metavar="SNAPSHOT...", nargs=-1, type=options.FILE)
@options.result_file("The RebalancePlan or Placement to carry out (JSON or YAML).")
@click.option("--yes", is_flag=True, help="Change the cluster.")
@click.option("--dry-run", is_flag=True, help="Touch nothing, as without --yes.")
@click.option("--wave", type=click.IntRange(1), metavar="N", help="End after wave N.")
@click.option("--pause-between", metavar="ask|SECONDS", callback=_pause, help="Before each further wave ask, or wait.")
@click.option("--timeout", metavar="SECONDS", type=float, default=600, callback=positive, help="Seconds that a step may take.")
@click.option("--resume", is_flag=True, help="Go on with the run that the journal beside the result tells of.")
@click.option("--open", "opening", is_flag=True, help="Only open the nodes that runs which have ended left closed.")
@click.option("--context", metavar="NAME", help="The kubeconfig's context; default: its current one.")
@click.option("--kubeconfig", metavar="FILE", type=options.READ, help="The kubeconfig; default: as for kubectl.")
@options.output_file("Write what would be done to FILE")
@options.everything
@options.strict
@options.max_input
@options.noise()
@bundled(streams=Streams, choices=ApplyChoices)
def apply(streams: Streams, choices: ApplyChoices, opening: bool) -> None:
    """Carry a RebalancePlan or a Placement out: exactly what the document says, never a new search.

    Without --yes it prints what would be done and how the cluster differs from the snapshot, and touches nothing. With it, each wave begins
    with that comparison; all nodes are closed while it runs, pods are evicted through the Eviction API, and their replacements are bound to
    the nodes that the document has for them. Each request is noted in RESULT.journal.jsonl. Exits with 3 when it stops, with nothing half
    done, and with 130 after ^C, which finishes what is begun.
    """
    _check_usage(streams, choices, opening=opening)
    streams.check()
    from commands.common import inputs, output
    from live.api.connect import why_not
    from report.terminal.carrying_out import steps

    nowhere = inputs.checked(lambda: why_not(choices.kubeconfig, choices.context))
    if nowhere is not None and (choices.yes or opening):
        fail([nowhere])
    if opening:
        from commands.common import carrying_out

        raise click.exceptions.Exit(carrying_out.run(lambda: carrying_out.open_nodes(choices, streams)))
    document, digest, snapshot = _read(streams)
    if not choices.yes:
        output.write_table(streams, lambda surface: steps(document, snapshot, surface), snapshot.capture)
    if nowhere is not None:
        say(f"note: the cluster was not compared with the snapshot: {nowhere}")
        raise click.exceptions.Exit(DONE)
    from commands.common import carrying_out
    from live.apply.steps import waves

    inputs.checked(lambda: waves(document, snapshot))
    asked = carrying_out.Asked(document, str(streams.result), digest, snapshot, choices, streams)
    raise click.exceptions.Exit(carrying_out.run(lambda: (carrying_out.carry_out if choices.yes else carrying_out.look)(asked)))


def _check_usage(streams: Streams, choices: ApplyChoices, *, opening: bool) -> None:
    """Refuse options that do not go together."""
    refuse(choices.yes and choices.dry_run, "--yes and --dry-run contradict each other")
    refuse(opening and (streams.snapshots or streams.result), "--open goes without a snapshot and a result")
    refuse(not opening and not streams.snapshots, "Missing argument 'SNAPSHOT...'.")
    refuse(not opening and streams.result is None, "Missing option '--result'.")
    refuse(choices.yes and streams.result == "-", "--result cannot be standard input here: its journal is kept beside it")
    asks = choices.pause_between == 0 and choices.yes
    refuse(asks and not sys.stdin.isatty(), "--pause-between ask needs a terminal; give it seconds")


def _read(streams: Streams) -> tuple[Placement | RebalancePlan, str, Snapshot]:
    """Return the document, the hash of its text, and its snapshot; end the command where the one does not hold for the other, or cannot be
    carried out."""
    from commands.common import inputs, judging

    document, digest = judging.read_with_digest(str(streams.result), streams, "carried out")
    snapshot = inputs.load(streams)
    if document.snapshot.sha256 != snapshot.sha256:
        hashes = document.snapshot.sha256[:12], snapshot.sha256[:12]
        fail([f"{streams.result}: the result is of another snapshot: its sha256 is {hashes[0]}, that of this one {hashes[1]}"])
    faults = judging.judge(snapshot, document, streams).violations
    if faults:
        fail([f"the result does not hold: {' on '.join(filter(None, (f.pod, f.node)))}: {f.rule}: {f.why}" for f in faults], VIOLATED)
    return document, digest, snapshot
