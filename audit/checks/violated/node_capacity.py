"""Overcommitted nodes: requests above allocatable, and conflicting host ports."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from kubestow.audit.checks.hygiene import RESOURCES, stated
from kubestow.audit.checks.violated.running_pods import FindingGroup, Running, whose
from kubestow.audit.view.finding import Code, some
from kubestow.audit.view.headroom import Requests
from kubestow.models.documents.findings.audit import Finding
from kubestow.models.kube.pod_requests import is_resized
from kubestow.models.kube.pod_spec import Port, ports_clash
from kubestow.models.snapshot.scope import is_mirror
from kubestow.solver.rules.wording import amounts

Exact = NDArray[np.object_]

PORTS = Code(
    "KS104", "host-port-conflict", "error", "Pods on one node request the same host port",
    "Only one pod gets the traffic, and every restart may change which one. The kubelet rejects the other pod when it starts "
    "(NodePorts).",
    "Change the port of one pod, or add anti-affinity over the hostname. Then delete one of the pods.",
)  # fmt: skip
OVERCOMMITTED = Code(
    "KS105", "node-overcommitted", "error", "Running pods request more than the node's allocatable resources",
    "Requests are no longer guaranteed: pods get less CPU than requested, and memory may run out until the kubelet evicts pods. After a "
    "restart, the kubelet rejects pods that do not fit (OutOfcpu, OutOfmemory). The scheduler places no more pods here.",
    "Delete or move the named pods, lowest priority first (kubestow rebalance --goal repair), or restore the node's capacity. Possible "
    "causes are a raised reservation, a smaller machine, or pods bound without the scheduler.",
)  # fmt: skip


def ports(running: Running) -> Iterator[Finding]:
    """Yield findings about host ports that several pods of a node request, one per port and group of conflicting workloads."""
    view, cluster = running.view, running.cluster
    users_by_port: dict[tuple[int, str, int], list[tuple[Port, int]]] = {}
    for g, cls in enumerate(cluster.classes):
        for port in cls.ports:
            for n, pods in running.cells[g]:
                users_by_port.setdefault((n, port[1], port[2]), []).extend((port, i) for i in pods)
    found: dict[tuple[str, int, tuple[tuple[str, str], ...]], FindingGroup] = {}
    for (n, protocol, number), users in sorted(users_by_port.items()):
        mine = {
            i: None
            for port, i in users
            if len(users) > 1 and any(i != j and ports_clash(frozenset((port,)), frozenset((other,))) for other, j in users)
        }
        steady = [i for i in mine if running.is_steady(i)]
        if steady:
            objects = tuple(sorted({whose(view, i) for i in steady}))
            found.setdefault((protocol, number, objects), FindingGroup()).add(sorted(mine), cluster.nodes.names[n])
    for (protocol, number, objects), group in found.items():
        nodes = list(group.places)
        keys = view.keys(list(group.pods))
        yield PORTS.found(
            objects[0][0], f"host port {number}/{protocol} on {some(nodes)} is requested by {some(keys)}",
            field=f"{objects[0][1]}.containers", rule="NodePorts", pods=keys, nodes=nodes,
        )  # fmt: skip


def fit(running: Running) -> Iterator[Finding]:
    """Yield findings about overcommitted nodes, one per node.

    The larger of the requests in spec and status counts, because pods may have been resized in place
    (:func:`kubestow.models.kube.pod_requests.pod_request`). KS805 reports nodes without allocatable resources.
    """
    cluster, view = running.cluster, running.view
    requests = Requests(running.snapshot)
    used = np.zeros((cluster.n_nodes, len(cluster.resources)), dtype=object)
    slots = np.zeros(cluster.n_nodes, dtype=np.int64)
    for g, cells in enumerate(running.cells):
        demand = cluster.demand[g].astype(object)
        for n, pods in cells:
            slots[n] += len(pods)
            resized = [i for i in pods if is_resized(running.snapshot.pods[i])]
            used[n] += demand * (len(pods) - len(resized))
            for i in resized:
                used[n] += _held(running, requests, g, i)
    over = (used > cluster.allocatable).any(axis=1) | (slots > cluster.slots)
    for n in np.flatnonzero(over).tolist():
        given = stated(running.snapshot.nodes[n])
        silent = [name for name in (*RESOURCES, "pods") if name not in given]
        room = {name: int(have) for name, have in zip(cluster.resources, cluster.allocatable[n].tolist(), strict=True)}
        usage = {name: int(amount) for name, amount in zip(cluster.resources, used[n], strict=True)}
        room["pods"], usage["pods"] = int(cluster.slots[n]), int(slots[n])
        said = []
        for name, amount in usage.items():
            if amount > room[name] and name not in silent:
                wanted, excess = amounts(name, (amount, amount - room[name]))
                said.append(f"{wanted} requested, {excess} above allocatable")
        if not said:
            continue
        pods = _pods_to_remove(running, requests, n, {name: usage[name] - room[name] for name in usage if name not in silent})
        keys = view.keys(pods)
        going = f"pods to remove, in this order: {some(keys, 10)}" if keys else "terminating pods will free enough capacity"
        yield OVERCOMMITTED.found(
            f"Node {cluster.nodes.names[n]}", f"{'; '.join(said)}; {going}", field="status.allocatable",
            rule="NodeResourcesFit", pods=keys, nodes=[cluster.nodes.names[n]],
        )  # fmt: skip


def _held(running: Running, requests: Requests, g: int, i: int) -> Exact:
    """Return object[R], exact integers: the resources that pod i of class g holds. For resized pods, they differ from the spec."""
    cluster, pod = running.cluster, running.snapshot.pods[i]
    if not is_resized(pod):
        return np.array(cluster.demand[g].tolist(), dtype=object)
    amounts = requests.of(pod)
    return np.array([amounts.get(name, 0) for name in cluster.resources], dtype=object)


def _pods_to_remove(running: Running, requests: Requests, n: int, excess: dict[str, int]) -> list[int]:
    """Return the pods whose removal makes the others fit, in order: lowest priority first, static pods last, and
    none without need.

    Terminating pods leave anyway. ``excess`` is the usage beyond capacity by resource; negative values are free
    capacity.
    """
    cluster, pods = running.cluster, running.snapshot.pods
    of: dict[int, dict[str, int]] = {}
    for g, here in running.on(n):
        for i in here:
            of[i] = {name: int(amount) for name, amount in zip(cluster.resources, _held(running, requests, g, i), strict=True) if amount}
            of[i]["pods"] = 1
    remaining_excess = dict(excess)

    def leave(i: int, by: int) -> None:
        for name, amount in of[i].items():
            if name in remaining_excess:
                remaining_excess[name] -= by * amount

    for i in of:
        if not running.is_steady(i):
            leave(i, 1)
    order = running.first_to_go(i for i in of if running.is_steady(i))
    order.sort(key=lambda i: is_mirror(pods[i]))
    gone: list[int] = []
    for i in order:
        if any(remaining_excess.get(name, 0) > 0 for name in of[i]):
            leave(i, 1)
            gone.append(i)
    for i in reversed(gone.copy()):  # as after a preemption: pods that fit again stay, highest priority first
        leave(i, -1)
        if any(amount > 0 for amount in remaining_excess.values()):
            leave(i, 1)
        else:
            gone.remove(i)
    return gone
