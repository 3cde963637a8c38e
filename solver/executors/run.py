"""Tasks through workers: a few more at a time than run at once, so that memory does not grow with their number, and lost ones again."""

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

#: Seconds after which a stop, and workers that are gone, are looked for at the latest.
_TICK: Final = 0.2


class Stop(Protocol):
    """What says that nothing new is to begin: a :class:`threading.Event`, or what answers as one does."""

    def is_set(self) -> bool:
        """Return whether it is so."""


@dataclass(frozen=True)
class Done(Generic[_T, _R]):
    """A task and what came of it: ``value``, or the ``error`` that it raised. ``lost``: its worker died each time that it was tried."""

    task: _T
    value: _R | None = None
    error: BaseException | None = None
    lost: bool = False


@dataclass(eq=False)
class _Held(Generic[_T]):
    """A task that was handed out. ``deaths``: of workers that it is charged with; ``suspect``: it was there when one died."""

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
) -> Iterator[Done[_T, _R]]:
    """Yield what comes of each task, as it is done.

    After ``stop`` nothing new begins, what is done is yielded, what waits is left out, and this ends; ``workers.close(now=True)`` ends
    tasks that are at work.

    A task whose worker dies is tried again, as often as the workers say. Others are lost with it: in a pool of processes those of all
    workers, at a scheduler those that waited at the same worker. All of them are then run one at a time, so that only the task that kills
    its worker is charged with it.

    Args:
        work: Called with ``arguments(task)`` by a worker; picklable.
        tasks: Read only as fast as workers take them.
        on_begin: Called when a task is handed out for the first time.

    Raises:
        WorkersError: no task can be done any more; what was done has been yielded.
    """
    crew = _Crew(workers, work, iter(tasks), arguments, on_begin)
    try:
        while True:
            while not _is_set(stop) and crew.hand_out():
                pass
            yield from crew.saved()
            if not crew.running:
                return
            yield from crew.ended()
            if _is_set(stop):
                yield from crew.leave()
                return
    except WorkersError:
        yield from crew.leave()
        raise


def _is_set(stop: Stop | None) -> bool:
    return stop is not None and stop.is_set()


class _Crew(Generic[_T, _R]):
    """Tasks at the workers, those that were when one died, and those to come."""

    def __init__(
        self,
        workers: Workers,
        work: Callable[..., _R],
        waiting: Iterator[_T],
        arguments: Callable[[_T], tuple[Any, ...]],
        on_begin: Callable[[_T], None],
    ) -> None:
        self._workers, self._work, self._waiting, self._arguments, self._on_begin = workers, work, waiting, arguments, on_begin
        self.running: dict[Future[_R], _Held[_T]] = {}
        self._again: deque[_Held[_T]] = deque()
        self._ended: queue.SimpleQueue[Future[_R]] = queue.SimpleQueue()
        self._saved: list[Done[_T, _R]] = []  # done by workers that were replaced before that was looked at
        self._alone = False  # a suspect is at work
        self._checked = time.monotonic()

    def hand_out(self) -> bool:
        """Give a task to the workers, if they take one and there is one."""
        alone = self._alone or bool(self._again)
        if len(self.running) >= (1 if alone else self._workers.ahead * self._workers.width):
            return False
        if self._again:
            held = self._again.popleft()
        else:
            try:
                held = _Held(next(self._waiting))
            except StopIteration:
                return False
            self._on_begin(held.task)
        try:
            future = self._workers.submit(self._work, *self._arguments(held.task))
        except Exception as error:
            if not self._workers.is_lost(error):
                raise
            self._again.appendleft(held)
            self._mend()
            return True
        self.running[future] = held
        self._alone = held.suspect
        future.add_done_callback(self._ended.put)
        return True

    def ended(self) -> Iterator[Done[_T, _R]]:
        """Wait for tasks, at most a tick, and yield what came of them.

        Raises:
            WorkersError: the workers say so; after what is done.
        """
        finished, gone = self._finished(), None
        only = len(self.running) == 1
        lost = False
        for future in finished:
            held = self.running.pop(future, None)
            if held is None:
                continue
            self._alone = False
            error = _error(future)
            if error is None:
                yield Done(held.task, future.result())
            elif isinstance(error, WorkersError):
                gone = error
            elif not self._workers.is_lost(error):
                yield Done(held.task, error=error)
            else:
                lost = True
                held.deaths += held.suspect or (only and self._workers.shared_fate)  # a scheduler's may have waited behind another one
                held.suspect = True
                if held.deaths < self._workers.tries:
                    self._again.append(held)
                else:
                    yield Done(held.task, error=error, lost=True)
        if gone is not None:
            raise gone
        if lost and self._workers.shared_fate:
            self._mend()
            yield from self.saved()
        if time.monotonic() - self._checked > _TICK:
            self._checked = time.monotonic()
            self._workers.check()

    def _finished(self) -> list[Future[_R]]:
        try:
            finished = [self._ended.get(timeout=_TICK)]
        except queue.Empty:
            return []
        while not self._ended.empty():
            finished.append(self._ended.get())
        return finished

    def saved(self) -> list[Done[_T, _R]]:
        """Return what workers had done that were replaced since this was asked last."""
        saved, self._saved = self._saved, []
        return saved

    def leave(self) -> Iterator[Done[_T, _R]]:
        """Take back what has not begun, and yield what came of tasks that were done since that was looked at."""
        yield from self.saved()
        for future in self.running:
            future.cancel()
        for future, held in self.running.items():
            done = self._done(future, held)
            if done is not None:
                yield done

    def _done(self, future: Future[_R], held: _Held[_T]) -> Done[_T, _R] | None:
        """What came of a task, None where nothing did: it is not over, was taken back, or its worker is gone."""
        if not future.done() or future.cancelled():
            return None
        error = future.exception()
        if error is None:
            return Done(held.task, future.result())
        return None if isinstance(error, WorkersError) or self._workers.is_lost(error) else Done(held.task, error=error)

    def _mend(self) -> None:
        """Replace the workers; keep what was done by the old ones, and try the rest again, one at a time."""
        for future, held in self.running.items():
            done = self._done(future, held)
            if done is not None:
                self._saved.append(done)
            else:
                held.suspect = True
                self._again.append(held)
        self.running.clear()
        self._alone = False
        self._workers.mend()


def _error(future: Future[Any]) -> BaseException | None:
    try:
        return future.exception()
    except CancelledError as error:
        return error
