"""``kubestow fit`` next to a loop that adds pods one by one, as cluster-capacity does: how many units of templates fit.

    python tests/benchmarks/bench_fit.py [--clusters 30] [--nodes 40] [--pods 500]

Each cluster is generated with rules and runs all of its pods; its templates are drawn with rules of their own, one template alone or three
in a ratio. The loop gives each pod to the node with the highest LeastAllocated score of those that all rules leave, unit after unit in the
order of the manifests, and ends with the first pod that no node takes. Its rules are the incremental ones that the tests hold to
kube-scheduler's.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np
from rich.console import Console
from rich.table import Table

from kubestow.instances.generate.generator import Parameters, generate
from kubestow.models.documents.placement import Edits
from kubestow.models.kube.objects import pod_key
from kubestow.models.snapshot import snapshot as snapshots
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.solver import rules
from kubestow.solver.capacity.fit.fit import fit
from kubestow.solver.capacity.fit.question import FitQuestion, read
from kubestow.solver.runtime.options import Options
from tests.objects import pod
from tests.solver.capacity.fit.random_fits import deployment

Object = dict[str, Any]

ZONE: Final = "topology.kubernetes.io/zone"
HOST: Final = "kubernetes.io/hostname"
_SIZES: Final = ((250, 512), (500, 1024), (1000, 2048), (2000, 4096), (3000, 3072), (1500, 9216))
_LEFT_OUT: Final = Edits(withoutPending=True)


@dataclass(frozen=True)
class Row:
    """A cluster: its templates in words, units that each found, the bound, and the seconds of the answer without cause and growth."""

    name: str
    templates: str
    loop: int
    units: int
    bound: int
    seconds: float

    @property
    def more(self) -> float:
        """Return the gain of the answer, in percent."""
        return 100 * (self.units - self.loop) / self.loop if self.loop else (100.0 if self.units else 0.0)


def cluster(seed: int, nodes: int, pods: int) -> Snapshot:
    """Return a generated cluster whose pods all run."""
    made = generate(Parameters(nodes=nodes, pods=pods, seed=seed, fill=50, bound=100, rules=60))
    return snapshots.from_objects(made.objects())


def templates(seed: int) -> tuple[str, Snapshot]:
    """Return the question, in words and as manifests."""
    rng = random.Random(f"bench-fit-{seed}")
    made, words = [], []
    for i in range(1 if seed % 3 == 0 else 3):
        cpu, memory = rng.choice(_SIZES)
        rule = rng.choice(("plain", "spread", "spread", "together", "apart", "apart-from-first") if i else ("spread", "together", "apart"))
        replicas = rng.choice((1, 1, 2, 3)) if seed % 3 else 1
        made.append(deployment(f"t{i}", _with(rule, pod(f"t{i}", cpu=f"{cpu}m", memory=f"{memory}Mi", labels={"app": f"t{i}"})), replicas))
        words.append(f"{replicas}×{cpu}m {rule}")
    return ", ".join(words), snapshots.from_objects(made, manifests=True)


def _with(rule: str, made: Object) -> Object:
    own = {"matchLabels": {"app": made["metadata"]["labels"]["app"]}}
    spec = made["spec"]
    if rule == "spread":
        spec["topologySpreadConstraints"] = [
            {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": own}
        ]
    elif rule == "together":
        spec["affinity"] = {"podAffinity": _required(ZONE, own)}
    elif rule == "apart":
        spec["affinity"] = {"podAntiAffinity": _required(HOST, own)}
    elif rule == "apart-from-first":
        spec["affinity"] = {"podAntiAffinity": _required(HOST, {"matchLabels": {"app": "t0"}})}
    return made


def _required(key: str, selector: Object) -> Object:
    return {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": key, "labelSelector": selector}]}


def one_by_one(question: FitQuestion, limit: int) -> int:
    """Return the units that the loop finds, up to ``limit``."""
    instance = question.at(limit)
    compiled, active = instance.cluster, rules.build(instance.cluster)
    class_of = {pod_key(compiled.snapshot.pods[i]): g for g, cls in enumerate(compiled.classes) for i in cls.pods}
    cpu, memory = (compiled.resources.index(name) for name in ("cpu", "memory"))
    free = compiled.free.copy()
    for unit in range(limit):
        for template, keys in zip(question.templates, instance.new, strict=True):
            for key in keys[unit * template.ratio : (unit + 1) * template.ratio]:
                g = class_of[key]
                rejected = np.logical_or.reduce([rule.rejects(g) for rule in active])
                if rejected.all():
                    return unit
                residual = free - compiled.demand[g]
                score = sum(residual[:, r] * 100 // np.maximum(compiled.allocatable[:, r], 1) for r in (cpu, memory))
                n = int(np.argmax(np.where(rejected, -(2**60), score)))
                for rule in active:
                    rule.place(g, n)
                free[n] -= compiled.demand[g]
    return limit


def measured(clusters: int, nodes: int, pods: int) -> Iterator[Row]:
    """Yield a row for each cluster."""
    for seed in range(clusters):
        snapshot = cluster(seed, nodes, pods)
        words, manifests = templates(seed)
        options = Options(time_limit=60.0, causes=False)
        started = time.monotonic()
        result = fit(snapshot, manifests, options, edits=_LEFT_OUT)
        seconds = time.monotonic() - started
        loop = one_by_one(read(snapshot, manifests, _LEFT_OUT, options), result.bound) if result.bound else 0
        assert loop <= result.units, f"cluster {seed}: the loop has {loop}, the answer {result.units}"
        yield Row(str(seed), words, loop, result.units, result.bound, seconds)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clusters", type=int, default=30)
    parser.add_argument("--nodes", type=int, default=40)
    parser.add_argument("--pods", type=int, default=500)
    given = parser.parse_args()
    table = Table("cluster", "templates", "loop", "fit", "bound", "more", "seconds")
    rows = []
    for row in measured(given.clusters, given.nodes, given.pods):
        rows.append(row)
        table.add_row(row.name, row.templates, str(row.loop), str(row.units), str(row.bound), f"{row.more:+.0f} %", f"{row.seconds:.1f}")
    console = Console(width=140)
    console.print(table)
    more = [row.more for row in rows]
    better, proved = sum(row.units > row.loop for row in rows), sum(row.units == row.bound for row in rows)
    console.print(f"more in {better} of {len(rows)}, fewer in {sum(row.units < row.loop for row in rows)}, proved {proved}")
    console.print(f"median {statistics.median(more):+.1f} %, mean {statistics.mean(more):+.1f} %, most {max(more):+.0f} %")


if __name__ == "__main__":
    main()
