"""``kubestow capture``: a snapshot of a running cluster."""

from __future__ import annotations

from typing import Any

import click

from commands.common import options
from commands.common.exit_codes import DONE, INCOMPLETE, say
from commands.common.help_text import Command
from commands.common.options import Streams, bundled, positive


@click.command(cls=Command)
@options.output_file("Write to FILE (gzip if it ends in .gz)")
@click.option("--context", metavar="NAME", help="kubectl's context; default: its current one.")
@click.option("--kubeconfig", metavar="FILE", type=options.READ, help="kubectl's configuration file.")
@click.option("--kubectl", metavar="PROGRAM", default="kubectl", help="The program to run.")
@click.option(
    "-n", "--namespace", "namespaces", metavar="NAME", multiple=True, help="Only this namespace, and all that is in none (repeatable)."
)
@click.option("--redact/--no-redact", default=True, help="Keep only the fields that placement reads, or whole objects.")
@click.option("--timeout", metavar="SECONDS", type=float, default=60, callback=positive, help="Give up when kubectl is silent for so long.")
@options.noise("Only errors on standard error.", "Also what kubectl says there.")
@bundled(streams=Streams)
def capture(streams: Streams, **chosen: Any) -> None:
    """Write a snapshot of a running cluster, read with kubectl; secrets are never asked for."""
    streams.check()
    from commands.common import inputs, output
    from live.capture import CaptureOptions
    from live.capture import capture as read

    try:
        asked = CaptureOptions(**chosen)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    heard = (lambda name, count: say(f"{name}: {count}")) if streams.verbose else None
    found = inputs.checked(lambda: read(asked, on_kind=heard))
    inputs.warn([*found.problems, *(f"not in the snapshot: {line}" for line in found.unasked)], streams)
    for note in found.notes if streams.verbose else ():
        say(note)
    if not streams.quiet:
        say("captured: " + (", ".join(f"{count} {kind}" for kind, count in found.counts.items()) or "nothing"))
    output.write_snapshot(streams, found.parts(), private=not asked.redact)
    raise click.exceptions.Exit(INCOMPLETE if found.problems else DONE)
