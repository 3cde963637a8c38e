"""Many tasks on processes and on Dask's workers: how well they use the cores, how many a second are handed out, what travels.

``python tests/benchmarks/bench_batch.py`` prints the efficiency of ``--jobs 2`` and ``--dask local``: the wall clock divided by the sum of
the tasks' seconds per worker; at most 1.15 and 1.25. Of interest only where nothing else runs.
``--empty``: empty tasks a second, and what the dispatching process needs for each. ``--file``: bytes sent for a file unseen by workers.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from kubestow.solver.executors import dask_workers, files
from kubestow.solver.executors.dask_workers import open_dask
from kubestow.solver.executors.files import SharedPath, local_path
from kubestow.solver.executors.run import run
from kubestow.solver.executors.workers import Processes

#: At most this many times the sum of the tasks' seconds per worker.
GOALS: Final = {"--jobs": 1.15, "--dask local": 1.25}
BURNED: Final = 200
OPENERS: Final[dict[str, Callable[[int], Any]]] = {"--jobs": Processes, "--dask local": lambda jobs: open_dask("local", jobs)}


@dataclass(frozen=True)
class Took:
    """The cost of a task, and its worker: ``seconds`` on the clock, ``processor``: of the worker's processor time."""

    seconds: float
    processor: float


def burn(seconds: float) -> Took:
    """Compute for as many seconds of processor time."""
    began, started = time.perf_counter(), time.process_time()
    while time.process_time() - started < seconds:
        sum(range(2000))
    return Took(time.perf_counter() - began, time.process_time() - started)


def solve(snapshot: str, seconds: float, result: str) -> Took:
    """Run ``kubestow solve`` for as long, with one search."""
    from kubestow.commands.solve import solve as command

    began, started = time.perf_counter(), time.process_time()
    arguments = [snapshot, "-q", "--time-limit", f"{seconds}s", "--workers", "1", "--seed", "1", "-f", f"json={result}"]
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()), contextlib.suppress(SystemExit):
        command.main(arguments, standalone_mode=False)
    return Took(time.perf_counter() - began, time.process_time() - started)


def empty(number: int) -> None:
    """Do nothing."""


def size_of(number: int, shared: SharedPath | str) -> int:
    """Return the size of a file, as the worker has it."""
    return os.path.getsize(local_path(shared))


def hide() -> None:
    """Make a worker see no file of who hands out the tasks."""
    files._sees = lambda shared: False


def efficiency(jobs: int, tasks: int, snapshot: str | None, folder: str) -> None:
    """Print the wall clock of tasks of 1 to 5 seconds against the sum of their seconds per worker."""
    rng = random.Random(20)
    lengths = [rng.uniform(1, 5) for _ in range(tasks)]
    what = "burned" if snapshot is None else "solved"
    print(
        "| workers | tasks | sum, s | wall, s | wall / (sum / workers) | goal | processor s / wall s |\n|---|---|---:|---:|---:|---|---:|"
    )
    for name, opener in OPENERS.items():
        workers = opener(jobs)
        work = burn if snapshot is None else solve
        list(run(workers, burn, [0.01] * 2 * jobs))  # they are there

        def arguments(task: tuple[int, float]) -> tuple[Any, ...]:
            return (task[1],) if snapshot is None else (snapshot, task[1], str(Path(folder, f"{task[0]}.json")))

        began = time.perf_counter()
        took = []
        for done in run(workers, work, enumerate(lengths), arguments=arguments):
            if done.value is None:
                raise SystemExit(f"a task failed: {done.error}")
            took.append(done.value)
        wall = time.perf_counter() - began
        workers.close(now=False)
        total, used = sum(each.seconds for each in took), sum(each.processor for each in took)
        ratio = wall / (total / jobs)
        verdict = "met" if ratio <= GOALS[name] else "missed"
        row = f"| {name} {jobs} | {tasks} {what} | {total:.1f} | {wall:.1f} | {ratio:.3f} | {GOALS[name]}: {verdict} | {used / wall:.2f} |"
        print(row, flush=True)


def rates(jobs: int, tasks: int) -> None:
    """Print how many empty tasks a second are handed out, by how many workers there seem to be; with Dask also when each goes alone, as
    tasks that are not short do. What the dispatching side sustains where workers have cores of their own follows from its processor time.
    """
    print("| workers | as if of | empty tasks | seconds | tasks a second | processor ms a task, dispatching | a second | feeds, of 3 s |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|")
    for name, opener, parcel in (("--jobs", Processes, None), ("--dask local", OPENERS["--dask local"], None), ("alone", None, 0.0)):
        for wide in (jobs, 64):
            workers = _Wide((opener or OPENERS["--dask local"])(jobs), wide)
            if parcel is not None:
                dask_workers._PARCEL_SECONDS = parcel  # type: ignore[misc]
            list(run(workers, empty, range(2 * jobs)))
            began, processor = time.perf_counter(), time.process_time()
            count = sum(1 for _ in run(workers, empty, _numbers(tasks)))
            seconds, processor = time.perf_counter() - began, time.process_time() - processor
            workers.close(now=True)
            each, label = processor / count, f"{name} {jobs}" if opener is not None else f"--dask local {jobs}, each alone"
            row = f"| {label} | {wide} | {count:,} | {seconds:.1f} | {count / seconds:,.0f} | {1000 * each:.2f} | {1 / each:,.0f} "
            print(f"{row}| {'' if opener is not None and name != '--jobs' else f'{3 / each:,.0f}'} |", flush=True)


class _Wide:
    """Workers that say that they are many, so that as many tasks are in flight as if they were."""

    def __init__(self, workers: Any, width: int) -> None:
        self._workers, self.width = workers, width

    def __getattr__(self, name: str) -> Any:
        return getattr(self._workers, name)


def _numbers(count: int) -> Iterator[int]:
    yield from range(count)


def travels(jobs: int, size: int, tasks: int, folder: str) -> None:
    """Print the bytes that the dispatching process writes to connections, scheduler included, for a file that workers do not see."""
    from distributed.comm.tcp import TCP

    written, plain = 0, TCP.write

    async def write(*arguments: Any, **others: Any) -> int:
        nonlocal written
        count: int = await plain(*arguments, **others)
        written += count
        return count

    path = Path(folder, "snapshot.json")
    path.write_bytes(random.Random(1).randbytes(size))
    workers = open_dask("local", jobs)
    shared = workers.share(str(path), files.digest_of(str(path)))
    print("| file | tasks | workers | sent to workers | of it a task | all that was written, to and by the scheduler | seconds |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for seen in (True, False):
        if not seen:
            workers._client.run(hide)
        TCP.write, written, began = write, 0, time.perf_counter()
        sizes = [done.value for done in run(workers, size_of, range(tasks), arguments=lambda task: (task, shared))]
        seconds = time.perf_counter() - began
        TCP.write = plain
        if sizes != [size] * tasks:
            raise SystemExit("a task failed")
        how = "seen by workers" if seen else "not seen"
        print(f"| {size:,} bytes, {how} | {tasks} | {jobs} | {workers.sent:,} | {workers.sent // tasks:,} | {written:,} | {seconds:.1f} |")
    workers.close(now=False)


def main() -> None:
    """Read the options and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--tasks", type=int, default=None, help="200; 10,000 with --empty, 50 with --file")
    parser.add_argument("--solve", metavar="SNAPSHOT", help="solve this with the time as its limit, instead of a loop")
    parser.add_argument("--empty", action="store_true")
    parser.add_argument("--file", action="store_true", help="a file of 100 MB")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if arguments.empty:
            rates(arguments.jobs, arguments.tasks or 10_000)
        elif arguments.file:
            travels(arguments.jobs, 100_000_000, arguments.tasks or 50, folder)
        else:
            efficiency(arguments.jobs, arguments.tasks or BURNED, arguments.solve, folder)


if __name__ == "__main__":
    main()
