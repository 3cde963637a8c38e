"""The amounts that a pod requests from NUMA zones, for nodes whose Topology Manager rejects unalignable pods.

Source: docs/sources.md#container-affinity; the kubelet's hint providers, which alone decide the alignment
(pkg/kubelet/cm: cpumanager/policy_static.go, memorymanager/policy_static.go, devicemanager/topology_hints.go,
as of v1.34); scheduler-plugins pkg/noderesourcetopology/filter.go for resources that no zone lists.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from kubestow.models.kube import objects, quantity
from kubestow.models.kube.pod_requests import at_once, counts_as_resource, pod_level_resource
from kubestow.models.kube.pod_spec import qos_class
from kubestow.models.numa.node_topology import NumaTree

Kind = Literal["init", "app", "sidecar", "pod"]
Amounts = tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class AlignedRequest:
    """Amounts that must come from one set of zones at once.

    Attributes:
        name: The container; "" for a whole pod.
        amounts: (resource, amount), sorted by resource, without zeros; mCPU for cpu, otherwise whole units.
        kind: Later containers of the pod reuse the resources of an ``init`` container, which are returned at
            the end. Other kinds keep theirs.
    """

    name: str
    amounts: Amounts
    kind: Kind


def asks(pod: objects.Pod, scope: str) -> tuple[AlignedRequest, ...]:
    """Return the requests of a pod in the order of admission by the kubelet, without containers that request
    nothing.

    Scope ``container``: init containers and sidecars in the order of the spec, then the app containers. Scope
    ``pod``: at most one entry. Per resource it is max(Σ app + Σ sidecars, max over init containers of its own + Σ
    sidecars before it).

    Only aligned resources count. For Guaranteed pods these are whole CPUs, memory and huge pages; a container
    with a fraction of a CPU gets no exclusive CPUs. For all pods these are all other resources. Overhead
    belongs to no container and is not aligned. With pod-level resources the kubelet aligns neither cpu nor
    memory.

    Raises:
        QuantityError: A request is malformed or exceeds 64 bits.
    """
    pinned = qos_class(pod) == "Guaranteed" and not _has_pod_level(pod)
    found: list[AlignedRequest] = []
    for container in pod.spec.initContainers or ():
        kind: Kind = "sidecar" if container.restartPolicy == "Always" else "init"
        found.append(AlignedRequest(container.name or "", _amounts(container, pinned), kind))
    found += [AlignedRequest(container.name or "", _amounts(container, pinned), "app") for container in pod.spec.containers or ()]
    if scope == "pod":
        whole = at_once(pod.spec, lambda container, _: {name: Fraction(n) for name, n in _amounts(container, pinned)})
        found = [AlignedRequest("", tuple(sorted((name, int(amount)) for name, amount in whole.items())), "pod")]
    return tuple(ask for ask in found if ask.amounts)


def _has_pod_level(pod: objects.Pod) -> bool:
    resources = pod.spec.resources
    return resources is not None and any(pod_level_resource(n) for given in (resources.requests, resources.limits) for n in given or ())


def _amounts(container: objects.Container, pinned: bool) -> Amounts:
    requested = (container.resources.requests if container.resources else None) or {}
    amounts = {}
    for name, raw in requested.items():
        if not counts_as_resource(name) or (pod_level_resource(name) and not pinned):
            continue
        # The API server stores whole thousandths, and both formats are rounded up.
        amount = quantity.milli(raw) if name == "cpu" else quantity.ceil(quantity.milli_round(quantity.parse(raw)))
        if amount > 0 and not (name == "cpu" and amount % 1000):
            amounts[name] = amount
    return tuple(sorted(amounts.items()))


def aligned(tree: NumaTree, amounts: Iterable[tuple[str, int]]) -> Amounts:
    """Return the amounts that must fit in zones: those of resources that some zone lists."""
    return tuple((name, amount) for name, amount in amounts if _listed(tree, name))


def missing(tree: NumaTree, amounts: Iterable[tuple[str, int]], allocatable: Mapping[str, int]) -> list[str]:
    """Return the resources that keep a pod off the node because no zone lists them.

    Resources in the node's ``allocatable`` need not be listed by zone if they are ephemeral-storage, storage or
    extended.
    """
    return [
        name
        for name, _ in amounts
        if not _listed(tree, name) and not (name in allocatable and (name in ("ephemeral-storage", "storage") or _is_extended(name)))
    ]


def _listed(tree: NumaTree, name: str) -> bool:
    return any(name in zone for zone in tree.capacity)


def _is_extended(name: str) -> bool:
    """Return True for extended resources (IsExtendedResourceName of pkg/apis/core/v1/helper): not of kubernetes.io."""
    return "/" in name and "kubernetes.io/" not in name and not name.startswith("requests.")
