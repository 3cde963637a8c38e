"""Node requirements from a pod's persistent volume claims, as text. Claims of one kind have equal texts, so
replicas share a shape.

Source: pkg/scheduler/framework/plugins/{volumebinding,volumezone,volumerestrictions}, as
:mod:`kubestow.models.cluster.volumes` reads them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from kubestow.models.kube import objects, storage_objects
from kubestow.models.kube.pod_spec import NO_PROVISIONER, SELECTED_NODE, claim_keys, named_claims
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.report.page import words
from kubestow.report.page.pod_requirements import PodRule

#: Labels that tie a volume to a location.
_PLACES: Final = (
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
)
_NAMED_ONLY: Final = ("VolumeZone", "VolumeRestrictions")


class Storage:
    """The claims and volumes of a snapshot as text."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._claims: dict[str, tuple[PodRule, ...]] = {}
        self._users = Counter(key for pod in snapshot.pods if not objects.is_terminal(pod) and pod.spec.volumes for key in claim_keys(pod))
        drivers = [driver for csi in snapshot.csi_nodes.values() for driver in (csi.spec.drivers if csi.spec is not None else None) or ()]
        self._limited = {each.name for each in drivers if each.allocatable is not None and each.allocatable.count is not None}

    def of(self, pod: objects.Pod) -> tuple[PodRule, ...]:
        """Return the rules of a pod's claims, in order, without duplicates."""
        if not pod.spec.volumes:
            return ()
        found: dict[PodRule, None] = {}
        named = named_claims(pod)
        for key in claim_keys(pod):
            if key not in self._claims:
                self._claims[key] = tuple(self._claim(key))
            # Two plugins ignore the claims of ephemeral volumes.
            found.update(dict.fromkeys(rule for rule in self._claims[key] if key in named or rule.rule not in _NAMED_ONLY))
        return tuple(found)

    def _claim(self, key: str) -> Iterator[PodRule]:
        claim = self._snapshot.persistent_volume_claims.get(key)
        if claim is None:
            yield PodRule("VolumeBinding", f"claim {key} is not in the snapshot: no node takes the pod")
            return
        spec = claim.spec or objects.PersistentVolumeClaimSpec()
        if claim.metadata.deletionTimestamp is not None or (claim.status is not None and claim.status.phase == "Lost"):
            yield PodRule("VolumeBinding", f"claim {key} is being deleted or has lost its volume: no node takes the pod")
            return
        if "ReadWriteOncePod" in (spec.accessModes or ()):
            yield PodRule("VolumeRestrictions", "has a volume that one pod at a time may use (ReadWriteOncePod)")
        if spec.volumeName:
            yield from self._volume(spec.volumeName)
        else:
            yield from self._unbound(key, claim, spec)

    def _volume(self, name: str) -> Iterator[PodRule]:
        volume = self._snapshot.persistent_volumes.get(name)
        if volume is None:
            yield PodRule("VolumeBinding", f"volume {name} is not in the snapshot: no node takes the pod")
            return
        spec = volume.spec or storage_objects.PersistentVolumeSpec()
        required = spec.nodeAffinity.required if spec.nodeAffinity is not None else None
        if required is not None:
            which = words.node_selector(required)
            where = f"for nodes with {which}" if which else "that no node reaches"
            yield PodRule("VolumeBinding", f"has a volume{_of_class(spec.storageClassName)} {where}")
        places = {key: value for key, value in (volume.metadata.labels or {}).items() if key in _PLACES}
        if places:
            text = ",".join(words.requirement(key, "In", value.split("__")) for key, value in sorted(places.items()))
            yield PodRule("VolumeZone", f"has a volume at {text}")
        yield from self._attached(spec.csi.driver if spec.csi is not None else None)

    def _unbound(
        self, key: str, claim: storage_objects.PersistentVolumeClaim, spec: objects.PersistentVolumeClaimSpec
    ) -> Iterator[PodRule]:
        name = spec.storageClassName
        storage = self._snapshot.storage_classes.get(name) if name else None
        if storage is None or storage.volumeBindingMode != "WaitForFirstConsumer":
            yield PodRule("VolumeBinding", f"claim {key}{_of_class(name)} is not bound yet: no node takes the pod until it is")
            return
        node = (claim.metadata.annotations or {}).get(SELECTED_NODE)
        if storage.provisioner in ("", NO_PROVISIONER):
            yield PodRule("VolumeBinding", f"takes a free volume{_of_class(name)}, on a node that can reach it")
        elif node is not None:
            yield PodRule("VolumeBinding", f"a volume{_of_class(name)} is being provisioned on node {node}")
        else:
            where = [
                words.listed([words.requirement(e.key, "In", e.values) for e in term.matchLabelExpressions or ()], ",")
                for term in storage.allowedTopologies or ()
            ]
            only = f", which is possible on nodes with {words.listed(where, ' or ')}" if where else ""
            yield PodRule("VolumeBinding", f"a volume{_of_class(name)} is provisioned where it runs{only}")
        made = storage.provisioner not in ("", NO_PROVISIONER)
        if made and self._users[key] > 1 and set(spec.accessModes or ()) == {"ReadWriteOnce"}:
            yield PodRule("VolumeBinding", f"claim {key} has no volume yet: the pods that use it must meet on one node")
        yield from self._attached(storage.provisioner)

    def _attached(self, driver: str | None) -> Iterator[PodRule]:
        """Yield the rule on the number of attached volumes, if nodes limit it for the driver."""
        if driver in self._limited:
            yield PodRule("NodeVolumeLimits", f"attaches a volume of {driver}, whose number per node is limited")


def _of_class(name: str | None) -> str:
    return f" of class {name}" if name else ""
