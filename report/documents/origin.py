"""Cluster and capture time of a snapshot, as text for headers."""

from __future__ import annotations

from datetime import UTC, datetime

from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.report.documents.output import one_line


def origin(snapshot: Snapshot) -> str:
    """Return ``cluster prod, Kubernetes 1.36, captured 2026-11-20 10:00 UTC``, with the known parts. Empty without
    capture data.

    The version is the one whose rules are applied.
    """
    capture = snapshot.capture
    if capture is None:
        return ""
    cluster = f"cluster {capture.cluster}" if capture.cluster else ""
    parts = [cluster, str(snapshot.gates), f"captured {_moment(capture.time)}" if capture.time else ""]
    return one_line(", ".join(part for part in parts if part))


def _moment(text: str) -> str:
    """Return an RFC 3339 time to the minute, in UTC. Other text is returned unchanged."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return text
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M} UTC" if moment.tzinfo is not None else text
