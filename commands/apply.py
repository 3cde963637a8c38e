"""``kubestow apply``: carries a RebalancePlan or a Placement out on a cluster."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from kubestow.commands.applying.apply_choices import ApplyChoices
from kubestow.commands.common import options
from kubestow.commands.common.exit_codes import DONE, fail, refuse, say
from kubestow.commands.common.help_text import Command
from kubestow.commands.common.options import Streams, bundled, positive

if TYPE_CHECKING:
    from kubestow.commands.applying.reviewed import Reviewed


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
@options.manifests("-w", "--manifests", "--workload")
@click.option("--serve", is_flag=True, help="Stay, and treat pods that come later, too; with --yes also without a snapshot.")
@click.option("--undo", is_flag=True, help="Delete what was created of the manifests if it does not become whole in time.")
@click.option("--until-done", is_flag=True, help="Where the cluster has changed, plan anew with the same goals and limits, and go on.")
@click.option("--rounds", type=click.IntRange(1, 100), default=5, metavar="N", help="Plans that --until-done carries out at most.")
@click.option("--evict-again", is_flag=True, help="With --until-done: pods may be evicted more than once.")
@click.option("--open", "opening", is_flag=True, help="Only open the nodes that runs which have ended left closed.")
@click.option("--context", metavar="CONTEXT", help="The kubeconfig's context; default: its current one.")
@click.option("--kubeconfig", metavar="FILE", type=options.READ, help="The kubeconfig; default: as for kubectl.")
@options.output_file("Write what would be done to FILE")
@options.everything
@options.judged
@bundled(streams=Streams, choices=ApplyChoices)
def apply(streams: Streams, choices: ApplyChoices, opening: bool) -> None:
    """Carry a RebalancePlan or a Placement out: exactly what the document says, never a new search.

    Without --yes it prints what would be done and how the cluster differs from the snapshot, and touches nothing. With it, each wave begins
    with that comparison; all nodes are closed while it runs, pods are evicted through the Eviction API, and their replacements are bound to
    the nodes that the document has for them. Each request is noted in RESULT.journal.jsonl. Exits with 3 when it stops, with nothing half
    done, and with 130 after ^C, which finishes what is begun.
    """
    _check_usage(streams, choices, opening=opening)
    _keep_journal(streams)
    streams.check()
    from kubestow.commands.common import inputs, output
    from kubestow.live.api.connect import why_not
    from kubestow.report.terminal.carrying_out import steps

    nowhere = inputs.checked(lambda: why_not(choices.kubeconfig, choices.context))
    if nowhere is not None and (choices.yes or opening):
        fail([nowhere])
    if opening:
        from kubestow.commands.applying import carrying_out

        raise click.exceptions.Exit(carrying_out.run(lambda: carrying_out.open_nodes(choices, streams)))
    from kubestow.commands.applying import reviewed

    asked = reviewed.read(streams, choices)
    _check_document(asked)
    if not choices.yes:
        output.write_table(streams, lambda surface: steps(asked.document, asked.snapshot, surface), asked.snapshot)
    if nowhere is not None:
        say(f"note: the cluster was not compared with the snapshot: {nowhere}")
        raise click.exceptions.Exit(DONE)
    raise click.exceptions.Exit(_with_cluster(asked))


def _with_cluster(asked: Reviewed) -> int:
    """Do what was asked for, and return the exit code."""
    from kubestow.commands.applying import carrying_out, releasing, rounds
    from kubestow.commands.common import inputs
    from kubestow.live.apply.steps import waves

    choices = asked.choices
    if asked.templates:
        work = releasing.serve if choices.serve and choices.yes else releasing.release if choices.yes else releasing.look
    else:
        inputs.checked(lambda: waves(asked.document, asked.snapshot))
        work = rounds.until_done if choices.until_done and choices.yes else carrying_out.carry_out if choices.yes else carrying_out.look
    return carrying_out.run(lambda: work(asked))


def _check_document(asked: Reviewed) -> None:
    """Refuse options that a document of its kind has no use for."""
    choices = asked.choices
    refuse((choices.serve or choices.undo) and not asked.templates, "--serve and --undo are for a Placement of manifests")
    refuse(choices.until_done and asked.templates, "--until-done is not for a Placement of manifests: --serve stays and goes on")
    for given, name in ((choices.wave, "--wave"), (choices.pause_between, "--pause-between")):
        refuse(given is not None and asked.templates, f"{name} is not for a Placement of manifests, whose pods go gang by gang")


def _keep_journal(streams: Streams) -> None:
    """Refuse to overwrite the journal of the result's run, which --resume reads."""
    from kubestow.commands.common.overwriting import Named, refuse_same
    from kubestow.live.apply.journal import journal_path

    if streams.output not in (None, "-") and streams.result is not None:
        kept = Named("the journal of --result", "", journal_path(streams.result))
        refuse_same([Named("-o", "output", str(streams.output))], lambda: [kept])


def _check_usage(streams: Streams, choices: ApplyChoices, *, opening: bool) -> None:
    """Refuse options that do not go together."""
    refuse(choices.yes and choices.dry_run, "--yes and --dry-run contradict each other")
    refuse(opening and (streams.snapshots or streams.result), "--open goes without a snapshot and a result")
    refuse(not opening and not streams.snapshots and not (choices.serve and choices.yes), "Missing argument 'SNAPSHOT...'.")
    refuse(not streams.snapshots and streams.manifests, "-w goes with the snapshot that the placement was made from")
    refuse(not opening and streams.result is None, "Missing option '--result'.")
    refuse(choices.yes and streams.result == "-", "--result cannot be standard input here: its journal is kept beside it")
    asks = choices.pause_between == 0 and choices.yes
    refuse(asks and not sys.stdin.isatty(), "--pause-between ask needs a terminal; give it seconds")
    refuse(choices.evict_again and not choices.until_done, "--evict-again goes with --until-done")
    refuse(choices.serve and choices.undo, "--serve and --undo contradict each other")
