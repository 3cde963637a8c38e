"""Placements that are proved best within 1 s and 10 s on small clusters that are nearly or more than full, with priorities.

    python tests/benchmarks/bench_priority_matters.py [--seeds 0,1,2] [--seconds 1,10] [--usage 90,95,100,105] [--nodes 4,8,16,32]
        [--megabytes] [--workers N] [--cpu]

The set-up of Christensen, Giallorenzo and Mauro, Priority Matters: Optimising Kubernetes Clusters Usage with Constraint-Based Pod
Packing, doi:10.48550/arXiv.2511.08373: 4 to 32 equal nodes, 4 or 8 pods a node on average, in ReplicaSets of 1 to 4 replicas that ask for
100m to 1000m of CPU and 100 MB to 1000 MB of memory, drawn to the byte or to the megabyte (``--megabytes``), and have one of 1, 2 or 4
priorities; all requests together are 90 to 105 % of what the nodes have, of either resource. Everything is pending, the nodes are empty.
Their instances of 90 and 95 % are those where kube-scheduler leaves pods; these are all that a seed gives, and easier. At 100 % all pods
have enough capacity in total, but rarely a placement in bytes; in megabytes there are many, each of which fills all nodes to the last few.

A run is proved if every priority's pods are shown to be as many as can be, given those of the priorities above. Nothing else is asked
for (a policy without strategy, weights and default constraints). Seconds are the time limit. ``--cpu`` counts this process's CPU seconds in
place of those of the clock, with one worker, so that load does not matter. The last columns show what construction and repair alone
(``--engine greedy``) place, and in how many cells that is proved.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from math import ceil
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from rich.console import Console
from rich.table import Table

from kubestow.models.documents.placement import Placement, TierResult
from kubestow.models.documents.policy import Policy
from kubestow.models.snapshot.snapshot import Snapshot, from_objects
from kubestow.solver.runtime import deadline
from kubestow.solver.runtime.options import Options
from kubestow.solver.solve import place
from tests.objects import Object, node, pod

#: Nothing but the placed tiers.
PLACED_ONLY = Policy(strategy="none", hardPodAffinityWeight=0, defaultConstraints=())
NODES = (4, 8, 16, 32)
PODS_PER_NODE = (4, 8)
PRIORITIES = (1, 2, 4)
USAGES = (90, 95, 100, 105)
REPLICAS = 1, 4
CPU = 100, 1_000  # mCPU
MEMORY = 100_000_000, 1_000_000_000  # bytes
MEGABYTE = 1_000_000


@dataclass(frozen=True)
class Setting:
    """One cell of the set-up. ``usage``: requests in percent of the nodes' capacity; ``unit``: bytes in whose multiples memory comes."""

    nodes: int
    pods_per_node: int
    priorities: int
    usage: int
    unit: int = 1

    @property
    def name(self) -> str:
        return f"{self.nodes}x{self.pods_per_node}-p{self.priorities}-{self.usage}"


def settings(usages: Sequence[int], unit: int = 1) -> Iterator[Setting]:
    """The cells of the set-up, small ones first."""
    for nodes in NODES:
        for pods_per_node in PODS_PER_NODE:
            for priorities in PRIORITIES:
                for usage in usages:
                    yield Setting(nodes, pods_per_node, priorities, usage, unit)


def objects(setting: Setting, seed: int) -> list[Object]:
    """The nodes and pods of a cell. A seed gives the same pods at every usage, on nodes of another size."""
    rng = random.Random(f"priority-matters-{setting.nodes}-{setting.pods_per_node}-{setting.priorities}-{seed}")
    remaining = setting.nodes * setting.pods_per_node
    pods: list[Object] = []
    total, largest = [0, 0], [0, 0]
    while remaining:
        name, replicas = f"rs-{len(pods):03}", min(rng.randint(*REPLICAS), remaining)
        cpu, memory, priority = rng.randint(*CPU), rng.randint(*MEMORY), rng.randint(1, setting.priorities)
        memory -= memory % setting.unit
        what: dict[str, Any] = {"cpu": f"{cpu}m", "memory": str(memory), "labels": {"app": name}, "owner": f"ReplicaSet/{name}"}
        pods += [pod(f"{name}-{i}", priority=priority, **what) for i in range(replicas)]
        remaining -= replicas
        total = [total[0] + replicas * cpu, total[1] + replicas * memory]
        largest = [max(largest[0], cpu), max(largest[1], memory)]
    share = Fraction(100, setting.usage * setting.nodes)
    units = 1, setting.unit
    size = [
        max(largest_request, ceil(amount * share / unit) * unit)
        for largest_request, amount, unit in zip(largest, total, units, strict=True)
    ]
    return [*(node(f"node-{i:02}", cpu=f"{size[0]}m", memory=str(size[1])) for i in range(setting.nodes)), *pods]


def snapshot(setting: Setting, seed: int) -> Snapshot:
    """The same, read."""
    return from_objects(objects(setting, seed))


def placed_tiers(result: Placement) -> list[TierResult]:
    return [t for t in result.objective if t.tier == "placed"]


def proved(result: Placement) -> bool:
    """Return whether value and bound are equal in every placed tier."""
    return all(t.value == t.bound for t in placed_tiers(result))


@dataclass
class Share:
    """Runs of one usage: how many are proved, pods between value and bound, and CPU seconds."""

    runs: int = 0
    proved: int = 0
    gap: int = 0
    seconds: float = 0.0

    def add(self, result: Placement, seconds: float) -> None:
        self.runs += 1
        self.proved += proved(result)
        self.gap += sum(t.bound - t.value for t in placed_tiers(result))
        self.seconds += seconds

    @property
    def cells(self) -> tuple[str, str, str]:
        return f"{self.proved / max(1, self.runs):.0%} ({self.proved}/{self.runs})", str(self.gap), f"{self.seconds:.0f}"


def solve(setting: Setting, seed: int, options: Options) -> tuple[Placement, float]:
    """The placement of a cell, and the CPU seconds of this process for it."""
    read = snapshot(setting, seed)
    started = time.process_time()
    return place(read, options), time.process_time() - started


class _CpuTime:
    """In place of the module ``time``: CPU seconds."""

    monotonic = staticmethod(time.process_time)


def count_cpu_time() -> None:
    """Deadlines of this process are in its CPU seconds from now on."""
    from ortools.math_opt.python import mathopt  # noqa: F401  # a later import would count for the first cell
    from ortools.sat.python import cp_model  # noqa: F401

    from kubestow.solver import solve as solving

    for module in (deadline, solving):
        vars(module)["time"] = _CpuTime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    numbers = partial(str.split, sep=",")
    parser.add_argument("--seeds", type=numbers, default=["0", "1", "2"])
    parser.add_argument("--seconds", type=numbers, default=["1", "10"])
    parser.add_argument("--usage", type=numbers, default=[str(u) for u in USAGES])
    parser.add_argument("--nodes", type=numbers, default=[str(n) for n in NODES])
    parser.add_argument("--workers", type=int)
    parser.add_argument("--cpu", action="store_true")
    parser.add_argument("--megabytes", action="store_true")
    arguments = parser.parse_args()
    if arguments.cpu:
        count_cpu_time()
    workers = 1 if arguments.cpu else arguments.workers
    runs = {"greedy": Options(time_limit=10.0, policy=PLACED_ONLY, engine="greedy", causes=False)}
    runs |= {f"{s} s": Options(time_limit=float(s), workers=workers, policy=PLACED_ONLY) for s in arguments.seconds}
    shares: dict[tuple[int, str], Share] = {}
    cells = [
        cell
        for cell in settings([int(u) for u in arguments.usage], MEGABYTE if arguments.megabytes else 1)
        if str(cell.nodes) in arguments.nodes
    ]
    for cell in cells:
        for seed in arguments.seeds:
            for name, options in runs.items():
                result, seconds = solve(cell, int(seed), options)
                for usage in (cell.usage, 0):
                    shares.setdefault((usage, name), Share()).add(result, seconds)
                tiers = " ".join(f"{t.value}/{t.bound}" for t in placed_tiers(result))
                print(cell.name, seed, name, "proved" if proved(result) else "open", tiers, f"{seconds:.2f}", file=sys.stderr, flush=True)
    table = Table("usage", "run", "proved", "pods to the bound", "CPU seconds", title="cells proved")
    for (usage, name), share in sorted(shares.items(), key=lambda item: (item[0][0] or 1_000, list(runs).index(item[0][1]))):
        table.add_row(f"{usage} %" if usage else "all", name, *share.cells)
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
