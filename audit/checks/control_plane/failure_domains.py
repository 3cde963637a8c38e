"""What the labels of nodes say of the machines, zones, clouds and locations that a control plane stands on, and of their failures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from kubestow.audit.checks.control_plane.members import Component
from kubestow.models.documents.findings.audit import Stage

#: Names the physical machine (its hypervisor's, not the virtual machine's). A legacy key of the retired SCS tests, in no current standard.
HOST_ID: Final = "topology.scs.community/host-id"
HOSTNAME: Final = "kubernetes.io/hostname"
ZONE: Final = "topology.kubernetes.io/zone"
#: The first that all nodes of the control plane carry is taken.
MACHINE_LABELS: Final = (HOST_ID, HOSTNAME, ZONE)
StageName = Literal["machines", "zones", "clouds", "locations"]
#: Stages beyond machines, and their labels unless others are given; none is known for clouds.
STAGE_LABELS: Final[Mapping[StageName, str | None]] = {"zones": ZONE, "clouds": None, "locations": "topology.kubernetes.io/region"}
#: Stages whose domains hold whole domains of another: a zone, a cloud and a location hold whole machines, the latter two whole zones.
_AROUND: Final[Mapping[StageName, tuple[StageName, ...]]] = {
    "machines": ("zones", "clouds", "locations"),
    "zones": ("clouds", "locations"),
    "clouds": (),
    "locations": (),
}

Labels = Mapping[str, Mapping[str, str]]


@dataclass(frozen=True)
class Machines:
    """How machines are told apart. ``label``: None where no label will do, and a node stands for a machine; ``sense``: what a value of it
    stands for: one ``machine``; a ``node``, of which several may be on a machine; or a ``zone``, which may hold several machines."""

    label: str | None
    sense: Literal["machine", "node", "zone"]

    def of(self, labels: Labels, node: str) -> str:
        """Return the machine of a node (its own name where no label tells); nodes without the label are none of the control plane's."""
        return (value(labels, node, self.label) if self.label else None) or node


def value(labels: Labels, node: str, key: str) -> str | None:
    """Return a node's value of a label; an empty one tells nothing apart and counts as none."""
    return labels.get(node, {}).get(key) or None


def lacking(labels: Labels, nodes: Iterable[str], key: str) -> list[str]:
    """Return the nodes without a value of a label."""
    return [node for node in nodes if value(labels, node, key) is None]


def machines(labels: Labels, nodes: Collection[str], asked: Sequence[str]) -> Machines:
    """Return how to tell the machines below some nodes apart: the first label that all of them carry, of those asked for or else the
    defaults.

    Values of different labels cannot be compared, as a machine may have another value of each; so it is one label for all nodes. A label
    that was asked for is believed, and so is the host-id; a hostname that was not asked for may be a virtual machine's.
    """
    for key in asked or MACHINE_LABELS:
        if nodes and not lacking(labels, nodes, key):
            if asked or key == HOST_ID:
                return Machines(key, "machine")
            return Machines(key, "zone" if key == ZONE else "node")
    return Machines(None, "node")


def survives(counts: Iterable[int], needed: int) -> int:
    """Return the largest number of domains of which *any* so many may fail, with at least ``needed`` instances left.

    ``counts``: instances by domain. The worst failures are those of the fullest domains.
    """
    left, failures = 0, -1
    for count in sorted(counts):  # domains that remain, the emptiest first: the fullest have failed
        left += count
        if left >= needed:
            failures += 1
    return max(failures, 0)


def spread(part: Component, where: Mapping[str, str]) -> Counter[str]:
    """Instances by domain; ``where``: the domain of each node."""
    return Counter(where[home] for home in part.homes)


def stages(labels: Labels, nodes: Sequence[str], parts: Sequence[Component], found: Machines, asked: Mapping[str, str]) -> list[Stage]:
    """Return how far the failures of domains are outlived, stage by stage. ``asked``: labels by stage, where not the defaults."""
    listed = [_stage("machines", found.label, {node: found.of(labels, node) for node in nodes}, parts, known=found.sense == "machine")]
    for name, default in STAGE_LABELS.items():
        key = asked.get(name, default)
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


def _stage(name: StageName, key: str | None, where: Mapping[str, str], parts: Sequence[Component], *, known: bool = True) -> Stage:
    least = min(survives(spread(part, where).values(), part.needed) for part in parts)
    return Stage(name, len(set(where.values())), least, False, key, known)


Grade = Literal["non-distributed", "unknown", "machines", "clouds", "locations"]


def grade(listed: Sequence[Stage], *, by_node: int) -> Grade:
    """Return the furthest stage that is reached; non-distributed where known machines are not outlived, or nodes are not (``by_node``: how
    many are), each of which is on one machine; unknown where nothing is shown."""
    if not by_node or (listed[0].known and not listed[0].survives):
        return "non-distributed"
    reached = {stage.name for stage in listed if stage.reached}
    if "locations" in reached:
        return "locations"
    if "clouds" in reached:
        return "clouds"
    return "machines" if reached else "unknown"
