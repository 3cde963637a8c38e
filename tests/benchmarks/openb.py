"""openb, a production cluster of 1,213 nodes with 6,212 GPUs, as snapshots with devices: one device per GPU with 1,000 shares.

Source: cluster-trace-gpu-v2023 of github.com/alibaba/clusterdata; see data/README.md. The deciding facts: a task with a share gets it
from one GPU, one with several GPUs gets whole ones of one node, CPU and memory as usual.
"""

from __future__ import annotations

import csv
import gzip
import json
import random
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent / "data" / "openb"
DRIVER, CLASS, SHARE = "gpu.example.com", "gpu", "share"
WHOLE = 1000
#: More than any task asks for: what the priority of those that come first is higher by.
FIRST = 100 * WHOLE
Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Task:
    """Requests of one kind of task. ``cpu``: mCPU; ``memory``: MiB; ``share``: thousandths of each GPU."""

    cpu: int
    memory: int
    gpus: int
    share: int

    @property
    def load(self) -> int:
        """Return the thousandths of GPUs that it asks for in all."""
        return self.gpus * self.share


@dataclass(frozen=True, slots=True)
class Machine:
    """A node of the trace. ``cpu``: mCPU; ``memory``: MiB."""

    name: str
    cpu: int
    memory: int
    gpus: int


def _rows(name: str) -> list[dict[str, str]]:
    with gzip.open(DATA / f"{name}.csv.gz", "rt", encoding="utf-8") as lines:
        return list(csv.DictReader(lines))


def machines() -> list[Machine]:
    """Return the nodes."""
    return [Machine(r["sn"], int(r["cpu_milli"]), int(r["memory_mib"]), int(r["gpu"])) for r in _rows("openb_node_list_gpu_node")]


def tasks() -> list[Task]:
    """Return the tasks of the trace, as often as it has them."""
    found = []
    for row in _rows("openb_pod_list_default"):
        gpus = int(row["num_gpu"])
        found.append(Task(int(row["cpu_milli"]), int(row["memory_mib"]), gpus, int(row["gpu_milli"]) if gpus else 0))
    return found


def published() -> dict[str, Any]:
    """Return the allocation that the published policies reach on the trace: policy -> seeds and percent by arrived load."""
    found: dict[str, Any] = json.loads((DATA / "published-allocation.json").read_text(encoding="utf-8"))["openb_pod_list_default"]
    return found


def capacity(nodes: list[Machine]) -> int:
    """Return the thousandths of all GPUs."""
    return WHOLE * sum(node.gpus for node in nodes)


def draw(nodes: list[Machine], seed: int, load: int) -> list[Task]:
    """Return tasks drawn at random from the trace until they ask for ``load`` percent of the GPUs that there are."""
    rng, listed, full = random.Random(seed), tasks(), capacity(nodes)
    found, requested = list[Task](), 0
    while requested * 100 < load * full:
        found.append(rng.choice(listed))
        requested += found[-1].load
    return found


def until(nodes: list[Machine], arrivals: list[Task], load: int) -> list[Task]:
    """Return the first tasks that together ask for ``load`` percent of the GPUs that there are."""
    full, requested = capacity(nodes), 0
    for i, task in enumerate(arrivals):
        requested += task.load
        if requested * 100 >= load * full:
            return arrivals[: i + 1]
    return arrivals


def snapshot(nodes: list[Machine], arrivals: list[Task], first: Collection[Task] = ()) -> list[Object]:
    """Return the objects of a cluster in which all tasks wait, each with a claim of its own for its GPUs. The more of GPUs a task asks for,
    the higher its priority: what counts is how much of the GPUs is allocated. Tasks of ``first`` come before all others."""
    found: list[Object] = [
        {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": CLASS}, "spec": {}},
    ]
    for node in nodes:
        found += _node(node)
    for i, task in enumerate(arrivals):
        found += _pod(i, task, task.load + FIRST * (task in first))
    return found


def _node(node: Machine) -> list[Object]:
    listed = {"cpu": f"{node.cpu}m", "memory": f"{node.memory}Mi", "pods": "1000"}
    policy = {"default": str(WHOLE), "validRange": {"min": "1", "max": str(WHOLE)}}
    devices = [
        {"name": f"gpu-{k}", "allowMultipleAllocations": True, "capacity": {SHARE: {"value": str(WHOLE), "requestPolicy": policy}}}
        for k in range(node.gpus)
    ]
    pool = {"name": node.name, "generation": 1, "resourceSliceCount": 1}
    return [
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": node.name}, "status": {"allocatable": listed}},
        {
            "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": f"{node.name}-gpus"},
            "spec": {"driver": DRIVER, "pool": pool, "nodeName": node.name, "devices": devices},
        },
    ]  # fmt: skip


def _pod(i: int, task: Task, priority: int) -> list[Object]:
    name = f"task-{i:05}"
    requests = {"cpu": f"{task.cpu}m", "memory": f"{task.memory}Mi"}
    spec: Object = {"priority": priority, "containers": [{"name": "main", "resources": {"requests": requests}}]}
    pod: Object = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default", "uid": name}, "spec": spec}
    if not task.gpus:
        return [pod]
    spec["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]
    pod["status"] = {"phase": "Pending", "resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": f"{name}-gpu"}]}
    exactly = {"deviceClassName": CLASS, "allocationMode": "ExactCount", "count": task.gpus}
    owner = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": name, "controller": True}
    request = {"name": "gpu", "exactly": {**exactly, "capacity": {"requests": {SHARE: str(task.share)}}}}
    claim = {
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
        "metadata": {"name": f"{name}-gpu", "namespace": "default", "ownerReferences": [owner]},
        "spec": {"devices": {"requests": [request]}},
    }  # fmt: skip
    return [pod, claim]


def kinds(nodes: list[Machine]) -> Counter[tuple[int, int, int]]:
    """Return the number of nodes of each (cpu, memory, GPUs)."""
    return Counter((node.cpu, node.memory, node.gpus) for node in nodes)
