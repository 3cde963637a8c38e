"""The clusters of planted gangs: nodes in racks and zones, and running pods that leave each node just the room that is asked for."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kubestow.instances.generate import draw
from kubestow.instances.generate.fleet import HOST, ZONE, zone_name

Object = dict[str, Any]

RACK: Final = "example.com/rack"
DISK: Final = "example.com/disk"
DEDICATED: Final = {"key": "dedicated", "value": "gang", "effect": "NoSchedule"}
#: Cores of a node and GiB of memory for each, by weight.
_CORES: Final = ((3, 16), (4, 32), (2, 48), (1, 64))
_RATIO: Final = ((1, 2), (3, 4), (1, 8))
_FILLERS: Final = 24
_OWNER: Final = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "controller": True}


@dataclass
class Racks:
    """Nodes, all lists by node. ``cpu``: mCPU; ``memory``: MiB; ``fast``: has the label of fast disks; ``tainted``: dedicated. Every rack
    has a fast node without taint."""

    cpu: list[int]
    memory: list[int]
    zone: list[int]
    rack: list[int]
    fast: list[bool]
    tainted: list[bool]

    def __len__(self) -> int:
        return len(self.cpu)

    def name(self, n: int) -> str:
        return f"node-{n:04d}"

    def domain(self, key: str, n: int) -> int:
        """The domain of a node, by number."""
        return n if key == HOST else (self.rack if key == RACK else self.zone)[n]

    def value(self, key: str, n: int) -> str:
        """The node's label."""
        return self.name(n) if key == HOST else f"rack-{self.rack[n]:03d}" if key == RACK else zone_name(self.zone[n])

    def members(self, key: str) -> list[list[int]]:
        """The nodes of each domain."""
        found: list[list[int]] = [[] for _ in range(1 + max(self.domain(key, n) for n in range(len(self))))]
        for n in range(len(self)):
            found[self.domain(key, n)].append(n)
        return found

    def objects(self) -> Iterator[Object]:
        """The Node objects."""
        for n in range(len(self)):
            labels = {key: self.value(key, n) for key in (HOST, ZONE, RACK)} | {DISK: "fast" if self.fast[n] else "slow"}
            amounts = {"cpu": f"{self.cpu[n]}m", "memory": f"{self.memory[n]}Mi", "pods": "250"}
            yield {
                "apiVersion": "v1", "kind": "Node", "metadata": {"name": self.name(n), "labels": labels},
                "spec": {"taints": [DEDICATED]} if self.tainted[n] else {},
                "status": {"capacity": amounts, "allocatable": amounts, "conditions": [{"type": "Ready", "status": "True"}]},
            }  # fmt: skip


def racks(rng: random.Random, nodes: int, *, tainted: int = 10) -> Racks:
    """Nodes of several sizes, round-robin over racks of 6 to 16, and these over 2 to 4 zones; ``tainted``: percent."""
    zones = draw.pick(rng, ((2, 2), (5, 3), (2, 4)))
    count = max(2 * zones, -(-nodes // rng.randint(6, 16)))
    cores = [draw.pick(rng, _CORES) for _ in range(nodes)]
    rack = [n % count for n in range(nodes)]
    return Racks(
        cpu=[1000 * c for c in cores],
        memory=[1024 * c * draw.pick(rng, _RATIO) for c in cores],
        zone=[r % zones for r in rack],
        rack=rack,
        fast=[n < count or draw.chance(rng, 40) for n in range(nodes)],
        tainted=[n >= count and draw.chance(rng, tainted) for n in range(nodes)],
    )


def running(rng: random.Random, fleet: Racks, room: Sequence[tuple[int, int]]) -> Iterator[Object]:
    """Running pods that leave each node ``room``: mCPU and MiB."""
    yield {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "batch"}, "value": -100}
    for n in range(len(fleet)):
        cpu, memory = fleet.cpu[n] - room[n][0], fleet.memory[n] - room[n][1]
        for left in range(rng.randint(2, 6), 0, -1):
            part = rng.randint(60, 140) if left > 1 else 100
            mine = min(cpu, cpu * part // (100 * left)), min(memory, memory * part // (100 * left))
            cpu, memory = cpu - mine[0], memory - mine[1]
            which = rng.randrange(_FILLERS)
            yield bound(f"fill-{which}-{n:04d}{left}", fleet.name(n), *mine, app=f"fill-{which}", batch=which % 3 == 0)


def bound(name: str, node: str, cpu: int, memory: int, *, app: str, batch: bool = False, namespace: str = "prod", **spec: Any) -> Object:
    """A pod that runs on a node, of a ReplicaSet; ``batch``: of lower priority than all others."""
    requests = {"cpu": f"{cpu}m", "memory": f"{memory}Mi"}
    priority: Object = {"priorityClassName": "batch", "priority": -100} if batch else {"priority": 0}
    owner = {**_OWNER, "name": app, "uid": f"00000000-0000-4000-a000-{sum(map(ord, app)):012d}"}
    return {
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": {"app": app}, "ownerReferences": [owner]},
        "spec": {
            "nodeName": node, **priority, **spec,
            "containers": [{"name": "app", "image": "registry.example.com/app:1.0", "resources": {"requests": requests}}],
        },
        "status": {"phase": "Running"},
    }  # fmt: skip
