"""The report page by size of the cluster: how long it takes to make, how large it is, how soon it can be used.

    python tests/benchmarks/bench_report.py [--sizes 6x240,200x4000,…] [--seed 1] [--runs 3]

Clusters of ``kubestow generate`` of which everything runs, NODESxPODS each. ``page`` is making the page of a snapshot that was loaded,
``times load`` how often the snapshot could have been loaded meanwhile; both the fastest of the runs. ``interactive`` are milliseconds from
the start of the navigation until all controls work and the first picture is drawn, in Chromium, the fastest of the runs; without one the
column is empty. Above 20,000 pods the page holds groups of pods instead of pods. The last row has the exponents e of figure ~ pods^e over
all sizes.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from kubestow.models.snapshot.snapshot import load
from kubestow.report.page.data import build
from kubestow.report.page.render import render
from tests.benchmarks.bench_scale import exponent, generate
from tests.report.page.browser import executable
from tests.report.pages import Chromium, browsing, interactive, visit

SIZES = ((6, 240), (50, 1_000), (200, 4_000), (600, 18_000), (1_000, 30_000), (5_000, 150_000))

_T = TypeVar("_T")


@dataclass(frozen=True)
class Row:
    """Seconds to load the snapshot and to make its page, the page's bytes, milliseconds until it can be used."""

    nodes: int
    pods: int
    load: float
    page: float
    size: int
    interactive: float | None


def fastest(work: Callable[[], _T], runs: int) -> tuple[float, _T]:
    """Seconds of the fastest run, and what the last gave."""
    best = float("inf")
    for _ in range(runs):
        started = time.perf_counter()
        result = work()
        best = min(best, time.perf_counter() - started)
    return best, result


def measure(nodes: int, pods: int, seed: int, runs: int, chromium: Chromium | None) -> Row:
    with tempfile.TemporaryDirectory() as folder:
        path = generate(Path(folder) / "cluster.json", nodes, pods, seed, ("--bound", "100"))
        loading, snapshot = fastest(lambda: load([str(path)]), runs)
        making, page = fastest(lambda: render(build(snapshot, None, version="bench")), runs)
        file = Path(folder) / "report.html"
        file.write_bytes(page)
        ready = min(opened(chromium, file) for _ in range(runs)) if chromium is not None else None
        return Row(nodes, pods, loading, making, len(page), ready)


def opened(chromium: Chromium, file: Path) -> float:
    """Milliseconds until the page in this file can be used."""

    def look(browser: Any) -> float:
        with visit(browser, file) as page:
            return interactive(page)

    return float(chromium(look))


def table(rows: Sequence[Row]) -> Iterator[str]:
    """The lines of a Markdown table."""
    yield "| nodes | pods | load s | page s | times load | MB | bytes a pod | interactive ms |"
    yield "|--:|--:|--:|--:|--:|--:|--:|--:|"
    for row in rows:
        ready = "" if row.interactive is None else f"{row.interactive:.0f}"
        cells = (
            f"{row.nodes:,}",
            f"{row.pods:,}",
            f"{row.load:.2f}",
            f"{row.page:.2f}",
            f"{row.page / row.load:.1f}",
            f"{row.size / 1e6:.2f}",
        )
        yield f"| {' | '.join(cells)} | {row.size / row.pods:.0f} | {ready} |"
    pods = [row.pods for row in rows]
    exponents = [exponent(pods, values) for values in ([r.load for r in rows], [r.page for r in rows], [r.size for r in rows])]
    ready_at = [row.interactive for row in rows if row.interactive is not None]
    exponents.append(exponent(pods, ready_at) if len(ready_at) == len(rows) else None)
    of_load, of_page, of_size, of_ready = ("-" if e is None else f"{e:.2f}" for e in exponents)
    yield f"| exponent |  | {of_load} | {of_page} |  | {of_size} |  | {of_ready} |"


def _sizes(text: str) -> list[tuple[int, int]]:
    try:
        sizes = [(int(nodes), int(pods)) for nodes, _, pods in (part.partition("x") for part in text.split(","))]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form NODESxPODS,…") from None
    if any(nodes < 1 or pods < 1 for nodes, pods in sizes):
        raise argparse.ArgumentTypeError(f"{text!r}: a cluster has nodes and pods")
    return sizes


def run(sizes: Iterable[tuple[int, int]], seed: int, runs: int) -> list[Row]:
    path = executable()
    if path is None:
        print("no Chromium on PATH nor in KUBESTOW_CHROMIUM: how soon the page can be used is left out", file=sys.stderr)
    with browsing(path) if path is not None else contextlib.nullcontext() as chromium:
        return [measure(nodes, pods, seed, runs, chromium) for nodes, pods in sizes]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=_sizes, default=list(SIZES), metavar="NODESxPODS,…")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--runs", type=int, default=3)
    arguments = parser.parse_args()
    for line in table(run(arguments.sizes, arguments.seed, arguments.runs)):
        print(line)


if __name__ == "__main__":
    main()
