"""Checks of the machine: cores and memory within cgroup limits, temporary files, and the terminal."""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from typing import Final

from kubestow.models.documents.doctor import Examined
from kubestow.models.snapshot.sources import free_memory
from kubestow.solver.executors.cores import core_limit, usable_cores

#: Bytes. Less memory is not enough even for small clusters.
_MIN_BYTES: Final = 256 << 20
#: Bytes. Less memory is not enough for large clusters.
_LARGE_CLUSTER_BYTES: Final = 1 << 30


def examine() -> Iterator[Examined]:
    """Yield the results for cores, memory, temporary files and terminal."""
    yield cores(usable_cores(), core_limit())
    yield memory(free_memory())
    yield temporary_files()
    yield _terminal()


def cores(usable: int, limit: float | None) -> Examined:
    """Return the number of cores, as a line of the report. ``limit``: CPU limit of the cgroup; None without one."""
    return Examined("cores", "ok", f"{usable}" + (f", limited to {limit:g} by a cgroup" if limit is not None else ""))


def memory(free: int | None) -> Examined:
    """Return whether the memory suffices, as a line of the report.

    ``free``: bytes within the limits of cgroups and the process; None if unknown.
    """
    if free is None:
        return Examined("memory", "note", "unknown", "this system does not report free memory; input files of any size are read")
    found = f"{free / (1 << 30):.1f} GiB free, limits of cgroups and of the process included"
    if free < _MIN_BYTES:
        return Examined("memory", "failed", found, "at least 256 MiB are needed")
    large = "about enough for 1,000 pods; large clusters take 1 GiB and more" if free < _LARGE_CLUSTER_BYTES else ""
    return Examined("memory", "note" if large else "ok", found, large)


def temporary_files() -> Examined:
    """Return whether a temporary file can be written, as a line of the report."""
    try:
        with tempfile.TemporaryFile() as file:
            file.write(b"kubestow")
    except OSError as error:
        where = os.environ.get("TMPDIR", "TMPDIR")
        meaning = f"{error.strerror or error}; let TMPDIR name a folder that can be written (in a container: --tmpfs /tmp)"
        return Examined("temporary files", "note", f"{where} cannot be written", meaning)
    return Examined("temporary files", "ok", tempfile.gettempdir())


def _terminal() -> Examined:
    encoding = (getattr(sys.stdout, "encoding", None) or "unknown").lower()
    if sys.stdout is None or not sys.stdout.isatty():
        what = "standard output is not a terminal: results are JSON by default, tables have no colour and any width"
    else:
        colour = "no colour (NO_COLOR)" if os.environ.get("NO_COLOR") else "no colour" if os.environ.get("TERM") == "dumb" else "colour"
        what = f"{shutil.get_terminal_size().columns} columns, {colour}"
    utf8 = re.fullmatch(r"utf-?8", encoding) is not None
    meaning = "" if utf8 else "characters that it lacks are replaced: set LC_ALL to a UTF-8 locale such as C.UTF-8"
    return Examined("terminal", "ok" if utf8 else "note", f"{what}; {encoding}", meaning)
