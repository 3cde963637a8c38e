"""What a pod asks of the NUMA zones of a node whose Topology Manager rejects pods that it cannot align.

Source: docs/sources.md#container-affinity; the kubelet's hint providers, which alone decide what is aligned (pkg/kubelet/cm:
cpumanager/policy_static.go, memorymanager/policy_static.go, devicemanager/topology_hints.go, as of v1.34); scheduler-plugins
pkg/noderesourcetopology/filter.go for resources that no zone lists.
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
class Ask:
    """What must come from one set of zones at once.

    ``name``: the container, "" for a whole pod. ``amounts``: (resource, amount), sorted by resource, nothing of 0; mCPU for cpu, else whole
    units. ``kind``: what an ``init`` container has is reused by later containers of the pod, and given back at the end; the others keep it.
    """

    name: str
    amounts: Amounts
    kind: Kind


def asks(pod: objects.Pod, scope: str) -> tuple[Ask, ...]:
    """Return what a pod asks, in the order in which the kubelet admits it. Containers that ask for nothing are left out.

    Scope ``container``: init containers and sidecars in the order of the spec, then the app containers. Scope ``pod``: at most one, per
    resource max(Σ app + Σ sidecars, max over init containers of its own + Σ sidecars before it). Only what is to be aligned: of a
    Guaranteed pod whole CPUs (a container with a fraction of one takes no CPUs of its own), memory and huge pages; of any pod all other
    resources. Overhead belongs to no container and is not aligned; with pod-level resources the kubelet aligns neither cpu nor memory.

    Raises:
        QuantityError: a malformed request, or one beyond 64 bits.
    """
    pinned = qos_class(pod) == "Guaranteed" and not _has_pod_level(pod)
    found: list[Ask] = []
    for container in pod.spec.initContainers or ():
        kind: Kind = "sidecar" if container.restartPolicy == "Always" else "init"
        found.append(Ask(container.name or "", _amounts(container, pinned), kind))
    found += [Ask(container.name or "", _amounts(container, pinned), "app") for container in pod.spec.containers or ()]
    if scope == "pod":
        whole = at_once(pod.spec, lambda container, _: {name: Fraction(n) for name, n in _amounts(container, pinned)})
        found = [Ask("", tuple(sorted((name, int(amount)) for name, amount in whole.items())), "pod")]
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
        # The API server stores whole thousandths, and both readings round up.
        amount = quantity.milli(raw) if name == "cpu" else quantity.ceil(quantity.milli_round(quantity.parse(raw)))
        if amount > 0 and not (name == "cpu" and amount % 1000):
            amounts[name] = amount
    return tuple(sorted(amounts.items()))


def aligned(tree: NumaTree, amounts: Iterable[tuple[str, int]]) -> Amounts:
    """Those of the amounts that must fit in zones: the resources that some zone lists."""
    return tuple((name, amount) for name, amount in amounts if _listed(tree, name))


def missing(tree: NumaTree, amounts: Iterable[tuple[str, int]], allocatable: Mapping[str, int]) -> list[str]:
    """Resources that keep the pod off the node because no zone lists them.

    What the node's ``allocatable`` has need not be listed by zone if it is ephemeral-storage, storage or an extended resource.
    """
    return [
        name
        for name, _ in amounts
        if not _listed(tree, name) and not (name in allocatable and (name in ("ephemeral-storage", "storage") or _is_extended(name)))
    ]


def _listed(tree: NumaTree, name: str) -> bool:
    return any(name in zone for zone in tree.capacity)


def _is_extended(name: str) -> bool:
    """IsExtendedResourceName of pkg/apis/core/v1/helper: a domain of its own, not kubernetes.io."""
    return "/" in name and "kubernetes.io/" not in name and not name.startswith("requests.")
