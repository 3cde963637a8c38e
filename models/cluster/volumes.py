"""Node constraints from persistent volume claims.

Sources: pkg/scheduler/framework/plugins/{volumebinding,volumezone,volumerestrictions,nodevolumelimits};
:mod:`kubestow.models.cluster.storage.migrated_volumes`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from kubestow.models.cluster.storage import migrated_volumes
from kubestow.models.kube import quantity
from kubestow.models.kube.objects import PersistentVolumeClaimSpec
from kubestow.models.kube.pod_spec import NO_PROVISIONER, SELECTED_NODE
from kubestow.models.kube.selectors import Bools, NodeColumns, canonical, selector_matches
from kubestow.models.kube.storage_objects import ObjectReference, PersistentVolume, PersistentVolumeClaim, StorageClass
from kubestow.models.snapshot.snapshot import Snapshot

#: Labels of volumes that VolumeZone compares, each with the current key of the nodes.
ZONE_KEYS: Final = {
    "topology.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region": "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
}


Attached = tuple[str | None, str | None, Bools | None]  # driver, handle, counted
_NOTHING: Final[Attached] = (None, None, None)


@dataclass(frozen=True)
class VolumeClaim:
    """A claim from the scheduler's point of view.

    Attributes:
        missing: True if the claim does not exist, which all four plugins reject.
        binding: bool[N], nodes that VolumeBinding accepts. For an unbound claim, a candidate PV is reachable or provisioning is allowed.
        zone: bool[N], nodes that VolumeZone accepts.
        delayed: True if the claim waits for its first consumer.
        volumes: Candidate PVs of an unbound claim, smallest first.
        provision: bool[N], nodes where a new volume can be provisioned. None means no node.
        one_node: True for an unbound ReadWriteOnce or ReadWriteOncePod claim. If its volume is provisioned, all its pods share one node,
            because the other nodes that reach the volume are unknown.
        one_pod: True for ReadWriteOncePod.
        size: Requested size in bytes. The claims of a pod choose volumes in ascending order of size.
        driver: The driver whose volume limit the claim counts for (NodeVolumeLimits). None means no limit.
        handle: The volume handle that is counted.
        counted: bool[N], nodes where an in-tree volume counts. None means all nodes.
    """

    key: str
    missing: bool
    binding: Bools
    zone: Bools
    delayed: bool = False
    volumes: tuple[str, ...] = ()
    provision: Bools | None = None
    one_node: bool = False
    one_pod: bool = False
    size: int = 0
    driver: str | None = None
    handle: str | None = None
    counted: Bools | None = None

    @property
    def attached(self) -> Attached:
        return self.driver, self.handle, self.counted


class VolumeTable:
    """The claims and volumes of a snapshot, evaluated over a node table."""

    def __init__(self, snapshot: Snapshot, nodes: NodeColumns) -> None:
        self._snapshot = snapshot
        self._nodes = nodes
        self._claims: dict[str, VolumeClaim] = {}
        self._reach: dict[str, Bools] = {}
        self._plugins = [migrated_volumes.migrated(snapshot.csi_nodes.get(name)) for name in nodes.names]
        self._all = np.ones(nodes.size, dtype=bool)
        self._none = np.zeros(nodes.size, dtype=bool)

    def reach(self, volume: str) -> Bools:
        """Return bool[N], the nodes that a PersistentVolume's nodeAffinity selects. Unbound claims choose volumes by it."""
        nodes = self._reach.get(volume)
        if nodes is None:
            spec = self._snapshot.persistent_volumes[volume].spec
            required = spec.nodeAffinity.required if spec and spec.nodeAffinity else None
            nodes = self._reach[volume] = self._all if required is None else self._nodes.selector(required)
        return nodes

    def bound_reach(self, name: str) -> Bools:
        """Return bool[N], the nodes that can use a bound PersistentVolume. If its plugin is migrated, the CSI driver's topology applies."""
        volume = self._snapshot.persistent_volumes[name]
        plugin, reach = migrated_volumes.plugin_of(volume), self.reach(name)
        moved = self._migrated(plugin) if plugin is not None else self._none
        if plugin is None or not moved.any():
            return reach
        key = migrated_volumes.PLUGINS[plugin].topology
        if migrated_volumes.handle(volume) is None:
            return reach & ~moved
        required = migrated_volumes.node_affinity(volume, key) if key is not None else None
        return reach if key is None else np.where(moved, self._all if required is None else self._nodes.selector(required), reach)

    def _migrated(self, plugin: str) -> Bools:
        """Return bool[N], the nodes that have migrated a plugin."""
        return np.array([plugin in plugins for plugins in self._plugins], dtype=bool)

    def attached(self, name: str) -> Attached:
        """Return the driver and handle of a PersistentVolume, and the nodes where it counts."""
        volume = self._snapshot.persistent_volumes[name]
        csi = volume.spec.csi if volume.spec else None
        if csi is not None:
            return csi.driver, f"volume:{csi.volumeHandle}", None
        plugin, handle = migrated_volumes.plugin_of(volume), migrated_volumes.handle(volume)
        return self._counted(plugin, f"volume:{handle}") if plugin is not None and handle is not None else _NOTHING

    def _counted(self, plugin: str, handle: str) -> Attached:
        nodes = self._migrated(plugin)
        return (migrated_volumes.PLUGINS[plugin].driver, handle, None if nodes.all() else nodes) if nodes.any() else _NOTHING

    def claim(self, key: str) -> VolumeClaim:
        resolved = self._claims.get(key)
        if resolved is None:
            claim = self._snapshot.persistent_volume_claims.get(key)
            resolved = self._claims[key] = VolumeClaim(key, True, self._none, self._none) if claim is None else self._resolve(key, claim)
        return resolved

    def _resolve(self, key: str, claim: PersistentVolumeClaim) -> VolumeClaim:
        spec = claim.spec
        modes = (spec.accessModes if spec else None) or []
        one_pod = "ReadWriteOncePod" in modes
        name = spec.storageClassName if spec else None
        storage = self._snapshot.storage_classes.get(name) if name else None
        attached = self._attached(key, spec.volumeName if spec else None, storage)
        if claim.metadata.deletionTimestamp is not None or (claim.status and claim.status.phase == "Lost"):
            zone = self._bound_zone(spec.volumeName) if spec and spec.volumeName else self._none
            return _immediate(key, self._none, zone, one_pod, attached)
        if spec is not None and spec.volumeName:
            reach = self.bound_reach(spec.volumeName) if spec.volumeName in self._snapshot.persistent_volumes else self._none
            return _immediate(key, reach, self._bound_zone(spec.volumeName), one_pod, attached)
        if storage is None or storage.volumeBindingMode != "WaitForFirstConsumer":
            return _immediate(key, self._none, self._none, one_pod, attached)
        return self._delayed(key, claim, storage, modes)

    def _attached(self, key: str, name: str | None, storage: StorageClass | None) -> Attached:
        """Return the driver and handle of a claim's volume. If there is no volume, the class's provisioner is the driver."""
        if name and name in self._snapshot.persistent_volumes:
            return self.attached(name)
        provisioner = storage.provisioner if storage else ""
        if provisioner in migrated_volumes.PLUGINS:
            return self._counted(provisioner, f"claim:{key}")
        return None if provisioner in migrated_volumes.NEVER_COUNTED else provisioner or None, f"claim:{key}", None

    def _bound_zone(self, name: str) -> Bools:
        """Return bool[N] for VolumeZone: the PV's zone and region labels must match the node's. Nodes without such labels pass."""
        volume = self._snapshot.persistent_volumes.get(name)
        if volume is None:
            return self._none
        free = self._all.copy()
        for key in ZONE_KEYS:
            free &= self._nodes.column(key)[0] < 0
        ok = self._all.copy()
        for key, modern in ZONE_KEYS.items():
            value = (volume.metadata.labels or {}).get(key)
            if value is None:
                continue
            zones = value.split("__")
            if not all(zones):
                continue  # upstream skips a label that it cannot parse
            match, modern_match = (self._nodes.with_values(each, zones) for each in (key, modern))
            ok &= np.where(self._nodes.column(key)[0] >= 0, match, modern_match)
        return ok | free

    def _delayed(self, key: str, claim: PersistentVolumeClaim, storage: StorageClass, modes: list[str]) -> VolumeClaim:
        provision: Bools | None = None
        if storage.provisioner and storage.provisioner != NO_PROVISIONER:
            provision = self._topologies(storage)
        driver, handle, counted = self._attached(key, None, storage)
        selected = (claim.metadata.annotations or {}).get(SELECTED_NODE)
        volumes: tuple[str, ...] = ()
        if selected is not None:
            # The claim already has a selected node, so only provisioning there counts (volumebinding/binder.go, FindPodVolumes).
            at = np.array([name == selected for name in self._nodes.names], dtype=bool)
            provision = None if provision is None else provision & at
        else:
            volumes = self._candidates(key, claim)
        binding = self._none.copy() if provision is None else provision.copy()
        for volume in volumes:
            binding |= self.reach(volume)
        return VolumeClaim(
            key, False, binding, self._all, delayed=True, volumes=volumes, provision=provision,
            one_node=bool(modes) and set(modes) <= {"ReadWriteOnce", "ReadWriteOncePod"}, one_pod="ReadWriteOncePod" in modes,
            size=_requested(claim),
            driver=driver, handle=handle, counted=counted,
        )  # fmt: skip

    def _topologies(self, storage: StorageClass) -> Bools:
        if not storage.allowedTopologies:
            return self._all
        mask = self._none.copy()
        for term in storage.allowedTopologies:
            ok = self._all.copy()
            for expression in term.matchLabelExpressions or ():
                ok &= self._nodes.with_values(expression.key, expression.values or ())
            mask |= ok if term.matchLabelExpressions else self._none
        return mask

    def _candidates(self, key: str, claim: PersistentVolumeClaim) -> tuple[str, ...]:
        """Return the PVs that can serve an unbound claim, smallest first (component-helpers/storage/volume: FindMatchingVolume).

        A volume whose claimRef names the claim is the only candidate. Its access modes, labels and phase are not checked.
        """
        spec = claim.spec
        assert spec is not None
        size, selector, modes = _requested(claim), canonical(spec.selector), set(spec.accessModes or ())
        candidates: list[tuple[int, str]] = []
        reserved: list[str] = []
        for name, volume in self._snapshot.persistent_volumes.items():
            offer = volume.spec
            if offer is None or not _serves(volume, spec, size):
                continue
            if offer.claimRef is not None:
                if _names(offer.claimRef, key, claim.metadata.uid):
                    reserved.append(name)
            elif (
                volume.status is not None
                and volume.status.phase == "Available"
                and modes <= set(offer.accessModes or ())
                and (spec.selector is None or selector_matches(selector, volume.metadata.labels or {}))
            ):
                candidates.append((quantity.units((offer.capacity or {}).get("storage", 0)), name))
        return (min(reserved),) if reserved else tuple(name for _, name in sorted(candidates))


def _serves(volume: PersistentVolume, wants: PersistentVolumeClaimSpec, size: int) -> bool:
    """Return True if a volume has the size, class and mode that a claim requests."""
    spec = volume.spec
    return (
        spec is not None
        and volume.metadata.deletionTimestamp is None
        and (spec.storageClassName or "") == (wants.storageClassName or "")
        and (spec.volumeMode or "Filesystem") == (wants.volumeMode or "Filesystem")
        and (spec.volumeAttributesClassName or "") == (wants.volumeAttributesClassName or "")
        and quantity.units((spec.capacity or {}).get("storage", 0)) >= size
    )


def _names(reference: ObjectReference, key: str, uid: str | None) -> bool:
    """Return True if a volume's claimRef names the claim. A claim without a uid comes from a manifest and matches any uid."""
    named = f"{reference.namespace or 'default'}/{reference.name}" == key
    return named and (not reference.uid or not uid or reference.uid == uid)


def _immediate(key: str, binding: Bools, zone: Bools, one_pod: bool, attached: Attached) -> VolumeClaim:
    """Return a claim that is bound, or can only be bound before its pod is placed."""
    driver, handle, counted = attached
    return VolumeClaim(key, False, binding, zone, one_pod=one_pod, driver=driver, handle=handle, counted=counted)


def _requested(claim: PersistentVolumeClaim) -> int:
    resources = claim.spec.resources if claim.spec else None
    return quantity.units(((resources.requests if resources else None) or {}).get("storage", 0))
