"""Running pods that hold other than their spec asks for: a resize in place that waits, or one that is on its way.

As long as a pod stays, it counts with what it holds; taken out and put back, or moved, with what it asks for. So a pod whose resize waits
breaks NodeResourcesFit where it runs once others have taken what it asks for beyond what it holds.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping

import msgspec
import numpy as np

from kubestow.models.cluster.cluster import Cluster, Ints
from kubestow.models.kube import pod_requests
from kubestow.models.kube.feature_gates import FeatureGates
from kubestow.models.kube.objects import Pod, is_terminating

#: Amounts by resource; as a key of pods that plans need not tell apart.
Holding = tuple[tuple[str, int], ...]


def resized(pod: Pod, gates: FeatureGates) -> Holding | None:
    """Return what a pod holds, where its status says other than its spec."""
    if not pod_requests.is_resized(pod):
        return None
    held = pod_requests.pod_request(pod, gates)
    return None if held == _asked(pod, gates) else tuple(sorted(held.items()))


def _asked(pod: Pod, gates: FeatureGates) -> dict[str, int]:
    return pod_requests.pod_request(msgspec.structs.replace(pod, status=None), gates)


def extra(cluster: Cluster, running: Container[int]) -> Ints:
    """Return int64[G, R]: what a pod of each class holds beyond what it asks for. ``running``: pods that run and are of a class."""
    found = np.zeros_like(cluster.demand)
    for g, cls in enumerate(cluster.classes):
        held = resized(cluster.snapshot.pods[cls.pods[0]], cluster.snapshot.gates) if cls.pods[0] in running else None
        if held is not None:
            amounts = dict(held)
            found[g] = [amounts.get(name, 0) - int(cluster.demand[g, r]) for r, name in enumerate(cluster.resources)]
    return found


def reserved(cluster: Cluster, free: Ints, slots: Ints, fixed: Iterable[int]) -> Ints:
    """Return int64[N, R]: what has to stay free on each node so that no fixed pod there whose resize waits is worse off: each one, by
    itself, can be given what it asks for beyond what it holds. Pods that cannot be given that at the start reserve nothing.

    ``free``, ``slots``: int64[N, R], int64[N], what is left at the start; ``fixed``: pods that no class has.
    """
    snapshot, found = cluster.snapshot, np.zeros_like(free)
    columns = {name: r for r, name in enumerate(cluster.resources)}
    index: dict[str, int] = {}
    for i in fixed:
        pod = snapshot.pods[i]
        held = resized(pod, snapshot.gates) if not is_terminating(pod) else None
        if held is None:
            continue
        index = index or {name: n for n, name in enumerate(cluster.nodes.names)}
        n, amounts = index[pod.spec.nodeName or ""], dict(held)
        more = {name: amount - amounts.get(name, 0) for name, amount in _asked(pod, snapshot.gates).items() if amount}
        if slots[n] >= 0 and _is_met(cluster, n, more, {name: int(free[n, r]) for name, r in columns.items()}):
            for name, amount in more.items():
                if name in columns:
                    found[n, columns[name]] = max(int(found[n, columns[name]]), amount)
    return found


def _is_met(cluster: Cluster, n: int, more: Mapping[str, int], free: Mapping[str, int]) -> bool:
    """Return whether what a pod asks for beyond what it holds is free on node n. A resource of which no pod holds any has a column only
    if some class asks for it."""
    status = cluster.snapshot.nodes[n].status
    listed = (status.allocatable if status.allocatable is not None else status.capacity) if status else None
    for name, amount in more.items():
        provided = cluster.devices.provided.get(name) if cluster.devices is not None else None
        if provided is not None and provided[n]:
            continue  # devices are judged by themselves
        left = free[name] if name in free else pod_requests.allocatable(listed).get(name, 0)
        if amount > left:
            return False
    return True
