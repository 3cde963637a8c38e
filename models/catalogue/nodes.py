"""The nodes that a purchase brings, as the cluster would have them: objects, labels of their place, DaemonSets' and static pods.

What a shape does not say is taken from the cluster's own nodes: docs/catalogue.md has it point by point.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Final

import msgspec

from kubestow.models.catalogue.checks import HOSTNAME, ZONE
from kubestow.models.catalogue.places import places
from kubestow.models.catalogue.residents import Residents
from kubestow.models.cluster.storage import migrated_volumes
from kubestow.models.documents.catalogue import Shape
from kubestow.models.kube import objects, pod_requests, pod_spec, storage_objects
from kubestow.models.kube.feature_gates import FeatureGates
from kubestow.models.kube.lenient_decode import some
from kubestow.models.snapshot.snapshot import Snapshot

INSTANCE_TYPE: Final = "node.kubernetes.io/instance-type"
#: The annotation of a node that is there by a what-if only: SHAPE@ZONE.
BOUGHT: Final = "kubestow.dev/bought"
#: What kubelets say of themselves (pkg/kubelet/kubelet_node_status.go, initialNode), the older name besides the newer.
_KUBELET: Final = {"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
#: What is left of shape and zone in a node's name, which is the value of a label, too.
_BASE: Final = 55


def node(shape: Shape, zone: str, name: str, place: Mapping[str, str] | None = None) -> objects.Node:
    """Return the node of a shape in a zone. ``place``: labels that the cluster's nodes there have of it."""
    labels = {HOSTNAME: name, ZONE: zone, INSTANCE_TYPE: shape.name, **(place or {}), **_KUBELET, **shape.labels}
    for key in _KUBELET:
        labels.setdefault(f"beta.{key}", labels[key])
    taints = [objects.Taint(taint.key, taint.effect, taint.value or None) for taint in shape.taints]
    status = objects.NodeStatus(capacity={**shape.allocatable, **shape.capacity}, allocatable=dict(shape.allocatable))
    metadata = objects.ObjectMeta(name, labels=labels, annotations={BOUGHT: f"{shape.name}@{zone}"})
    return objects.Node(metadata, objects.NodeSpec(taints=taints or None), status)


def names(shape: Shape, zone: str, taken: Iterable[str | None]) -> Iterator[str]:
    """Return names for nodes without end: ``SHAPE-ZONE-N``, made valid names of nodes, none of them taken."""
    text = re.sub(r"[^a-z0-9.]+", "-", f"{shape.name}-{zone}".lower())
    base = re.sub(r"-*\.[-.]*", ".", text)[:_BASE].strip("-.")
    known = frozenset(taken)
    return (name for number in itertools.count(1) if (name := f"{base}-{number}") not in known)


def bought(snapshot: Snapshot, original: Snapshot, shape: Shape, zone: str, count: int) -> list[str]:
    """Put nodes into a snapshot (changed; a copy of one's own) with what :class:`Newcomers` says, and return their names."""
    return Newcomers(snapshot, original).buy(shape, zone, count)


class Newcomers:
    """Nodes that join a cluster. ``snapshot`` gets them (its own to change); ``original``: the cluster that tells what they are like, with
    the nodes that may be gone by now."""

    def __init__(self, snapshot: Snapshot, original: Snapshot) -> None:
        self._snapshot = snapshot
        self._original = original
        self._places: dict[str, dict[str, str]] = {}

    def node(self, shape: Shape, zone: str, name: str) -> objects.Node:
        """Return a node as the cluster would have it; it is not put into the snapshot."""
        found = node(shape, zone, name, self._zone(zone))
        like = self._newest
        if found.status is not None and like is not None and like.status is not None:
            found.status.nodeInfo, found.status.declaredFeatures = _info(found, like.status.nodeInfo), like.status.declaredFeatures
        return found

    def csi_node(self, shape: Shape, name: str) -> storage_objects.CSINode | None:
        """Return which CSI drivers are on a node and how many volumes each attaches; None where nothing is known."""
        drivers = [
            storage_objects.CSINodeDriver(
                driver,
                name,
                self._drivers[driver].topologyKeys if driver in self._drivers else None,
                storage_objects.VolumeNodeResources(shape.volumes[driver]) if driver in shape.volumes else None,
            )
            for driver in sorted({*shape.volumes, *self._drivers})
        ]
        metadata = objects.ObjectMeta(name, annotations=self._migrated)
        return storage_objects.CSINode(metadata, storage_objects.CSINodeSpec(drivers)) if drivers else None

    def residents(self, found: objects.Node) -> list[objects.Pod]:
        """Return the pods of DaemonSets and the static pods that a node gets, bound to it; they are not put into the snapshot."""
        return self._residents.on(found)

    def buy(self, shape: Shape, zone: str, count: int) -> list[str]:
        """Put nodes into the snapshot with what runs on each of them, and return their names."""
        taken = [each.metadata.name for snapshot in (self._snapshot, self._original) for each in snapshot.nodes]
        free = names(shape, zone, taken)
        made = [next(free) for _ in range(count)]
        residents = self._residents.of(self.node(shape, zone, made[0])) if made else []
        for name in made:
            found = self.node(shape, zone, name)
            csi = self.csi_node(shape, name)
            if csi is not None:
                self._snapshot.csi_nodes[name] = csi
            self._snapshot.nodes.append(found)
            self._snapshot.pods += self._residents.settle(residents, name)
        self._say(shape, [resident.pod for resident in residents])
        return made

    # --- what the cluster tells -------------------------------------------------------------------------------------

    @cached_property
    def _residents(self) -> Residents:
        return Residents(self._snapshot, self._original)

    @cached_property
    def _newest(self) -> objects.Node | None:
        """The node of the newest kubelet, the first of several."""

        def version(each: objects.Node) -> list[int]:
            info = each.status.nodeInfo if each.status is not None else None
            return [int(number) for number in re.findall(r"\d+", (info.kubeletVersion if info is not None else None) or "")[:3]]

        return max(self._original.nodes, key=version, default=None)

    @cached_property
    def _drivers(self) -> dict[str, storage_objects.CSINodeDriver]:
        """The CSI drivers that are on every worker which lists any, as the first of them has them."""
        listed = (self._original.csi_nodes.get(each.metadata.name or "") for each in self._residents.workers)
        found = [
            {driver.name: driver for driver in csi.spec.drivers} for csi in listed if csi is not None and csi.spec and csi.spec.drivers
        ]
        return {name: driver for name, driver in found[0].items() if all(name in each for each in found)} if found else {}

    @cached_property
    def _migrated(self) -> dict[str, str] | None:
        """The annotation with the plugins that every worker with a CSINode has migrated; None if there is no such plugin."""
        listed = [self._original.csi_nodes.get(each.metadata.name or "") for each in self._residents.workers]
        found = [migrated_volumes.migrated(csi) for csi in listed if csi is not None]
        common = sorted(frozenset.intersection(*found)) if found else []
        return {migrated_volumes.ANNOTATION: ",".join(common)} if common else None

    def _zone(self, zone: str) -> dict[str, str]:
        if zone not in self._places:
            self._places[zone] = places(self._original, zone)
        return self._places[zone]

    def _say(self, shape: Shape, residents: Sequence[objects.Pod]) -> None:
        """Note what is taken of a shape otherwise than a reader may suppose."""
        said = []
        if self._residents.guessed:
            said.append(
                f"which bought nodes run pods of {some(self._residents.guessed)} is guessed by labels, as the snapshot lacks what says it"
            )
        unlimited = [name for name, driver in self._drivers.items() if driver.allocatable is not None and name not in shape.volumes]
        if unlimited:
            said.append(f"nodes of shape {shape.name} attach any number of volumes of {some(unlimited)}: the shape says none in volumes")
        short = _short(shape, residents, self._original.gates)
        if short:
            said.append(f"nodes of shape {shape.name} are too small for what runs on each of them, DaemonSets' and static pods: {short}")
        for text in said:
            if text not in self._snapshot.assumed:
                self._snapshot.assumed.append(text)


def _info(node: objects.Node, like: objects.NodeSystemInfo | None) -> objects.NodeSystemInfo | None:
    """Return what the kubelet of a bought node says of itself: as another one, with the operating system of the node's own label."""
    system = (node.metadata.labels or {}).get(pod_spec.OS_LABEL)
    return msgspec.structs.replace(like, operatingSystem=system) if like is not None else None


def _short(shape: Shape, residents: Sequence[objects.Pod], gates: FeatureGates) -> str:
    """The resources of a shape of which its residents ask for more than there is."""
    asked: Counter[str] = Counter({"pods": len(residents)})
    for pod in residents:
        asked.update(pod_requests.pod_request(pod, gates))
    have = pod_requests.allocatable(dict(shape.allocatable))
    return ", ".join(sorted(name for name, amount in asked.items() if amount > have.get(name, 0)))
