"""The capture information of a snapshot: its cluster, when it was read, and which data could not be read.

``kubestow capture`` writes it into the annotations of the List (docs/capture.md). Files from kubectl have none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

CLUSTER: Final = "kubestow.dev/cluster"
TIME: Final = "kubestow.dev/captured-at"
SERVER_VERSION: Final = "kubestow.dev/server-version"
#: One sentence per line.
LEFT_OUT: Final = "kubestow.dev/left-out"


@dataclass(frozen=True)
class Capture:
    """Place and time of a capture. Unknown values are empty.

    Attributes:
        cluster: Name of kubectl's context.
        time: RFC 3339, UTC.
        server_version: Version such as ``v1.36.2``.
        left_out: Data that the snapshot lacks although the cluster may have them, one sentence each.
    """

    cluster: str = ""
    time: str = ""
    server_version: str = ""
    left_out: tuple[str, ...] = ()

    def annotations(self) -> dict[str, str]:
        """Return the annotations with this information."""
        said = {CLUSTER: self.cluster, TIME: self.time, SERVER_VERSION: self.server_version, LEFT_OUT: "\n".join(self.left_out)}
        return {key: value for key, value in said.items() if value}


def capture_info(metadata: object) -> Capture | None:
    """Return the capture information in a List's ``metadata``; None if there is none."""
    annotations = metadata.get("annotations") if isinstance(metadata, Mapping) else None
    if not isinstance(annotations, Mapping):
        return None
    given = {key: value for key, value in annotations.items() if isinstance(value, str)}
    capture = Capture(
        given.get(CLUSTER, ""),
        given.get(TIME, ""),
        given.get(SERVER_VERSION, ""),
        tuple(line for line in given.get(LEFT_OUT, "").splitlines() if line.strip()),
    )
    return capture if capture != Capture() else None


def moment(text: str | None) -> datetime | None:
    """Return a time with a time zone; None if the text is no such time."""
    try:
        time = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return time if time.tzinfo is not None else None


def instant(text: str | None) -> datetime | None:
    """Return the time of a capture, with UTC as the default zone; None if the text is no time."""
    try:
        time = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)
