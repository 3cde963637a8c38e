"""Fields of a pod spec that request something. Of several containers, the one with the largest request is named."""

from __future__ import annotations

from fractions import Fraction

from kubestow.models.kube import quantity
from kubestow.models.kube.objects import PodSpec


def requesting(spec: PodSpec, resource: str) -> str:
    """Return the field with the largest request for a resource, or ``containers`` if no container requests it."""
    requests: list[tuple[Fraction, str]] = []
    for kind, containers in (("containers", spec.containers), ("initContainers", spec.initContainers)):
        for i, container in enumerate(containers or ()):
            found = ((container.resources.requests if container.resources is not None else None) or {}).get(resource)
            if found is not None:
                requests.append((quantity.parse(found), f"{kind}[{i}].resources.requests{_key(resource)}"))
    if spec.resources is not None and resource in (spec.resources.requests or {}):
        return f"resources.requests{_key(resource)}"
    return max(requests, key=lambda each: each[0], default=(Fraction(0), "containers"))[1]


def host_port(spec: PodSpec, port: int) -> str:
    """Return the field that requests a host port."""
    for kind, containers in (("containers", spec.containers), ("initContainers", spec.initContainers)):
        for i, container in enumerate(containers or ()):
            for j, each in enumerate(container.ports or ()):
                if each.hostPort == port:
                    return f"{kind}[{i}].ports[{j}]"
    return "containers"


def _key(name: str) -> str:
    return f"[{name}]" if "." in name or "/" in name else f".{name}"
