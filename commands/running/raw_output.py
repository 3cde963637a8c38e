"""Writing of bytes to the file of -o or to standard output."""

from __future__ import annotations

from collections.abc import Iterable

from kubestow.commands.common.options import Streams
from kubestow.report.documents.output import gzipped, write_file, write_stdout


def write(streams: Streams, parts: Iterable[bytes], *, private: bool = False) -> None:
    """Write bytes to the file of -o or to standard output. ``private``: readable by the owner only."""
    if streams.output in (None, "-"):
        write_stdout(parts)
    else:
        write_file(str(streams.output), parts, private=private)


def write_snapshot(streams: Streams, parts: Iterable[bytes], *, private: bool = False) -> None:
    """Write a snapshot, compressed if the file name ends in .gz."""
    write(streams, gzipped(parts) if (streams.output or "").endswith(".gz") else parts, private=private)
