"""``--engine greedy`` next to kube-scheduler: pods left pending although all fit.

    python tests/benchmarks/bench_greedy.py [PATTERN…]

Construction and repair without any model. One row for each family of planted packing instances, its seeds together; kube-scheduler's
share is recorded (baseline-packing.json). Seconds are from file to verified placement, start-up of the process excepted.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from rich.console import Console
from rich.table import Table

from kubestow.models.snapshot.snapshot import load
from kubestow.solver.runtime.options import Options
from kubestow.solver.solve import place
from tests.benchmarks.bench_packing import DATA, PLACED_ONLY, baseline, instances


@dataclass
class Family:
    """Sums over the seeds of a family: pods, pods left pending by each, seconds from file to verified placement. ``theirs`` is None
    where an instance has no recorded result."""

    name: str
    pods: int = 0
    ours: int = 0
    theirs: int | None = 0
    seconds: float = 0.0

    @property
    def cells(self) -> tuple[str, ...]:
        theirs = "-" if self.theirs is None else f"{self.theirs} ({self.theirs / self.pods:.1%})"
        fewer = "-" if self.theirs is None or self.ours == 0 else f"{self.theirs / self.ours:.1f}"
        return self.name, f"{self.pods:,}", theirs, f"{self.ours} ({self.ours / self.pods:.2%})", fewer, f"{self.seconds:.2f}"


def families(names: Iterable[str]) -> list[Family]:
    """Solve the instances greedily."""
    recorded = baseline()
    by_family: dict[str, Family] = {}
    for name in names:
        started = time.monotonic()
        result = place(load([str(DATA / f"{name}.json.gz")]), Options(engine="greedy", policy=PLACED_ONLY))
        key = name.rsplit("-", 1)[0]
        family = by_family.setdefault(key, Family(key))
        family.seconds += time.monotonic() - started
        family.pods += result.snapshot.pending
        family.ours += result.snapshot.pending - len(result.assignments)
        if name not in recorded:
            family.theirs = None
        elif family.theirs is not None:
            family.theirs += result.snapshot.pending - recorded[name]
    return list(by_family.values())


def total(rows: Iterable[Family]) -> Family:
    """All families that have a recorded result, together."""
    known = [row for row in rows if row.theirs is not None]
    return Family(
        "all",
        sum(row.pods for row in known),
        sum(row.ours for row in known),
        sum(row.theirs or 0 for row in known),
        sum(row.seconds for row in known),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("patterns", nargs="*", default=["*"], metavar="PATTERN")
    arguments = parser.parse_args()
    table = Table("family", "pods", "kube-scheduler", "greedy", "times fewer", "seconds", title="pods left pending where all fit")
    for column in table.columns[1:]:
        column.justify = "right"
    by_family = families(instances(arguments.patterns))
    for row in by_family:
        table.add_row(*row.cells)
    table.add_section()
    table.add_row(*total(by_family).cells)
    Console(width=110).print(table)


if __name__ == "__main__":
    main()
