"""Tiny random clusters of three kinds, as plain API objects: spread that honors taints, moves in circles, and rules broken at the start.

``honor``: nodes are drained whose cordon changes the domains of ``nodeTaintsPolicy: Honor``. ``circle``: pods wait for each other's nodes,
next to pods that have no part in it. ``broken``: at least a third of the running pods break some rule.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from kubestow.models.documents.rebalance_plan import Limits
from tests.plans.cluster import TinyCluster

Object = dict[str, Any]

HOST: Final = "kubernetes.io/hostname"
ZONE: Final = "topology.kubernetes.io/zone"
_CORDON: Final = "node.kubernetes.io/unschedulable"
_IGNORED: Final = "requiredDuringSchedulingIgnoredDuringExecution"


@dataclass
class Case:
    """A cluster, and the question about it: goals, nodes to be drained, and limits."""

    objects: list[Object]
    goals: tuple[str, ...] = ()
    drain: tuple[str, ...] = ()
    limits: Limits = field(default_factory=Limits)


def _node(name: str, zone: str, cpu: int, *, pods: int = 10, spec: Object | None = None) -> Object:
    return {
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {HOST: name, ZONE: zone, "place": name}},
        "spec": spec or {}, "status": {"allocatable": {"cpu": f"{cpu}m", "memory": "8Gi", "pods": str(pods)}},
    }  # fmt: skip


def _pod(name: str, app: str, node: str | None, cpu: int, spec: Object, *, bare: bool = False) -> Object:
    metadata: Object = {"name": name, "namespace": "default", "labels": {"app": app}}
    if not bare and node is not None:
        metadata["ownerReferences"] = [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": app, "uid": app, "controller": True}]
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": f"{cpu}m"}}}
    containers = [{**container, **({"ports": spec["ports"]} if "ports" in spec else {})}]
    others = {key: value for key, value in spec.items() if key != "ports"}
    there = {} if node is None else {"nodeName": node}
    status = {"phase": "Pending" if node is None else "Running"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": containers, **others, **there},
        "status": status,
    }


def _term(rng: random.Random, apps: str) -> Object:
    values = rng.sample(apps, rng.choice((1, 1, 2)))
    selector = {"matchExpressions": [{"key": "app", "operator": "In", "values": values}]}
    return {"topologyKey": rng.choice((HOST, HOST, ZONE)), "labelSelector": selector}


def _spread(rng: random.Random, app: str, honor: float, key: str = "") -> Object:
    found: Object = {
        "maxSkew": rng.choice((1, 1, 2)), "topologyKey": key or rng.choice((HOST, HOST, ZONE)), "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": app}},
    }  # fmt: skip
    if rng.random() < honor:
        found["nodeTaintsPolicy"] = "Honor"
    if rng.random() < 0.2:
        found["minDomains"] = rng.randint(2, 3)
    return found


def _rules(rng: random.Random, app: str, apps: str, *, honor: float = 0.2, often: float = 0.3) -> Object:
    """Rules of a pod, each with a chance of ``often``."""
    spec: Object = {}
    affinity: Object = {}
    if rng.random() < often:
        affinity["podAntiAffinity"] = {_IGNORED: [_term(rng, apps)]}
    if rng.random() < often:
        affinity["podAffinity"] = {_IGNORED: [_term(rng, apps) for _ in range(rng.choice((1, 1, 2)))]}
    if affinity:
        spec["affinity"] = affinity
    if rng.random() < often:
        spec["topologySpreadConstraints"] = [_spread(rng, rng.choice((app, app, rng.choice(apps))), honor)]
    if rng.random() < often / 2:
        spec["nodeSelector"] = {"place": rng.choice(("n0", "n1", "n2"))}
    if rng.random() < often / 3:
        spec["ports"] = [{"containerPort": 80, "hostPort": 80}]
    return spec


def honor(seed: int) -> Case:
    """Return a drain of nodes whose cordon spread constraints honor."""
    rng = random.Random(f"honor-{seed}")
    objects = []
    for i in range(rng.choice((3, 3, 4))):
        cordon = {"unschedulable": True, "taints": [{"key": _CORDON, "effect": "NoSchedule"}]}
        spec = cordon if rng.random() < 0.1 else {}
        if not spec and rng.random() < 0.15:
            spec = {"taints": [{"key": "dedicated", "value": "x", "effect": "NoSchedule"}]}
        objects.append(_node(f"n{i}", f"z{i % 2}", rng.choice((2000, 3000)), spec=spec))
    names = [each["metadata"]["name"] for each in objects]
    count = 0
    for app in "ab":
        rules = _rules(rng, app, "ab", often=0.1)
        rules["topologySpreadConstraints"] = [_spread(rng, app, 0.8, key) for key in rng.sample((HOST, ZONE), rng.choice((1, 1, 2)))]
        if rng.random() < 0.3:
            rules["tolerations"] = [{"key": rng.choice((_CORDON, "dedicated")), "operator": "Exists"}]
        for _ in range(rng.choice((2, 2, 3))):
            objects.append(_pod(f"p{count}", app, rng.choice(names), rng.choice((250, 500, 500)), rules))
            count += 1
    goals = rng.choice(((), (), ("repair",), ("consolidate",), ("admit",)))
    if "admit" in goals:
        objects.append(_pod("waits", "a", None, rng.choice((500, 1500)), {"topologySpreadConstraints": [_spread(rng, "a", 0.8)]}))
    return Case(objects, goals, tuple(sorted(rng.sample(names[:3], rng.choice((1, 1, 2))))), Limits(allowEviction=rng.random() < 0.2))


def circle(seed: int) -> Case:
    """Return pods that wait for each other in a circle, and bystanders."""
    rng = random.Random(f"circle-{seed}")
    size = rng.choice((2, 2, 3))
    names = [f"n{i}" for i in range(size + rng.choice((0, 1, 1)))]
    objects = [_node(name, f"z{i % 2}", rng.choice((1000, 1000, 1500)) if i < size else rng.choice((500, 500, 1000)))
               for i, name in enumerate(names)]  # fmt: skip
    for i in range(size):
        places = [names[(i + 1) % size], *([names[-1]] if rng.random() < 0.3 else [])]
        wanted = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "place", "operator": "In", "values": places}]}]}
        spec: Object = {"affinity": {"nodeAffinity": {_IGNORED: wanted}}}
        if rng.random() < 0.15:
            spec["topologySpreadConstraints"] = [_spread(rng, "c", 0.2)]
        if rng.random() < 0.15:
            spec["affinity"]["podAffinity"] = {_IGNORED: [_term(rng, "bc")]}
        objects.append(_pod(f"c{i}", "c", names[i], rng.choice((600, 800)), spec))
    rules = _rules(rng, "b", "bc", often=0.15)
    for i in range(rng.choice((1, 2, 2, 3)) if size == 2 else rng.choice((1, 2))):
        own = rules if rng.random() < 0.5 else _rules(rng, "b", "bc", often=0.1)
        objects.append(_pod(f"b{i}", "b", rng.choice(names), rng.choice((100, 150, 200, 300)) + i, own))
    goals = rng.choice((("repair",), ("repair",), ("repair", "consolidate"), ("admit", "repair")))
    if "admit" in goals:
        objects.append(_pod("waits", "b", None, rng.choice((300, 700)), {}))
    drain = (rng.choice(names),) if rng.random() < 0.3 else ()
    limits = Limits(allowEviction=rng.random() < 0.15)
    if rng.random() < 0.15:
        limits.maxMoves = rng.randint(1, 3)
    return Case(objects, goals, drain, limits)


def broken(seed: int) -> Case:
    """Return a cluster in which at least a third of the running pods break something."""
    rng = random.Random(f"broken-{seed}")
    while True:
        objects = [_node(f"n{i}", f"z{i % 2}", rng.choice((1000, 2000, 2000)), pods=rng.choice((3, 10))) for i in range(rng.choice((2, 3)))]
        names = [each["metadata"]["name"] for each in objects]
        shared = {app: _rules(rng, app, "abc") for app in "abc"}
        for i in range(rng.choice((3, 4, 4, 5))):
            app = rng.choice("abc")
            rules = shared[app] if rng.random() < 0.5 else _rules(rng, app, "abc")
            objects.append(_pod(f"p{i}", app, rng.choice(names), rng.choice((200, 400, 700)), rules, bare=rng.random() < 0.2))
        cluster = TinyCluster(objects)
        if 3 * sum(bool(cluster.broken(pod.index, cluster.start)) for pod in cluster.pods) >= len(cluster.pods):
            break
    goals, drained = rng.choice(
        ((("repair",), 0.0), (("repair",), 1.0), ((), 1.0), (("consolidate",), 0.4), (("repair", "consolidate"), 0.3))
    )
    drain = (rng.choice(names),) if rng.random() < drained else ()
    limits = Limits(allowEviction=rng.random() < 0.15, alsoMove=["bare"] if rng.random() < 0.5 else [])
    if rng.random() < 0.1:
        limits.maxMoves = rng.randint(1, 3)
    return Case(objects, goals, drain, limits)


KINDS: Final[dict[str, Callable[[int], Case]]] = {"honor": honor, "circle": circle, "broken": broken}
