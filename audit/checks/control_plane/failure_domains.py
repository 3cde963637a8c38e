"""Machines, zones, clouds and locations of a control plane, derived from node labels, and the failures that it survives."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from kubestow.audit.checks.control_plane.members import ControlPlaneComponent
from kubestow.models.documents.findings.audit import Stage

#: Names the physical machine of the hypervisor, not the virtual machine. A legacy key of the retired SCS tests, not
#: in any current standard.
HOST_ID: Final = "topology.scs.community/host-id"
HOSTNAME: Final = "kubernetes.io/hostname"
ZONE: Final = "topology.kubernetes.io/zone"
#: Default labels. The first one that all control-plane nodes have is used.
MACHINE_LABELS: Final = (HOST_ID, HOSTNAME, ZONE)
StageName = Literal["machines", "zones", "clouds", "locations"]
#: Stages beyond machines with their default labels. There is no default for clouds.
STAGE_LABELS: Final[Mapping[StageName, str | None]] = {"zones": ZONE, "clouds": None, "locations": "topology.kubernetes.io/region"}
#: Stages whose domains contain whole domains of another: zones, clouds and locations contain machines; clouds and
#: locations contain zones.
_AROUND: Final[Mapping[StageName, tuple[StageName, ...]]] = {
    "machines": ("zones", "clouds", "locations"),
    "zones": ("clouds", "locations"),
    "clouds": (),
    "locations": (),
}

Labels = Mapping[str, Mapping[str, str]]


@dataclass(frozen=True)
class Machines:
    """How machines are identified.

    Attributes:
        label: Node label. None if no label is suitable, so each node counts as a machine.
        sense: Meaning of a label value: one ``machine``; a ``node``, which may share a machine with others; or a
            ``zone``, which may contain several machines.
    """

    label: str | None
    sense: Literal["machine", "node", "zone"]

    def of(self, labels: Labels, node: str) -> str:
        """Return the machine of a control-plane node. Without a label, this is the node's own name."""
        return (value(labels, node, self.label) if self.label else None) or node


def value(labels: Labels, node: str, key: str) -> str | None:
    """Return a node's value of a label. Empty values count as missing."""
    return labels.get(node, {}).get(key) or None


def lacking(labels: Labels, nodes: Iterable[str], key: str) -> list[str]:
    """Return the nodes without a value of a label."""
    return [node for node in nodes if value(labels, node, key) is None]


def machines(labels: Labels, nodes: Collection[str], machine_labels: Sequence[str]) -> Machines:
    """Return the first requested or default label that all the given nodes have, to identify machines.

    One label is used for all nodes, because values of different labels are not comparable. Requested labels and
    host-id are taken to name physical machines. A default hostname may be that of a virtual machine.
    """
    for key in machine_labels or MACHINE_LABELS:
        if nodes and not lacking(labels, nodes, key):
            if machine_labels or key == HOST_ID:
                return Machines(key, "machine")
            return Machines(key, "zone" if key == ZONE else "node")
    return Machines(None, "node")


def survives(counts: Iterable[int], needed: int) -> int:
    """Return the largest k such that any k domains may fail with at least ``needed`` instances remaining.

    ``counts`` holds the instances by domain. The worst case is the failure of the fullest domains.
    """
    survivors, failures = 0, -1
    for count in sorted(counts):  # remaining domains, emptiest first: the fullest have failed
        survivors += count
        if survivors >= needed:
            failures += 1
    return max(failures, 0)


def spread(part: ControlPlaneComponent, where: Mapping[str, str]) -> Counter[str]:
    """Return the number of instances by domain. ``where`` maps nodes to domains."""
    return Counter(where[home] for home in part.homes)


def stages(
    labels: Labels, nodes: Sequence[str], parts: Sequence[ControlPlaneComponent], found: Machines, stage_labels: Mapping[str, str]
) -> list[Stage]:
    """Return the domain failures that the control plane survives, by stage. ``stage_labels`` overrides the default labels by stage."""
    listed = [_stage("machines", found.label, {node: found.of(labels, node) for node in nodes}, parts, known=found.sense == "machine")]
    for name, default in STAGE_LABELS.items():
        key = stage_labels.get(name, default)
        if key is None or not nodes or lacking(labels, nodes, key):
            listed.append(Stage(name, 0, 0, False, None, False))
        else:
            listed.append(_stage(name, key, {node: value(labels, node, key) or "" for node in nodes}, parts))
    if found.sense == "node" and any(stage.domains == len(nodes) for stage in listed[1:]):
        listed[0].known = True  # no two nodes can share a machine
    shown = {stage.name for stage in listed if stage.survives and (stage.known or found.sense == "zone")}
    for stage in listed:
        stage.reached = stage.name in shown or (not stage.known and not shown.isdisjoint(_AROUND[stage.name]))
    return listed


def _stage(
    name: StageName, key: str | None, where: Mapping[str, str], parts: Sequence[ControlPlaneComponent], *, known: bool = True
) -> Stage:
    least = min(survives(spread(part, where).values(), part.needed) for part in parts)
    return Stage(name, len(set(where.values())), least, False, key, known)


Grade = Literal["non-distributed", "unknown", "machines", "clouds", "locations"]


def grade(listed: Sequence[Stage], *, by_node: int) -> Grade:
    """Return the furthest stage reached.

    Args:
        listed: All stages, machines first.
        by_node: Number of node failures that the control plane survives.

    Returns:
        non-distributed if the control plane does not survive the failure of a known machine or of a node; unknown
        if the labels show nothing.
    """
    if not by_node or (listed[0].known and not listed[0].survives):
        return "non-distributed"
    reached = {stage.name for stage in listed if stage.reached}
    if "locations" in reached:
        return "locations"
    if "clouds" in reached:
        return "clouds"
    return "machines" if reached else "unknown"
