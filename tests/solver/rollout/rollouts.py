"""Deployments with old pods for tests of rollouts, and a brute-force search over all their courses."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from kubestow.checker.placement import Judge
from kubestow.models.kube import objects as kube_objects
from kubestow.models.snapshot.snapshot import Snapshot, from_objects
from kubestow.models.workloads.rollout_input import read
from tests.objects import Object, node, pod

HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
APP = {"app": "web"}
OLD = "web-0ld"
COST = "controller.kubernetes.io/pod-deletion-cost"


def deployment(
    replicas: int = 2, *, strategy: Object | None = None, cpu: str = "100m", labels: Mapping[str, str] = APP, **spec: Any
) -> Object:
    """Deployment ``default/web``; further arguments go into the template's pod spec."""
    template = pod("t", cpu=cpu, **spec)["spec"]
    found: Object = {
        "replicas": replicas, "selector": {"matchLabels": APP}, "template": {"metadata": {"labels": dict(labels)}, "spec": template},
    }  # fmt: skip
    if strategy is not None:
        found["strategy"] = strategy
    metadata = {"name": "web", "namespace": "default", "uid": "web"}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": found}


def rolling(surge: int | str | None = None, unavailable: int | str | None = None) -> Object:
    """A RollingUpdate strategy."""
    fields = {"maxSurge": surge, "maxUnavailable": unavailable}
    return {"type": "RollingUpdate", "rollingUpdate": {k: v for k, v in fields.items() if v is not None}}


def replica_set(name: str = OLD) -> Object:
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "web", "controller": True}
    metadata = {"name": name, "namespace": "default", "uid": f"ReplicaSet-{name}", "ownerReferences": [owner]}
    template = {"metadata": {"labels": {**APP, "pod-template-hash": name}}, "spec": pod("t")["spec"]}
    spec = {"replicas": 1, "selector": {"matchLabels": {**APP, "pod-template-hash": name}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": metadata, "spec": spec}


def old(number: int, where: str | None, *, ready: bool = True, **spec: Any) -> Object:
    """A pod of the old revision of ``default/web``."""
    labels = {**APP, "pod-template-hash": OLD}
    found = pod(f"{OLD}-{number}", labels=labels, node_name=where, owner=f"ReplicaSet/{OLD}", **spec)
    if not ready:
        found["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
    return found


def priced(snapshot: Snapshot, costs: Mapping[str, int]) -> Snapshot:
    """Deletion costs of some pods, by name."""
    for each in snapshot.pods:
        cost = costs.get(each.metadata.name or "")
        if cost is not None:
            each.metadata.annotations = {COST: str(cost)}
    return snapshot


def apart(key: str = HOST, **fields: Any) -> Object:
    """Required anti-affinity among the Deployment's pods."""
    term = {"topologyKey": key, "labelSelector": {"matchLabels": APP}, **fields}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def even(key: str = ZONE, skew: int = 1, **fields: Any) -> Object:
    """A DoNotSchedule constraint over the Deployment's pods."""
    selector = {"matchLabels": APP}
    return {"maxSkew": skew, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector, **fields}


# --- random tiny rollouts ---------------------------------------------------------------------------------------------------


def tiny(seed: int) -> Snapshot:
    """A few nodes, few replicas, random strategy and rules; many of them deadlock."""
    rng = random.Random(seed)
    nodes = [f"n{i}" for i in range(rng.randint(1, 4))]
    objects = [
        node(name, cpu=rng.choice(("300m", "400m", "600m")), pods=rng.choice(("2", "3", "9")), labels={ZONE: f"z{i % 2}", "disk": "ssd"})
        for i, name in enumerate(nodes)
    ]
    replicas = rng.randint(1, 4)
    before, after = _rules(rng), _rules(rng)
    if rng.random() < 0.6:
        before = after
    strategy = rng.choice(
        (None, None, rolling(0, 1), rolling(1, 0), rolling(2, 0), rolling(1, 1), rolling("50%", "50%"), {"type": "Recreate"})
    )
    objects += [deployment(replicas, strategy=strategy, **after), replica_set()]
    costs: dict[str, int] = {}
    for i in range(rng.choice((replicas, replicas, replicas, replicas + 1, max(0, replicas - 1)))):
        where = None if rng.random() < 0.08 else rng.choice(nodes)
        costs[f"{OLD}-{i}"] = rng.choice((0, 0, 5, -5))
        objects.append(old(i, where, ready=rng.random() > 0.1, **before))
    for i in range(rng.choice((0, 0, 1, 2))):
        labels = rng.choice(({"app": "db"}, {"tier": "front"}))
        objects.append(pod(f"x{i}", cpu=rng.choice(("100m", "200m")), labels=labels, node_name=rng.choice(nodes)))
    return priced(from_objects(objects), costs)


def _rules(rng: random.Random) -> dict[str, Any]:
    found: dict[str, Any] = {"cpu": rng.choice(("100m", "150m", "200m"))}
    affinity: Object = {}
    if rng.random() < 0.5:
        extra = {"matchLabelKeys": ["pod-template-hash"]} if rng.random() < 0.3 else {}
        affinity |= apart(rng.choice((HOST, HOST, ZONE)), **extra)
    if rng.random() < 0.2:
        term = {"topologyKey": ZONE, "labelSelector": {"matchLabels": rng.choice((APP, {"app": "db"}))}}
        affinity["podAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    if affinity:
        found["affinity"] = affinity
    if rng.random() < 0.4:
        extra = {"matchLabelKeys": ["pod-template-hash"]} if rng.random() < 0.5 else {}
        found["spread"] = [even(rng.choice((ZONE, HOST)), rng.choice((1, 1, 2)), **extra)]
    return found


# --- brute force ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Now:
    """``alive``: names of old pods; ``placed``: node of each new pod placed by now; ``created``: new pods there are."""

    alive: tuple[str, ...]
    placed: tuple[str, ...]
    created: int


class Brute:
    """Tries every course of ``default/web``'s rollout on the raw objects: new pods one by one on every node that the checker accepts
    until none takes another, then the deletions of the controllers, implemented here independently."""

    def __init__(self, snapshot: Snapshot, manifests: Snapshot | None = None) -> None:
        found = read(snapshot, "web", manifests)
        self.snapshot, self.pace, self.new = found.snapshot, found.pace, found.new
        self.old = {p.metadata.name or "": p for p in self.snapshot.pods if (p.metadata.labels or {}).get("app") == "web"}
        self.seen: set[_Now] = set()

    def completes(self) -> bool:
        return self._from(self._create(_Now(tuple(sorted(self.old)), (), 0)))

    def _create(self, now: _Now) -> _Now:
        wanted = self.pace.replicas
        if self.pace.recreate:
            return replace(now, created=now.created if now.alive else wanted)
        room = wanted + self.pace.surge - len(now.alive) - now.created
        return replace(now, created=min(wanted, now.created + max(0, room)))

    def _from(self, now: _Now) -> bool:
        if not now.alive and len(now.placed) == self.pace.replicas:
            return True
        if now in self.seen:
            return False
        self.seen.add(now)
        if len(now.placed) < now.created:
            taking = self._taking(now)
            if taking:
                return any(self._from(replace(now, placed=tuple(sorted((*now.placed, name))))) for name in taking)
        then = self._create(replace(now, alive=self._spared(now)))
        return then != now and self._from(then)

    def _taking(self, now: _Now) -> list[str]:
        gone = set(self.old) - set(now.alive)
        pods = [p for p in self.snapshot.pods if p.metadata.name not in gone]
        running = self.new[: len(now.placed)]
        candidate = self.new[len(now.placed)]
        judge = Judge(replace(self.snapshot, pods=pods), [*running, candidate])
        for there, name in zip(running, now.placed, strict=True):
            judge.bind([(there, name)])
        return [name for name in judge.nodes if not judge.faults(candidate, name)]

    def _spared(self, now: _Now) -> tuple[str, ...]:
        """The old pods that stay: all those unavailable go first, as far as enough pods are there at all, then available ones."""
        if self.pace.recreate:
            return ()
        least = self.pace.replicas - self.pace.unavailable
        pods = [self.old[name] for name in now.alive]
        spread = [p.spec.nodeName for p in pods] + list(now.placed)

        def rank(p: kube_objects.Pod) -> tuple[object, ...]:
            cost = int((p.metadata.annotations or {}).get(COST, "0"))
            return bool(p.spec.nodeName), _runs(p), cost, -spread.count(p.spec.nodeName) if p.spec.nodeName else 0, p.metadata.name

        available = sum(map(_runs, pods)) + len(now.placed)
        ailing = min(sum(not _runs(p) for p in pods), max(0, len(pods) + len(now.placed) - least))
        going = sorted(pods, key=rank)[: ailing + max(0, available - least)]
        return tuple(name for name in now.alive if self.old[name] not in going)


def _runs(p: kube_objects.Pod) -> bool:
    conditions = (p.status.conditions if p.status else None) or []
    return bool(p.spec.nodeName) and not any(c.status == "False" for c in conditions)
