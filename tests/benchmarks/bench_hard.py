"""The instances that are hardest, each by one process of ``kubestow solve``: value, bound, seconds and memory.

    python tests/benchmarks/bench_hard.py [--seeds 1,2,3] [--list] [PATTERN…]

Rows are named by pattern: ``soft-*`` and ``*-32x8-100-s*`` are recorded instances, the others are generated with each of the seeds:
``large`` (1,000 nodes, 15,000 pods, preferences, 300 s), ``scale`` and ``greedy`` (5,000 nodes, 150,000 pods, 60 s), ``pack-32x8-100`` and
``rules-32x8-100`` (cut from the nodes, 30 s). The tier in the table is the first that is not proved, else the last of what was asked for.
Wall-clock seconds and CPU seconds are those of the whole process, from file to written, verified placement; memory is the most it held.
"""

from __future__ import annotations

import argparse
import fnmatch
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import msgspec
from rich.console import Console
from rich.table import Table

from tests.benchmarks import bench_packing, bench_scale, bench_soft
from tests.instances.planted.planted_nodes import planted_nodes

#: Seconds that recorded instances get, by what their name begins with.
LIMITS = {"soft": "60", "pack": "30", "rules": "30"}
#: Generated clusters: nodes, pods, options of `generate`, options of `solve`.
CLUSTERS: dict[str, tuple[int, int, tuple[str, ...], tuple[str, ...]]] = {
    "large": (*bench_soft.LARGE[:2], ("--preferences", str(bench_soft.LARGE[2])), ("--time-limit", "300")),
    "scale": (5_000, 150_000, (), ("--time-limit", "60")),
    "greedy": (5_000, 150_000, (), ("--engine", "greedy")),
}
PLANTED = ("pack-32x8-100", "rules-32x8-100")
#: Tiers that no instance requests by name.
TIE_BREAK = ("topologySpread", "strategy")


@dataclass(frozen=True)
class Row:
    """One instance. ``seed``: None for a recorded one."""

    family: str
    seed: int | None

    @property
    def name(self) -> str:
        return self.family if self.seed is None else f"{self.family}-seed{self.seed}"

    def write(self, folder: Path) -> tuple[Path, Sequence[str]]:
        """The snapshot file, written if it is a generated one, and the options of `solve`."""
        if self.seed is None:
            return bench_packing.DATA / f"{self.family}.json.gz", ("--time-limit", LIMITS[self.family.partition("-")[0]])
        path = folder / f"{self.name}.json"
        if self.family in CLUSTERS:
            nodes, pods, made, solved = CLUSTERS[self.family]
            return bench_scale.generate(path, nodes, pods, self.seed, made), solved
        objects = planted_nodes(self.seed, nodes=32, pods=8, rules=self.family.startswith("rules"))
        path.write_bytes(msgspec.json.encode({"apiVersion": "v1", "kind": "List", "items": objects}))
        return path, ("--time-limit", LIMITS[self.family.partition("-")[0]])


def rows(patterns: Sequence[str], seeds: Sequence[int]) -> list[Row]:
    """All rows whose names match one of the patterns."""
    recorded = [*bench_soft.instances(), *bench_packing.instances(["*-32x8-100-s*"])]
    all_rows = [Row(name, None) for name in recorded] + [Row(family, seed) for family in (*PLANTED, *CLUSTERS) for seed in seeds]
    return [row for row in all_rows if any(fnmatch.fnmatch(row.name, pattern) for pattern in patterns)]


def deciding(tiers: Sequence[bench_scale.Tier]) -> bench_scale.Tier:
    """Return the first requested tier that is not proved, or the last tier."""
    requested = [tier for tier in tiers if tier.tier not in TIE_BREAK]
    return next((tier for tier in requested if tier.value < tier.bound), requested[-1])


def cells(row: Row, run: bench_scale.Run) -> list[str]:
    """Table row of a run."""
    tier, placed = deciding(run.result.objective), run.result.placed
    gap = "proved" if tier.value == tier.bound else f"{100 * (tier.bound - tier.value) / max(1, abs(tier.value)):.2f}%"
    name = tier.tier if tier.priority is None else f"{tier.tier} {tier.priority}"
    pods = f"{placed:,}/{run.result.snapshot.pending:,}"
    return [row.name, pods, name, f"{tier.value:,}", f"{tier.bound:,}", gap, f"{run.seconds:.1f}", f"{run.cpu:.1f}", f"{run.peak:,.0f}"]


def measure(chosen: Sequence[Row]) -> Iterator[list[str]]:
    """Run one after the other."""
    for row in chosen:
        with tempfile.TemporaryDirectory() as folder:
            result = cells(row, bench_scale.run(*row.write(Path(folder))))
        print(*result, file=sys.stderr, flush=True)
        yield result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("patterns", nargs="*", default=["*"], metavar="PATTERN")
    parser.add_argument("--seeds", default="1", help="of generated instances")
    parser.add_argument("--list", action="store_true", help="name the rows and run none")
    options = parser.parse_args()
    chosen = rows(options.patterns, [int(part) for part in options.seeds.split(",")])
    if options.list:
        print(*(row.name for row in chosen), sep="\n")
        return
    table = Table("instance", "placed", "tier", "value", "bound", "gap", "seconds", "CPU s", "peak MiB", title="the hardest instances")
    for column in table.columns[1:]:
        column.justify = "right"
    for cells in measure(chosen):
        table.add_row(*cells)
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
