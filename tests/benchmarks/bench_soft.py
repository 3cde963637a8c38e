"""The soft objective next to kube-scheduler's own placement, with the bound.

    python tests/benchmarks/bench_soft.py [--time-limit 60] [PATTERN…]
    python tests/benchmarks/bench_soft.py --fresh 1000,1001,1002 ['soft-*' | 'contended-*' | PATTERN…]
    python tests/benchmarks/bench_soft.py --large [--time-limit 300]

kube-scheduler's column is its recorded placement (baseline-soft.json) scored by the same function: preferred node affinity, preferred pod
affinity over all ordered pairs, -100 per untolerated soft taint and per pod above a ScheduleAnyway maxSkew. ``--fresh`` solves generated
clusters with these seeds: those like the recorded ones, and those whose pods prefer nodes that not all can have. ``--large`` solves a
synthetic cluster of 1,000 nodes and 15,000 pods, 60 % of its workloads with preferences. Seconds: from file to verified placement.
"""

from __future__ import annotations

import argparse
import fnmatch
import gzip
import json
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from rich.console import Console
from rich.table import Table

from kubestow.models.documents.placement import Placement, TierResult
from kubestow.models.documents.policy import Policy
from kubestow.models.snapshot.snapshot import load
from kubestow.solver.runtime.options import OnProgress, Options
from kubestow.solver.solve import place
from tests.benchmarks.bench_scale import generate
from tests.benchmarks.contended_clusters import contended_cluster
from tests.benchmarks.soft_clusters import soft_cluster
from tests.objects import Object

DATA = Path(__file__).parent / "data"
#: The strategy tier comes after the measured tiers.
POLICY = Policy(strategy="none")
#: Generator of a family's clusters, given a seed.
FAMILIES: dict[str, Callable[[int], list[Object]]] = {
    "soft-60-70": partial(soft_cluster, nodes=60, fill=70),
    "soft-200-75": partial(soft_cluster, nodes=200, fill=75),
    "contended-60": partial(contended_cluster, nodes=60),
    "contended-200": partial(contended_cluster, nodes=200),
}
#: Nodes, pods and percentage of workloads with preferences of ``--large``.
LARGE = (1_000, 15_000, 60)


def instances(patterns: Sequence[str] = ("*",)) -> list[str]:
    """Names of the instances that match one of the patterns, small ones first."""
    names = [p.name.removesuffix(".json.gz") for p in DATA.glob("soft-*.json.gz")]
    return sorted((n for n in names if any(fnmatch.fnmatch(n, p) for p in patterns)), key=lambda n: (int(n.split("-")[1]), n))


def baseline() -> dict[str, int]:
    """kube-scheduler's total, by instance."""
    rows = json.loads((DATA / "baseline-soft.json").read_text())
    return {f"{row['family']}-s{row['seed']}": row["total"] for row in rows}


def recorded(name: str) -> dict[str, str]:
    """kube-scheduler's placement: pod to node."""
    found: dict[str, str] = json.loads(gzip.decompress((DATA / f"kube-scheduler-{name}.json.gz").read_bytes()))
    return found


def solve_file(path: Path, time_limit: float, on_progress: OnProgress | None = None) -> tuple[Placement, float]:
    """Read and solve a snapshot: the verified placement, and the seconds it took."""
    started = time.monotonic()
    result = place(load([str(path)]), Options(time_limit=time_limit, policy=POLICY), on_progress=on_progress)
    return result, time.monotonic() - started


def solve(name: str, time_limit: float, on_progress: OnProgress | None = None) -> tuple[Placement, float]:
    """Read and solve one of the instances."""
    return solve_file(DATA / f"{name}.json.gz", time_limit, on_progress)


def solve_large(nodes: int, pods: int, preferences: int, seed: int, time_limit: float) -> tuple[Placement, float]:
    """Generate and solve a cluster; ``preferences``: percentage of the workloads that have some."""
    with tempfile.TemporaryDirectory() as folder:
        path = generate(Path(folder) / "large.json", nodes, pods, seed, ("--preferences", str(preferences)))
        return solve_file(path, time_limit)


def solve_fresh(name: str, time_limit: float) -> tuple[Placement, float]:
    """Generate and solve a cluster of a family; ``name``: of :func:`fresh`."""
    family, _, seed = name.rpartition("-seed")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{name}.json"
        items = FAMILIES[family](int(seed))
        path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
        return solve_file(path, time_limit)


def fresh(seeds: Sequence[int], patterns: Sequence[str]) -> list[str]:
    """Names of generated instances that match one of the patterns."""
    names = [f"{family}-seed{seed}" for family in FAMILIES for seed in seeds]
    return [name for name in names if any(fnmatch.fnmatch(name, p) for p in patterns)]


def soft_tier(result: Placement) -> TierResult:
    return next(t for t in result.objective if t.tier == "soft")


def row(name: str, result: Placement, seconds: float, theirs: int | None) -> tuple[str, ...]:
    """Cells of the table."""
    tier, placed = soft_tier(result), f"{len(result.assignments):,}/{result.snapshot.pending:,}"
    scores = ("-" if theirs is None else f"{theirs:,}", f"{tier.value:,}", f"{tier.bound:,}", f"{tier.gap:.2%}")
    return name, placed, *scores, f"{seconds:.0f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("patterns", nargs="*", default=["*"], metavar="PATTERN")
    parser.add_argument("--time-limit", type=float, help="default: 60, with --large 300")
    parser.add_argument("--fresh", metavar="SEED,…", help="generated instances of the families in place of the recorded ones")
    parser.add_argument("--large", action="store_true", help="a synthetic cluster instead of the recorded instances")
    parser.add_argument("--seed", type=int, default=1, help="of the synthetic cluster")
    options = parser.parse_args()
    table = Table("instance", "pods", "kube-scheduler", "kubestow", "bound", "gap", "seconds", title="soft objective, more is better")
    for column in table.columns[1:]:
        column.justify = "right"
    theirs = baseline()
    names = instances(options.patterns)
    if options.large:
        names = [f"{LARGE[0]} nodes, s{options.seed}"]
    elif options.fresh:
        names = fresh([int(seed) for seed in options.fresh.split(",")], options.patterns)
    for name in names:
        if options.large:
            result, seconds = solve_large(*LARGE, options.seed, options.time_limit or 300.0)
        elif options.fresh:
            result, seconds = solve_fresh(name, options.time_limit or 60.0)
        else:
            result, seconds = solve(name, options.time_limit or 60.0)
        cells = row(name, result, seconds, theirs.get(name))
        table.add_row(*cells)
        print(*cells, file=sys.stderr, flush=True)
    Console(width=110).print(table)


if __name__ == "__main__":
    main()
