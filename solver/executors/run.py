"""Execution of tasks on workers: hands out a few more tasks than run at once, so that memory stays bounded, and retries lost ones."""

from __future__ import annotations

import queue
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass
from typing import Any, Final, Generic, Protocol, TypeVar

from kubestow.solver.executors.workers import Workers, WorkersError

_T = TypeVar("_T")
_R = TypeVar("_R")

_POLL_SECONDS: Final = 0.2  #: Interval of checking for a stop and for lost workers.


class Stop(Protocol):
    """Stop signal: a :class:`threading.Event` or an equivalent."""

    def is_set(self) -> bool:
        """Return True if no new task may start."""


@dataclass(frozen=True)
class FinishedTask(Generic[_T, _R]):
    """A finished task.

    Attributes:
        task: The task.
        value: Its result, if it succeeded.
        error: The error that it raised, if any.
        lost: True if its worker died in every attempt.
    """

    task: _T
    value: _R | None = None
    error: BaseException | None = None
    lost: bool = False


@dataclass(eq=False)
class _HandedOut(Generic[_T]):
    """A task that was handed out.

    Attributes:
        deaths: Deaths of workers that it is charged with.
        suspect: True if it was running when a worker died.
    """

    task: _T
    deaths: int = 0
    suspect: bool = False


def run(
    workers: Workers,
    work: Callable[..., _R],
    tasks: Iterable[_T],
    *,
    arguments: Callable[[_T], tuple[Any, ...]] = lambda task: (task,),
    stop: Stop | None = None,
    on_begin: Callable[[_T], None] = lambda task: None,
) -> Iterator[FinishedTask[_T, _R]]:
    """Yield the result of each task when it is done.

    After ``stop``, no new task starts, finished ones are yielded, waiting ones are dropped, and the iteration ends.
    ``workers.close(now=True)`` ends running tasks.

    A task whose worker dies is tried again, as often as ``workers.tries`` allows. Other tasks are lost with it: in a pool
    of processes those of all workers, at a scheduler those that waited at the same worker. All of these then run one at a
    time, so that only the task that kills its worker is charged.

    Args:
        work: Called with ``arguments(task)`` by a worker; picklable.
        tasks: Read only as fast as workers take them.
        on_begin: Called when a task is handed out for the first time.

    Raises:
        WorkersError: No task can run any more. Finished tasks have been yielded.
    """
    runner = _TaskRunner(workers, work, iter(tasks), arguments, on_begin)
    try:
        while True:
            while not _is_set(stop) and runner.hand_out():
                pass
            yield from runner.saved()
            if not runner.running:
                return
            yield from runner.ended()
            if _is_set(stop):
                yield from runner.leave()
                return
    except WorkersError:
        yield from runner.leave()
        raise


def _is_set(stop: Stop | None) -> bool:
    return stop is not None and stop.is_set()


class _TaskRunner(Generic[_T, _R]):
    """Tasks at the workers, tasks lost when a worker died, and tasks to come."""

    def __init__(
        self,
        workers: Workers,
        work: Callable[..., _R],
        waiting: Iterator[_T],
        arguments: Callable[[_T], tuple[Any, ...]],
        on_begin: Callable[[_T], None],
    ) -> None:
        self._workers, self._work, self._waiting, self._arguments, self._on_begin = workers, work, waiting, arguments, on_begin
        self.running: dict[Future[_R], _HandedOut[_T]] = {}
        self._retries: deque[_HandedOut[_T]] = deque()
        self._ended: queue.SimpleQueue[Future[_R]] = queue.SimpleQueue()
        self._saved: list[FinishedTask[_T, _R]] = []  # results of workers that were replaced before the results were read
        self._alone = False  # a suspect is running
        self._checked = time.monotonic()

    def hand_out(self) -> bool:
        """Give one task to the workers. Return False if they take none or none is left."""
        alone = self._alone or bool(self._retries)
        if len(self.running) >= (1 if alone else self._workers.ahead * self._workers.width):
            return False
        if self._retries:
            handed = self._retries.popleft()
        else:
            try:
                handed = _HandedOut(next(self._waiting))
            except StopIteration:
                return False
            self._on_begin(handed.task)
        try:
            future = self._workers.submit(self._work, *self._arguments(handed.task))
        except Exception as error:
            if not self._workers.is_lost(error):
                raise
            self._retries.appendleft(handed)
            self._mend()
            return True
        self.running[future] = handed
        self._alone = handed.suspect
        future.add_done_callback(self._ended.put)
        return True

    def ended(self) -> Iterator[FinishedTask[_T, _R]]:
        """Wait for tasks for up to one poll interval, and yield their results.

        Raises:
            WorkersError: The workers failed. Results are yielded first.
        """
        finished, gone = self._finished(), None
        only = len(self.running) == 1
        lost = False
        for future in finished:
            handed = self.running.pop(future, None)
            if handed is None:
                continue
            self._alone = False
            error = _error(future)
            if error is None:
                yield FinishedTask(handed.task, future.result())
            elif isinstance(error, WorkersError):
                gone = error
            elif not self._workers.is_lost(error):
                yield FinishedTask(handed.task, error=error)
            else:
                lost = True
                handed.deaths += handed.suspect or (
                    only and self._workers.shared_fate
                )  # at a scheduler it may have waited behind another task
                handed.suspect = True
                if handed.deaths < self._workers.tries:
                    self._retries.append(handed)
                else:
                    yield FinishedTask(handed.task, error=error, lost=True)
        if gone is not None:
            raise gone
        if lost and self._workers.shared_fate:
            self._mend()
            yield from self.saved()
        if time.monotonic() - self._checked > _POLL_SECONDS:
            self._checked = time.monotonic()
            self._workers.check()

    def _finished(self) -> list[Future[_R]]:
        try:
            finished = [self._ended.get(timeout=_POLL_SECONDS)]
        except queue.Empty:
            return []
        while not self._ended.empty():
            finished.append(self._ended.get())
        return finished

    def saved(self) -> list[FinishedTask[_T, _R]]:
        """Return the results of replaced workers since the last call."""
        saved, self._saved = self._saved, []
        return saved

    def leave(self) -> Iterator[FinishedTask[_T, _R]]:
        """Cancel tasks that have not begun, and yield the remaining results."""
        yield from self.saved()
        for future in self.running:
            future.cancel()
        for future, handed in self.running.items():
            done = self._done(future, handed)
            if done is not None:
                yield done

    def _done(self, future: Future[_R], handed: _HandedOut[_T]) -> FinishedTask[_T, _R] | None:
        """Return the result of a task. None if it is not finished, was cancelled, or lost its worker."""
        if not future.done() or future.cancelled():
            return None
        error = future.exception()
        if error is None:
            return FinishedTask(handed.task, future.result())
        return None if isinstance(error, WorkersError) or self._workers.is_lost(error) else FinishedTask(handed.task, error=error)

    def _mend(self) -> None:
        """Replace the workers. Keep results of the old ones, and schedule all other tasks again, one at a time."""
        for future, handed in self.running.items():
            done = self._done(future, handed)
            if done is not None:
                self._saved.append(done)
            else:
                handed.suspect = True
                self._retries.append(handed)
        self.running.clear()
        self._alone = False
        self._workers.mend()


def _error(future: Future[Any]) -> BaseException | None:
    try:
        return future.exception()
    except CancelledError as error:
        return error
