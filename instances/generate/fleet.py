"""The nodes of a synthetic cluster: pools, zones, sizes, and their NodeResourceTopology objects."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kubestow.instances.generate.draw import chance, pick

Object = dict[str, Any]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

HOST: Final = "kubernetes.io/hostname"
ZONE: Final = "topology.kubernetes.io/zone"
TYPE: Final = "node.kubernetes.io/instance-type"
ARCH: Final = "kubernetes.io/arch"
OS: Final = "kubernetes.io/os"
POOL: Final = "example.com/pool"
GPU: Final = "nvidia.com/gpu"
#: Columns of all resource arrays: mCPU, MiB, GiB of ephemeral storage, GPUs, pods.
RESOURCES: Final = ("cpu", "memory", "ephemeral-storage", GPU, "pods")
CPU, MEMORY, STORAGE, GPUS, PODS = range(5)
GPUS_PER_NODE: Final = 8
#: Percent of nodes with GPUs, and the smallest cluster (in nodes) that has any.
GPU_PERCENT, GPU_MIN_NODES = 2, 20
DEDICATED: Final = ("database", "batch")


@dataclass(frozen=True)
class Kind:
    """An instance type.

    Attributes:
        type: Name of the type.
        pool: Name of the node pool.
        arch: Processor architecture.
        units: CPUs as a multiple of the cluster's unit.
        memory: Memory as a multiple of the cluster's unit.
        pods: Limit of pods.
        gpus: Number of GPUs.
    """

    type: str
    pool: str
    arch: str
    units: int
    memory: int
    pods: int = 110
    gpus: int = 0


_GENERAL: Final = (
    (28, Kind("std.large", "standard", "amd64", 2, 2)),
    (28, Kind("std.xlarge", "standard", "amd64", 4, 4)),
    (14, Kind("std.2xlarge", "standard", "amd64", 8, 8, 250)),
    (20, Kind("arm.xlarge", "arm", "arm64", 4, 4)),
    (10, Kind("mem.xlarge", "highmem", "amd64", 4, 8)),
)
_GPU: Final = Kind("gpu.2xlarge", "gpu", "amd64", 8, 8, 250, GPUS_PER_NODE)
SMALLEST_UNITS: Final = 2  #: CPU units of the smallest instance type.


@dataclass
class Fleet:
    """All nodes.

    Attributes:
        kinds: Instance type of each node.
        zone: Zone of each node, int64[N].
        n_zones: Number of zones.
        taint: Taint of each node, or None.
        policy: Topology Manager policy of nodes with a NodeResourceTopology, or None.
        allocatable: int64[N, 5] in the units of :data:`RESOURCES`.
    """

    kinds: list[Kind]
    zone: Ints
    n_zones: int
    taint: list[Object | None]
    policy: list[str | None]
    allocatable: Ints

    def __len__(self) -> int:
        return len(self.kinds)

    def name(self, n: int) -> str:
        return f"{self.kinds[n].pool}-{n:05d}"

    def labels(self, n: int) -> dict[str, str]:
        """Return the labels of a node: those of every kubelet, those of a cloud, and its pool."""
        kind = self.kinds[n]
        return {
            HOST: self.name(n), ZONE: zone_name(int(self.zone[n])), TYPE: kind.type, ARCH: kind.arch, OS: "linux",
            f"beta.{ARCH}": kind.arch, f"beta.{OS}": "linux", POOL: kind.pool,
        }  # fmt: skip

    def where(self, key: str, values: Sequence[str]) -> Bools:
        """Return bool[N], True for nodes whose label has one of the values."""
        wanted = set(values)
        return np.array([self.labels(n)[key] in wanted for n in range(len(self))], dtype=bool)

    def objects(self) -> Iterator[Object]:
        """Yield the Node objects."""
        for n, kind in enumerate(self.kinds):
            cpu, memory, storage, gpus, pods = self.allocatable[n].tolist()
            amounts = {"cpu": f"{cpu}m", "memory": f"{memory}Mi", "ephemeral-storage": f"{storage}Gi", "pods": str(pods)}
            if kind.gpus:
                amounts[GPU] = str(gpus)
            taint = self.taint[n]
            yield {
                "apiVersion": "v1", "kind": "Node", "metadata": {"name": self.name(n), "labels": self.labels(n)},
                "spec": {"taints": [taint]} if taint else {},
                "status": {"capacity": amounts, "allocatable": amounts, "conditions": [{"type": "Ready", "status": "True"}]},
            }  # fmt: skip

    def topologies(self) -> Iterator[Object]:
        """Yield the NodeResourceTopology objects: two sockets with one or two NUMA zones each; every third in nri-plugins' dialect."""
        for n, policy in enumerate(self.policy):
            if policy is not None:
                yield {
                    "apiVersion": "topology.node.k8s.io/v1alpha2", "kind": "NodeResourceTopology", "metadata": {"name": self.name(n)},
                    "attributes": [
                        {"name": "topologyManagerPolicy", "value": policy},
                        {"name": "topologyManagerScope", "value": "pod" if n % 2 else "container"},
                    ],
                    "zones": _zones(self.allocatable[n], 4 if self.kinds[n].units >= 8 else 2, pools=n % 3 == 2),
                }  # fmt: skip


def zone_name(zone: int) -> str:
    return f"zone-{chr(97 + zone)}" if zone < 26 else f"zone-{zone}"


def draw(rng: random.Random, size: int, zones: int, tainted: int, numa: int) -> Fleet:
    """Draw nodes of all pools, round-robin over the zones. CPU and memory stay in units until :func:`scale`.

    Dedicated nodes come first: those with GPUs, up to ``tainted`` percent, then the other dedicated pools.
    """
    gpus = max(1, size * GPU_PERCENT // 100) if size >= GPU_MIN_NODES else 0
    dedicated = min(size * tainted // 100, size - 1)
    kinds: list[Kind] = []
    taint: list[Object | None] = []
    for n in range(size):
        if n < gpus:
            kinds.append(_GPU)
            taint.append({"key": GPU, "value": "present", "effect": "NoSchedule"} if n < dedicated else None)
        elif n < dedicated:
            pool = DEDICATED[n * len(DEDICATED) // max(1, dedicated)] if dedicated > gpus + 1 else DEDICATED[0]
            kinds.append(Kind(f"{pool[:2]}.xlarge", pool, "amd64", 4, 6))
            taint.append({"key": "dedicated", "value": pool, "effect": "NoSchedule"})
        else:
            kinds.append(pick(rng, _GENERAL))
            taint.append(None)
    policies = ((30, "none"), (20, "best-effort"), (25, "restricted"), (25, "single-numa-node"))
    policy = [pick(rng, policies) if numa and chance(rng, numa) else None for _ in range(size)]
    used = min(zones, size)
    units = [(k.units, k.memory, k.units, k.gpus, k.pods) for k in kinds]
    return Fleet(kinds, np.arange(size, dtype=np.int64) % used, used, taint, policy, np.array(units, dtype=np.int64))


def scale(fleet: Fleet, demand: Ints, fill: int, largest: Ints) -> None:
    """Set node sizes so that ``demand`` is ``fill`` percent of CPU and 85 % of that percentage of memory.

    The smallest node still holds the largest pod three times. Disks and pod slots are never as scarce as CPU.

    Args:
        fleet: The nodes, changed in place.
        demand: Total demand of all pods, int64[5].
        fill: CPU utilisation in percent.
        largest: Largest request per resource, int64[5].
    """
    units = fleet.allocatable.copy()
    for r, share, base in ((CPU, fill, 1), (MEMORY, fill * 85 // 100, 1), (STORAGE, fill // 2, 20)):
        total = int(units[:, r].sum())
        # In thousandths of a unit, so that the sum over many nodes is accurate.
        size = max(int(demand[r]) * 100_000 // (max(1, share) * total), 1000 * base, int(largest[r]) * 3000 // SMALLEST_UNITS)
        fleet.allocatable[:, r] = (units[:, r] * size + 999) // 1000
    needed = (2 * int(demand[PODS]) * units[:, CPU] * 100) // (fill * int(units[:, CPU].sum())) + 1
    fleet.allocatable[:, PODS] = np.maximum(units[:, PODS], needed)


# --- NUMA ---------------------------------------------------------------------------------------------------------------


def _zones(allocatable: Ints, count: int, *, pools: bool) -> list[Object]:
    """Return equal NUMA zones with whole CPUs, because exclusive CPUs are whole."""
    cpu, memory, _, gpus, _ = allocatable.tolist()
    zones: list[Object] = []
    if pools:
        zones += [{"name": f"socket #{s}", "type": "socket", "parent": "root"} for s in range(2)]
    for z in range(count):
        socket = z * 2 // count
        amounts = [("cpu", str(cpu // 1000 // count)), ("memory", f"{memory // count}Mi")]
        if gpus:
            amounts.append((GPU, str(gpus // count)))
        zone: Object = {
            "name": f"NUMA node #{z}" if pools else f"node-{z}",
            "type": "numa node" if pools else "Node",
            "resources": [{"name": name, "capacity": a, "allocatable": a, "available": a} for name, a in amounts],
        }
        if pools:
            zone["parent"] = f"socket #{socket}"
        else:
            zone["costs"] = [{"name": f"node-{y}", "value": 10 if y == z else 12 if y * 2 // count == socket else 21} for y in range(count)]
        zones.append(zone)
    return zones
