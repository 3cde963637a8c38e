"""Running pods whose resources differ from their spec: a resize in place waits or is in progress.

While a pod stays, it counts with the resources it holds. Taken out and put back, or moved, it counts with its
requests. So a pod whose resize waits breaks NodeResourcesFit once other pods have taken the missing resources.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping

import msgspec
import numpy as np

from kubestow.models.cluster.cluster import Cluster, Ints
from kubestow.models.kube import pod_requests
from kubestow.models.kube.feature_gates import FeatureGates
from kubestow.models.kube.objects import Pod, is_terminating

#: Amounts by resource. As a key, it groups pods that plans need not distinguish.
Holding = tuple[tuple[str, int], ...]


def resized(pod: Pod, gates: FeatureGates) -> Holding | None:
    """Return the resources that a pod holds, if its status differs from its spec; None otherwise."""
    if not pod_requests.is_resized(pod):
        return None
    holding = pod_requests.pod_request(pod, gates)
    return None if holding == _asked(pod, gates) else tuple(sorted(holding.items()))


def _asked(pod: Pod, gates: FeatureGates) -> dict[str, int]:
    return pod_requests.pod_request(msgspec.structs.replace(pod, status=None), gates)


def extra(cluster: Cluster, running: Container[int]) -> Ints:
    """Return the resources that a pod of each class holds beyond its requests, int64[G, R].

    Args:
        running: Running pods that belong to a class.
    """
    found = np.zeros_like(cluster.demand)
    for g, cls in enumerate(cluster.classes):
        holding = resized(cluster.snapshot.pods[cls.pods[0]], cluster.snapshot.gates) if cls.pods[0] in running else None
        if holding is not None:
            amounts = dict(holding)
            found[g] = [amounts.get(name, 0) - int(cluster.demand[g, r]) for r, name in enumerate(cluster.resources)]
    return found


def reserved(cluster: Cluster, free: Ints, slots: Ints, fixed: Iterable[int]) -> Ints:
    """Return the resources to keep free on each node for waiting resizes of fixed pods, int64[N, R].

    Each of these pods, taken alone, can then get the resources that it requests beyond those it holds. Pods for
    which this is impossible at the start reserve nothing.

    Args:
        free: Free resources at the start, int64[N, R].
        slots: Free pod slots at the start, int64[N].
        fixed: Pods outside all classes.
    """
    snapshot, found = cluster.snapshot, np.zeros_like(free)
    columns = {name: r for r, name in enumerate(cluster.resources)}
    index: dict[str, int] = {}
    for i in fixed:
        pod = snapshot.pods[i]
        holding = resized(pod, snapshot.gates) if not is_terminating(pod) else None
        if holding is None:
            continue
        index = index or {name: n for n, name in enumerate(cluster.nodes.names)}
        n, amounts = index[pod.spec.nodeName or ""], dict(holding)
        more = {name: amount - amounts.get(name, 0) for name, amount in _asked(pod, snapshot.gates).items() if amount}
        if slots[n] >= 0 and _is_met(cluster, n, more, {name: int(free[n, r]) for name, r in columns.items()}):
            for name, amount in more.items():
                if name in columns:
                    found[n, columns[name]] = max(int(found[n, columns[name]]), amount)
    return found


def _is_met(cluster: Cluster, n: int, more: Mapping[str, int], free: Mapping[str, int]) -> bool:
    """Return True if the resources that a pod requests beyond those it holds are free on node n.

    A resource that no pod holds has a column only if some class requests it.
    """
    status = cluster.snapshot.nodes[n].status
    listed = (status.allocatable if status.allocatable is not None else status.capacity) if status else None
    for name, amount in more.items():
        provided = cluster.devices.provided.get(name) if cluster.devices is not None else None
        if provided is not None and provided[n]:
            continue  # devices have their own rule
        residual = free[name] if name in free else pod_requests.allocatable(listed).get(name, 0)
        if amount > residual:
            return False
    return True
