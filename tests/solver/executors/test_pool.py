"""Questions in many parts: here, on processes, with processes that die, and with workers that are gone in the middle."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from kubestow import cli
from kubestow.solver.executors.pool import MAX_BATCH_PARTS, PoolQuestion, WorkerPool, decide, pool_of
from kubestow.solver.executors.workers import SchedulerGone
from tests.solver.executors import work

ROOT = Path(cli.__file__).resolve().parent


class Inline:
    """Workers in this process, which are gone after ``ends_after`` batches. ``sent``: the batches."""

    width, shared_fate, tries, ahead = 2, False, 1, 2

    def __init__(self, ends_after: int | None = None) -> None:
        self.ends_after, self.sent = ends_after, list[tuple[Any, ...]]()

    def submit(self, work: Callable[..., Any], *arguments: Any) -> Future[Any]:
        done: Future[Any] = Future()
        self.sent.append(arguments[-1])
        if self.ends_after is not None and len(self.sent) > self.ends_after:
            done.set_exception(SchedulerGone("tcp://here: the Dask scheduler is gone"))
            return done
        try:
            done.set_result(work(*arguments))
        except Exception as error:  # noqa: BLE001 (as executors do)
            done.set_exception(error)
        return done

    def is_lost(self, error: BaseException) -> bool:
        return False

    def share(self, path: str, digest: str) -> str:
        return path

    def check(self) -> None:
        pass

    def mend(self) -> None:
        raise AssertionError("nothing is lost here")

    def close(self, *, now: bool) -> None:
        pass


def question(pool: WorkerPool | None) -> PoolQuestion[list[int]]:
    return PoolQuestion(pool, work.made, (3,))


def _two() -> WorkerPool:
    pool = pool_of(2)
    assert pool is not None
    return pool


def never() -> bool:
    return False


def test_without_a_pool_this_process_decides_in_order() -> None:
    result = list(question(pool_of(1)).answers(work.times, range(5), never))
    assert [(number, product) for number, (product, _, _) in result] == [(i, 3 * i) for i in range(5)]
    assert {pid for _, (_, pid, _) in result} == {os.getpid()}


def test_batches_grow_with_what_is_decided_fast() -> None:
    workers = Inline()
    with WorkerPool(lambda: workers, 2) as pool:
        values = dict(question(pool).answers(work.fail_at, (i for i in range(1000) if i != 5), never))
    assert values == {i: 3 * i for i in range(1000) if i != 5}
    sizes = [len(batch) for batch in workers.sent]
    assert (sizes[0], max(sizes)) == (1, MAX_BATCH_PARTS)


def test_parts_are_read_as_they_are_handed_out() -> None:
    workers, known = Inline(), set[int]()

    def parts() -> Iterator[int]:
        yield from (i for i in range(1, 2000) if i - 1000 not in known)

    with WorkerPool(lambda: workers, 2) as pool:
        for number, _ in question(pool).answers(work.fail_at, (i for i in parts() if i != 5), never):
            known.add(number)
    assert len(known) < 1000 + 5 * MAX_BATCH_PARTS  # of those after 1,000 few are left by what was learned of the first


@pytest.mark.full
def test_after_a_stop_what_is_left_is_not_decided() -> None:
    result = list[int]()
    with WorkerPool(Inline, 2) as pool:
        result.extend(number for number, _ in question(pool).answers(work.times, range(10_000), lambda: len(result) >= 10))
        assert not pool.at_hand
    assert 10 <= len(result) < 200


@pytest.mark.full
def test_where_the_workers_are_gone_this_process_goes_on() -> None:
    workers = Inline(ends_after=3)
    with WorkerPool(lambda: workers, 2) as pool:
        result = list(question(pool).answers(work.times, range(100), never))
        assert sorted(number for number, _ in result) == list(range(100))
        assert all(product == 3 * number for number, (product, _, _) in result)
        assert pool.gone == "tcp://here: the Dask scheduler is gone"
        assert not pool.at_hand
        assert len(list(question(pool).answers(work.times, range(3), never))) == 3


def test_what_a_part_raises_is_raised() -> None:
    with WorkerPool(Inline, 2) as pool, pytest.raises(ValueError, match="part 5"):
        list(question(pool).answers(work.fail_at, range(10), never))


def test_a_worker_makes_a_subject_once() -> None:
    with WorkerPool(Inline, 2) as pool:
        kept = pool.keep((work.made, (7,)))
        for i in range(1, 4):
            _, [(product, _, number)] = decide(*kept, work.times, (i,))
            assert (product, number) == (7 * i, i)


@pytest.mark.full
def test_processes_share_the_parts_and_make_the_subject_once_each() -> None:
    with _two() as pool:
        values = dict(question(pool).answers(work.times, range(200), never))
    assert {number: product for number, (product, _, _) in values.items()} == {i: 3 * i for i in range(200)}
    by_process: dict[int, list[int]] = {}
    for _, pid, numbers in values.values():
        by_process.setdefault(pid, []).append(numbers)
    assert os.getpid() not in by_process
    assert all(sorted(numbers) == list(range(1, len(numbers) + 1)) for numbers in by_process.values())


@pytest.mark.full
@pytest.mark.parametrize("once", [True, False])
def test_the_parts_of_a_process_that_dies_go_to_others(tmp_path: Path, once: bool) -> None:
    mark = str(tmp_path / "killed") if once else ""
    with _two() as pool:
        values = {part[0]: value for part, value in question(pool).answers(work.times_but, ((i, 77, mark) for i in range(120)), never)}
        assert pool.lost == (0 if once else 1)
    assert values == {i: 3 * i for i in range(120) if once or i != 77}


_ORPHAN = """
import os, sys, time
from tests.solver.executors import work
from kubestow.solver.executors.workers import Processes
if __name__ == "__main__":
    workers = Processes(1)
    print(workers.submit(work.pid, 0).result(), flush=True)
    workers.submit(work.slow, 600.0)
    time.sleep(600)
"""


@pytest.mark.full
def test_a_process_ends_with_the_one_that_started_it(tmp_path: Path) -> None:
    (tmp_path / "starts.py").write_text(_ORPHAN, encoding="utf-8")
    started = subprocess.Popen(
        [sys.executable, str(tmp_path / "starts.py")], stdout=subprocess.PIPE, text=True, env=os.environ | {"PYTHONPATH": str(ROOT)}
    )
    assert started.stdout is not None
    worker = int(started.stdout.readline())
    started.kill()
    started.communicate(timeout=60)
    until = time.monotonic() + 60
    while time.monotonic() < until and _runs(worker):
        time.sleep(0.05)
    assert not _runs(worker)


def _runs(pid: int) -> bool:
    """Return whether a process is there and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False
