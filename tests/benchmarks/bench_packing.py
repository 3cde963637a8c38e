"""Placed pods on the planted packing instances, next to kube-scheduler's recorded result.

    python tests/benchmarks/bench_packing.py [--time-limit 30] [--seeds 10,11] [PATTERN…]

The instances are cut from the nodes' capacity, so a complete placement exists. kube-scheduler's column is what its own scheduling code
placed, pod after pod in priority order (baseline-packing.json). Seconds are of the whole process from file to verified placement.
``--seeds``: beside the recorded instances ``pack-32x8-100`` and ``rules-32x8-100`` of tests/instances/planted/planted_nodes.py.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from rich.console import Console
from rich.table import Table

from kubestow.models.documents.placement import Placement
from kubestow.models.documents.policy import Policy
from kubestow.models.snapshot.snapshot import Snapshot, from_objects, load
from kubestow.solver.runtime.options import Options
from kubestow.solver.solve import place
from tests.instances.planted.planted_nodes import planted_nodes

DATA = Path(__file__).parent / "data"
#: Nothing but the placed tiers: required affinity does not pull, nothing breaks ties.
PLACED_ONLY = Policy(strategy="none", hardPodAffinityWeight=0)


def instances(patterns: list[str]) -> list[str]:
    """Names of the packing instances that match one of the patterns, small ones first."""
    names = [p.name.removesuffix(".json.gz") for p in DATA.glob("*.json.gz")]
    packing = [n for n in names if n.startswith(("pack-", "rules-"))]
    chosen = [n for n in packing if any(fnmatch.fnmatch(n, p) for p in patterns)]
    return sorted(chosen, key=lambda n: (int(n.split("-")[1].split("x")[0]), n))


def baseline() -> dict[str, int]:
    """Pods that kube-scheduler placed, by instance."""
    rows = json.loads((DATA / "baseline-packing.json").read_text())
    return {f"{row['family']}-s{row['seed']}": row["placed"] for row in rows}


def fresh(seeds: Sequence[int], patterns: list[str]) -> list[str]:
    """Names of generated instances with these seeds that match one of the patterns."""
    names = [f"{family}-32x8-100-seed{seed}" for family in ("pack", "rules") for seed in seeds]
    return [n for n in names if any(fnmatch.fnmatch(n, p) for p in patterns)]


def snapshot(name: str) -> Snapshot:
    """Read or generate an instance."""
    family, _, seed = name.partition("-32x8-100-seed")
    if seed:
        return from_objects(planted_nodes(int(seed), nodes=32, pods=8, rules=family == "rules"))
    return load([str(DATA / f"{name}.json.gz")])


def solve(name: str, time_limit: float) -> tuple[Placement, float]:
    """Read and solve one instance for its placed tiers: the verified placement, and the seconds it took."""
    started = time.monotonic()
    result = place(snapshot(name), Options(time_limit=time_limit, policy=PLACED_ONLY))
    return result, time.monotonic() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("patterns", nargs="*", default=["*"], metavar="PATTERN")
    parser.add_argument("--time-limit", type=float, default=30.0)
    parser.add_argument("--seeds", default="", help="of generated instances, beside the recorded ones")
    options = parser.parse_args()
    table = Table("instance", *(("pods", "kube-scheduler", "kubestow", "bound", "status", "seconds")), title="pods placed")
    for column in table.columns[1:]:
        column.justify = "right"
    recorded = baseline()
    seeds = [int(part) for part in options.seeds.split(",") if part]
    for name in [*instances(options.patterns), *fresh(seeds, options.patterns)]:
        result, seconds = solve(name, options.time_limit)
        pods, placed = result.snapshot.pending, len(result.assignments)
        theirs = recorded.get(name)
        table.add_row(
            name, str(pods), "-" if theirs is None else f"{theirs} ({theirs / pods:.1%})", f"{placed} ({placed / pods:.1%})",
            str(sum(t.bound for t in result.objective)), result.status, f"{seconds:.1f}",
        )  # fmt: skip
        print(name, result.status, placed, pods, f"{seconds:.1f}", file=sys.stderr, flush=True)
    Console(width=110).print(table)


if __name__ == "__main__":
    main()
