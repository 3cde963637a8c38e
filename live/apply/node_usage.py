"""Use of nodes by pods: nodes on which a run has freed capacity, and the emptiest nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from fractions import Fraction

from kubestow.live.api.answers import Object
from kubestow.models.kube import quantity
from kubestow.models.kube.closed_nodes import OWN_TAINTS
from kubestow.models.kube.feature_gates import FeatureGates
from kubestow.models.kube.objects import Pod, is_terminal
from kubestow.models.kube.pod_requests import pod_request
from kubestow.models.snapshot.snapshot import Snapshot

#: Used amounts by node and resource: mCPU, bytes, devices, pods and host ports.
NodeUsage = Mapping[str, Counter[str]]


def usage_of(snapshot: Snapshot, nodes: Collection[str]) -> NodeUsage:
    """Return the use of these nodes by pods."""
    found: dict[str, Counter[str]] = {name: Counter() for name in nodes}
    for pod in snapshot.pods:
        used = found.get(pod.spec.nodeName or "")
        if used is not None and not is_terminal(pod):
            used.update(_use(pod, snapshot.gates))
    return found


def has_freed(before: Counter[str], now: Counter[str]) -> bool:
    """Return True if any resource is used less than before."""
    return any(now[what] < amount for what, amount in before.items())


def emptiest_first(names: Collection[str], snapshot: Snapshot) -> list[str]:
    """Sort nodes as a spreading scheduler prefers them: by the used fractions of CPU and memory.

    Ties are broken by the number of pods. Nodes without allocatable come last.
    """
    used = usage_of(snapshot, names)
    allocatable = {node.metadata.name: (node.status.allocatable if node.status is not None else None) or {} for node in snapshot.nodes}

    def fraction(name: str, resource: str, total: int) -> Fraction:
        return Fraction(used[name][resource], total) if total > 0 else Fraction(2)

    def key(name: str) -> tuple[Fraction, int, str]:
        has = allocatable.get(name, {})
        cpu, memory = quantity.milli(has.get("cpu", 0)), quantity.units(has.get("memory", 0))
        return fraction(name, "cpu", cpu) + fraction(name, "memory", memory), used[name]["pods"], name

    return sorted(names, key=key)


def offer(node: Object) -> str:
    """Return a string of the node's properties that scheduling depends on, without its pods and the marks of runs."""
    spec, status = node.get("spec") or {}, node.get("status") or {}
    taints = [taint for taint in spec.get("taints") or () if taint.get("key") not in OWN_TAINTS]
    return repr((node["metadata"]["name"], node["metadata"].get("labels"), taints, status.get("allocatable")))


def _use(pod: Pod, gates: FeatureGates) -> Counter[str]:
    found = Counter({"pods": 1, **pod_request(pod, gates)})
    for container in (*(pod.spec.containers or ()), *(pod.spec.initContainers or ())):
        for port in container.ports or ():
            if port.hostPort:
                found[f"port {port.protocol or 'TCP'} {port.hostPort}"] += 1
    return found
