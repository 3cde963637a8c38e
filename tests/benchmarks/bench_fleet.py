"""A month of a fleet: generated clusters, each with a snapshot a day, audited by ``kubestow batch … --series``.

``python tests/benchmarks/bench_fleet.py`` makes 100 clusters × 30 days, runs the audit and its summary on two processes, and prints the
wall clock, the processor time, and the memory of the dispatching process and of the workers at the beginning and at the end.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

#: Seconds between two looks at memory, and the part of the run that is its beginning, and its end.
TICK: Final = 0.5
PART: Final = 0.2


@dataclass(frozen=True)
class Size:
    """Of the clusters: nodes and pods of the smallest and of the largest."""

    nodes: tuple[int, int]
    pods: tuple[int, int]


def make(folder: str, days: int, size: Size, clusters: int, cluster: int) -> None:
    """Write a snapshot of a cluster for each day, each of a seed of its own, and the same numbers of nodes and a little more pods."""
    from kubestow.instances.generate.generator import Parameters, generate
    from kubestow.models.snapshot.capture_info import Capture

    share = cluster / max(1, clusters - 1)
    nodes = round(size.nodes[0] + share * (size.nodes[1] - size.nodes[0]))
    pods = round(size.pods[0] + share * (size.pods[1] - size.pods[0]))
    first = datetime(2026, 11, 1, 2, tzinfo=UTC)
    for day in range(days):
        made = generate(Parameters(nodes=nodes, pods=pods + pods * day // 100, seed=1000 * cluster + day, bound=95))
        said = Capture(f"cluster-{cluster:03}", (first + timedelta(days=day)).strftime("%Y-%m-%dT%H:%M:%SZ")).annotations()
        document = {"apiVersion": "v1", "kind": "List", "metadata": {"annotations": said}, "items": list(made.objects())}
        Path(folder, f"cluster-{cluster:03}-{day:02}.json").write_text(json.dumps(document, separators=(",", ":")))


def resident(pid: int) -> int:
    """Return the resident memory of a process in bytes, 0 if it is gone."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]) * resource.getpagesize()
    except OSError:
        return 0


def workers_of(pid: int) -> Iterator[int]:
    """Yield the processes that do the tasks of a batch."""
    children = Path(f"/proc/{pid}/task/{pid}/children")
    for child in children.read_text(encoding="ascii").split() if children.exists() else ():
        try:
            if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes():
                yield int(child)
        except OSError:
            continue


class Watch:
    """Looks at the memory of a batch while it runs: (seconds, dispatching process, largest worker)."""

    def __init__(self, pid: int) -> None:
        self.pid, self.seen, self.over = pid, list[tuple[float, int, int]](), threading.Event()
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self) -> None:
        began = time.monotonic()
        while not self.over.wait(TICK):
            result = max((resident(worker) for worker in workers_of(self.pid)), default=0)
            self.seen.append((time.monotonic() - began, resident(self.pid), result))

    def most(self, first: float, last: float) -> tuple[int, int]:
        """Return the most between two shares of the time, in megabytes: of the dispatching process and of a worker."""
        end = self.seen[-1][0] if self.seen else 0.0
        here = [entry for entry in self.seen if first * end <= entry[0] <= last * end] or [(0.0, 0, 0)]
        return max(entry[1] for entry in here) >> 20, max(entry[2] for entry in here) >> 20


def main() -> None:
    """Read the options, make the fleet and print what its audit took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clusters", type=int, default=100)
    parser.add_argument("--days", type=int, default=30)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--nodes", type=int, nargs=2, default=(20, 200), metavar=("LEAST", "MOST"))
    parser.add_argument("--pods", type=int, nargs=2, default=(200, 2000), metavar=("LEAST", "MOST"))
    arguments = parser.parse_args()
    size = Size(tuple(arguments.nodes), tuple(arguments.pods))
    with tempfile.TemporaryDirectory() as folder:
        fleet, out = Path(folder, "fleet"), Path(folder, "out")
        fleet.mkdir()
        with ProcessPoolExecutor(arguments.jobs) as pool:
            list(pool.map(partial(make, str(fleet), arguments.days, size, arguments.clusters), range(arguments.clusters)))
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        command = [sys.executable, "cli.py", "batch", "-o", str(out), "audit", str(fleet), "--jobs", str(arguments.jobs), "--series", "-q"]
        began = time.monotonic()
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": str(ROOT)}) as process:
            watch = Watch(process.pid)
            code = process.wait()
            watch.over.set()
            watch.thread.join()
        wall, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
        used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        summary = json.loads((out / "summary.json").read_bytes())
        points = sum(len(each["points"]) for each in summary["series"])
        if code or summary["failed"] or points != arguments.clusters * arguments.days:
            raise SystemExit(f"exit code {code}, {summary['failed']} tasks failed, {points} snapshots in series")
        early, late = watch.most(0.0, PART), watch.most(1 - PART, 1.0)
    print("| clusters × days | wall, s | processor, s | of it a snapshot | dispatching, MB, first and last fifth | worker, the same |")
    print("|---|---:|---:|---:|---:|---:|")
    tasks = arguments.clusters * arguments.days
    memory = f"{early[0]}, {late[0]} | {early[1]}, {late[1]}"
    print(f"| {arguments.clusters} × {arguments.days} | {wall:.0f} | {used:.0f} | {used / tasks:.2f} | {memory} |")


if __name__ == "__main__":
    main()
