"""The marks of nodes that a run of ``kubestow apply`` has closed for its duration, and opens again when it ends."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

import msgspec

from kubestow.models.kube.lenient_decode import some
from kubestow.models.kube.objects import Node

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


def marks(nodes: Iterable[Node]) -> dict[str, ClosedBy]:
    """Return the nodes that runs have closed, by name."""
    found = ((str(node.metadata.name), closed_by((node.metadata.annotations or {}).get(CLOSED_BY))) for node in nodes)
    return {name: by for name, by in found if by is not None}


def open_all(nodes: Iterable[Node]) -> list[str]:
    """Open the nodes that runs have closed, in place, as they are open again when the run ends or is undone; return a sentence for each
    run. Cordons of others stay."""
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
        said.append(f"{which} that run {run} of kubestow apply closed{when} {are} taken as open: {some(names)}")
    if let_in:
        said.append(f"the taint {LET_IN} of a run of kubestow apply is not taken into account: {some(let_in)}")
    return said
