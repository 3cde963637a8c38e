"""The quality-of-service class of a pod.

Source: k8s.io/kubernetes pkg/apis/core/v1/helper/qos/qos.go (GetPodQOS, ComputePodQOS), as of v1.34.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Final

from models.kube import objects, quantity

GUARANTEED: Final = "Guaranteed"
BURSTABLE: Final = "Burstable"
BEST_EFFORT: Final = "BestEffort"
_COUNTED: Final = ("cpu", "memory")


def qos_class(pod: objects.Pod) -> str:
    """``Guaranteed``, ``Burstable`` or ``BestEffort``: what the status says, else by the resources of the spec.

    Only cpu and memory count, of app containers, sidecars and init containers alike; pod-level resources, where set, decide alone.

    Raises:
        QuantityError: a malformed cpu or memory quantity.
    """
    if pod.status is not None and pod.status.qosClass:
        return pod.status.qosClass
    if pod.spec.resources is not None:
        found = {_class(_amounts(pod.spec.resources.requests), _amounts(pod.spec.resources.limits))}
    else:
        found = set(_container_classes(pod.spec))
    # Containers that differ among themselves are neither all guaranteed nor all without any claim.
    return found.pop() if len(found) == 1 else BURSTABLE if found else BEST_EFFORT


def _container_classes(spec: objects.PodSpec) -> Iterator[str]:
    for container in (*(spec.initContainers or ()), *(spec.containers or ())):
        resources = container.resources
        limits = _amounts(resources.limits if resources else None)
        requests = _amounts(resources.requests if resources else None)
        # A container's request defaults to its limit when the pod is stored: no change for a pod that has been.
        yield _class({**limits, **requests}, limits)


def _amounts(resources: objects.ResourceList | None) -> dict[str, Fraction]:
    return {name: quantity.milli_round(quantity.parse(resources[name])) for name in _COUNTED if resources and name in resources}


def _class(requests: dict[str, Fraction], limits: dict[str, Fraction]) -> str:
    """Of one set of requirements. An amount of zero is the same as none."""
    if not any(requests.values()) and not any(limits.values()):
        return BEST_EFFORT
    if all(limits.get(name) and requests.get(name) == limits[name] for name in _COUNTED):
        return GUARANTEED
    return BURSTABLE
