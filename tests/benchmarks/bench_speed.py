"""Speed next to kube-scheduler's on the shapes of the upstream scheduler_perf workloads, 5,000 nodes each.

    python tests/benchmarks/bench_speed.py [--runs 3] [PATTERN…]

kube-scheduler's seconds are recorded (baseline-speed.json, its default sampling of nodes): the bare scheduling loop, pod after pod, without
reading or API server. kubestow's are of the whole process with default options, from file to written, verified placement; the median of
some runs. Another machine shifts all ratios by its speed.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import statistics
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from rich.console import Console
from rich.table import Table

from tests.benchmarks.bench_scale import Run, run

DATA = Path(__file__).parent / "data"
#: Required speed-up of each shape, and of the geometric mean.
EACH, MEAN = 3.0, 5.0


def shapes(patterns: Sequence[str]) -> list[str]:
    names = sorted(p.name.removesuffix(".json.gz") for p in DATA.glob("perf-*.json.gz"))
    return [n for n in names if any(fnmatch.fnmatch(n, p) for p in patterns)]


def baseline() -> dict[str, float]:
    """kube-scheduler's seconds by shape, with its default sampling."""
    rows = json.loads((DATA / "baseline-speed.json").read_text())
    return {row["family"]: row["seconds"] for row in rows if row["percentageOfNodesToScore"] == "default"}


def table(measured: Mapping[str, Sequence[Run]], theirs: Mapping[str, float]) -> Table:
    """One row for each shape: recorded seconds, median seconds here, how many times as fast; and the geometric mean."""
    drawn = Table("shape", "pods", "placed", "kube-scheduler s", "kubestow s", "times as fast", "goal", title="seconds to a placement")
    for column in drawn.columns[1:]:
        column.justify = "right"
    ratios = []
    for name, runs in measured.items():
        seconds = statistics.median(one.seconds for one in runs)
        ratios.append(theirs[name] / seconds)
        pending = runs[0].result.snapshot.pending
        placed = min(one.result.placed for one in runs) / pending
        met = "met" if ratios[-1] >= EACH else "missed"
        drawn.add_row(
            name, f"{pending:,}", f"{placed:.1%}", f"{theirs[name]:.2f}", f"{seconds:.2f}", f"{ratios[-1]:.2f}", f"{EACH:g}: {met}"
        )
    if ratios:
        mean = statistics.geometric_mean(ratios)
        drawn.add_section()
        drawn.add_row("geometric mean", "", "", "", "", f"{mean:.2f}", f"{MEAN:g}: {'met' if mean >= MEAN else 'missed'}")
    return drawn


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("patterns", nargs="*", default=["*"], metavar="PATTERN")
    parser.add_argument("--runs", type=int, default=3)
    arguments = parser.parse_args()
    measured: dict[str, list[Run]] = {}
    for name in shapes(arguments.patterns):
        measured[name] = [run(DATA / f"{name}.json.gz") for _ in range(arguments.runs)]
        print(name, *(f"{one.seconds:.2f}" for one in measured[name]), file=sys.stderr, flush=True)
    Console(width=120).print(table(measured, baseline()))


if __name__ == "__main__":
    main()
