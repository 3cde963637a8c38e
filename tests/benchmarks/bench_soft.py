"""The soft objective next to kube-scheduler's own placement, with the bound.

    python tests/benchmarks/bench_soft.py [--time-limit 60] [INSTANCE…]

kube-scheduler's column is its recorded placement (baseline-soft.json) scored by the same function: preferred node affinity, preferred pod
affinity over all ordered pairs, -100 per untolerated soft taint and per pod above a ScheduleAnyway maxSkew. Seconds: the whole process
from file to verified placement.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
import time
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from rich.console import Console
from rich.table import Table

from models.placement import Placement
from models.policy import Policy
from models.snapshot import load
from solver.options import Options
from solver.place import place

DATA = Path(__file__).parent / "data"
#: The strategy tier comes after what is measured here.
POLICY = Policy(strategy="none")


def instances() -> list[str]:
    return sorted(p.name.removesuffix(".json.gz") for p in DATA.glob("soft-*.json.gz"))


def baseline() -> dict[str, int]:
    """kube-scheduler's total, by instance."""
    rows = json.loads((DATA / "baseline-soft.json").read_text())
    return {f"{row['family']}-s{row['seed']}": row["total"] for row in rows}


def recorded(name: str) -> dict[str, str]:
    """kube-scheduler's placement: pod to node."""
    found: dict[str, str] = json.loads(gzip.decompress((DATA / f"kube-scheduler-{name}.json.gz").read_bytes()))
    return found


def solve(name: str, time_limit: float) -> tuple[Placement, float]:
    """Read and solve one instance: the verified placement, and the seconds it took."""
    started = time.monotonic()
    result = place(load([str(DATA / f"{name}.json.gz")]), Options(time_limit=time_limit, policy=POLICY))
    return result, time.monotonic() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="INSTANCE")
    parser.add_argument("--time-limit", type=float, default=60.0)
    options = parser.parse_args()
    table = Table("instance", "pods", "kube-scheduler", "kubestow", "bound", "gap", "seconds", title="soft objective, more is better")
    for column in table.columns[1:]:
        column.justify = "right"
    theirs = baseline()
    for name in options.names or instances():
        result, seconds = solve(name, options.time_limit)
        tier = next(t for t in result.objective if t.tier == "soft")
        placed = f"{len(result.assignments)}/{result.snapshot.pending}"
        table.add_row(name, placed, f"{theirs[name]:,}", f"{tier.value:,}", f"{tier.bound:,}", f"{tier.gap:.2%}", f"{seconds:.0f}")
        print(name, tier.value, tier.bound, f"{seconds:.0f}", file=sys.stderr, flush=True)
    Console(width=110).print(table)


if __name__ == "__main__":
    main()
