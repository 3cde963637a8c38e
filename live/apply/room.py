"""How much of nodes is in use: whether a run has made room on them, and which ones are the emptiest."""

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

#: What is in use by node: mCPU, bytes, devices, pods, ports.
Room = Mapping[str, Counter[str]]


def room_of(snapshot: Snapshot, nodes: Collection[str]) -> Room:
    """Return what pods use of these nodes."""
    found: dict[str, Counter[str]] = {name: Counter() for name in nodes}
    for pod in snapshot.pods:
        used = found.get(pod.spec.nodeName or "")
        if used is not None and not is_terminal(pod):
            used.update(_use(pod, snapshot.gates))
    return found


def more_room(before: Counter[str], now: Counter[str]) -> bool:
    """Return whether less is in use of anything than before."""
    return any(now[what] < amount for what, amount in before.items())


def emptiest_first(names: Collection[str], snapshot: Snapshot) -> list[str]:
    """Return nodes in the order in which a scheduler that spreads pods prefers them: by the fractions of CPU and memory that are in use.

    Nodes of equal use have the fewer pods first. Nodes without allocatable come last.
    """
    used = room_of(snapshot, names)
    allocatable = {node.metadata.name: (node.status.allocatable if node.status is not None else None) or {} for node in snapshot.nodes}

    def fraction(name: str, resource: str, total: int) -> Fraction:
        return Fraction(used[name][resource], total) if total > 0 else Fraction(2)

    def key(name: str) -> tuple[Fraction, int, str]:
        has = allocatable.get(name, {})
        cpu, memory = quantity.milli(has.get("cpu", 0)), quantity.units(has.get("memory", 0))
        return fraction(name, "cpu", cpu) + fraction(name, "memory", memory), used[name]["pods"], name

    return sorted(names, key=key)


def offer(node: Object) -> str:
    """Return what a node has for pods, whatever runs there, and but for the marks of runs: what scheduling depends on."""
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
