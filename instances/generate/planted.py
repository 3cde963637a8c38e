"""``kubestow generate --planted``: pods cut from the nodes' capacity, so that a tight complete placement exists.

Replicas are cut first, wherever their rule allows and every node keeps enough for its remaining pods. The residual
capacity of each node is then cut into single pods; the last one takes the remainder. At a usage of 100 all nodes
are exactly full of CPU and memory.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from kubestow.instances.generate import draw
from kubestow.instances.generate.fleet import CPU, HOST, MEMORY, TYPE, ZONE, Fleet, Ints, Kind, zone_name
from kubestow.instances.generate.generator import Generated, priority_classes
from kubestow.instances.generate.planting import Rule
from kubestow.instances.generate.rules import label_in, spread, term
from kubestow.instances.generate.workload import Wishes, Workload

Object = dict[str, Any]

_NAMESPACE: Final = "planted"
#: mCPU and MiB of the smallest pod. Requests of replicas are its multiples.
_MIN_REQUEST: Final = np.array((50, 64), dtype=np.int64)
#: Percentage of pods to cut as replicas, if possible.
_REPLICATED_PERCENT: Final = 75
#: Number of consecutive failures after which no more replicas are cut.
_MAX_FAILURES: Final = 100
#: Number of nodes sampled per workload in larger clusters.
_SAMPLED_NODES: Final = 200
_REPLICAS: Final = ((50, 2, 4), (35, 5, 8), (15, 9, 16))
_PRIORITIES: Final = 4
_TYPES: Final = ("cut.large", "cut.xlarge", "cut.2xlarge")
_HARD: Final = ((30, "apart"), (20, "even"), (15, "together"), (15, "near"), (12, "zone"), (8, "type"))


@dataclass(frozen=True)
class Planted:
    """Parameters of a planted cluster.

    Attributes:
        nodes: Number of nodes.
        pods: Number of pods.
        usage: Percentage of every node's CPU and memory that is cut into pods.
        seed: Seed of the draws.
        zones: Number of zones.
        rules: Percentage of workloads with a hard rule.
    """

    nodes: int
    pods: int
    usage: int
    seed: int = 0
    zones: int = 3
    rules: int = 50


def planted(parameters: Planted) -> Generated:
    """Return the snapshot for these parameters, with all pods pending, and the placement that it was cut from.

    Raises:
        ValueError: there are fewer pods than nodes, or more than the usage has room for.
    """
    p = parameters
    if p.pods < p.nodes:
        raise ValueError(f"{p.pods} pods cannot be cut from {p.nodes} nodes, expected at least one for each")
    cut = _Cut(p)
    cut.replicas()
    cut.singles()
    heads = [*cut.fleet.objects(), *priority_classes(cut.priorities)]
    heads.append({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": _NAMESPACE}})
    return Generated(heads, cut.workloads, [cut.fleet.name(n) for n in range(p.nodes)])


class _Cut:
    """The state of cutting.

    Attributes:
        left: Amounts still to be cut from each node, int64[N, 2] in mCPU and MiB.
        slots: Pods still to be cut from each node, int64[N].
        types: Instance types that rules refer to.
        workloads: The workloads cut before.
    """

    types: tuple[str, ...] = _TYPES

    def __init__(self, p: Planted) -> None:
        self._p = p
        self._rng = random.Random(f"kubestow/planted/{p.seed}/{p.nodes}/{p.pods}/{p.usage}")
        self.priorities = _PRIORITIES if p.seed % 2 else 1
        self.slots, self.fleet = _nodes(self._rng, p)
        self.left = self.fleet.allocatable[:, [CPU, MEMORY]] * p.usage // 100
        self.workloads: list[Workload] = []
        if (self.left < 2 * self.slots[:, None] * _MIN_REQUEST).any():
            raise ValueError(
                f"{p.usage} % of a node is too little for its {int(self.slots.max())} pods, expected fewer pods or a higher usage"
            )

    # --- replicas -------------------------------------------------------------------------------------------------------

    def replicas(self) -> None:
        """Cut workloads of several replicas, with rules."""
        rng, failed, keep = self._rng, 0, self._p.pods * (100 - _REPLICATED_PERCENT) // 100
        while int(self.slots.sum()) > keep and failed < _MAX_FAILURES:
            failed += 1
            node = rng.randrange(self._p.nodes)
            if self.slots[node] < 2:
                continue
            low, high = draw.pick(rng, [(weight, (low, high)) for weight, low, high in _REPLICAS])
            count = rng.randint(low, high)
            # About the size of the node's pods if they were all equal.
            size = self.left[node] // self.slots[node] * np.array([rng.randint(40, 160), rng.randint(40, 160)]) // 100
            size = np.maximum(size // _MIN_REQUEST, 1) * _MIN_REQUEST
            rule = self._rule(self._name()) if draw.chance(rng, self._p.rules) else Rule()
            nodes = self._place(size, count, rule)
            if nodes:
                failed = 0
                self._add(size, nodes, rule)

    def _room(self, size: Ints, nodes: Ints) -> Ints:
        """Return the number of such pods that each node can still provide, keeping enough for at least one other pod and all the others."""
        spare = self.left[nodes] - self.slots[nodes, None] * _MIN_REQUEST
        room = self.slots[nodes] - 1
        for r, more in enumerate((size - _MIN_REQUEST).tolist()):
            if more:
                np.minimum(room, spare[:, r] // more, out=room)
        return np.maximum(room, 0)

    def _place(self, size: Ints, count: int, rule: Rule) -> list[int]:
        """Return random nodes for replicas in a valid order, or nothing."""
        total = self._p.nodes
        nodes = np.array(sorted(self._rng.sample(range(total), _SAMPLED_NODES)) if total > _SAMPLED_NODES else range(total), dtype=np.int64)
        if rule.nodes is not None:
            nodes = nodes[rule.nodes[nodes]]
        room, home = np.minimum(self._room(size, nodes), rule.per_node), self.fleet.zone[nodes]
        zones: list[list[int]] = []
        for zone in range(self.fleet.n_zones):
            here = (home == zone) & (rule.zones is None or zone in rule.zones)
            places = np.repeat(nodes[here], np.minimum(room[here], count)).tolist()
            self._rng.shuffle(places)
            zones.append(places)
        if not rule.skew:
            everywhere = [n for places in zones for n in places]
            self._rng.shuffle(everywhere)
            return everywhere[:count] if len(everywhere) >= count else []
        self._rng.shuffle(zones)
        zones.sort(key=len, reverse=True)  # larger zones take the remainder
        turns = [zones[i % len(zones)][i // len(zones) :][:1] for i in range(count)]
        return [n for turn in turns for n in turn] if all(turns) else []

    def _add(self, size: Ints, nodes: list[int], rule: Rule) -> None:
        np.subtract.at(self.left, nodes, size)
        np.subtract.at(self.slots, nodes, 1)
        rng, tier = self._rng, self._rng.randrange(self.priorities)
        self.workloads.append(
            Workload(
                name=self._name(), namespace=_NAMESPACE, kind="Deployment", replicas=len(nodes),
                demand=(int(size[0]), int(size[1]), 0, 0, 1), uid=draw.uid(rng), hash=draw.letters(rng, 10),
                priority=(f"tier-{tier}", 1000 * tier), wishes=rule.wishes, provider=rule.provider, on=nodes,
            )
        )  # fmt: skip

    # --- single pods ----------------------------------------------------------------------------------------------------

    def singles(self) -> None:
        """Cut the residual capacity of each node into its remaining slots."""
        rng = self._rng
        for n in range(self._p.nodes):
            for slots in range(int(self.slots[n]), 0, -1):
                size = self.left[n]
                if slots > 1:
                    share = size // slots * np.array([rng.randint(50, 150), rng.randint(50, 150)]) // 100
                    size = np.clip(share, _MIN_REQUEST, size - (slots - 1) * _MIN_REQUEST)
                rule = self._rule_at(n) if draw.chance(rng, self._p.rules) else Rule()
                self._add(size.copy(), [n], rule)

    # --- rules ----------------------------------------------------------------------------------------------------------

    def _name(self) -> str:
        return f"cut-{len(self.workloads)}"

    def _rule(self, name: str) -> Rule:
        """Draw a rule for the replicas of a workload that is not placed yet."""
        kind = draw.pick(self._rng, _HARD)
        if kind == "apart":
            return Rule(Wishes(anti=[term(name, HOST)]), per_node=1)
        if kind == "even":
            return Rule(Wishes(spread=[spread(name, ZONE, 1, "DoNotSchedule")]), skew=1)
        if kind == "together":
            zone = self._rng.randrange(self.fleet.n_zones)
            return Rule(Wishes(affine=[term(name, ZONE)]), zones=(zone,))
        if kind == "near" and self.workloads:
            return self._near(self._rng.randrange(len(self.workloads)))
        return self._type(self._rng.randrange(len(self.types))) if kind == "type" else self._zone(self._rng.randrange(self.fleet.n_zones))

    def _rule_at(self, node: int) -> Rule:
        """Draw a rule for a single pod on this node."""
        zone = int(self.fleet.zone[node])
        kind = draw.pick(self._rng, ((3, "near"), (2, "type"), (3, "zone")))
        if kind == "near" and self.workloads:
            for _ in range(4):
                other = self._rng.randrange(len(self.workloads))
                if (self.fleet.zone[self.workloads[other].on] == zone).any():
                    return self._near(other)
        return self._type(self.types.index(self.fleet.kinds[node].type)) if kind == "type" else self._zone(zone)

    def _near(self, index: int) -> Rule:
        other = self.workloads[index]
        zones = tuple(sorted(set(self.fleet.zone[other.on].tolist())))
        return Rule(Wishes(affine=[term(other.name, ZONE)]), zones=zones, provider=index)

    def _zone(self, zone: int) -> Rule:
        """Return a rule for this zone and possibly some others."""
        others = [z for z in range(self.fleet.n_zones) if z != zone]
        self._rng.shuffle(others)
        chosen = sorted([zone, *others[: self._rng.randrange(max(1, self.fleet.n_zones - 1))]])
        names = [zone_name(z) for z in chosen]
        return Rule(Wishes(node=[label_in(ZONE, names)]), nodes=np.isin(self.fleet.zone, chosen))

    def _type(self, index: int) -> Rule:
        """Return a rule for this instance type and the next one."""
        names = sorted({self.types[index], self.types[(index + 1) % len(self.types)]})
        return Rule(Wishes(node=[label_in(TYPE, names)]), nodes=np.array([k.type in names for k in self.fleet.kinds], dtype=bool))


def _nodes(rng: random.Random, p: Planted) -> tuple[Ints, Fleet]:
    """Return the number of pods per node, and nodes whose sizes differ by a factor of three. A pod has one CPU on average."""
    average = -(-p.pods // p.nodes)
    steps = [rng.randint(50, 150) for _ in range(p.nodes)]
    cpu = np.array([average * (10 * step + rng.randint(-5, 5)) for step in steps], dtype=np.int64)
    memory = cpu * np.array([rng.randint(200, 500) for _ in range(p.nodes)]) // 100
    weight = cpu * np.array([rng.randint(80, 120) for _ in range(p.nodes)])
    # One pod per node, the others by weight; the first nodes take those lost by rounding.
    slots = 1 + weight * (p.pods - p.nodes) // int(weight.sum())
    slots[: p.pods - int(slots.sum())] += 1
    kinds = [Kind(_TYPES[min(2, (step - 50) // 34)], "standard", "amd64", 1, 1) for step in steps]
    zones = min(p.zones, p.nodes)
    allocatable = np.stack([cpu, memory, np.full_like(cpu, 100), np.zeros_like(cpu), np.maximum(110, slots)], axis=1)
    zone = np.arange(p.nodes, dtype=np.int64) % zones
    return slots, Fleet(kinds, zone, zones, [None] * p.nodes, [None] * p.nodes, allocatable)
