"""A catalogue, pods, and a purchase that holds all of them and than which none is cheaper, by construction.

Prices of the shapes that are bought are a multiple of their CPU plus a multiple of their memory, what the DaemonSet takes of each node
left out; other shapes cost more than that. Pods are cut from nodes of these shapes until every node is exactly full of both. So whatever
is bought costs at least that multiple of what the pods ask for, which is what the planted purchase costs. The cut, with its rules, is that
of ``kubestow generate --planted 100``.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from kubestow.instances.generate.fleet import Fleet, Kind, zone_name
from kubestow.instances.generate.planted import Planted, _Cut

Object = dict[str, Any]

#: Millionths per hour of a mCPU and of a MiB.
CPU, MEMORY = 20, 3
ZONES = 3
#: Requests of the DaemonSet on each node: mCPU and MiB.
DAEMON = (150, 256)
#: mCPU, MiB, and the price of a shape above the line, in percent. Pods are cut from the shapes on the line.
SHAPES: Final = {
    "c.large": (4_000, 8_192, 0), "m.large": (4_000, 16_384, 0), "r.large": (4_000, 32_768, 0), "m.xlarge": (8_000, 32_768, 0),
    "c.xlarge": (8_000, 16_384, 0), "m.small": (2_000, 8_192, 10), "r.xlarge": (8_000, 65_536, 12), "m.2xlarge": (16_000, 65_536, 15),
}  # fmt: skip
_LINE: Final = tuple(name for name, (_, _, above) in SHAPES.items() if not above)


@dataclass(frozen=True)
class PlantedSizing:
    """``objects``: a snapshot without nodes; ``catalogue``: as its file has it; ``buy``: nodes by shape and zone; ``cost``: of these, in
    millionths per hour; ``placement``: (pod, shape, zone, number of the node within these) in a valid bind order."""

    objects: list[Object]
    catalogue: Object
    buy: dict[tuple[str, str], int]
    cost: int
    placement: list[tuple[str, str, str, int]]


class _FromShapes(_Cut):
    """Pods cut from nodes of the catalogue."""

    types = _LINE

    def __init__(self, p: Planted) -> None:
        self._p = p
        self._rng = random.Random(f"kubestow/planted-sizing/{p.seed}/{p.nodes}/{p.pods}")
        self.priorities = 1
        kinds = [self._rng.choice(_LINE) for _ in range(p.nodes)]
        net = np.array([net_of(kind) for kind in kinds], dtype=np.int64)
        self.slots = 1 + net[:, 0] * (p.pods - p.nodes) // int(net[:, 0].sum())
        self.slots[: p.pods - int(self.slots.sum())] += 1
        zone = np.arange(p.nodes, dtype=np.int64) % p.zones
        more = np.full((p.nodes, 3), (100, 0, 110))
        nothing = [None] * p.nodes
        kinds_ = [Kind(kind, "standard", "amd64", 1, 1) for kind in kinds]
        self.fleet = Fleet(kinds_, zone, p.zones, [*nothing], [*nothing], np.hstack([net, more]))
        self.left = net.copy()
        self.workloads = []


def net_of(shape: str) -> tuple[int, int]:
    """Capacity of a node of a shape after its DaemonSet's pod, in mCPU and MiB."""
    cpu, memory, _ = SHAPES[shape]
    return cpu - DAEMON[0], memory - DAEMON[1]


def price_of(shape: str) -> int:
    """Millionths per hour."""
    cpu, memory = net_of(shape)
    return (CPU * cpu + MEMORY * memory) * (100 + SHAPES[shape][2]) // 100


def planted_sizing(seed: int, nodes: int, pods: int, *, rules: int = 50) -> PlantedSizing:
    """The instance of a seed; ``rules``: per cent of workloads with hard rules."""
    cut = _FromShapes(Planted(nodes, pods, 100, seed, min(ZONES, nodes), rules))
    cut.replicas()
    cut.singles()
    bought = [(kind.type, zone_name(int(zone))) for kind, zone in zip(cut.fleet.kinds, cut.fleet.zone, strict=True)]
    numbers: Counter[tuple[str, str]] = Counter()
    which = []
    for each in bought:
        which.append((*each, numbers[each]))
        numbers[each] += 1
    names = [cut.fleet.name(n) for n in range(nodes)]
    objects: list[Object] = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "planted"}}, _daemon_set()]
    for workload in cut.workloads:
        objects += [*workload.controllers(), *workload.pods(names)]
    placement = [
        (f"{w.namespace}/{name}", *which[n]) for w in cut.workloads for name, n in zip(w.pod_names(), w.on, strict=True)
    ]  # fmt: skip
    cost = sum(price_of(shape) * count for (shape, _), count in numbers.items())
    return PlantedSizing(objects, _catalogue(), dict(sorted(numbers.items())), cost, placement)


def _daemon_set() -> Object:
    requests = {"cpu": f"{DAEMON[0]}m", "memory": f"{DAEMON[1]}Mi"}
    labels = {"app": "agent"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": requests}}]}}
    return {
        "apiVersion": "apps/v1", "kind": "DaemonSet",
        "metadata": {"name": "agent", "namespace": "kube-system", "uid": "00000000-0000-4000-8000-000000000001"},
        "spec": {"selector": {"matchLabels": labels}, "template": template},
        "status": {"currentNumberScheduled": 0, "desiredNumberScheduled": 0, "numberMisscheduled": 0, "numberReady": 0},
    }  # fmt: skip


def _catalogue() -> Object:
    zones = [zone_name(z) for z in range(ZONES)]
    shapes = [
        {
            "name": name, "allocatable": {"cpu": f"{cpu}m", "memory": f"{memory}Mi", "pods": 110}, "zones": zones,
            "price": price_of(name) / 1_000_000,
        }
        for name, (cpu, memory, _) in SHAPES.items()
    ]  # fmt: skip
    return {"apiVersion": "kubestow.dev/v1alpha1", "kind": "Catalogue", "shapes": shapes}
