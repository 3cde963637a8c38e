"""Node objects of purchases, with location labels, CSI drivers, DaemonSet pods and static pods.

Properties that a shape does not state are taken from the cluster's own nodes. docs/catalogue.md lists them.
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
from kubestow.models.catalogue.residents import Residents
from kubestow.models.catalogue.zone_labels import zone_labels
from kubestow.models.cluster.storage import migrated_volumes
from kubestow.models.documents.catalogue import Shape
from kubestow.models.kube import objects, pod_requests, pod_spec, storage_objects
from kubestow.models.kube.feature_gates import FeatureGates
from kubestow.models.kube.lenient_decode import some
from kubestow.models.snapshot.snapshot import Snapshot

INSTANCE_TYPE: Final = "node.kubernetes.io/instance-type"
#: The annotation of nodes added by a what-if edit, SHAPE@ZONE.
BOUGHT: Final = "kubestow.dev/bought"
#: Labels that kubelets set (pkg/kubelet/kubelet_node_status.go, initialNode). Their older beta names are set too.
_KUBELET: Final = {"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
#: Maximum characters of shape and zone in a node's name. With a number appended, the name must be a valid label value (63 characters).
_MAX_BASE_CHARACTERS: Final = 55


def node(shape: Shape, zone: str, name: str, place: Mapping[str, str] | None = None) -> objects.Node:
    """Return a node of a shape in a zone. ``place`` has the location labels of the zone."""
    labels = {HOSTNAME: name, ZONE: zone, INSTANCE_TYPE: shape.name, **(place or {}), **_KUBELET, **shape.labels}
    for key in _KUBELET:
        labels.setdefault(f"beta.{key}", labels[key])
    taints = [objects.Taint(taint.key, taint.effect, taint.value or None) for taint in shape.taints]
    status = objects.NodeStatus(capacity={**shape.allocatable, **shape.capacity}, allocatable=dict(shape.allocatable))
    metadata = objects.ObjectMeta(name, labels=labels, annotations={BOUGHT: f"{shape.name}@{zone}"})
    return objects.Node(metadata, objects.NodeSpec(taints=taints or None), status)


def names(shape: Shape, zone: str, used: Iterable[str | None]) -> Iterator[str]:
    """Return an infinite iterator of unused, valid node names ``SHAPE-ZONE-N``."""
    text = re.sub(r"[^a-z0-9.]+", "-", f"{shape.name}-{zone}".lower())
    base = re.sub(r"-*\.[-.]*", ".", text)[:_MAX_BASE_CHARACTERS].strip("-.")
    known = frozenset(used)
    return (name for number in itertools.count(1) if (name := f"{base}-{number}") not in known)


def bought(snapshot: Snapshot, original: Snapshot, shape: Shape, zone: str, count: int) -> list[str]:
    """Add purchased nodes to a snapshot in place, as :class:`Newcomers` does, and return their names."""
    return Newcomers(snapshot, original).buy(shape, zone, count)


class Newcomers:
    """Nodes that join a cluster.

    Args:
        snapshot: The snapshot to change, which gets the nodes.
        original: The cluster from which properties of nodes are inferred. It still has nodes that ``snapshot`` may have lost.
    """

    def __init__(self, snapshot: Snapshot, original: Snapshot) -> None:
        self._snapshot = snapshot
        self._original = original
        self._zone_labels: dict[str, dict[str, str]] = {}

    def node(self, shape: Shape, zone: str, name: str) -> objects.Node:
        """Return a new node without adding it to the snapshot."""
        added = node(shape, zone, name, self._zone(zone))
        like = self._newest
        if added.status is not None and like is not None and like.status is not None:
            added.status.nodeInfo, added.status.declaredFeatures = _info(added, like.status.nodeInfo), like.status.declaredFeatures
        return added

    def csi_node(self, shape: Shape, name: str) -> storage_objects.CSINode | None:
        """Return the CSINode of a new node (drivers and volume limits), or None if no driver is known."""
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

    def residents(self, added: objects.Node) -> list[objects.Pod]:
        """Return the DaemonSet pods and static pods of a node, bound to it, without adding them to the snapshot."""
        return self._residents.on(added)

    def buy(self, shape: Shape, zone: str, count: int) -> list[str]:
        """Add new nodes with their resident pods to the snapshot, and return their names."""
        used = [each.metadata.name for snapshot in (self._snapshot, self._original) for each in snapshot.nodes]
        free = names(shape, zone, used)
        made = [next(free) for _ in range(count)]
        residents = self._residents.of(self.node(shape, zone, made[0])) if made else []
        for name in made:
            added = self.node(shape, zone, name)
            csi = self.csi_node(shape, name)
            if csi is not None:
                self._snapshot.csi_nodes[name] = csi
            self._snapshot.nodes.append(added)
            self._snapshot.pods += self._residents.settle(residents, name)
        self._say(shape, [resident.pod for resident in residents])
        return made

    # --- properties inferred from the cluster -----------------------------------------------------------------------------------

    @cached_property
    def _residents(self) -> Residents:
        return Residents(self._snapshot, self._original)

    @cached_property
    def _newest(self) -> objects.Node | None:
        """The first node with the newest kubelet version."""

        def version(each: objects.Node) -> list[int]:
            info = each.status.nodeInfo if each.status is not None else None
            return [int(number) for number in re.findall(r"\d+", (info.kubeletVersion if info is not None else None) or "")[:3]]

        return max(self._original.nodes, key=version, default=None)

    @cached_property
    def _drivers(self) -> dict[str, storage_objects.CSINodeDriver]:
        """The CSI drivers that all workers with any driver have in common, as on the first such worker."""
        listed = (self._original.csi_nodes.get(each.metadata.name or "") for each in self._residents.workers)
        found = [
            {driver.name: driver for driver in csi.spec.drivers} for csi in listed if csi is not None and csi.spec and csi.spec.drivers
        ]
        return {name: driver for name, driver in found[0].items() if all(name in each for each in found)} if found else {}

    @cached_property
    def _migrated(self) -> dict[str, str] | None:
        """The annotation of the plugins that every worker with a CSINode has migrated, or None if there are none."""
        listed = [self._original.csi_nodes.get(each.metadata.name or "") for each in self._residents.workers]
        found = [migrated_volumes.migrated(csi) for csi in listed if csi is not None]
        common = sorted(frozenset.intersection(*found)) if found else []
        return {migrated_volumes.ANNOTATION: ",".join(common)} if common else None

    def _zone(self, zone: str) -> dict[str, str]:
        if zone not in self._zone_labels:
            self._zone_labels[zone] = zone_labels(self._original, zone)
        return self._zone_labels[zone]

    def _say(self, shape: Shape, residents: Sequence[objects.Pod]) -> None:
        """Add notes to the snapshot about assumptions that may surprise a reader."""
        said = []
        if self._residents.guessed:
            said.append(
                f"the purchased nodes that run {some(self._residents.guessed)} are guessed from labels: the snapshot lacks the object"
            )
        unlimited = [name for name, driver in self._drivers.items() if driver.allocatable is not None and name not in shape.volumes]
        if unlimited:
            said.append(
                f"nodes of shape {shape.name} can attach any number of volumes of {some(unlimited)}: its field volumes sets no limit"
            )
        short = _short(shape, residents, self._original.gates)
        if short:
            said.append(f"nodes of shape {shape.name} are too small for the DaemonSet pods and static pods on each node: {short}")
        for text in said:
            if text not in self._snapshot.assumed:
                self._snapshot.assumed.append(text)


def _info(node: objects.Node, like: objects.NodeSystemInfo | None) -> objects.NodeSystemInfo | None:
    """Return the system info of a purchased node: a copy of ``like``, with the operating system of the node's own label."""
    system = (node.metadata.labels or {}).get(pod_spec.OS_LABEL)
    return msgspec.structs.replace(like, operatingSystem=system) if like is not None else None


def _short(shape: Shape, residents: Sequence[objects.Pod], gates: FeatureGates) -> str:
    """Return the resources that the residents of a shape request in excess, separated by commas."""
    requested: Counter[str] = Counter({"pods": len(residents)})
    for pod in residents:
        requested.update(pod_requests.pod_request(pod, gates))
    have = pod_requests.allocatable(dict(shape.allocatable))
    return ", ".join(sorted(name for name, amount in requested.items() if amount > have.get(name, 0)))
