"""Pending pods that fit only after a known number of moves: by construction no plan has fewer, and a plan with as many is planted.

Running pods keep the nodes for what waits (the *pool*) closed. A node opens when ``b`` of its small pods, the blockers, have left it, and
then takes one waiting pod; all other pods there must not move. So each waiting pod costs at least the ``b`` of a node of its own, and
the least that any choice of nodes costs is ``k``; further nodes cost more or do not suffice for all. Shapes:

* ``room``: blockers hold the CPUs that are missing;
* ``rule``: anti-affinity, on one side or the other, between them and what waits;
* ``zone``: as ``room``, and all that waits has to go to one zone;
* ``chain``: a node has one blocker, which may go to one other node only, which is closed by another one of the kind, and so on.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any, Final

from kubestow.instances.generate import draw
from kubestow.instances.generate.fleet import HOST, POOL, ZONE, zone_name

Object = dict[str, Any]

SHAPES: Final = ("room", "rule", "zone", "chain")
MOST: Final = 6
#: mCPU of a node of the pool, of a pod that waits and of a blocker; MiB of a node and of a blocker.
_NODE, _WAITING, _BLOCKER = 8000, 4000, 500
_MEMORY, _BLOCKS = 16_384, 1024
_LINK: Final = "example.com/link"
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_SAFE: Final = "cluster-autoscaler.kubernetes.io/safe-to-evict"
_DIALECTS: Final = ("coscheduling", "scheduling.k8s.io", "annotation")


@dataclass(frozen=True)
class Admit:
    """``waiting``: keys of the pending pods, a ``gang`` (its name) where there is more than one. ``k``: the fewest moves that let all of
    them be placed. ``moves``: such moves in order, (pod, from, to); ``placement``: then the node of each waiting pod."""

    objects: list[Object]
    k: int
    shape: str
    moves: list[tuple[str, str, str]]
    placement: dict[str, str]
    gang: str | None

    @property
    def waiting(self) -> list[str]:
        return list(self.placement)


def planted_admit(seed: int, *, k: int | None = None, shape: str | None = None, nodes: int | None = None) -> Admit:
    """The instance of a seed; omitted arguments are random: ``k`` of 1 to 6, 4 to 30 nodes (more where the shape needs them)."""
    rng = random.Random(f"kubestow/admit/{seed}/{k}/{shape}/{nodes}")
    kind = shape or SHAPES[seed % len(SHAPES)]
    moves = k or rng.randint(1, MOST)
    size = nodes or rng.randint(4, 30)
    least = 2 if kind == "zone" and moves > 1 else 1
    parts = _parts(rng, moves, rng.randint(least, min(moves, 4)))
    making = _Making(rng, kind, parts, draw.chance(rng, 50))
    if kind == "chain":
        making.chains(size)
    else:
        making.pool(size)
    return making.made()


def _parts(rng: random.Random, total: int, count: int) -> list[int]:
    """``total`` in ``count`` positive parts."""
    cuts = sorted(rng.sample(range(1, total), count - 1))
    return [b - a for a, b in zip([0, *cuts], [*cuts, total], strict=True)]


@dataclass
class _Making:
    """An instance as it grows. ``parts``: moves that each waiting pod needs; ``refuses``: of shape ``rule``, the blockers have the rule."""

    rng: random.Random
    shape: str
    parts: list[int]
    refuses: bool
    nodes: list[Object] = field(default_factory=list)
    pods: list[Object] = field(default_factory=list)
    moves: list[tuple[str, str, str]] = field(default_factory=list)
    homes: list[str] = field(default_factory=list)

    @property
    def k(self) -> int:
        return sum(self.parts)

    # --- nodes and what runs on them ----------------------------------------------------------------------------------

    def node(self, pool: str, cpu: int, zone: int, *, memory: int = _MEMORY, link: str | None = None) -> str:
        name = f"{pool}-{sum(item['metadata']['labels'][POOL] == pool for item in self.nodes)}"
        amounts = {"cpu": f"{cpu}m", "memory": f"{memory}Mi", "pods": "110"}
        labels = {HOST: name, POOL: pool, ZONE: zone_name(zone)} | ({} if link is None else {_LINK: link})
        self.nodes.append({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "labels": labels},
            "status": {"capacity": amounts, "allocatable": amounts},
        })  # fmt: skip
        return name

    def pod(self, app: str, node: str, cpu: int, memory: int, *, stays: bool = False, **spec: Any) -> str:
        """A running pod of a ReplicaSet. ``stays``: it must not be moved."""
        name = f"{app}-{draw.suffix(len(self.pods))}"
        metadata: Object = {"name": name, "namespace": "prod", "labels": {"app": app}, "ownerReferences": [_owner(app)]}
        if stays:
            metadata["annotations"] = {_SAFE: "false"}
        self.pods.append({
            "apiVersion": "v1", "kind": "Pod", "metadata": metadata,
            "spec": {"nodeName": node, "containers": [_container(cpu, memory)], **spec}, "status": {"phase": "Running"},
        })  # fmt: skip
        return f"prod/{name}"

    # --- room, rule, zone ---------------------------------------------------------------------------------------------

    def pool(self, size: int) -> None:
        """Nodes that open at a price, the cheapest for what waits, and others that have places for the blockers."""
        rng, count, most = self.rng, len(self.parts), max(self.parts)
        opening: list[tuple[int, int, bool]] = [(part, 0, True) for part in self.parts]  # price, zone, planted
        if self.shape == "zone":
            # As many nodes with a higher total price, and another zone with cheap nodes, but too few.
            dear = [*self.parts[:-1], self.parts[-1] + 1]
            opening += [(price, 1, False) for price in dear] + [(1, 2, False)] * (count - 1)
        parking = max(1, (size - len(opening)) // 3)
        while self.shape != "zone" and len(opening) + parking < size:
            opening.append((min(most + rng.randint(0, 1), MOST + 1), 0, False))
        rng.shuffle(opening)
        lots = self._lots(parking)
        rng.shuffle(lots)
        for price, zone, planted in opening:
            blockers = self._closed(price, zone)
            name = self.pods[-1]["spec"]["nodeName"]
            if planted:
                self.homes.append(name)
                self.moves += [(blocker, name, lots.pop()) for blocker in blockers[:price]]

    def _lots(self, count: int) -> list[str]:
        """Nodes too small for what waits, with room for ``k`` blockers in all; the node of each place."""
        share = [self.k // count + (i < self.k % count) for i in range(count)]
        found = []
        for i, places in enumerate(share):
            free = places * _BLOCKER + self.rng.randrange(_BLOCKER)
            taken = self.rng.randint(500, 2500)
            name = self.node("parking", free + taken, i % 3, memory=2 * _MEMORY)
            self._filled(name, taken)
            found += [name] * places
        return found

    def _filled(self, node: str, cpu: int) -> None:
        """Pods of odd sizes that may move and whose moves are of no use."""
        while cpu > 0:
            part = min(cpu, self.rng.randint(150, 900))
            self.pod(f"filler-{self.rng.randrange(4)}", node, part, 64)
            cpu -= part

    def _closed(self, price: int, zone: int) -> list[str]:
        """A node of the pool that opens when ``price`` blockers have left; its blockers, any of which will do."""
        rng = self.rng
        name = self.node("pool", _NODE, zone)
        if self.shape == "rule":
            affinity = _anti({"matchLabels": {"app": "waiting"}}) if self.refuses else {}
            return [self.pod("blocker", name, _BLOCKER, _BLOCKS, affinity=affinity) for _ in range(price)]
        blockers = price + rng.randint(0, 2)
        free = _WAITING - price * _BLOCKER + rng.randrange(_BLOCKER)
        # Its memory is full, or blockers could go from one node of the pool to another.
        self.pod("anchor", name, _NODE - free - blockers * _BLOCKER, _MEMORY - blockers * _BLOCKS - _BLOCKS // 2, stays=True)
        return [self.pod("blocker", name, _BLOCKER, _BLOCKS) for _ in range(blockers)]

    # --- chain --------------------------------------------------------------------------------------------------------

    def chains(self, size: int) -> None:
        """Chains of nodes: a blocker on each but the last, which has a place; what waits goes to the first."""
        rng, most = self.rng, max(self.parts)
        lengths = [(part, True) for part in self.parts]
        while sum(length + 1 for length, _ in lengths) + most + 1 < size:
            lengths.append((most + rng.randint(0, 1), False))
        rng.shuffle(lengths)
        for number, (length, planted) in enumerate(lengths):
            names = [
                self.node("link" if i else "pool", _NODE, rng.randrange(3), link=f"{number}.{i}") for i in range(length + 1)
            ]  # fmt: skip
            for name in names:
                self.pod("anchor", name, _WAITING, 64, stays=True)
            links = []
            for i, name in enumerate(names[:-1]):
                either = {"key": _LINK, "operator": "In", "values": [f"{number}.{i}", f"{number}.{i + 1}"]}
                wanted = {"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [either]}]}}}
                links.append(self.pod("blocker", name, rng.randint(_WAITING // 2 + 1, _WAITING), 64, affinity=wanted))
            if planted:
                self.homes.append(names[0])
                self.moves += [(links[i], names[i], names[i + 1]) for i in reversed(range(length))]

    # --- what waits ---------------------------------------------------------------------------------------------------

    def made(self) -> Admit:
        rng, alone = self.rng, len(self.parts) == 1
        dialect = None if alone and rng.randrange(2) else _DIALECTS[rng.randrange(len(_DIALECTS))]
        spec: Object = {"containers": [_container(_WAITING, 256)], "nodeSelector": {POOL: "pool"}}
        if self.shape == "rule":
            apps = ["waiting"] if self.refuses else ["blocker", "waiting"]
            spec["affinity"] = _anti({"matchExpressions": [{"key": "app", "operator": "In", "values": apps}]})
        elif self.shape == "zone":
            spec["affinity"] = {"podAffinity": {_REQUIRED: [{"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "waiting"}}}]}}
        labels, notes, extra = {"app": "waiting"}, {}, list[Object]()
        if dialect == "coscheduling":
            labels["scheduling.x-k8s.io/pod-group"] = "train"
            extra.append(_group("scheduling.x-k8s.io/v1alpha1", {"minMember": len(self.parts)}))
        elif dialect == "scheduling.k8s.io":
            spec["schedulingGroup"] = {"podGroupName": "train"}
            extra.append(_group("scheduling.k8s.io/v1alpha2", {"schedulingPolicy": {"gang": {"minCount": len(self.parts)}}}))
        elif dialect == "annotation":
            notes["kubestow.dev/gang"] = "train"
        waiting = [
            {
                "apiVersion": "v1", "kind": "Pod",
                "metadata": {"name": f"train-{i}", "namespace": "prod", "labels": labels, "annotations": notes},
                "spec": {**spec, "priority": 1000}, "status": {"phase": "Pending"},
            }
            for i in range(len(self.parts))
        ]  # fmt: skip
        if rng.randrange(2):
            extra.append(_budget(rng))
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "prod"}}
        sets = [_replica_set(app, self.pods) for app in sorted({pod["metadata"]["labels"]["app"] for pod in self.pods})]
        return Admit(
            [*self.nodes, namespace, *sets, *extra, *self.pods, *waiting], self.k, self.shape, self.moves,
            {f"prod/train-{i}": home for i, home in enumerate(self.homes)}, None if dialect is None else "prod/train",
        )  # fmt: skip


def _container(cpu: int, memory: int) -> Object:
    requests = {"cpu": f"{cpu}m", "memory": f"{memory}Mi"}
    return {"name": "main", "image": "registry.example.com/prod/main:1.0", "resources": {"requests": requests}}


def _anti(wanted: Object) -> Object:
    return {"podAntiAffinity": {_REQUIRED: [{"topologyKey": HOST, "labelSelector": wanted}]}}


def _owner(app: str) -> Object:
    return {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": app, "uid": f"uid-{app}", "controller": True}


def _replica_set(app: str, pods: list[Object]) -> Object:
    count = sum(pod["metadata"]["labels"]["app"] == app for pod in pods)
    return {
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": app, "namespace": "prod", "uid": f"uid-{app}"},
        "spec": {"replicas": count, "selector": {"matchLabels": {"app": app}}},
    }  # fmt: skip


def _group(version: str, spec: Object) -> Object:
    return {"apiVersion": version, "kind": "PodGroup", "metadata": {"name": "train", "namespace": "prod"}, "spec": spec}


def _budget(rng: random.Random) -> Object:
    """It makes waves; the moves are as many."""
    return {
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "blocker", "namespace": "prod"},
        "spec": {"maxUnavailable": rng.randint(1, 2), "selector": {"matchLabels": {"app": "blocker"}}},
    }  # fmt: skip
