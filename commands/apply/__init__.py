"""``kubestow apply``: carry out a RebalancePlan or a Placement on a live cluster.

Start at :mod:`kubestow.commands.apply.run`, and at :mod:`kubestow.commands.apply.reviewed` for the document.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

import click

from kubestow.commands.apply.apply_choices import ApplyChoices
from kubestow.commands.common import options
from kubestow.commands.common.exit_codes import refuse
from kubestow.commands.common.help_text import GroupedCommand
from kubestow.commands.common.option_values import positive
from kubestow.commands.common.options import Streams, requested


@dataclass(frozen=True)
class ApplyRequest:
    """The options of ``kubestow apply``."""

    streams: Streams
    choices: ApplyChoices
    opening: bool

    def check(self) -> None:
        """Refuse contradictory options."""
        streams, choices, opening = self.streams, self.choices, self.opening
        refuse(choices.yes and choices.dry_run, "--yes and --dry-run contradict each other")
        refuse(opening and (streams.snapshots or streams.result), "--open takes neither a snapshot nor a result")
        refuse(not opening and not streams.snapshots and not (choices.serve and choices.yes), "Missing argument 'SNAPSHOT...'.")
        refuse(not streams.snapshots and streams.manifests, "-w requires the snapshot that the placement was made from")
        refuse(not opening and streams.result is None, "Missing option '--result'.")
        refuse(
            choices.yes and streams.result == "-", "with --yes, --result must be a file, not standard input: the journal is kept next to it"
        )
        asks = choices.pause_between == 0 and choices.yes
        refuse(asks and not sys.stdin.isatty(), "--pause-between ask needs a terminal; give a number of seconds instead")
        refuse(choices.evict_again and not choices.until_done, "--evict-again requires --until-done")
        refuse(choices.serve and choices.undo, "--serve and --undo contradict each other")


def _pause(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
    """Return the seconds between waves: 0 to ask the user, None for no pause."""
    if value is None or value == "ask":
        return None if value is None else 0.0
    try:
        return positive(ctx, param, float(value))
    except ValueError:
        raise click.BadParameter(f"{value!r} is neither 'ask' nor a number of seconds") from None


@click.command(cls=GroupedCommand)
@click.argument("snapshots", metavar="SNAPSHOT...", nargs=-1, type=options.FILE)
@options.result_file("RebalancePlan or Placement to apply (JSON or YAML).")
@click.option("--yes", is_flag=True, help="Change the cluster. Without it, only print what would be done.")
@click.option("--dry-run", is_flag=True, help="Only print what would be done, as without --yes.")
@click.option("--wave", type=click.IntRange(1), metavar="N", help="Stop after wave N.")
@click.option("--pause-between", metavar="ask|SECONDS", callback=_pause, help="Ask, or wait, before each wave after the first.")
@click.option("--timeout", metavar="SECONDS", type=float, default=600, callback=positive, help="Time limit of one step.")
@click.option("--resume", is_flag=True, help="Resume the run recorded in RESULT.journal.jsonl.")
@options.manifests("-w", "--manifests", "--workload")
@click.option("--serve", is_flag=True, help="Keep running and handle pods created later; with --yes, no snapshot is needed.")
@click.option("--undo", is_flag=True, help="Delete the objects created from the manifests if their pods are not all placed in time.")
@click.option("--until-done", is_flag=True, help="If the cluster has changed, plan again with the same goals and limits, and continue.")
@click.option("--rounds", type=click.IntRange(1, 100), default=5, metavar="N", help="Maximum number of plans for --until-done.")
@click.option("--evict-again", is_flag=True, help="With --until-done: allow evicting a pod more than once.")
@click.option("--open", "opening", is_flag=True, help="Only uncordon nodes that earlier runs left closed.")
@click.option("--context", metavar="CONTEXT", help="Context of the kubeconfig.  [default: its current one]")
@click.option("--kubeconfig", metavar="FILE", type=options.READ, help="Path of the kubeconfig.  [default: as for kubectl]")
@options.output_file("Write the preview to FILE")
@options.everything
@options.judged
@requested(ApplyRequest, streams=Streams, choices=ApplyChoices)
def apply(request: ApplyRequest) -> None:
    """Apply a RebalancePlan or Placement to a live cluster, exactly as written.

    Without --yes, print what would be done and how the cluster differs from the snapshot, and change nothing. With --yes, compare the
    cluster with the snapshot before each wave. All nodes stay closed during the run; pods are evicted through the Eviction API, and their
    replacements are bound to the planned nodes. Every request is recorded in RESULT.journal.jsonl.

    Exit codes: 0 if everything is done, 3 if the run stops early (no step is left half done), 130 after ^C (steps under way are
    finished first).
    """
    request.check()
    from kubestow.commands.apply.run import run

    run(request)
