"""Extended resources that DeviceClasses back, and the device requests of containers that request them.

Source: pkg/scheduler/framework/plugins/dynamicresources/extendeddynamicresources.go, as of v1.36.2 (KEP-5004).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kubestow.models.devices.demand import DemandedRequest
from kubestow.models.kube import pod_requests, quantity
from kubestow.models.kube.device_objects import DeviceClass
from kubestow.models.kube.objects import Container, PodSpec

#: Each class backs the resource with this prefix and its name, in addition to others.
IMPLICIT_PREFIX: Final = "deviceclass.resource.kubernetes.io/"
#: Annotation of the claim that the scheduler makes for a pod's extended resources.
ANNOTATION: Final = "resource.kubernetes.io/extended-resource-claim"


def backed(classes: Mapping[str, DeviceClass]) -> dict[str, str]:
    """Return the class behind each extended resource: the newest one, then the first by name."""
    found: dict[str, tuple[str, str]] = {}  # resource -> creation, class
    for name, each in sorted(classes.items()):
        resource = each.spec.extendedResourceName if each.spec is not None else None
        created = each.metadata.creationTimestamp or ""
        if resource and (resource not in found or created > found[resource][0]):
            found[resource] = created, name
    return {IMPLICIT_PREFIX + name: name for name in classes} | {resource: name for resource, (_, name) in found.items()}


def is_extended(name: str) -> bool:
    """Return True for resources of devices and other extended resources, but not Kubernetes' own."""
    return name.startswith(IMPLICIT_PREFIX) or (pod_requests.counts_as_resource(name) and "/" in name and "kubernetes.io/" not in name)


def requests(spec: PodSpec, resource: str, device_class: str, selectors: tuple[str, ...]) -> tuple[DemandedRequest, ...]:
    """Return the requests of a pod's containers to a class for one resource.

    There is one request per container, and one for all ordinary init containers. The latter first reuse the
    devices that later containers and sidecars hold.
    """
    init = spec.initContainers or []
    containers = [*init, *(spec.containers or [])]
    brief = [i for i, each in enumerate(init) if each.restartPolicy != "Always"]
    requested: dict[int, DemandedRequest] = {}
    for i, each in enumerate(containers):
        amount = 0 if i in brief else _amount(each, resource)
        if amount:
            requested[i] = DemandedRequest(_name(i, each, resource), device_class, amount, selectors)
    largest: DemandedRequest | None = None
    for i in brief:
        more = _amount(containers[i], resource) - sum(request.count or 0 for j, request in requested.items() if j >= i)
        if more > 0 and (largest is None or more > (largest.count or 0)):
            largest = DemandedRequest(_name(i, containers[i], resource), device_class, more, selectors)
    return (*(() if largest is None else (largest,)), *requested.values())


def _amount(container: Container, resource: str) -> int:
    requested = (container.resources.requests if container.resources is not None else None) or {}
    if resource not in requested:
        return 0
    amount = quantity.parse(requested[resource])
    return int(amount) if amount.denominator == 1 else 0


def _name(i: int, container: Container, resource: str) -> str:
    requested = (container.resources.requests if container.resources is not None else None) or {}
    return f"container-{i}-request-{sorted(requested).index(resource)}"
