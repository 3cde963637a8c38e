"""Ways out, applied to the raw objects: what a change means, from the arguments that a document says alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

import msgspec

from models.disruption.owners import Owners
from models.documents.placement import Edits, Remedy
from models.edits.edits import apply
from models.gangs import gangs
from models.kube import objects
from models.kube.objects import Pod, pod_key
from models.snapshot.snapshot import Snapshot
from solver.explain.conflict.placement_question import PlacementQuestion
from solver.explain.remedy.pod_edits import OWN, POD_CHANGES, Arguments


def applied(unit: PlacementQuestion, way: Remedy) -> PlacementQuestion:
    """The unit with a way out taken: its snapshot's objects are replaced where the change concerns them, never altered in place.

    Raises:
        ValueError: a change of a kind that is not known.
    """
    if way.change == "combination":
        for i in range(1, int(way.arguments["changes"]) + 1):
            arguments = {k.removeprefix(f"{i}."): v for k, v in way.arguments.items() if k.startswith(f"{i}.")}
            unit = applied(unit, Remedy(arguments.pop("change"), "", arguments))
        return unit
    if way.change in _UNITS:
        return _UNITS[way.change](unit, way.arguments)
    if way.change not in POD_CHANGES:
        raise ValueError(f"no way out is called {way.change!r}")
    return _edited(unit, way.change, way.arguments)


def gang_of(unit: PlacementQuestion) -> gangs.Gang | None:
    """The gang that all pods of the unit belong to, if they do."""
    found = gangs.find(unit.snapshot, unit.scope(), tiers=unit.policy.networkTiers)
    return found[0] if len(found) == 1 and set(found[0].pods) == set(unit.pods) else None


def _edited(unit: PlacementQuestion, change: str, arguments: Arguments) -> PlacementQuestion:
    """The pods of the named owners, changed; host ports only of the unit's own pods, since a running pod keeps what it holds."""
    owners = Owners(unit.snapshot)
    chosen: set[int] = set()
    for owner in arguments["workload"].split("; "):
        chosen.update(owners.members(owner))
    if change in OWN:
        chosen &= set(unit.pods)
    pods = [POD_CHANGES[change](pod, arguments) if i in chosen else pod for i, pod in enumerate(unit.snapshot.pods)]
    return replace(unit, snapshot=replace(unit.snapshot, pods=pods))


# --- the unit and the cluster -------------------------------------------------------------------------------------------


def _annotated(pod: Pod, **values: str | None) -> Pod:
    """``values`` by annotation key; None takes one away."""
    found = {k: v for k, v in {**(pod.metadata.annotations or {}), **values}.items() if v is not None}
    return msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, annotations=found))


def _members(unit: PlacementQuestion, change: Callable[[Pod], Pod]) -> Snapshot:
    """The snapshot with all members of the unit's gang changed."""
    gang = gang_of(unit)
    chosen = {*unit.pods, *(gang.bound if gang is not None else ())}
    return replace(unit.snapshot, pods=[change(pod) if i in chosen else pod for i, pod in enumerate(unit.snapshot.pods)])


def _prefer_topology(unit: PlacementQuestion, arguments: Arguments) -> PlacementQuestion:
    values = {gangs.REQUIRED_TOPOLOGY: None, gangs.PREFERRED_TOPOLOGY: arguments["key"]}
    return replace(unit, snapshot=_members(unit, lambda pod: _annotated(pod, **values)))


def _min_member(unit: PlacementQuestion, arguments: Arguments) -> PlacementQuestion:
    gang = gang_of(unit)
    minimum = int(arguments["to"])
    snapshot = _members(unit, lambda pod: _annotated(pod, **{gangs.MIN_MEMBER: str(minimum)}))
    return replace(unit, snapshot=snapshot, needed=minimum - len(gang.bound if gang is not None else ()))


def _replicas(unit: PlacementQuestion, arguments: Arguments) -> PlacementQuestion:
    """Without the last pods of the workload: of those to be placed, ``to`` less the running ones remain."""
    owners = Owners(unit.snapshot)
    pods = owners.group(unit.pods)[arguments["workload"]]
    gone = pods[int(arguments["to"]) - len(running(unit, arguments["workload"])) :]
    return replace(without_pods(unit, gone), needed=len(unit.pods) - len(gone))


def running(unit: PlacementQuestion, owner: str) -> list[int]:
    """Pods of a workload that hold a node and are not the unit's."""
    own = set(unit.pods)
    return [i for i in Owners(unit.snapshot).members(owner) if i not in own and unit.snapshot.pods[i].spec.nodeName]


def _evict(unit: PlacementQuestion, arguments: Arguments) -> PlacementQuestion:
    wanted, own = set(arguments["pods"].split(",")), set(unit.pods)
    return without_pods(unit, [i for i, pod in enumerate(unit.snapshot.pods) if i not in own and pod_key(pod) in wanted])


def without_pods(unit: PlacementQuestion, gone: list[int]) -> PlacementQuestion:
    """The unit in a snapshot that lacks some pods (``needed`` stays as it was)."""
    lost = set(gone)
    place: dict[int, int] = {}
    for i in range(len(unit.snapshot.pods)):
        if i not in lost:
            place[i] = len(place)
    pods = [pod for i, pod in enumerate(unit.snapshot.pods) if i not in lost]
    return replace(unit, snapshot=replace(unit.snapshot, pods=pods), pods=tuple(place[i] for i in unit.pods if i in place))


def _add_nodes(unit: PlacementQuestion, arguments: Arguments) -> PlacementQuestion:
    return with_nodes(unit, [f"{arguments['count']}:{arguments['like']}"])


def with_nodes(unit: PlacementQuestion, added: list[str]) -> PlacementQuestion:
    """The unit in a snapshot with more nodes, each ``N:LIKE_NODE``."""
    keys = {pod_key(unit.snapshot.pods[i]) for i in unit.pods}
    changed = apply(unit.snapshot, None, Edits(addNodes=added)).snapshot
    # the unit's pods are found again by name: pods that run on every node came with the new ones
    return replace(unit, snapshot=changed, pods=tuple(i for i, pod in enumerate(changed.pods) if pod_key(pod) in keys))


def _uncordon(unit: PlacementQuestion, arguments: Arguments) -> PlacementQuestion:
    def free(node: objects.Node) -> objects.Node:
        if node.metadata.name != arguments["node"] or node.spec is None:
            return node
        taints = [t for t in node.spec.taints or () if t.key != "node.kubernetes.io/unschedulable"]
        return msgspec.structs.replace(node, spec=msgspec.structs.replace(node.spec, unschedulable=None, taints=taints or None))

    return replace(unit, snapshot=replace(unit.snapshot, nodes=[free(node) for node in unit.snapshot.nodes]))


_UNITS: Final[dict[str, Callable[[PlacementQuestion, Arguments], PlacementQuestion]]] = {
    "preferTopology": _prefer_topology,
    "lowerMinMember": _min_member,
    "reduceReplicas": _replicas,
    "evict": _evict,
    "addNodes": _add_nodes,
    "uncordon": _uncordon,
}
