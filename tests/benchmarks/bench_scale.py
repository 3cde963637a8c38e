"""How time and memory of the whole command grow with the cluster.

    python tests/benchmarks/bench_scale.py [--sizes 1000,10000,50000,150000] [--seed 1] [SOLVE OPTION…]

Clusters of ``kubestow generate`` with 30 pods a node, all pending. Every size is one fresh process of ``kubestow solve``, from file to
written, verified placement; options that are not listed here go to it (``--time-limit 60``, ``--engine greedy``). Phases are those of the
result document; ``rest`` is the remaining time of the process: starting Python, writing. The last rows have the exponent e of
seconds ~ pods^e: fitted over all sizes, and between the two largest, where constant costs no longer hide it.
"""

from __future__ import annotations

import argparse
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parents[2]
SIZES = (1_000, 10_000, 50_000, 150_000)
PODS_PER_NODE = 30
PHASES = ("load", "compile", "solve", "verify", "rest")
#: Exit codes of a solve that wrote a result: all placed, some not placed.
WRITTEN = (0, 3)


class Tier(msgspec.Struct):
    """A tier of the result document, as far as the benchmarks read it."""

    tier: str
    value: int
    bound: int
    priority: int | None = None


class _Pending(msgspec.Struct):
    pending: int


class Result(msgspec.Struct):
    """A result document without its assignments: the parent stays small, or its memory would show in that of its children."""

    status: str
    engine: str
    snapshot: _Pending
    objective: list[Tier]
    seconds: dict[str, float] = {}
    notes: list[str] = []

    @property
    def placed(self) -> int:
        return sum(t.value for t in self.objective if t.tier == "placed")

    def tier(self, name: str) -> Tier:
        return next(t for t in self.objective if t.tier == name)


@dataclass
class Run:
    """One process of ``kubestow solve``: wall-clock seconds, the most memory it held (MiB), its result, and its CPU seconds."""

    seconds: float
    peak: float
    result: Result
    cpu: float = 0.0

    @property
    def phases(self) -> dict[str, float]:
        """Seconds by phase, and of the whole process."""
        seconds = {phase: self.result.seconds.get(phase, 0.0) for phase in PHASES[:-1]}
        return seconds | {"rest": max(0.0, self.seconds - sum(seconds.values())), "whole": self.seconds}


def command(*words: str) -> list[str]:
    """The command line that runs kubestow from these sources."""
    return [sys.executable, str(ROOT / "cli.py"), *words]


def generate(target: Path, nodes: int, pods: int, seed: int, options: Sequence[str] = ()) -> Path:
    """Write a synthetic cluster to ``target``."""
    sizes = ("--nodes", str(nodes), "--pods", str(pods), "--seed", str(seed))
    subprocess.run(command("generate", *sizes, *options, "-o", str(target)), check=True, stderr=subprocess.DEVNULL)
    return target


def run(snapshot: Path, options: Sequence[str] = ()) -> Run:
    """Solve a snapshot file in a fresh process.

    Raises:
        RuntimeError: the process wrote no result.
    """
    with tempfile.TemporaryDirectory() as folder:
        target, complaints = Path(folder) / "placement.json", Path(folder) / "stderr"
        started = time.monotonic()
        with complaints.open("wb") as stderr:
            process = subprocess.Popen(command("solve", str(snapshot), "-q", "-f", "json", "-o", str(target), *options), stderr=stderr)
            _, status, usage = os.wait4(process.pid, 0)  # the usage of this child alone
        seconds = time.monotonic() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode not in WRITTEN:
            last = complaints.read_text(errors="replace").strip().splitlines()[-1:]
            raise RuntimeError(f"{snapshot.name}: exit {process.returncode}: {''.join(last)}")
        result = msgspec.json.decode(target.read_bytes(), type=Result)
        return Run(seconds, usage.ru_maxrss / 1024, result, usage.ru_utime + usage.ru_stime)


def exponent(sizes: Sequence[float], seconds: Sequence[float]) -> float | None:
    """e of seconds ~ size^e by least squares of the logarithms; None if fewer than two sizes took measurable time."""
    points = [(math.log(size), math.log(value)) for size, value in zip(sizes, seconds, strict=True) if value > 0]
    if len({x for x, _ in points}) < 2:
        return None
    mean_x, mean_y = (sum(values) / len(points) for values in zip(*points, strict=True))
    return float(sum((x - mean_x) * (y - mean_y) for x, y in points) / sum((x - mean_x) ** 2 for x, _ in points))


def table(sizes: Sequence[int], runs: Sequence[Run]) -> Table:
    """One row for each size, and those of the exponents."""
    columns = (*PHASES, "whole")
    drawn = Table("pods", "placed", *columns, "peak MiB", "status", title="seconds of kubestow solve by size of the cluster")
    for column in drawn.columns:
        column.justify = "right"
    for size, one in zip(sizes, runs, strict=True):
        phases = one.phases
        placed = f"{one.result.placed / one.result.snapshot.pending:.2%}"
        drawn.add_row(f"{size:,}", placed, *(f"{phases[c]:.2f}" for c in columns), f"{one.peak:,.0f}", one.result.status)
    drawn.add_section()
    for label, first in (("exponent", 0), ("last step", -2)):
        exponents = [exponent(sizes[first:], [one.phases[c] for one in runs[first:]]) for c in columns]
        drawn.add_row(label, "", *("-" if e is None else f"{e:.2f}" for e in exponents), "", "")
    return drawn


def measure(sizes: Sequence[int], seed: int, options: Sequence[str]) -> list[Run]:
    """One run for each number of pods."""
    runs = []
    with tempfile.TemporaryDirectory() as folder:
        for size in sizes:
            path = generate(Path(folder) / f"{size}.json", max(1, size // PODS_PER_NODE), size, seed)
            runs.append(run(path, options))
            path.unlink()
            print(f"{size} pods: {runs[-1].seconds:.1f} s, {runs[-1].peak:.0f} MiB", file=sys.stderr, flush=True)
    return runs


def _sizes(text: str) -> list[int]:
    sizes = [int(part) for part in text.split(",")]
    if min(sizes) < 1:
        raise argparse.ArgumentTypeError(f"{text!r}: a size is a positive number of pods")
    return sizes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=_sizes, default=list(SIZES), metavar="PODS,…")
    parser.add_argument("--seed", type=int, default=1)
    arguments, options = parser.parse_known_args()
    Console(width=120).print(table(arguments.sizes, measure(arguments.sizes, arguments.seed, options)))


if __name__ == "__main__":
    main()
