"""VolumeBinding, VolumeZone, VolumeRestrictions and NodeVolumeLimits for the checker.

As in Kubernetes, claims of generic ephemeral volumes are subject only to VolumeBinding and NodeVolumeLimits. During
a replay, a static volume is used once, and a claim that a placed pod binds stays on its node.

Source: kube-scheduler plugins volumebinding (binder.go), volumezone, volumerestrictions, nodevolumelimits (csi.go),
and k8s.io/component-helpers/storage/volume (FindMatchingVolume).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from fractions import Fraction
from typing import Final

from kubestow.checker.reading import matching
from kubestow.checker.rules.volumes import migration
from kubestow.models.kube import objects, quantity, storage_objects
from kubestow.models.snapshot.snapshot import Snapshot

Fault = tuple[str, str]  # rule, why

_NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"
_SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
_ZONE_LABELS: Final = {  # label of a volume -> label of the node that may replace it
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region": "topology.kubernetes.io/region",
}
_ONE_NODE: Final = frozenset({"ReadWriteOnce", "ReadWriteOncePod"})


def _claims(pod: objects.Pod, *, ephemeral: bool) -> Iterator[str]:
    """Yield the keys (``namespace/name``) of the claims that a pod mounts."""
    namespace = pod.metadata.namespace or "default"
    for volume in pod.spec.volumes or ():
        if volume.persistentVolumeClaim is not None:
            yield f"{namespace}/{volume.persistentVolumeClaim.claimName}"
        elif ephemeral and volume.ephemeral is not None:
            yield f"{namespace}/{pod.metadata.name or ''}-{volume.name or ''}"


def _storage(resources: objects.ResourceList | None) -> Fraction:
    return quantity.parse((resources or {}).get("storage", 0))


class VolumeState:
    """Volumes and claims of a snapshot, with their use by the pods added so far."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._claims = snapshot.persistent_volume_claims
        self._volumes = snapshot.persistent_volumes
        self._classes = snapshot.storage_classes
        self._limits = {
            name: {d.name: d.allocatable.count for d in (csi.spec.drivers if csi.spec else None) or () if d.allocatable}
            for name, csi in snapshot.csi_nodes.items()
        }
        self._installed = {
            name: {driver.name for driver in (csi.spec.drivers if csi.spec else None) or ()} for name, csi in snapshot.csi_nodes.items()
        }
        self._migrated = {name: migration.plugins(csi) for name, csi in snapshot.csi_nodes.items()}
        self._needed: set[str] = set()  # drivers that must be installed on the node of a new pod
        if snapshot.gates.enabled("VolumeLimitScaling"):
            self._needed = {name for name, of in snapshot.csi_drivers.items() if of.spec and of.spec.preventPodSchedulingIfMissing}
        self._free: dict[str, list[tuple[Fraction, str, storage_objects.PersistentVolume]]] = {}  # by class, smallest first
        self._reserved: dict[str, list[str]] = {}  # by claim
        for name, volume in sorted(self._volumes.items()):
            spec = volume.spec or storage_objects.PersistentVolumeSpec()
            if volume.metadata.deletionTimestamp is not None:
                continue
            if spec.claimRef is not None:
                self._reserved.setdefault(f"{spec.claimRef.namespace or 'default'}/{spec.claimRef.name or ''}", []).append(name)
            elif volume.status is not None and volume.status.phase == "Available":
                self._free.setdefault(spec.storageClassName or "", []).append((_storage(spec.capacity), name, volume))
        for listed in self._free.values():
            listed.sort(key=lambda entry: entry[:2])
        self._chosen: dict[str, str] = {}  # claim -> static volume that a placed pod uses for it
        self._consumed: set[str] = set()
        self._first_node: dict[str, str] = {}  # unbound claim -> node of the pod that makes it bind
        self._users: dict[str, int] = {}
        self._mounted: dict[str, set[str]] = {}  # node -> claims

    # --- the state ----------------------------------------------------------------------------------------------------

    def _claims_volume(self, key: str) -> str | None:
        """Return the volume to which a claim is bound in the snapshot, or None."""
        spec = self._claims[key].spec
        return (spec.volumeName or None) if spec else None

    def _volume_of(self, key: str) -> str | None:
        """Return the volume to which a claim is bound now, or None."""
        return self._claims_volume(key) or self._chosen.get(key)

    def _class_of(self, key: str) -> storage_objects.StorageClass | None:
        spec = self._claims[key].spec
        return self._classes.get(spec.storageClassName or "") if spec else None

    # --- the rules ----------------------------------------------------------------------------------------------------

    def faults(self, pod: objects.Pod, node: objects.Node) -> list[Fault]:
        """Return all reasons of the four volume rules against the pod on the node."""
        if not pod.spec.volumes:
            return []
        found = [("VolumeBinding", why) for why in self._bind(pod, node)[1]]
        found += [("VolumeZone", why) for why in self._zone_faults(pod, node)]
        found += [("VolumeRestrictions", why) for why in self._restriction_faults(pod)]
        return found + [("NodeVolumeLimits", why) for why in self._limit_faults(pod, node)]

    def _unbound_fault(self, key: str) -> str | None:
        """Return why an unbound claim cannot wait for its pod, or None."""
        storage_class = self._class_of(key)
        if storage_class is None:
            return f"claim {key} is unbound and has no StorageClass"
        if storage_class.volumeBindingMode != "WaitForFirstConsumer":
            return f"claim {key} is unbound, and its class {storage_class.metadata.name} binds immediately"
        return None

    def _bind(self, pod: objects.Pod, node: objects.Node) -> tuple[dict[str, str], list[str]]:
        """Apply VolumeBinding: return the static volumes that the pod's claims would use on this node, and why claims cannot bind."""
        name, labels = node.metadata.name or "", node.metadata.labels or {}
        why: list[str] = []
        waiting: list[str] = []
        for key in dict.fromkeys(_claims(pod, ephemeral=True)):
            claim = self._claims.get(key)
            if claim is None:
                why.append(f"claim {key} does not exist")
                continue
            if claim.metadata.deletionTimestamp is not None:
                why.append(f"claim {key} is being deleted")
            if claim.status is not None and claim.status.phase == "Lost":
                why.append(f"claim {key} has lost its volume")
            bound = self._volume_of(key)
            if bound is None:
                unbound = self._unbound_fault(key)
                if unbound:
                    why.append(unbound)
                else:
                    waiting.append(key)
            elif bound not in self._volumes:
                why.append(f"claim {key} is bound to volume {bound}, which does not exist")
            elif not self._reaches(self._volumes[bound], node, self._migrated.get(name, frozenset())):
                why.append(f"the node affinity of volume {bound} of claim {key} does not match the node")
            first = self._first_node.get(key, name)
            if bound is None and first != name and self._is_for_one_node(claim):
                why.append(f"the volume of claim {key} is created on node {first} for an earlier pod")
        assigned: dict[str, str] = {}
        for key in sorted(waiting, key=self._request):
            selected = (self._claims[key].metadata.annotations or {}).get(_SELECTED_NODE)
            if selected is not None and selected != name:
                why.append(f"claim {key} is being provisioned for node {selected}")
                continue
            if selected is None and key not in self._first_node:
                volume = self._find(key, node, assigned.values())
                if volume is not None:
                    assigned[key] = volume
                    continue
            storage_class = self._class_of(key) or storage_objects.StorageClass(objects.ObjectMeta())
            if storage_class.provisioner in ("", _NO_PROVISIONER):
                why.append(f"no available volume in reach of the node fits claim {key}")
            elif not matching.in_topology_terms(storage_class.allowedTopologies, labels):
                why.append(f"allowedTopologies of class {storage_class.metadata.name} of claim {key} leave the node out")
        return assigned, why

    @staticmethod
    def _is_for_one_node(claim: storage_objects.PersistentVolumeClaim) -> bool:
        modes = frozenset((claim.spec.accessModes if claim.spec else None) or ())
        return bool(modes) and modes <= _ONE_NODE

    def _request(self, key: str) -> Fraction:
        spec = self._claims[key].spec
        return _storage(spec.resources.requests if spec and spec.resources else None)

    @staticmethod
    def _reaches(volume: storage_objects.PersistentVolume, node: objects.Node, migrated: frozenset[str] = frozenset()) -> bool:
        """Return True if the volume's node affinity holds. ``migrated`` are the node's plugins, for bound volumes."""
        try:
            required = migration.affinity(volume, migrated)
        except migration.Broken:
            return False
        return matching.node_selector_holds(required, node.metadata.labels or {}, node.metadata.name or "")

    def _find(self, key: str, node: objects.Node, assigned: Collection[str]) -> str | None:
        """Return the static volume for an unbound claim on this node: the one reserved for it, or else the smallest,
        then first by name.
        """
        claim = self._claims[key]
        spec = claim.spec or objects.PersistentVolumeClaimSpec()
        try:
            selector = matching.label_selector(spec.selector)
        except matching.InvalidSelector:
            return None
        request, name_of_class = self._request(key), spec.storageClassName or ""
        modes, volume_mode = set(spec.accessModes or ()), spec.volumeMode or "Filesystem"

        def fits(capacity: Fraction, volume: storage_objects.PersistentVolume) -> bool:
            offer = volume.spec or storage_objects.PersistentVolumeSpec()
            return (
                capacity >= request
                and (offer.volumeMode or "Filesystem") == volume_mode
                and (offer.volumeAttributesClassName or "") == (spec.volumeAttributesClassName or "")
            )

        def offered(volume: storage_objects.PersistentVolume) -> bool:
            offer = volume.spec or storage_objects.PersistentVolumeSpec()
            labels = volume.metadata.labels or {}
            return modes <= set(offer.accessModes or ()) and (selector is None or matching.selects(selector, labels))

        for name in self._reserved.get(key, ()):
            volume = self._volumes[name]
            offer = volume.spec or storage_objects.PersistentVolumeSpec()
            uid = offer.claimRef.uid if offer.claimRef else None
            same = not uid or not claim.metadata.uid or uid == claim.metadata.uid
            if same and (offer.storageClassName or "") == name_of_class and fits(_storage(offer.capacity), volume):
                # A reservation is binding regardless of modes and labels. If it is out of reach, no other volume is used.
                return name if self._reaches(volume, node) else None
        for capacity, name, volume in self._free.get(name_of_class, ()):
            if name in self._consumed or name in assigned:
                continue
            if fits(capacity, volume) and offered(volume) and self._reaches(volume, node):
                return name
        return None

    def _zone_faults(self, pod: objects.Pod, node: objects.Node) -> list[str]:
        labels = node.metadata.labels or {}
        zoned = any(key in labels for key in _ZONE_LABELS)
        why: list[str] = []
        for key in dict.fromkeys(_claims(pod, ephemeral=False)):
            if key not in self._claims:
                why.append(f"claim {key} does not exist")
                continue
            bound = self._volume_of(key)
            if bound is None:
                unbound = self._unbound_fault(key)
                why += [unbound] if unbound else []
                continue
            volume = self._volumes.get(bound)
            if volume is None:
                why.append(f"claim {key} is bound to volume {bound}, which does not exist")
                continue
            for label, stand_in in _ZONE_LABELS.items():
                text = (volume.metadata.labels or {}).get(label)
                allowed = {zone.strip() for zone in text.split("__")} if text is not None else set()
                if not zoned or text is None or "" in allowed:  # kube-scheduler ignores a label that includes an empty zone
                    continue
                value = labels.get(label, labels.get(stand_in))
                if value not in allowed:
                    why.append(f"volume {bound} of claim {key} has {label}={text}, the node {value!r}")
        return why

    def _restriction_faults(self, pod: objects.Pod) -> list[str]:
        why = []
        for key in dict.fromkeys(_claims(pod, ephemeral=False)):
            claim = self._claims.get(key)
            if claim is None:
                why.append(f"claim {key} does not exist")
            elif claim.spec and "ReadWriteOncePod" in (claim.spec.accessModes or ()) and self._users.get(key):
                why.append(f"claim {key} is ReadWriteOncePod and another pod uses it")
        return why

    def _handles(self, claims: Iterable[str], node: str) -> set[tuple[str, str]]:
        """Return driver and handle of each CSI volume. A claim without a volume counts as one of its class's provisioner.

        The result is not cached, because a claim that binds during the replay changes the count of pods that already mount it.
        """
        found, migrated = set(), self._migrated.get(node, frozenset())
        for key in claims:
            if key not in self._claims:
                continue
            volume = self._volumes.get(self._volume_of(key) or "")
            if volume is not None:
                attached = migration.attached(volume, migrated)
                found |= {attached} if attached is not None else set()
                continue
            storage_class = self._class_of(key)
            driver = migration.provisioned(storage_class.provisioner, migrated) if storage_class is not None else None
            if driver:
                found.add((driver, f"claim {key}"))
        return found

    def _limit_faults(self, pod: objects.Pod, node: objects.Node) -> list[str]:
        name = node.metadata.name or ""
        why = [f"claim {key} does not exist" for key in _claims(pod, ephemeral=True) if key not in self._claims]
        if self._needed:
            brought = {driver for driver, _ in self._handles(_claims(pod, ephemeral=True), name)}
            absent = sorted((brought & self._needed).difference(self._installed.get(name, ())))
            why += [f"{driver}: the CSI driver is not installed on the node" for driver in absent]
        limits = self._limits.get(name)
        if not limits:
            return why
        attached = self._handles(self._mounted.get(name, ()), name)
        new = self._handles(_claims(pod, ephemeral=True), name) - attached
        for driver in sorted({driver for driver, _ in new}):
            limit = limits.get(driver)
            more, attached_count = (sum(driver == other for other, _ in handles) for handles in (new, attached))
            if limit is not None and attached_count + more > limit:
                why.append(f"{driver}: {more} more volumes, {attached_count} of {limit} attached")
        return why
