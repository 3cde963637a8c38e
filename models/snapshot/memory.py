"""How much memory is free, as far as the system tells: of the machine, of the container, of the process."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

_CGROUPS = Path("/sys/fs/cgroup")
_PROC = Path("/proc")


def free() -> int | None:
    """Return how many bytes may still be taken, None if that is not known."""
    return min((max(0, found) for found in _limits()), default=None)


def _limits() -> Iterator[int]:
    available = _field(_PROC / "meminfo", "MemAvailable:")
    if available is not None:
        yield available * 1024
    else:
        with contextlib.suppress(AttributeError, ValueError, OSError):
            yield os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    yield from _of_groups()
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        most = resource.getrlimit(resource.RLIMIT_AS)[0]
        if most != resource.RLIM_INFINITY:
            yield most - (_field(_PROC / "self/status", "VmSize:") or 0) * 1024


def _of_groups() -> Iterator[int]:
    """Yield what is left to the control groups of this process, of either version."""
    groups = [line.split(":", 2)[2].strip("/") for line in _lines(_PROC / "self/cgroup") if line.count(":") >= 2]
    for group in dict.fromkeys([*groups, ""]):
        for folder, most, used, reclaimable in (
            (_CGROUPS / group, "memory.max", "memory.current", "inactive_file"),
            (_CGROUPS / "memory" / group, "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
        ):
            limit, taken = _number(folder / most), _number(folder / used)
            if limit is not None and taken is not None:
                yield limit - taken + (_field(folder / "memory.stat", reclaimable) or 0)


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="ascii", errors="replace").splitlines()
    except (OSError, ValueError):
        return []


def _number(path: Path) -> int | None:
    text = "".join(_lines(path)[:1]).strip()
    return int(text) if text.isascii() and text.isdigit() else None  # "max" is no limit


def _field(path: Path, name: str) -> int | None:
    """Return the number after a name at the begin of a line."""
    words = next((found for line in _lines(path) if (found := line.split())[:1] == [name]), ())
    return int(words[1]) if len(words) > 1 and words[1].isdigit() else None
