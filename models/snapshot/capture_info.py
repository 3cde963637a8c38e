"""What a captured snapshot says of itself: its cluster, when it was read, and what could not be read.

``kubestow capture`` writes it into the annotations of the List (docs/capture.md); files of kubectl have none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

CLUSTER: Final = "kubestow.dev/cluster"
TIME: Final = "kubestow.dev/captured-at"
SERVER_VERSION: Final = "kubestow.dev/server-version"
#: One sentence a line.
LEFT_OUT: Final = "kubestow.dev/left-out"


@dataclass(frozen=True)
class Capture:
    """Where and when a snapshot was read.

    ``cluster``: the name of kubectl's context. ``time``: RFC 3339, UTC. ``server_version``: such as ``v1.36.2``. ``left_out``: what is not
    in the snapshot though the cluster may have it, a sentence each. What is not known is empty.
    """

    cluster: str = ""
    time: str = ""
    server_version: str = ""
    left_out: tuple[str, ...] = ()

    def annotations(self) -> dict[str, str]:
        """Return the annotations that say this."""
        said = {CLUSTER: self.cluster, TIME: self.time, SERVER_VERSION: self.server_version, LEFT_OUT: "\n".join(self.left_out)}
        return {key: value for key, value in said.items() if value}


def capture_info(metadata: object) -> Capture | None:
    """Return what a List's ``metadata`` says of its capture, None if that is nothing."""
    annotations = metadata.get("annotations") if isinstance(metadata, Mapping) else None
    if not isinstance(annotations, Mapping):
        return None
    given = {key: value for key, value in annotations.items() if isinstance(value, str)}
    found = Capture(
        given.get(CLUSTER, ""),
        given.get(TIME, ""),
        given.get(SERVER_VERSION, ""),
        tuple(line for line in given.get(LEFT_OUT, "").splitlines() if line.strip()),
    )
    return found if found != Capture() else None


def moment(text: str | None) -> datetime | None:
    """Return a time that names its zone; None where it is not told, or not in full."""
    try:
        found = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return found if found.tzinfo is not None else None


def instant(text: str | None) -> datetime | None:
    """Return the time of a capture as one that can be compared, without a zone UTC; None if it is none."""
    try:
        found = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)
