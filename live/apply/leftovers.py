"""Leftovers of killed runs: closed nodes, and nodes that are open for one pod. ``apply --open`` removes them."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

from kubestow.live.api.answers import Api, Object
from kubestow.live.apply.lease import Lease
from kubestow.live.apply.node_changes import Nodes, annotation, is_closed, open_nodes, taints, without
from kubestow.models.kube.closed_nodes import LET_IN, ClosedBy, by_run
from kubestow.models.kube.lenient_decode import some

#: Number of nodes that a message names.
_MAX_LISTED: Final = 5


@dataclass(frozen=True, slots=True)
class Leftover:
    """A node that a run has not opened.

    Attributes:
        node: Name of the node.
        by: The run; None if only the taint of a let-in pod remains.
        pod: Uid of the let-in pod; empty without one.
        closed: True if the node is closed.
    """

    node: str
    by: ClosedBy | None
    pod: str = ""
    closed: bool = True


def find(nodes: Iterable[Object]) -> list[Leftover]:
    """Return the leftovers on these nodes, sorted by name. Nodes of live runs are included; check their Lease."""
    found = []
    for node in nodes:
        by = annotation(node)
        pod = next((str(taint.get("value") or "") for taint in taints(node) if taint.get("key") == LET_IN), None)
        if by is not None or pod is not None:
            found.append(Leftover(node["metadata"]["name"], by, pod or "", is_closed(node)))
    return sorted(found, key=lambda each: each.node)


def describe(found: Collection[Leftover]) -> list[str]:
    """Return one sentence for each run, and for let-in and unmarked nodes."""
    said = []
    for run, time, names in by_run({each.node: each.by for each in found if each.by is not None}):
        nodes = "a node" if len(names) == 1 else f"{len(names)} nodes"
        said.append(f"run {run} closed {nodes}{f' at {time}' if time else ''} that are still closed: {some(names, _MAX_LISTED)}")
    let_in = [each.node for each in found if each.pod]
    stray = [each.node for each in found if each.by is None]
    if let_in:
        nodes = "node is" if len(let_in) == 1 else "nodes are"
        said.append(f"{len(let_in)} {nodes} open for one pod alone (taint {LET_IN}): {some(let_in, _MAX_LISTED)}")
    if stray:
        said.append(f"without the mark of a run, so only the taint is removed: {some(stray, _MAX_LISTED)}")
    return said


async def open_leftovers(api: Api, found: Collection[Leftover], lease: Lease, *, pause: float = 0.5) -> dict[str, str]:
    """Open these nodes and remove the taints in parallel. Return the reasons for failures by name.

    Nodes are read again before the change, so that a node that somebody has cordoned since, without the mark, stays
    cordoned.

    Args:
        api: The API server.
        found: The leftovers, from runs that are dead.
        lease: The Lease, held by the caller, which proves that these runs are dead.
        pause: Seconds before the first retry; the pauses double.

    Raises:
        LeaseLost: another run has begun.
    """
    lease.check()
    runs = {each.by.run for each in found if each.by is not None}
    nodes = Nodes(api, dict)
    marked = {each.node for each in found if each.by is not None}
    not_opened = await open_nodes(nodes, sorted(marked), runs.__contains__, pause=pause)
    lease.check()
    stray = {each.node: _untainted for each in found if each.by is None}
    return {**not_opened, **await nodes.change_all(stray)}


def _untainted(node: Object) -> Object | None:
    fewer = without(node, (LET_IN,))
    return None if fewer is None else {"spec": {"taints": fewer or None}}
