"""Unmodelled device fields of Kubernetes 1.37, for pods that request devices.

Their feature gates are off by default. An API server stores the fields only if a gate is or was on.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kubestow.models.devices import extended_resources
from kubestow.models.kube import device_objects as api
from kubestow.models.kube.objects import Pod
from kubestow.models.snapshot.snapshot import Snapshot

#: KEP-5963.
_GROUPS: Final = "compatibilityGroups of devices are ignored"
#: KEP-5945.
_SKIPPED: Final = "skipNodeOperations of slices is ignored: nodes need not declare DRAOptionalNodeOperations"
#: KEP-6080.
_DERIVED: Final = "derivedAttributes are ignored"


class DeviceNotes:
    """The unmodelled fields of a snapshot's slices and claims.

    Args:
        snapshot: The input. Its slices are read once, at the start.

    Attributes:
        wide: True if pods without claims can also request such devices.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        slices = [each.spec for each in snapshot.resource_slices.values()]
        grouped = any(
            consumed.compatibilityGroups for spec in slices for device in spec.devices or () for consumed in device.consumesCounters or ()
        )
        self._effects = [*([_GROUPS] if grouped else []), *([_SKIPPED] if any(spec.skipNodeOperations for spec in slices) else [])]
        backing = bool(self._effects) and snapshot.gates.enabled("DRAExtendedResource")
        self._backed = _backed(snapshot) if backing else {}
        self.wide = bool(self._backed)

    def of_pod(self, pod: Pod) -> Iterator[tuple[str, str]]:
        """Yield the unmodelled fields that concern a pod, each with its effect."""
        if pod.spec.resourceClaims:
            yield from (("spec.resourceClaims", effect) for effect in self._effects)
            if any(_derives(spec) for spec in self._claims(pod)):
                yield "spec.resourceClaims", _DERIVED
        elif self._backed and self._asks_for_backed(pod):
            yield from (("devices", effect) for effect in self._effects)

    def _claims(self, pod: Pod) -> Iterator[api.ResourceClaimSpec | None]:
        space = pod.metadata.namespace or "default"
        for each in pod.spec.resourceClaims or ():
            claim = self._snapshot.resource_claims.get(f"{space}/{each.resourceClaimName}")
            template = self._snapshot.resource_claim_templates.get(f"{space}/{each.resourceClaimTemplateName}")
            if claim is not None:
                yield claim.spec
            if template is not None and template.spec is not None:
                yield template.spec.spec

    def _asks_for_backed(self, pod: Pod) -> bool:
        containers = [*(pod.spec.containers or ()), *(pod.spec.initContainers or ())]
        listed = (each.resources for each in containers)
        return any(name in self._backed for each in listed if each is not None for name in (each.requests or each.limits or {}))


def _derives(spec: api.ResourceClaimSpec | None) -> bool:
    devices = spec.devices if spec is not None else None
    for request in (devices.requests if devices is not None else None) or ():
        if request.exactly is not None and request.exactly.derivedAttributes:
            return True
        if any(each.derivedAttributes for each in request.firstAvailable or ()):
            return True
    return False


def _backed(snapshot: Snapshot) -> dict[str, str]:
    """Return the device class behind each extended resource. Snapshots without devices do not load the module."""
    return extended_resources.backed(snapshot.device_classes)
