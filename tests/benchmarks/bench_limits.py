"""Distance of kubestow from its lower bounds: reading vs. memory and the bare decoder, runs vs. CP-SAT's own time, two cores vs.
one core.

    python tests/benchmarks/bench_limits.py passes [--pods 150000]
    python tests/benchmarks/bench_limits.py search [--workers 1,2] [PATTERN…]

``passes``: CPU seconds of what looks at each byte or each pod of a generated cluster, the barest first: a copy of its bytes in memory, a
scan for where its values end, decoding it into plain dictionaries, into typed objects, reading it with all checks (``kubestow``); then one
look at each pod, and the check of a placement. The least of three, but for the check, which is done once.

``search``: ``kubestow solve`` of instances of bench_hard.py, each a process of its own, with N workers of CP-SAT: how much of the
seconds it was inside OR-tools, and how many cores were busy there and elsewhere.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import msgspec
from rich.console import Console
from rich.table import Table

from kubestow.checker.placement import verify
from kubestow.models.documents.placement import Placement
from kubestow.models.kube import kinds
from kubestow.models.kube.objects import pod_key
from kubestow.models.snapshot.snapshot import Snapshot, load
from tests.benchmarks import bench_hard, bench_scale

RUNS = 3


# --- passes over the input -----------------------------------------------------------------------------------------------------------


class _Head(msgspec.Struct):
    kind: str


class _List(msgspec.Struct):
    items: list[msgspec.Raw]


def typed(data: bytes) -> list[Any]:
    """The objects of a list, only decoded."""
    decoders = {name: msgspec.json.Decoder(kind.type) for name, kind in kinds.KINDS.items()}
    head = msgspec.json.Decoder(_Head)
    return [decoders[head.decode(item).kind].decode(item) for item in msgspec.json.decode(data, type=_List).items]


def spent(work: Callable[[], object], runs: int = RUNS) -> float:
    """The least CPU seconds of some runs, the collector at rest as it is while kubestow reads."""
    measurements = []
    for _ in range(runs):
        gc.collect()
        gc.disable()
        started = time.process_time()
        work()
        measurements.append(time.process_time() - started)
        gc.enable()
    return min(measurements)


def placed(folder: Path, pods: int) -> tuple[Path, Path]:
    """A generated cluster of ``pods`` pods, and a placement of it."""
    path, target = folder / "cluster.json", folder / "placement.json"
    bench_scale.generate(path, max(1, pods // bench_scale.PODS_PER_NODE), pods, 1)
    subprocess.run(bench_scale.command("solve", str(path), "-q", "--engine", "greedy", "-f", "json", "-o", str(target)), check=False)
    return path, target


def passes(path: Path, placement: Path) -> Iterator[tuple[str, float, int]]:
    """The operation, its CPU seconds, and the number of bytes or pods that it reads."""
    data = path.read_bytes()
    bytes_ = len(data)
    scan = msgspec.json.Decoder(msgspec.Raw)
    yield "copy of the bytes", spent(lambda: bytearray(data)), bytes_
    yield "scan", spent(lambda: scan.decode(data)), bytes_
    yield "plain dictionaries (json)", spent(lambda: json.loads(data)), bytes_
    yield "plain dictionaries (msgspec)", spent(lambda: msgspec.json.decode(data)), bytes_
    yield "typed objects (msgspec)", spent(lambda: typed(data)), bytes_
    yield "kubestow: read and checked", spent(lambda: load([str(path)])), bytes_
    snapshot = load([str(path)])
    result = msgspec.json.decode(placement.read_bytes(), type=Placement)
    yield "one look at each pod", spent(lambda: looked_at(snapshot, result)), len(snapshot.pods)
    yield "kubestow: the check", spent(lambda: verify(snapshot, result), 1), len(snapshot.pods)


def looked_at(snapshot: Snapshot, placement: Placement) -> int:
    """Return the number of pods on the nodes of the placement: the least work that a check can do."""
    pods = {pod_key(pod): pod for pod in snapshot.pods}
    nodes = {node.metadata.name: node for node in snapshot.nodes}
    return sum(pods[entry.pod].spec.nodeName is None and entry.node in nodes for entry in placement.assignments)


def passes_table(rows: Sequence[tuple[str, float, int]]) -> Table:
    """One row each. ``beside``: ratio to the barest row of its kind."""
    drawn = Table("", "CPU s", "MB/s", "µs a pod", "beside")
    for column in drawn.columns[1:]:
        column.justify = "right"
    fastest: dict[int, float] = {}
    for name, seconds, size in rows:
        times = seconds / fastest.setdefault(size, seconds)
        bytes_ = size == rows[0][2]
        speed = f"{size / seconds / 1e6:,.0f}" if bytes_ else ""
        drawn.add_row(name, f"{seconds:.3f}", speed, "" if bytes_ else f"{1e6 * seconds / size:.2f}", f"{times:,.1f}")
    return drawn


# --- the search's own time and OR-tools' --------------------------------------------------------------------------------------------


class Inside:
    """Seconds by the clock and of CPU time in which at least one call of OR-tools was under way; ``calls``: of them, how many."""

    def __init__(self) -> None:
        self.wall = self.cpu = 0.0
        self.calls = 0
        self._open = 0
        self._began = (0.0, 0.0)
        self._lock = threading.Lock()

    @contextmanager
    def call(self) -> Iterator[None]:
        with self._lock:
            self.calls += 1
            self._open += 1
            if self._open == 1:
                self._began = time.monotonic(), time.process_time()
        try:
            yield
        finally:
            with self._lock:
                self._open -= 1
                if not self._open:
                    self.wall += time.monotonic() - self._began[0]
                    self.cpu += time.process_time() - self._began[1]

    def watch(self) -> None:
        """Count the calls of CP-SAT and of the linear solvers from now on."""
        from ortools.math_opt.python import mathopt
        from ortools.sat.python import cp_model

        def watched(solve: Callable[..., Any]) -> Callable[..., Any]:
            def call(*args: Any, **options: Any) -> Any:
                with self.call():
                    return solve(*args, **options)

            return call

        cp_model.CpSolver.solve = watched(cp_model.CpSolver.solve)  # type: ignore[method-assign]
        mathopt.solve = watched(mathopt.solve)


def child(arguments: Sequence[str]) -> None:
    """``kubestow`` with these arguments; times and memory go to standard output as JSON."""
    from kubestow import cli

    inside = Inside()
    inside.watch()
    started = time.monotonic()
    try:
        cli.main(list(arguments), standalone_mode=False)
    except SystemExit:
        pass
    finally:
        numbers = inside.wall, inside.cpu, inside.calls, time.monotonic() - started, time.process_time()
        print(json.dumps(numbers), flush=True)


def searched(row: bench_hard.Row, workers: str) -> list[str]:
    """The cells of one run."""
    with tempfile.TemporaryDirectory() as folder:
        path, options = row.write(Path(folder))
        target = Path(folder) / "placement.json"
        words = [str(path), "-q", "-f", "json", "-o", str(target), "--workers", workers, *options]
        done = subprocess.run(
            [sys.executable, __file__, "child", "solve", *words],
            stdout=subprocess.PIPE,
            check=True,
            env=os.environ | {"PYTHONPATH": str(bench_scale.ROOT)},
        )
        result = msgspec.json.decode(target.read_bytes(), type=bench_scale.Result)
    wall, cpu, calls, whole, whole_cpu = json.loads(done.stdout.splitlines()[-1])
    tier = bench_hard.deciding(result.objective)
    outside = (whole_cpu - cpu) / max(whole - wall, 1e-9)
    cores = [f"{cpu / max(wall, 1e-9):.2f}" if calls else "-", f"{outside:.2f}"]
    return [
        row.name,
        workers,
        f"{tier.value:,}",
        f"{tier.bound:,}",
        f"{whole:.1f}",
        f"{whole_cpu:.1f}",
        f"{calls:,}",
        f"{wall / whole:.0%}",
        *cores,
    ]


def search_table(rows: Sequence[Sequence[str]]) -> Table:
    columns = ("value", "bound", "seconds", "CPU s", "calls of OR-tools", "of the seconds", "cores there", "cores elsewhere")
    drawn = Table("instance", "workers", *columns)
    for column in drawn.columns[1:]:
        column.justify = "right"
    for row in rows:
        drawn.add_row(*row)
    return drawn


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("passes", "search"))
    parser.add_argument("patterns", nargs="*", default=["soft-*"], metavar="PATTERN")
    parser.add_argument("--pods", type=int, default=150_000)
    parser.add_argument("--workers", default="1,2")
    options = parser.parse_args()
    if options.what == "search":
        chosen = bench_hard.rows(options.patterns, [1])
        searches = [searched(row, workers) for row in chosen for workers in options.workers.split(",")]
        Console(width=160).print(search_table(searches))
        return
    with tempfile.TemporaryDirectory() as folder:
        Console(width=160).print(passes_table(list(passes(*placed(Path(folder), options.pods)))))


if __name__ == "__main__":
    if sys.argv[1:2] == ["child"]:
        child(sys.argv[2:])
    else:
        main()
