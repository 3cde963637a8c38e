"""``kubestow generate``: a synthetic snapshot of a typical cluster, from a seed.

Draws happen in this order: workloads with their requests; nodes, sized for the requested utilisation; then,
workload by workload, rules together with a place for the pods. Thus every rule is met in some complete placement.
docs/generate.md describes the mix.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from kubestow.instances.generate import draw, fleet
from kubestow.instances.generate.fleet import CPU, GPUS, GPUS_PER_NODE, POOL, RESOURCES, Fleet, Ints
from kubestow.instances.generate.planting import Planter, Rule
from kubestow.instances.generate.rules import Rules
from kubestow.instances.generate.workload import PROXY, Wishes, Workload

Object = dict[str, Any]

#: Divisor: a workload has at most 1/20 of all pods and 1/20 of all requests.
_MAX_SHARE_DIVISOR: Final = 20
_KINDS: Final = ((70, "Deployment"), (15, "StatefulSet"), (15, "Job"))
_NAMES: Final = (
    "api", "auth", "billing", "cart", "catalog", "checkout", "crawler", "events", "export", "feed", "gateway", "index", "ingest", "ledger",
    "mail", "media", "notify", "orders", "payments", "profile", "queue", "quota", "render", "report", "search", "session", "stats",
    "stream", "sync", "train", "upload", "users",
)  # fmt: skip
_TEAMS: Final = ("blue", "core", "data", "edge", "growth", "infra", "mobile", "shop")
_STAGES: Final = ((5, "prod"), (3, "staging"), (2, "dev"))
_DAEMONS: Final = ("log-agent", "node-exporter")
_CRITICAL: Final = ("system-node-critical", 2_000_001_000)
#: Average number of workloads per namespace.
_WORKLOADS_PER_NAMESPACE: Final = 12


@dataclass(frozen=True)
class Parameters:
    """Parameters of a synthetic snapshot.

    Attributes:
        nodes: Number of nodes.
        pods: Number of pods.
        seed: Seed of the draws.
        zones: Number of zones.
        fill: Utilisation of the scarcest resource by all pods' requests, in percent.
        bound: Running pods, in percent.
        priorities: Number of PriorityClasses.
        numa: Nodes with a NodeResourceTopology, in percent.
        rules: Workloads with hard rules, in percent.
        preferences: Workloads with weighted preferences, in percent.
        tainted: Nodes with a taint, in percent.
    """

    nodes: int
    pods: int
    seed: int = 0
    zones: int = 3
    fill: int = 60
    bound: int = 0
    priorities: int = 3
    numa: int = 0
    rules: int = 30
    preferences: int = 30
    tainted: int = 5


@dataclass
class Generated:
    """A snapshot, and the placement that was built with it.

    :meth:`objects` creates the objects on each call.

    Attributes:
        heads: Cluster-wide objects.
        workloads: The workloads with their planted pods.
        node_names: Names of the nodes.
    """

    heads: list[Object]
    workloads: list[Workload]
    node_names: list[str]

    def objects(self) -> Iterator[Object]:
        """Yield all objects of the snapshot: cluster-wide ones, then controllers and pods by namespace."""
        yield from self.heads
        ordered = sorted(self.workloads, key=lambda w: w.namespace)
        for workload in ordered:
            yield from workload.controllers()
        for workload in ordered:
            yield from workload.pods(self.node_names)

    def assignments(self, *, bound: bool | None = None) -> list[tuple[str, str]]:
        """Return (namespace/name, node) of the planted pods in a valid bind order. ``bound`` selects running or pending pods."""
        found = []
        for workload in self.workloads:
            for i, (name, node) in enumerate(zip(workload.pod_names(), workload.on, strict=False)):
                if bound is None or bound == (i < workload.bound):
                    found.append((f"{workload.namespace}/{name}", self.node_names[node]))
        return found

    @property
    def unplanted(self) -> int:
        """The number of pods that the placement omits."""
        return sum(w.replicas for w in self.workloads if not w.on)


def generate(parameters: Parameters) -> Generated:
    """Return the snapshot for these parameters: always the same objects in the same order."""
    p = parameters
    rng = random.Random(f"kubestow/{p.seed}/{p.nodes}/{p.pods}")
    wanted = p.pods * p.bound // 100
    daemons = _daemons(rng, p, min(len(_DAEMONS), wanted // (2 * p.nodes)))
    nodes = fleet.draw(rng, p.nodes, p.zones, p.tainted, p.numa)
    workloads = _workloads(rng, p, p.pods - len(daemons) * p.nodes)
    _dedicate(rng, p, nodes, workloads)
    everything = [*daemons, *workloads]
    largest = np.array([w.demand for w in everything], dtype=np.int64).max(axis=0)
    fleet.scale(nodes, _demand(everything), p.fill, largest)
    planter = Planter(nodes)
    for daemon in daemons:
        daemon.on, daemon.bound = planter.everywhere(daemon.demand), daemon.replicas
    _plant(rng, p, nodes, planter, workloads)
    _bind(rng, workloads, wanted - sum(d.bound for d in daemons))
    heads = [*nodes.objects(), *nodes.topologies(), *_namespaces(rng, everything), *priority_classes(p.priorities, critical=bool(daemons))]
    return Generated(heads, everything, [nodes.name(n) for n in range(p.nodes)])


def _demand(workloads: list[Workload]) -> Ints:
    """Return the total demand of all pods, int64[5]. Each pod takes a slot."""
    found = np.zeros(len(RESOURCES), dtype=np.int64)
    for workload in workloads:
        found += np.array(workload.demand, dtype=np.int64) * workload.replicas
    return found


# --- workloads ----------------------------------------------------------------------------------------------------------


def _daemons(rng: random.Random, p: Parameters, count: int) -> list[Workload]:
    everywhere = Wishes(tolerations=[{"operator": "Exists"}])
    return [
        Workload(
            name=name, namespace="kube-system", kind="DaemonSet", replicas=p.nodes, demand=(100, 128, 0, 0, 1), uid=draw.uid(rng),
            hash="", priority=_CRITICAL, wishes=everywhere,
        )
        for name in _DAEMONS[:count]
    ]  # fmt: skip


def _menu(p: Parameters) -> list[tuple[int, int, int]]:
    """Return the requests whose resulting nodes hold them: the smallest node, half the average, holds the largest request four times."""
    for size in range(len(draw.REQUESTS), 1, -1):
        menu = draw.REQUESTS[:size]
        mean = sum(w * cpu for w, cpu, _ in menu) // sum(w for w, _, _ in menu)
        if p.pods * mean * 100 // (p.nodes * p.fill * 2) >= 4 * menu[-1][1]:
            return list(menu)
    return list(draw.REQUESTS[:1])


def _workloads(rng: random.Random, p: Parameters, pods: int) -> list[Workload]:
    """Draw workloads with ``pods`` pods in total, without rules."""
    menu = _menu(p)
    mean = sum(w * cpu for w, cpu, _ in menu) // sum(w for w, _, _ in menu)
    priorities = [(p.priorities - i, (f"tier-{i}", 1000 * i)) for i in range(p.priorities)]
    found: list[Workload] = []
    remaining = pods
    while remaining:
        replicas = draw.replicas(rng, min(remaining, max(3, pods // _MAX_SHARE_DIVISOR)))
        remaining -= replicas
        cpu, memory = draw.request(rng, menu, pods * mean // (_MAX_SHARE_DIVISOR * replicas))
        proxy, disk = draw.chance(rng, 15), draw.chance(rng, 10)
        if proxy:
            cpu, memory = cpu + PROXY[0], memory + PROXY[1]
        kind = draw.pick(rng, _KINDS)
        found.append(
            Workload(
                name=f"{_NAMES[rng.randrange(len(_NAMES))]}-{len(found)}", namespace="", kind=kind, replicas=replicas,
                demand=(cpu, memory, rng.randint(1, 8) if disk else 0, 0, 1), uid=draw.uid(rng), hash=draw.letters(rng, 10), proxy=proxy,
                guaranteed=p.numa > 0 and draw.chance(rng, 30), priority=draw.pick(rng, priorities) if priorities else None,
                service=kind == "StatefulSet" or (kind == "Deployment" and draw.chance(rng, 80)),
                budget=_budget(rng) if kind != "Job" and replicas > 1 and draw.chance(rng, 30) else None,
            )
        )  # fmt: skip
    for workload in found:
        space = rng.randrange(max(1, len(found) // _WORKLOADS_PER_NAMESPACE))
        workload.namespace = f"{_TEAMS[space % len(_TEAMS)]}-{space}"
        # Plant large pods first.
    return sorted(found, key=lambda w: (w.demand[CPU] < 2000, w.demand[CPU] < 500))


def _budget(rng: random.Random) -> Object:
    return draw.pick(rng, ((3, {"maxUnavailable": 1}), (2, {"minAvailable": "50%"}), (1, {"maxUnavailable": "25%"})))


def _dedicate(rng: random.Random, p: Parameters, nodes: Fleet, workloads: list[Workload]) -> None:
    """Assign workloads to the dedicated pools and the GPUs, up to the utilisation of the rest of the cluster."""
    pools = list(dict.fromkeys(k.pool for k, taint in zip(nodes.kinds, nodes.taint, strict=True) if taint or k.gpus))
    total, units = _demand(workloads), nodes.allocatable.sum(axis=0)
    order = list(range(len(workloads)))
    rng.shuffle(order)
    for pool in pools:
        members = [n for n, kind in enumerate(nodes.kinds) if kind.pool == pool]
        room = (total * nodes.allocatable[members].sum(axis=0) * 9 // (10 * np.maximum(units, 1)))[:GPUS]
        gpus = len(members) * GPUS_PER_NODE * min(p.fill, 100) // 100
        taint = nodes.taint[members[0]]
        for i in order:
            workload = workloads[i]
            cost = np.array(workload.demand[:GPUS], dtype=np.int64) * workload.replicas
            if workload.pool is not None or workload.kind == "StatefulSet" or (cost > room).any():
                continue
            asked = draw.pick(rng, ((70, 1), (20, 2), (10, 4))) if pool == "gpu" else 0
            if asked * workload.replicas > gpus:
                continue
            gpus -= asked * workload.replicas
            room -= cost
            workload.pool = pool
            cpu, memory, storage, _, slot = workload.demand
            workload.demand = (cpu, memory, storage, asked, slot)
            workload.wishes = Wishes(selector={POOL: pool}, tolerations=[{**taint, "operator": "Equal"}] if taint else [])


# --- placement ----------------------------------------------------------------------------------------------------------


def _plant(rng: random.Random, p: Parameters, nodes: Fleet, planter: Planter, workloads: list[Workload]) -> None:
    """Draw the rules of each workload and plant it: with all rules, with the first, or with none; in the worst case
    also not Guaranteed.
    """
    drawing = Rules(rng, nodes, planter)
    for i, workload in enumerate(workloads):
        pool = drawing.nodes(POOL, [workload.pool]) if workload.pool is not None else None
        drawn = drawing.hard(workload) if draw.chance(rng, p.rules) else []
        variants: list[tuple[list[Rule], bool]] = [(rules, workload.guaranteed) for rules in (drawn, drawn[:1], [])] + [([], False)]
        for kept, guaranteed in variants:
            workload.on = planter.plant(workload.demand, workload.replicas, kept, pool, guaranteed=guaranteed)
            if workload.on:
                workload.guaranteed = guaranteed
                _carry(workload, kept)
                break
        if draw.chance(rng, p.preferences):
            workload.wishes += drawing.soft(workload)
        if workload.on:
            drawing.planted(i, workload)


def _carry(workload: Workload, rules: list[Rule]) -> None:
    for rule in rules:
        workload.wishes += rule.wishes
        workload.port = workload.port if rule.port is None else rule.port
        workload.provider = workload.provider if rule.provider is None else rule.provider


def _bind(rng: random.Random, workloads: list[Workload], pods: int) -> None:
    """Mark ``pods`` planted pods as running: whole workloads, each after the one it has affinity to, and a part of the last."""
    order = [i for i, workload in enumerate(workloads) if workload.on]
    rng.shuffle(order)
    for i in order:
        chain: list[int] = []
        above: int | None = i
        while above is not None and not workloads[above].bound:
            chain.append(above)
            above = workloads[above].provider
        for j in reversed(chain):
            workloads[j].bound = min(pods, workloads[j].replicas)
            pods -= workloads[j].bound
        if not pods:
            return


# --- the rest -----------------------------------------------------------------------------------------------------------


def _namespaces(rng: random.Random, workloads: list[Workload]) -> Iterator[Object]:
    for name in sorted({w.namespace for w in workloads}):
        labels = {"kubernetes.io/metadata.name": name}
        if name != "kube-system":
            labels |= {"team": name.partition("-")[0], "stage": draw.pick(rng, _STAGES)}
        yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def priority_classes(count: int, *, critical: bool = False) -> Iterator[Object]:
    """Yield ``tier-0`` to ``tier-<count-1>`` with rising priority, and with ``critical`` also the class of node agents."""
    values = [(f"tier-{i}", 1000 * i) for i in range(count)] + ([_CRITICAL] if critical else [])
    for name, value in values:
        yield {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value}
