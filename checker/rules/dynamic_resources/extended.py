"""Extended resources that device classes back: the class of each resource, and the device requests of a pod's containers.

Source: pkg/scheduler/framework/plugins/dynamicresources/extendeddynamicresources.go (v1.36.2), KEP-5004.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Final

from kubestow.models.kube import device_objects as api
from kubestow.models.kube import objects, quantity

PREFIX: Final = "deviceclass.resource.kubernetes.io/"
#: Set on claims that the scheduler made for extended resources.
ANNOTATION: Final = "resource.kubernetes.io/extended-resource-claim"
_OLDEST: Final = datetime.min


def backed(classes: Mapping[str, api.DeviceClass]) -> dict[str, str]:
    """Return the device class behind each resource. Of several classes the newest wins, then the one first by name."""
    found: dict[str, str] = {}
    for name in sorted(classes, key=lambda name: (_created(classes[name]), _Descending(name))):
        spec = classes[name].spec
        if spec is not None and spec.extendedResourceName:
            found[spec.extendedResourceName] = name  # the last one stays
    return found | {PREFIX + name: name for name in classes}


class _Descending(str):
    """A string that sorts in descending order."""

    __slots__ = ()

    def __lt__(self, other: str) -> bool:
        return str(self) > str(other)


def _created(device_class: api.DeviceClass) -> datetime:
    try:
        return datetime.fromisoformat(device_class.metadata.creationTimestamp or "").replace(tzinfo=None)
    except ValueError:
        return _OLDEST


def is_extended(resource: str) -> bool:
    """Return True if devices may provide a resource of this name."""
    if resource.startswith(PREFIX):
        return True
    return "/" in resource and "kubernetes.io/" not in resource and not resource.startswith("requests.")


def requests(spec: objects.PodSpec, resources: Iterable[str], classes: Mapping[str, str]) -> list[api.DeviceRequest]:
    """Return the device requests of a pod for resources that only devices can provide on a node, sorted by name.

    Ordinary init containers end before later containers start. They reuse the devices of sidecars and containers at
    their position or later; only the largest remainder is added.

    Args:
        spec: The pod's spec.
        resources: The resources.
        classes: Device class of each resource.
    """
    containers = [*(spec.initContainers or ()), *(spec.containers or ())]
    ordinary = {i for i, each in enumerate(spec.initContainers or ()) if each.restartPolicy != "Always"}
    found: dict[str, api.DeviceRequest] = {}
    for resource in resources:
        amounts = [_asked(container, resource) for container in containers]
        lasting = [0 if i in ordinary else count for i, count in enumerate(amounts)]
        counts = {i: count for i, count in enumerate(lasting) if count}
        remaining = {i: amounts[i] - sum(lasting[i:]) for i in sorted(ordinary)}
        largest = max(remaining, key=lambda i: (remaining[i], -i), default=None)
        if largest is not None and remaining[largest] > 0:
            counts[largest] = remaining[largest]
        for i, count in counts.items():
            name = f"container-{i}-request-{sorted(_requests(containers[i])).index(resource)}"
            exact = api.ExactDeviceRequest(deviceClassName=classes[resource], allocationMode="ExactCount", count=count)
            found[name] = api.DeviceRequest(name=name, exactly=exact)
    return [found[name] for name in sorted(found)]


def _requests(container: objects.Container) -> objects.ResourceList:
    """Return a container's requests. A limit replaces a missing request."""
    given = container.resources or objects.ResourceRequirements()
    return {**(given.limits or {}), **(given.requests or {})}


def _asked(container: objects.Container, resource: str) -> int:
    raw = _requests(container).get(resource)
    return 0 if raw is None else quantity.units(raw)


def is_left_over(claim: api.ResourceClaim) -> bool:
    """Return True if the scheduler created the claim for extended resources.

    Such a claim keeps its pod pending if the pod has no node yet.
    """
    devices = claim.spec.devices if claim.spec is not None else None
    asks = devices is not None and devices.requests is not None
    return asks and (claim.metadata.annotations or {}).get(ANNOTATION) == "true"


def is_owned(claim: api.ResourceClaim, pod: objects.Pod) -> bool:
    """Return True if the pod controls the claim."""
    owners = claim.metadata.ownerReferences or ()
    uid = pod.metadata.uid or ""
    return any(each.controller and each.name == pod.metadata.name and (each.uid or "") == uid for each in owners)
