"""Which cluster a snapshot is of, and of when, in words for headers."""

from __future__ import annotations

from datetime import UTC, datetime

from models.snapshot.capture_info import Capture
from report.documents.output import one_line


def origin(capture: Capture | None) -> str:
    """Return ``cluster prod, captured 2026-11-20 10:00 UTC``, as far as the snapshot tells; empty if it does not."""
    if capture is None:
        return ""
    parts = [f"cluster {capture.cluster}" if capture.cluster else "", f"captured {_moment(capture.time)}" if capture.time else ""]
    return one_line(", ".join(part for part in parts if part))


def _moment(text: str) -> str:
    """Return a time of RFC 3339 to the minute, in UTC; what is no such time as it is."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return text
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M} UTC" if moment.tzinfo is not None else text
