"""The machine: cores and memory, as far as groups of control leave them; temporary files, and the terminal."""

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

#: Bytes below which not even small clusters get far, and below which large ones do not.
_TOO_LITTLE: Final = 256 << 20
_LITTLE: Final = 1 << 30


def examine() -> Iterator[Examined]:
    """Yield what there is."""
    yield cores(usable_cores(), core_limit())
    yield memory(free_memory())
    yield temporary_files()
    yield _terminal()


def cores(usable: int, limit: float | None) -> Examined:
    """Judge the cores. ``limit``: cores that a group of control gives at once, None: all."""
    return Examined("cores", "ok", f"{usable}" + (f", limited to {limit:g} by a cgroup" if limit is not None else ""))


def memory(free: int | None) -> Examined:
    """Judge the memory. ``free``: bytes, with what groups of control and limits of the process leave; None: not known."""
    if free is None:
        return Examined("memory", "note", "unknown", "this system does not tell how much memory is free; files of any size are read")
    found = f"{free / (1 << 30):.1f} GiB free, limits of cgroups and of the process included"
    if free < _TOO_LITTLE:
        return Examined("memory", "failed", found, "at least 256 MiB are needed")
    large = "about enough for 1,000 pods; large clusters take 1 GiB and more" if free < _LITTLE else ""
    return Examined("memory", "note" if large else "ok", found, large)


def temporary_files() -> Examined:
    """See whether a temporary file can be written."""
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
        what = "standard output is none: results are JSON by default, tables have no colour and any width"
    else:
        colour = "no colour (NO_COLOR)" if os.environ.get("NO_COLOR") else "no colour" if os.environ.get("TERM") == "dumb" else "colour"
        what = f"{shutil.get_terminal_size().columns} columns, {colour}"
    utf8 = re.fullmatch(r"utf-?8", encoding) is not None
    meaning = "" if utf8 else "characters that it lacks are replaced: set LC_ALL to a UTF-8 locale such as C.UTF-8"
    return Examined("terminal", "ok" if utf8 else "note", f"{what}; {encoding}", meaning)
