"""``kubestow capture``: write a snapshot of a live cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import click

from kubestow.commands.common import cluster_choice, options
from kubestow.commands.common.help_text import GroupedCommand
from kubestow.commands.common.option_values import positive
from kubestow.commands.common.options import Streams, requested


@dataclass(frozen=True)
class CaptureRequest:
    """A request for a snapshot. ``capture``: fields of :class:`kubestow.live.capture.CaptureOptions`."""

    streams: Streams
    capture: dict[str, Any]


@click.command(cls=GroupedCommand)
@options.output_file("Write the snapshot to FILE (gzip if it ends in .gz)")
@cluster_choice.context
@cluster_choice.kubeconfig
@cluster_choice.kubectl
@click.option(
    "-n", "--namespace", "namespaces", metavar="NAME", multiple=True, help="Only this namespace, and cluster-scoped objects; repeatable."
)
@click.option("--redact/--no-redact", default=True, help="Keep only the fields that placement reads, or keep whole objects.")
@click.option(
    "--timeout", metavar="SECONDS", type=float, default=60, callback=positive, help="Give up after this time without output from kubectl."
)
@options.noise("Print only errors on standard error.", "Also print kubectl's messages and each kind read on standard error.")
@requested(CaptureRequest, streams=Streams, capture=dict)
def capture(request: CaptureRequest) -> None:
    """Write a snapshot of a live cluster, read with kubectl.

    Secrets are never requested.

    Exit codes: 0 if everything was read, 3 if a kind could not be read (the snapshot is written without it).
    """
    request.streams.check()
    from kubestow.commands.capture.run import run

    run(request)
