"""The marks of nodes that a ``kubestow apply`` run closes for its duration and opens again at its end."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

import msgspec

from kubestow.models.kube.lenient_decode import some
from kubestow.models.kube.objects import Node

#: Annotation of a closed node: the run's id and the time, RFC 3339 in UTC.
CLOSED_BY: Final = "kubestow.dev/closed-by"
#: Taint of a node that is open for one pod. Its value is that pod's uid.
LET_IN: Final = "kubestow.dev/let-in"
#: Taint that controllers add to each node with ``spec.unschedulable``.
UNSCHEDULABLE: Final = "node.kubernetes.io/unschedulable"
#: Taints that are removed from a closed node when it is opened.
OWN_TAINTS: Final = (LET_IN, UNSCHEDULABLE)

_VALUE: Final = re.compile(r"(\S{1,63}) (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z)")


class ClosedBy(NamedTuple):
    """The run that closed a node, and the time; ``time`` is empty if the annotation lacks it."""

    run: str
    time: str

    def __str__(self) -> str:
        """Return the value of the annotation."""
        return f"{self.run} {self.time}".rstrip()


def closed_by(value: str | None) -> ClosedBy | None:
    """Parse the annotation; None without one. A value in an unknown form counts as the run's name."""
    if value is None:
        return None
    parts = _VALUE.fullmatch(value)
    return ClosedBy(parts[1], parts[2]) if parts is not None else ClosedBy(value, "")


def by_run(nodes: Mapping[str, ClosedBy]) -> list[tuple[str, str, list[str]]]:
    """Return the runs by name, each with the time at which it closed its first node, and its nodes."""
    found: dict[str, list[tuple[str, str]]] = {}
    for name, by in nodes.items():
        found.setdefault(by.run, []).append((by.time, name))
    return [(run, min(closed)[0], sorted(name for _, name in closed)) for run, closed in sorted(found.items())]


def marks(nodes: Iterable[Node]) -> dict[str, ClosedBy]:
    """Return the nodes that runs have closed, by name."""
    pairs = ((str(node.metadata.name), closed_by((node.metadata.annotations or {}).get(CLOSED_BY))) for node in nodes)
    return {name: by for name, by in pairs if by is not None}


def open_all(nodes: Iterable[Node]) -> list[str]:
    """Open the nodes that runs have closed, in place, as at the end of the run. Other cordons stay.

    Returns:
        One sentence for each run.
    """
    closed: dict[str, ClosedBy] = {}
    let_in: list[str] = []
    for node in nodes:
        annotations, spec = node.metadata.annotations or {}, node.spec
        by = closed_by(annotations.get(CLOSED_BY))
        taints = (spec.taints if spec is not None else None) or []
        entered = any(taint.key == LET_IN for taint in taints)
        if by is None and not entered:
            continue
        name, gone = str(node.metadata.name), OWN_TAINTS if by is not None else (LET_IN,)
        if by is not None:
            node.metadata.annotations = {key: value for key, value in annotations.items() if key != CLOSED_BY} or None
        if by is not None and spec is not None and (spec.unschedulable or entered):
            closed[name] = by
        elif entered:
            let_in.append(name)
        if spec is not None:
            unschedulable = None if by is not None else spec.unschedulable
            kept = [taint for taint in taints if taint.key not in gone]
            node.spec = msgspec.structs.replace(spec, unschedulable=unschedulable, taints=kept or None)
    said = []
    for run, time, names in by_run(closed):
        when = f" at {time}" if time else ""
        which, are = ("a node", "is") if len(names) == 1 else (f"{len(names)} nodes", "are")
        said.append(f"{which} that run {run} of kubestow apply closed{when} {are} treated as open: {some(names)}")
    if let_in:
        said.append(f"the taint {LET_IN} of a kubestow apply run is ignored: {some(let_in)}")
    return said
