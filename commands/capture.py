"""``kubestow capture``: write a snapshot of a live cluster."""

from __future__ import annotations

from typing import Any

import click

from kubestow.commands.common import options
from kubestow.commands.common.cluster import choice
from kubestow.commands.common.exit_codes import DONE, INCOMPLETE
from kubestow.commands.common.help_text import GroupedCommand
from kubestow.commands.common.option_values import positive
from kubestow.commands.common.options import Streams, bundled


@click.command(cls=GroupedCommand)
@options.output_file("Write the snapshot to FILE (gzip if it ends in .gz)")
@choice.context
@choice.kubeconfig
@choice.kubectl
@click.option(
    "-n", "--namespace", "namespaces", metavar="NAME", multiple=True, help="Only this namespace, and cluster-scoped objects; repeatable."
)
@click.option("--redact/--no-redact", default=True, help="Keep only the fields that placement reads, or keep whole objects.")
@click.option(
    "--timeout", metavar="SECONDS", type=float, default=60, callback=positive, help="Give up after this time without output from kubectl."
)
@options.noise("Print only errors on standard error.", "Also print kubectl's messages and each kind read on standard error.")
@bundled(streams=Streams)
def capture(streams: Streams, **chosen: Any) -> None:
    """Write a snapshot of a live cluster, read with kubectl.

    Secrets are never requested.

    Exit codes: 0 if everything was read, 3 if a kind could not be read (the snapshot is written without it).
    """
    streams.check()
    from kubestow.commands.common import inputs, output
    from kubestow.commands.common.cluster import capturing
    from kubestow.live.capture import CaptureOptions

    try:
        capture_options = CaptureOptions(**chosen)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    found = inputs.checked(lambda: capturing.capture(capture_options, quiet=streams.quiet, verbose=streams.verbose))
    inputs.warn([*found.problems, *(f"not in the snapshot: {line}" for line in found.unasked)], streams)
    output.write_snapshot(streams, found.parts(), private=not capture_options.redact)
    raise click.exceptions.Exit(INCOMPLETE if found.problems else DONE)
