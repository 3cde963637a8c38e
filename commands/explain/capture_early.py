"""The capture of a cluster while the modules of the command are imported: both take about a second."""

from __future__ import annotations

from kubestow.commands.common.options import Streams


def begin(streams: Streams) -> None:
    """Begin the capture in the background if the command reads a cluster. Call it when no option can be refused any more."""
    if streams.cluster is not None:
        from kubestow.commands.running import capturing

        capturing.begin(streams.cluster, verbose=streams.verbose)
