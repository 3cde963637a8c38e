"""The work of ``kubestow capture``."""

from __future__ import annotations

from typing import NoReturn

import click

from kubestow.commands.capture import CaptureRequest
from kubestow.commands.common.exit_codes import DONE, INCOMPLETE
from kubestow.commands.running import capturing, inputs, raw_output
from kubestow.live.capture import CaptureOptions


def run(request: CaptureRequest) -> NoReturn:
    """Capture the cluster and write the snapshot."""
    streams = request.streams
    try:
        capture_options = CaptureOptions(**request.capture)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    found = capturing.capture(capture_options, quiet=streams.quiet, verbose=streams.verbose)
    inputs.warn([*found.problems, *(f"not in the snapshot: {line}" for line in found.unasked)], streams)
    raw_output.write_snapshot(streams, found.parts(), private=not capture_options.redact)
    raise click.exceptions.Exit(INCOMPLETE if found.problems else DONE)
