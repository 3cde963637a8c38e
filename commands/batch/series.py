"""Snapshots of a cluster over time: utilisation, stranded capacity, and findings that appear and disappear."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Final

import msgspec

from kubestow.models.documents.batch import Change, Point, Row, Series
from kubestow.models.snapshot.capture_info import instant

_AUDIT: Final = "audit"
#: Decimals of fractions.
_DECIMALS: Final = 6
_Found = Counter[tuple[str, str]]


class _Finding(msgspec.Struct):
    code: str
    object: str


class _Findings(msgspec.Struct):
    """The fields of an audit that series need."""

    findings: list[_Finding] = []


def of(rows: Iterable[Row], folder: str) -> tuple[list[Series], list[str]]:
    """Return a series for each cluster and set of options, and notes on rows that belong to none.

    ``folder``: base of the results' paths. Only one audit of a series is in memory at a time.
    """
    groups: dict[tuple[str, ...], list[tuple[datetime, Row]]] = {}
    without = 0
    for row in rows:
        time = instant(row.capturedAt)
        if row.result is None:
            continue
        if time is None or not row.cluster:
            without += 1
            continue
        groups.setdefault((row.cluster, row.command, row.set or "", *row.options), []).append((time, row))
    found = [_series([row for _, row in sorted(group, key=lambda g: (g[0], g[1].id))], folder) for _, group in sorted(groups.items())]
    notes = []
    if without:
        what = "result is in no series: its snapshot does" if without == 1 else "results are in no series: their snapshots do"
        notes.append(f"{without:,} {what} not record its cluster and time (kubestow capture does)")
    return found, notes


def _series(rows: Sequence[Row], folder: str) -> Series:
    first = rows[0]
    points, before = [], None
    for row in rows:
        point = Point(row.id, row.capturedAt or "")
        if row.room is not None:
            point.utilisation = _shares(row.room.requests, row.room.allocatable)
            point.fragmentation = _shares(row.room.stranded, row.room.free)
        now = _findings(os.path.join(folder, row.result or "")) if row.command == _AUDIT else None
        if now is not None and before is not None:
            point.appeared, point.went = _changes(now - before), _changes(before - now)
        before = now if now is not None else before
        points.append(point)
    return Series(first.cluster or "", first.command, list(first.options), points, set=first.set)


def _shares(part: dict[str, int], whole: dict[str, int]) -> dict[str, float]:
    """Return the fraction of each resource whose total is positive, rounded from exact amounts."""
    return {name: round(part.get(name, 0) / amount, _DECIMALS) for name, amount in whole.items() if amount > 0}


def _findings(path: str) -> _Found | None:
    """Return the number of findings by code and object; None if the audit cannot be read."""
    try:
        audit = msgspec.json.decode(Path(path).read_bytes(), type=_Findings)
    except (OSError, msgspec.DecodeError):
        return None
    return Counter((each.code, each.object) for each in audit.findings)


def _changes(found: _Found) -> list[Change]:
    return [Change(code, about) for code, about in sorted(found.elements())]
