"""The machine: cores and memory, as far as groups of control leave them; temporary files, and the terminal."""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from models.documents.doctor import Examined
from models.snapshot.sources import free_memory

_CGROUPS: Final = Path("/sys/fs/cgroup")
_OF_PROCESS: Final = Path("/proc/self/cgroup")
#: Bytes below which not even small clusters get far, and below which large ones do not.
_TOO_LITTLE: Final = 256 << 20
_LITTLE: Final = 1 << 30


def examine() -> Iterator[Examined]:
    """Yield what there is."""
    yield cores(usable_cores(), core_limit())
    yield memory(free_memory())
    yield temporary_files()
    yield _terminal()


def usable_cores() -> int:
    """Return how many cores this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def cores(usable: int, limit: float | None) -> Examined:
    """Judge the cores. ``limit``: cores that a group of control gives at once, None: all."""
    found = f"{usable}" + (f", limited to {limit:g} by a cgroup" if limit is not None else "")
    if limit is not None and limit < usable:
        meaning = f"--workers is one per core and does not see that limit: give --workers {max(1, int(limit))}"
        return Examined("cores", "note", found, meaning)
    return Examined("cores", "ok", found)


def core_limit(root: Path = _CGROUPS, own: Path = _OF_PROCESS) -> float | None:
    """Return the least number of cores that the groups of this process give, None where none limits them. Sources: cpu.max of
    https://docs.kernel.org/admin-guide/cgroup-v2.html and cpu.cfs_quota_us of https://docs.kernel.org/scheduler/sched-bwc.html."""
    limits = []
    for group in _groups(own):
        for folder in (root / group, *(root / group).parents):
            if not folder.is_relative_to(root):
                break
            quota, _, period = _text(folder / "cpu.max").partition(" ")
            limits.append((quota, period))
        limits.append((_text(root / "cpu" / group / "cpu.cfs_quota_us"), _text(root / "cpu" / group / "cpu.cfs_period_us")))
    found = [int(quota) / int(period) for quota, period in limits if quota.isdigit() and period.isdigit() and int(period)]
    return min(found, default=None)


def _groups(own: Path) -> Iterator[str]:
    for line in _text(own).splitlines():
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        if not controllers or "cpu" in controllers.split(","):
            yield path.lstrip("/")


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeError):
        return ""


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
