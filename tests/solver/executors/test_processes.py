"""Tasks through processes: lost ones, those that kill, stopping, and memory that does not grow with their number."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from kubestow.solver.executors.run import FinishedTask, run
from kubestow.solver.executors.workers import Processes, SchedulerGone, interrupts_held, jobs_and_share
from tests.solver.executors import work


class Inline:
    """Workers that do a task when it is handed out."""

    shared_fate = False
    ahead = 2
    tries = 1
    width = 2

    def __init__(self) -> None:
        self.handed_out = 0
        self.gone: SchedulerGone | None = None

    def share(self, path: str, digest: str) -> str:
        return path

    def submit(self, work: Callable[..., Any], *arguments: Any) -> Future[Any]:
        self.handed_out += 1
        future: Future[Any] = Future()
        try:
            future.set_result(work(*arguments))
        except Exception as error:  # noqa: BLE001 it is the task's
            future.set_exception(error)
        return future

    def is_lost(self, error: BaseException) -> bool:
        return False

    def mend(self) -> None:
        raise AssertionError("nothing is lost")

    def check(self) -> None:
        if self.gone is not None:
            raise self.gone

    def close(self, *, now: bool) -> None:
        return


class Dying(Inline):
    """Workers that do the first task and are found dead when the second is handed out."""

    shared_fate = True
    tries = 3
    mended = 0

    def submit(self, work: Callable[..., Any], *arguments: Any) -> Future[Any]:
        if self.handed_out == 1 and not self.mended:
            raise ConnectionError("dead")
        return super().submit(work, *arguments)

    def is_lost(self, error: BaseException) -> bool:
        return isinstance(error, ConnectionError)

    def mend(self) -> None:
        self.mended += 1


class Later(Inline):
    """Workers that do the first task when they get it, and others on request."""

    def __init__(self) -> None:
        super().__init__()
        self._waiting: list[tuple[Future[Any], Any]] = []

    def submit(self, work: Callable[..., Any], *arguments: Any) -> Future[Any]:
        done, future = super().submit(work, *arguments), Future[Any]()
        self._waiting.append((future, done.result()))
        if len(self._waiting) == 1:
            self.finish(0)
        return future

    def finish(self, number: int) -> None:
        future, value = self._waiting[number]
        future.set_result(value)


class Charging(Inline):
    """Workers of a scheduler that gives up all that waits at a worker when it dies of one task."""

    width = 4

    def __init__(self) -> None:
        super().__init__()
        self._there: list[tuple[Future[Any], Any]] = []
        self.most_beside = list[int]()

    def submit(self, work: Callable[..., Any], *arguments: Any) -> Future[Any]:
        self.handed_out += 1
        future: Future[Any] = Future()
        self._there.append((future, arguments[0]))
        return future

    def is_lost(self, error: BaseException) -> bool:
        return isinstance(error, ConnectionError)

    def die_of(self, killer: int) -> None:
        """End the existing processes, all if the killer does."""
        there, self._there = self._there, []
        self.most_beside.append(len(there))
        died = any(number == killer for _, number in there)
        for future, number in there:
            if died:
                future.set_exception(ConnectionError("killed"))
            else:
                future.set_result(number)


@pytest.fixture
def processes() -> Iterator[Processes]:
    workers = Processes(2)
    yield workers
    workers.close(now=True)


def test_tasks_are_read_only_as_fast_as_they_are_done() -> None:
    read = list[int]()

    def tasks() -> Iterator[int]:
        for number in range(10_000):
            read.append(number)
            yield number

    workers = Inline()
    for done, _each in enumerate(run(workers, work.square, tasks()), 1):
        assert len(read) - done <= 2 * workers.width
    assert workers.handed_out == 10_000


def test_a_task_that_fails_is_told_and_ends_nothing() -> None:
    done = work.by_task(run(Inline(), work.fail, range(20)))
    assert {task for task, each in done.items() if each.error is not None} == {0, 5, 10, 15}
    assert str(done[5].error) == "task 5"
    assert not done[5].lost


def test_what_is_done_is_told_before_that_the_workers_are_gone() -> None:
    def work_or_gone(number: int) -> int:
        if number == 2:
            raise SchedulerGone("tcp://here: the Dask scheduler is gone")
        return number

    done, found = list[int](), run(Inline(), work_or_gone, range(100))
    with pytest.raises(SchedulerGone, match="scheduler is gone"):
        done.extend(each.task for each in found)
    assert sorted(done) == [0, 1, 3]


@pytest.mark.parametrize("stopped", [False, True])
def test_what_was_done_is_told_where_the_next_task_finds_the_workers_dead(stopped: bool) -> None:
    workers, stop = Dying(), threading.Event()

    def tasks() -> Iterator[int]:
        yield from (2, 3)
        if stopped:
            stop.set()
        yield 4

    done = {one.task: one.value for one in run(workers, work.square, tasks(), stop=stop)}
    assert workers.mended == 1
    assert done[2] == 4
    assert stopped or done == {2: 4, 3: 9, 4: 16}


def test_a_task_that_failed_before_the_workers_died_is_not_done_again() -> None:
    workers, tried = Dying(), list[int]()

    def fail(number: int) -> int:
        tried.append(number)
        return work.fail(number)

    done = work.by_task(run(workers, fail, [5, 6, 7]))
    assert (workers.mended, tried) == (1, [5, 6, 7])
    assert str(done[5].error) == "task 5"


def test_what_is_done_when_all_is_stopped_is_told() -> None:
    """The third task is done while what came of the first is looked at."""
    workers, stop, done = Later(), threading.Event(), list[int]()
    for each in run(workers, work.square, range(20), stop=stop):
        done.append(each.task)
        if each.task == 0:
            workers.finish(2)
            stop.set()
    assert done == [0, 2]


@pytest.mark.parametrize("when", ["looked at", "handed out"])
def test_what_is_done_when_all_workers_are_gone_is_told(when: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The third task is done while the scheduler is asked for workers, or a task given to it."""

    class Gone(Later):
        def check(self) -> None:
            if when == "looked at":
                self.leave()

        def submit(self, work: Callable[..., Any], *arguments: Any) -> Future[Any]:
            if self.handed_out == 4 and when == "handed out":
                self.leave()
            return super().submit(work, *arguments)

        def leave(self) -> None:
            self.finish(2)
            raise SchedulerGone("gone")

    monkeypatch.setattr("kubestow.solver.executors.run._POLL_SECONDS", 0.0)
    done = list[int]()
    with pytest.raises(SchedulerGone):
        done.extend(each.task for each in run(Gone(), work.square, range(20)))
    assert done == [0, 2]


def test_after_a_stop_nothing_begins() -> None:
    stop, began = threading.Event(), list[int]()
    for each in run(Inline(), work.square, range(100), stop=stop, on_begin=began.append):
        if each.task == 10:
            stop.set()
    assert len(began) < 20


@pytest.mark.parametrize(
    ("jobs", "workers", "found"), [(None, None, (8, 1)), (None, 4, (2, 4)), (2, None, (2, 4)), (16, None, (16, 1)), (2, 3, (2, 3))]
)
def test_cores_are_shared(jobs: int | None, workers: int | None, found: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kubestow.solver.executors.workers.cores", lambda: 8)
    assert jobs_and_share(jobs, workers) == found


@pytest.mark.full
def test_a_process_that_dies_loses_nothing_and_does_nothing_twice(processes: Processes, tmp_path: Path) -> None:
    mark = str(tmp_path / "killed")
    done = work.by_task(run(processes, work.kill_once, range(40), arguments=lambda task: (task, 17, mark)))
    assert {task: each.value for task, each in done.items()} == {task: task for task in range(40)}


@pytest.mark.full
@pytest.mark.parametrize("killer", [0, 7, 19])
def test_a_task_that_kills_its_process_is_charged_alone(processes: Processes, killer: int) -> None:
    began: list[int] = []
    done = work.by_task(run(processes, work.kill_always, range(20), arguments=lambda task: (task, killer), on_begin=began.append))
    assert done.keys() == set(range(20))
    assert [task for task, each in done.items() if each.lost] == [killer]
    assert all(each.value == task for task, each in done.items() if task != killer)
    assert sorted(began) == list(range(20))


@pytest.mark.full
def test_running_tasks_are_ended_when_all_is_stopped(processes: Processes, tmp_path: Path) -> None:
    stop, started = threading.Event(), time.monotonic()
    threading.Timer(1.5, stop.set).start()
    finished = list(run(processes, work.slow, [30.0] * 10, arguments=lambda seconds: (seconds, str(tmp_path), "ran"), stop=stop))
    pool = list((processes._pool._processes or {}).values())
    processes.close(now=True)
    while any(process.is_alive() for process in pool) and time.monotonic() - started < 20:
        time.sleep(0.05)  # one that the pool's own thread has just waited for passes for alive until that is written down
    assert finished == []
    assert not any(process.is_alive() for process in pool)
    assert list(tmp_path.iterdir()) == []
    assert time.monotonic() - started < 20


@pytest.mark.full
def test_memory_does_not_grow_with_the_number_of_tasks(processes: Processes) -> None:
    import tracemalloc

    def tasks() -> Iterator[bytes]:
        for _ in range(2_000):
            yield bytes(50_000)

    result = run(processes, work.empty, tasks())
    next(result)
    tracemalloc.start()
    try:
        assert sum(1 for _ in result) == 1_999
        assert tracemalloc.get_traced_memory()[1] < 5_000_000  # the tasks are 100 MB
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_processes_start_is_heard_once_they_have_been_told_what_to_do(number: int) -> None:
    def answer(*_: object) -> None:
        raise KeyboardInterrupt

    def start() -> None:
        with interrupts_held():
            os.kill(os.getpid(), number)
            time.sleep(0.05)
            went_on.set()

    end, went_on = threading.Event(), threading.Event()
    other = threading.Thread(target=end.wait)
    before = signal.signal(number, answer)
    try:
        other.start()  # it hears what the main thread does not, and Python answers in the main thread
        with pytest.raises(KeyboardInterrupt):
            start()
        assert went_on.is_set()
        assert signal.getsignal(number) is answer
    finally:
        signal.signal(number, before)
        end.set()
        other.join()


def test_who_waited_at_a_worker_that_died_is_tried_alone_before_it_is_charged() -> None:
    workers, done = Charging(), dict[int, FinishedTask[int, int]]()
    workers.check = lambda: workers.die_of(9)  # type: ignore[method-assign]
    for each in run(workers, work.square, range(20)):
        done[each.task] = each
    assert done.keys() == set(range(20))
    assert [task for task, each in done.items() if each.lost] == [9]
    assert workers.most_beside == [8, *[8], *[1] * 8, 4]
