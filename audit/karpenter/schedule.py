"""Activity of budgets with a schedule: cron as Karpenter parses it, in UTC.

Source: https://github.com/kubernetes-sigs/karpenter, pkg/apis/v1/nodepool.go (Budget.IsActive), and the standard
parser of https://pkg.go.dev/github.com/robfig/cron/v3.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

_DURATION: Final = re.compile(r"(?:([0-9]+)h)?(?:([0-9]+)m)?(?:0s)?\Z", re.ASCII)
_NAMES: Final[Mapping[str, str]] = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_MONTHS: Final = {name: k for k, name in enumerate(["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"], 1)}
_DAYS: Final = {name: k for k, name in enumerate(["sun", "mon", "tue", "wed", "thu", "fri", "sat"])}
_FIELDS: Final[tuple[tuple[int, int, Mapping[str, int]], ...]] = ((0, 59, {}), (0, 23, {}), (1, 31, {}), (1, 12, _MONTHS), (0, 6, _DAYS))
#: Minutes of the longest look-back. Longer durations count as always active.
_MAX_LOOKBACK_MINUTES: Final = 366 * 24 * 60


class _ScheduleError(ValueError):
    """An invalid schedule."""


@dataclass(frozen=True)
class _Cron:
    """A parsed cron expression.

    Attributes:
        values: Allowed minutes, hours, days, months and weekdays.
        any_day: True if the day field was a star without a step.
        any_weekday: True if the weekday field was a star without a step.
    """

    values: tuple[frozenset[int], ...]
    any_day: bool
    any_weekday: bool

    def hits(self, at: datetime) -> bool:
        minute, hour, day, month, weekday = self.values
        if at.minute not in minute or at.hour not in hour or at.month not in month:
            return False
        by_day, by_weekday = at.day in day, (at.weekday() + 1) % 7 in weekday
        return by_day and by_weekday if self.any_day or self.any_weekday else by_day or by_weekday


def seconds(text: str) -> int | None:
    """Return an RFC 3339 time in seconds since 1970, or None if invalid."""
    try:
        return int(datetime.fromisoformat(text).timestamp()) if text else None
    except ValueError:
        return None


def problem(schedule: str, duration: str | None) -> str | None:
    """Return the problem with a schedule and its duration, or None."""
    try:
        _parse(schedule)
    except _ScheduleError as error:
        return f"schedule: {schedule!r}: {error}"
    if not duration or not _DURATION.match(duration):
        return f"duration: {duration!r} (expected hours and minutes, such as 8h30m)"
    return None


def active(schedule: str, duration: str | None, now: int) -> bool:
    """Return True if a valid schedule fired within its duration before ``now``, in seconds since 1970."""
    match = _DURATION.match(duration or "")
    minutes = int((match[1] if match else None) or 0) * 60 + int((match[2] if match else None) or 0)
    cron = _parse(schedule)
    at = datetime.fromtimestamp(now, UTC)
    start = at - timedelta(minutes=minutes)
    hit = at.replace(second=0, microsecond=0)
    for _ in range(min(minutes, _MAX_LOOKBACK_MINUTES) + 1):
        if hit <= start:
            return False
        if cron.hits(hit):
            return True
        hit -= timedelta(minutes=1)
    return minutes > _MAX_LOOKBACK_MINUTES


def _parse(text: str) -> _Cron:
    fields = _NAMES.get(text.strip(), text).split()
    if len(fields) != len(_FIELDS):
        raise _ScheduleError(f"{len(fields)} fields (expected five, or one such as @daily)")
    values = tuple(_field(field, *limits) for field, limits in zip(fields, _FIELDS, strict=True))
    return _Cron(values, _starred(fields[2]), _starred(fields[4]))


def _starred(text: str) -> bool:
    """Return True if the parser treats a field as a star: also one star among several parts, but not a star with a step above 1."""
    parts = (part.partition("/") for part in text.split(","))
    return any(span in ("*", "?") and (not step or int(step) == 1) for span, _, step in parts)


def _field(text: str, low: int, high: int, names: Mapping[str, int]) -> frozenset[int]:
    found: set[int] = set()
    for part in text.split(","):
        span, _, step = part.partition("/")
        first, dash, last = span.partition("-")
        if span in ("*", "?"):
            begin, end = low, high
        else:
            begin = _value(first, names)
            end = _value(last, names) if dash else high if step else begin
        stride = int(step) if step.isdigit() else 1
        if not low <= begin <= end <= high or ("/" in part and not (step.isdigit() and stride)):
            raise _ScheduleError(f"{part!r} (expected {low} to {high})")
        found.update(range(begin, end + 1, stride))
    return frozenset(found)


def _value(text: str, names: Mapping[str, int]) -> int:
    if text.lower() in names:
        return names[text.lower()]
    if not (text.isascii() and text.isdigit()):
        raise _ScheduleError(f"{text!r} is not a value")
    return int(text)
