"""How evenly the default `solve` fills zones and nodes, where topology domains tie.

    python tests/benchmarks/bench_evenness.py [NAME…] [--time-limit 60]

Each cluster has nodes in three or six zones and many small workloads of one to three replicas. Every zone is as good as another for the
first pod of a workload, so that only the tie-break decides. The figures are the CPU utilisation of the emptiest and of the fullest zone
and node after the placement, and the gap of the tie-break to its bound. The goal is that fullest and emptiest zone differ by at most
one tenth of the mean utilisation, or by the largest pod.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from rich.console import Console
from rich.table import Table

import kubestow
from kubestow.models.documents.placement import Placement
from kubestow.models.kube.pod_requests import pod_request
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.report.terminal.usage import per_node, per_zone
from tests.objects import Object, node, pod

ZONE: Final = "topology.kubernetes.io/zone"
HOST: Final = "kubernetes.io/hostname"
#: Millicores and MiB of a pod.
_SIZES: Final = ((100, 128), (250, 256), (500, 512), (500, 1024))
#: Largest difference between zones that meets the goal, as a fraction of the mean utilisation.
GOAL_FRACTION: Final = 0.1


@dataclass(frozen=True)
class Row:
    """A placement of one cluster.

    Attributes:
        name: The cluster.
        pods: Pods to place.
        placed: Pods placed.
        zones: CPU utilisation of the emptiest and of the fullest zone, in per cent.
        nodes: The same of the nodes.
        gap: Gap between value and bound of the tie-break, in per cent.
        status: The status of the document.
        seconds: Wall-clock seconds of reading, search and check.
        met: True if the zones are as even as the goal requires.
    """

    name: str
    pods: int
    placed: int
    zones: tuple[float, float]
    nodes: tuple[float, float]
    gap: float
    status: str
    seconds: float
    met: bool

    def cells(self) -> list[str]:
        zones, nodes = (f"{low:.0f} to {high:.0f} %" for low, high in (self.zones, self.nodes))
        met = "met" if self.met else "missed"
        return [self.name, f"{self.pods:,}", f"{self.placed:,}", zones, nodes, f"{self.gap:.1f} %", self.status, f"{self.seconds:.1f}", met]


@dataclass(frozen=True)
class Cluster:
    """A snapshot, and the manifests that `-w` adds."""

    snapshot: list[Object]
    manifests: list[Object]


def nodes(count: int, zones: int, *, cpu: str = "8", memory: str = "16Gi") -> list[Object]:
    """Return equal nodes, dealt out to the zones in turn."""
    return [node(f"n{i}", cpu=cpu, memory=memory, labels={ZONE: f"z{i % zones}"}) for i in range(count)]


def workload(kind: str, name: str, replicas: int, spec: Object) -> Object:
    """Return a Deployment or ReplicaSet that selects its pods by the label ``app``."""
    template = {"metadata": {"labels": {"app": name}}, "spec": spec}
    body = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name, "namespace": "default", "uid": name}, "spec": body}


def spec_of(rng: random.Random, name: str, rule: str) -> Object:
    """Return a pod's spec with one rule about the pods of its workload: ``none``, ``soft``, ``hard``, ``apart`` or ``together``."""
    cpu, memory = rng.choice(_SIZES)
    spec: Object = {"containers": [{"name": "c", "image": "x", "resources": {"requests": {"cpu": f"{cpu}m", "memory": f"{memory}Mi"}}}]}
    own: Object = {"labelSelector": {"matchLabels": {"app": name}}}
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    if rule in ("soft", "hard"):
        when = "DoNotSchedule" if rule == "hard" else "ScheduleAnyway"
        spec["topologySpreadConstraints"] = [own | {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": when}]
    if rule == "apart":
        spec["affinity"] = {"podAntiAffinity": {required: [own | {"topologyKey": ZONE}]}}
    if rule == "together":
        spec["affinity"] = {"podAffinity": {required: [own | {"topologyKey": ZONE}]}}
    return spec


def workloads(seed: str, count: int, rules: tuple[str, ...], kind: str = "Deployment") -> list[Object]:
    """Return workloads of one to three replicas; those of one rule take turns with those of the next."""
    rng = random.Random(seed)
    return [workload(kind, f"d{i}", rng.randint(1, 3), spec_of(rng, f"d{i}", rules[i % len(rules)])) for i in range(count)]


def pending(owners: list[Object]) -> list[Object]:
    """Return ReplicaSets with pods that wait in the snapshot."""
    result = list(owners)
    for owner in owners:
        name, body = owner["metadata"]["name"], owner["spec"]
        for i in range(body["replicas"]):
            made = pod(f"{name}-{i}", labels={"app": name}, owner=f"ReplicaSet/{name}")
            made["metadata"]["ownerReferences"][0]["uid"] = name
            result.append(made | {"spec": body["template"]["spec"]})
    return result


def running(seed: str, count: int, on: int) -> list[Object]:
    """Return pods that run on some of the nodes already, more of them on the first ones."""
    rng = random.Random(seed)
    return [pod(f"run{i}", cpu="250m", memory="256Mi", node_name=f"n{min(rng.randrange(on), rng.randrange(on))}") for i in range(count)]


def gangs(seed: str, count: int) -> list[Object]:
    """Return gangs of two to six pods, each of which has to be in one zone."""
    rng, found = random.Random(seed), []
    for g in range(count):
        spec = spec_of(rng, f"g{g}", "none")
        for i in range(rng.randint(2, 6)):
            made = pod(f"g{g}-{i}") | {"spec": spec}
            made["metadata"]["annotations"] = {"kubestow.dev/gang": f"g{g}", "kubestow.dev/required-topology": ZONE}
            found.append(made)
    return found


#: Rules of workloads over their own pods, in turn.
_RULES: Final = ("none", "soft", "hard", "apart", "together")

CLUSTERS: Final[dict[str, Callable[[], Cluster]]] = {
    "one-replica": lambda: Cluster(nodes(6, 3), [workload("Deployment", f"d{i}", 1, _one()) for i in range(30)]),
    "one-replica-pending": lambda: Cluster([*nodes(6, 3), *pending([workload("ReplicaSet", f"d{i}", 1, _one()) for i in range(30)])], []),
    "manifests": lambda: Cluster(nodes(60, 3), workloads("manifests", 300, ("none",))),
    "pending": lambda: Cluster([*nodes(60, 3), *pending(workloads("pending", 300, ("none",), "ReplicaSet"))], []),
    "running": lambda: Cluster(
        [*nodes(60, 3), *running("running", 200, 60), *pending(workloads("running", 200, ("none",), "ReplicaSet"))], []
    ),
    "rules": lambda: Cluster(nodes(60, 3), workloads("rules", 300, _RULES)),
    "gangs": lambda: Cluster([*nodes(24, 3), *gangs("gangs", 60)], []),
    "large": lambda: Cluster(nodes(1000, 6), workloads("large", 3000, _RULES)),
}


def _one() -> Object:
    return {"containers": [{"name": "c", "image": "x", "resources": {"requests": {"cpu": "500m", "memory": "256Mi"}}}]}


def measured(name: str, cluster: Cluster, limit: float) -> Row:
    """Solve a cluster with default options, but for the time limit, and return the result."""
    with tempfile.TemporaryDirectory() as scratch:
        paths = [Path(scratch) / "snapshot.json", Path(scratch) / "manifests.json"]
        for path, objects in zip(paths, (cluster.snapshot, cluster.manifests), strict=True):
            path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
        began = time.monotonic()
        given = kubestow.load(paths[0], manifests=paths[1:] if cluster.manifests else [])
        placement = kubestow.solve(given, kubestow.Options(time_limit=limit))
        return row(name, given.snapshot, placement, time.monotonic() - began)


def row(name: str, snapshot: Snapshot, placement: Placement, seconds: float) -> Row:
    """Return the figures of a placement."""
    used = per_node(snapshot, placement)
    by_node = [100 * each.used["cpu"] / each.allocatable["cpu"] for each in used]
    zones = per_zone(used)
    by_zone = [100 * each.used["cpu"] / each.allocatable["cpu"] for each in zones]
    gap = next((100 * tier.gap for tier in placement.objective if tier.tier == "strategy"), 0.0)
    largest = max((pod_request(p, snapshot.gates).get("cpu", 0) for p in snapshot.pods), default=0)
    allowed = max(GOAL_FRACTION * sum(by_zone) / len(by_zone), 100 * largest / min(each.allocatable["cpu"] for each in zones))
    met = max(by_zone) - min(by_zone) <= allowed
    zone_range, node_range = (min(by_zone), max(by_zone)), (min(by_node), max(by_node))
    return Row(name, placement.snapshot.pending, len(placement.assignments), zone_range, node_range, gap, placement.status, seconds, met)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=list(CLUSTERS), metavar="NAME")
    parser.add_argument("--time-limit", type=float, default=60.0)
    options = parser.parse_args()
    table = Table("cluster", "pods", "placed", "zones, CPU", "nodes, CPU", "gap", "status", "seconds", "goal", title="evenness")
    for name in options.names:
        cells = measured(name, CLUSTERS[name](), options.time_limit).cells()
        table.add_row(*cells)
        print(*cells, file=sys.stderr, flush=True)
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
