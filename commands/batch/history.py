"""Earlier snapshots of the same cluster in a batch, which tasks get as ``--since`` (``batch --series``).

A task gets the snapshots within the longest grace period of its options, its policy, or a pod.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any, Final

import msgspec

from kubestow.commands.batch.plan import OptionSet
from kubestow.models.documents import policy as policies
from kubestow.models.execution.execution_grace import MAX_SECONDS, stated
from kubestow.models.snapshot import snapshot as snapshots
from kubestow.models.snapshot import sources
from kubestow.models.snapshot.capture_info import Capture, capture_info, instant
from kubestow.models.snapshot.snapshot import InputError

_GRACE: Final = "--execution-grace"
_SINCE: Final = "--since"
_POLICY: Final = "--policy"
_STATED: Final = re.compile(rb"execution-grace-seconds[\"']?\s*:\s*[\"']?([0-9]{1,10})")


class _ListHead(msgspec.Struct):
    """The part of a List that has its capture time."""

    kind: str = ""
    metadata: Any = None


@dataclass(frozen=True)
class _Moment:
    """Cluster and time of a snapshot. ``stated``: the longest grace period of a pod, in seconds (an upper bound)."""

    cluster: str
    time: datetime
    stated: int


class Past:
    """The snapshots of a batch in order of time. Each path is a file or a directory."""

    def __init__(self, paths: Sequence[str]) -> None:
        self._paths = tuple(paths)
        self._known: dict[str, _Moment | None] = {}

    def before(self, path: str, each: OptionSet) -> tuple[OptionSet, tuple[str, ...]]:
        """Return the option set without ``--since``, and the earlier snapshots for a snapshot.

        Snapshots named by ``--since`` are included if they are earlier ones of the same cluster.
        """
        if each.command not in ("audit", "rebalance") or (each.command == "rebalance" and "repair" not in each.options):
            return each, ()
        given = [value for name, value in pairwise(each.options) if name == _SINCE]
        other_options = tuple(token for k, token in enumerate(each.options) if _SINCE not in (token, each.options[k - 1] if k else ""))
        alone, now = replace(each, options=other_options), self._moment(path)
        grace = max(_default(other_options), now.stated) if now is not None else 0
        if now is None or not grace:
            return alone, ()
        found = []
        for other in dict.fromkeys((*self._paths, *given)):
            then = self._moment(other) if other != path else None
            if then is not None and then.cluster == now.cluster and now.time - timedelta(seconds=grace) <= then.time < now.time:
                found.append(other)
        return alone, tuple(sorted(found, key=lambda name: (self._time(name), name)))

    def _time(self, path: str) -> datetime:
        found = self._moment(path)
        assert found is not None
        return found.time

    def _moment(self, path: str) -> _Moment | None:
        if path not in self._known:
            self._known[path] = _read(path)
        return self._known[path]


def _default(options: Sequence[str]) -> int:
    """Return the default grace period in seconds. Unreadable files are reported by the task."""
    given = dict(pairwise(options))
    if given.get(_GRACE, "").isdigit():
        return int(given[_GRACE])
    try:
        return policies.read(given[_POLICY]).executionGraceSeconds if _POLICY in given else policies.DEFAULT.executionGraceSeconds
    except InputError:
        return 0


def _read(path: str) -> _Moment | None:
    """Return the cluster and time of a snapshot; None if they are missing or unreadable."""
    try:
        if not os.path.isdir(path):
            data = sources.read(path)
            head = msgspec.json.decode(data, type=_ListHead)
            seconds = max((int(found) for found in _STATED.findall(data)), default=0)
            return _moment_of(capture_info(head.metadata), seconds)
    except ValueError:  # anything but JSON is read completely
        pass
    try:
        found = snapshots.load([path])
    except InputError:
        return None
    return _moment_of(found.capture, max((stated(pod) or 0 for pod in found.pods), default=0))


def _moment_of(capture: Capture | None, seconds: int) -> _Moment | None:
    time = instant(capture.time) if capture is not None else None
    return _Moment(capture.cluster, time, min(seconds, MAX_SECONDS)) if capture is not None and time is not None else None
