"""The marks of nodes that a run of ``kubestow apply`` has closed for its duration, and opens again when it ends."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

#: The annotation of such a node: the run's id and the time, RFC 3339 in UTC.
CLOSED_BY: Final = "kubestow.dev/closed-by"
#: The taint of a node that is open for one pod; its value is that pod's uid.
LET_IN: Final = "kubestow.dev/let-in"
#: The taint that controllers give each node with ``spec.unschedulable``.
UNSCHEDULABLE: Final = "node.kubernetes.io/unschedulable"
#: The taints that such a node loses when it is opened.
OWN_TAINTS: Final = (LET_IN, UNSCHEDULABLE)

_VALUE: Final = re.compile(r"(\S{1,63}) (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z)")


class ClosedBy(NamedTuple):
    """Which run closed a node, and when; ``time`` is empty where the annotation does not tell."""

    run: str
    time: str

    def __str__(self) -> str:
        """Return the value of the annotation."""
        return f"{self.run} {self.time}".rstrip()


def closed_by(value: str | None) -> ClosedBy | None:
    """Return what the annotation says, None without one. A value that somebody else wrote is the run's name as a whole."""
    if value is None:
        return None
    found = _VALUE.fullmatch(value)
    return ClosedBy(found[1], found[2]) if found is not None else ClosedBy(value, "")


def by_run(nodes: Mapping[str, ClosedBy]) -> list[tuple[str, str, list[str]]]:
    """Return runs in the order of their names, each with the time when it closed the first of its nodes, and these."""
    found: dict[str, list[tuple[str, str]]] = {}
    for name, by in nodes.items():
        found.setdefault(by.run, []).append((by.time, name))
    return [(run, min(closed)[0], sorted(name for _, name in closed)) for run, closed in sorted(found.items())]
