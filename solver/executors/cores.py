"""CPU cores that this process may use, by its affinity and its control groups."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

_CGROUPS: Final = Path("/sys/fs/cgroup")
_OF_PROCESS: Final = Path("/proc/self/cgroup")


def cores() -> int:
    """Return the number of searches that can run at once; at least 1, even if a limit leaves less than a core."""
    limit = _limit()
    return usable_cores() if limit is None else max(1, min(usable_cores(), int(limit)))


@cache
def _limit() -> float | None:
    return core_limit()


def usable_cores() -> int:
    """Return the number of cores on which this process may run."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def core_limit(root: Path = _CGROUPS, own: Path = _OF_PROCESS) -> float | None:
    """Return the smallest number of cores that the control groups of this process grant. None without a limit.

    Sources: cpu.max of https://docs.kernel.org/admin-guide/cgroup-v2.html and cpu.cfs_quota_us of
    https://docs.kernel.org/scheduler/sched-bwc.html."""
    limits = []
    for group in _groups(own):
        for folder in _upwards(root, group):
            quota, _, period = _text(folder / "cpu.max").partition(" ")
            limits.append((quota, period))
        older = _upwards(root / "cpu", group)  # in a container, its own group may appear as the root
        limits += [(_text(folder / "cpu.cfs_quota_us"), _text(folder / "cpu.cfs_period_us")) for folder in older]
    allowed = [int(quota) / int(period) for quota, period in limits if quota.isdigit() and period.isdigit() and int(period)]
    return min(allowed, default=None)


def _upwards(root: Path, group: str) -> Iterator[Path]:
    """Yield the folders of a group and of its parents."""
    for folder in (root / group, *(root / group).parents):
        if not folder.is_relative_to(root):
            return
        yield folder


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
