"""Preferences and required affinity that together tie nearly all pods of a cluster into one group.

    python tests/benchmarks/bench_tied.py [--time-limit 40] [--write FOLDER] [SEED…]

The clusters are generated: applications of 4 to 14 pods in six zones, many of which have to be in one zone with their like, are spread over
zones or keep off nodes of their like, and prefer zones and other applications. Seeds up to 3 have 120 nodes, others 200. ``--write`` only
writes the snapshots, to be solved by other versions.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from rich.console import Console
from rich.table import Table

from tests.benchmarks.bench_soft import row, solve_file
from tests.objects import Object

HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
#: Share of the CPUs that pods ask for.
USAGE = 0.85


def sizes(seed: int) -> tuple[int, int]:
    """Return the maximum numbers of nodes and applications."""
    return (120, 60) if seed <= 3 else (200, 140)


def application(a: int, apps: int, cpu: int, rng: random.Random) -> Object:
    """Return the spec of its pods."""
    resources = {"requests": {"cpu": f"{cpu}m", "memory": f"{rng.choice([512, 1024, 2048])}Mi"}}
    like: Object = {"labelSelector": {"matchLabels": {"app": f"a{a}"}}}
    spec: Object = {"containers": [{"name": "c", "image": "x", "resources": resources}]}
    affinity: Object = {}
    kind = rng.choice(["self", "self", "spread", "anti", "none"])
    if kind == "self":
        affinity["podAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": [like | {"topologyKey": ZONE}]}
    if kind == "anti":
        affinity["podAntiAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": [like | {"topologyKey": HOST}]}
    if kind == "spread":
        spec["topologySpreadConstraints"] = [like | {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}]
    soft = "preferredDuringSchedulingIgnoredDuringExecution"
    if rng.random() < 0.6:
        weight, zone = rng.randint(1, 100), f"z{rng.randint(0, 2)}"
        wanted = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}
        affinity["nodeAffinity"] = {soft: [{"weight": weight, "preference": wanted}]}
    if rng.random() < 0.6:
        other, weight = rng.randrange(apps), rng.randint(1, 100)
        term = {"labelSelector": {"matchLabels": {"app": f"a{other}"}}, "topologyKey": rng.choice([ZONE, HOST])}
        affinity.setdefault("podAffinity", {})[soft] = [{"weight": weight, "podAffinityTerm": term}]
    if rng.random() < 0.4:
        weight, tier = rng.randint(1, 100), f"t{rng.randrange(5)}"
        term = {"labelSelector": {"matchLabels": {"tier": tier}}, "topologyKey": HOST}
        affinity.setdefault("podAntiAffinity", {})[soft] = [{"weight": weight, "podAffinityTerm": term}]
    return spec | {"affinity": affinity}


def snapshot(seed: int) -> list[Object]:
    """Return the nodes and pods of a cluster."""
    rng = random.Random(seed)
    nodes, apps = sizes(seed)
    objects: list[Object] = []
    for i in range(nodes):
        labels = {HOST: f"n{i}", ZONE: f"z{i % 6}", "disk": rng.choice(["ssd", "hdd"])}
        allocatable = {"cpu": "8", "memory": "32Gi", "pods": "20"}
        node = {"metadata": {"name": f"n{i}", "labels": labels}, "status": {"allocatable": allocatable}}
        objects.append({"apiVersion": "v1", "kind": "Node"} | node)
    total = 0
    for a in range(apps):
        pods, cpu = rng.randint(4, 14), rng.choice([250, 500, 1000, 1500])
        if total + pods * cpu > USAGE * nodes * 8000:
            continue
        total += pods * cpu
        spec = application(a, apps, cpu, rng)
        for p in range(pods):
            metadata = {"name": f"a{a}-{p}", "namespace": "d", "labels": {"app": f"a{a}", "tier": f"t{a % 5}"}}
            objects.append({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    return objects


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("seeds", nargs="*", type=int, default=[1, 2, 3, 4, 5], metavar="SEED")
    parser.add_argument("--time-limit", type=float, default=40.0)
    parser.add_argument("--write", type=Path, metavar="FOLDER", help="write the snapshots and solve nothing")
    options = parser.parse_args()
    table = Table("seed", "pods", "kube-scheduler", "kubestow", "bound", "gap", "seconds", title="soft objective, more is better")
    with tempfile.TemporaryDirectory() as scratch:
        for seed in options.seeds:
            path = (options.write or Path(scratch)) / f"tied-{seed}.json"
            path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": snapshot(seed)}))
            if options.write is None:
                cells = row(str(seed), *solve_file(path, options.time_limit), None)
                table.add_row(*cells)
                print(*cells, file=sys.stderr, flush=True)
    if options.write is None:
        Console(width=110).print(table)


if __name__ == "__main__":
    main()
