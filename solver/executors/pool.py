"""Workers for one question in many parts: they receive its subject once, and then decide parts in small batches.

Callers use only this module of the executors."""

from __future__ import annotations

import os
import pickle
import tempfile
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from types import TracebackType
from typing import Any, Final, Generic, TypeVar

from kubestow.solver.executors.dask_workers import open_dask
from kubestow.solver.executors.files import SharedPath, digest_of, local_path
from kubestow.solver.executors.run import FinishedTask, run
from kubestow.solver.executors.workers import Processes, Workers, WorkersError, jobs_and_share

_S = TypeVar("_S")
_P = TypeVar("_P")
_R = TypeVar("_R")

#: Target time of a batch of parts. Results of a batch can make later parts unnecessary, so batches are short.
BATCH_SECONDS: Final = 0.25
MAX_BATCH_PARTS: Final = 64  #: Parts in one batch.
_MAX_SUBJECTS: Final = 2  #: Subjects that a worker keeps in memory.


class WorkerPool:
    """Workers for the parts of questions. Processes start with the first part.

    Attributes:
        gone: One-line reason why there are no workers any more; None while there are.
        lost: Number of parts without a result, because their worker died in every attempt.
    """

    def __init__(self, opened: Callable[[], Workers], jobs: int) -> None:
        self._open, self._jobs = opened, jobs
        self._workers: Workers | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._files = 0
        self._busy = False  # handed-out parts are still running
        self.gone: str | None = None
        self.lost = 0

    def __enter__(self) -> WorkerPool:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._workers is not None:
            self._workers.close(now=self._busy or error is not None)
            self._workers = None
        if self._folder is not None:
            self._folder.cleanup()

    @property
    def width(self) -> int:
        """Number of parts decided at once."""
        return self._jobs if self._workers is None else self._workers.width

    @property
    def at_hand(self) -> bool:
        """True if workers accept parts."""
        return self.gone is None and not self._busy

    def share(self, workers: int | None) -> int:
        """Return the number of parallel searches per part: ``workers``, or (None) its part of the cores."""
        return jobs_and_share(self._jobs, workers)[1]

    def keep(self, subject: tuple[Callable[..., Any], tuple[Any, ...]]) -> tuple[SharedPath | str, str]:
        """Write the subject of a question to a file. Return a reference to it and its hash."""
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="kubestow-")
        self._files += 1
        path = os.path.join(self._folder.name, str(self._files))
        with open(path, "wb") as file:
            pickle.dump(subject, file, pickle.HIGHEST_PROTOCOL)
        digest = digest_of(path)
        return self.open().share(path, digest), digest

    def open(self) -> Workers:
        """Return the workers, starting them if necessary.

        Raises:
            WorkersError: There are none.
        """
        if self._workers is None:
            self._workers = self._open()
        return self._workers

    def run(
        self, work: Callable[..., _R], tasks: Iterable[_P], arguments: Callable[[_P], tuple[Any, ...]], stop: Callable[[], bool]
    ) -> Any:
        """Yield the results of tasks like :func:`kubestow.solver.executors.run.run`. After ``stop``, running tasks are abandoned."""
        self._busy = True
        yield from run(self.open(), work, tasks, arguments=arguments, stop=_CallableStop(stop))
        self._busy = stop()


class _CallableStop:
    """Stop signal that calls a function."""

    def __init__(self, stopped: Callable[[], bool]) -> None:
        self.is_set = stopped


def pool_of(jobs: int | None, dask: str | None = None) -> WorkerPool | None:
    """Return the workers that the options request: ``jobs`` processes, or those of a Dask scheduler, which must answer
    first.

    Return None if this process is to do all the work.

    Raises:
        WorkersError: None answer, or they have other versions. The message is one line.
    """
    if dask is None:
        number = jobs or 1
        return WorkerPool(lambda: Processes(number), number) if number > 1 else None
    pool = WorkerPool(lambda: open_dask(dask, jobs), jobs or jobs_and_share(None, None)[0])
    pool.open()
    return pool


class PoolQuestion(Generic[_S]):
    """A question whose parts share a subject.

    Without a pool, or with one still busy with abandoned work, this process decides everything.

    Args:
        make: Builds the subject from ``arguments``.
        arguments: Sent to each worker once.
        here: The subject, if this process has built it already.
    """

    def __init__(self, pool: WorkerPool | None, make: Callable[..., _S], arguments: tuple[Any, ...], here: _S | None = None) -> None:
        self._pool, self._here, self._make, self._arguments = pool, here, make, arguments
        self._kept: tuple[SharedPath | str, str] | None = None

    @property
    def width(self) -> int:
        """Number of parts decided at once."""
        return 1 if self._pool is None or not self._pool.at_hand else self._pool.width

    def answers(self, work: Callable[[_S, _P], _R], parts: Iterable[_P], stop: Callable[[], bool]) -> Iterator[tuple[_P, _R]]:
        """Yield parts with ``work(subject, part)`` in any order, as they are decided, until ``stop``.

        ``parts`` is read lazily, so a caller can skip parts that need no decision any more. If the workers fail, this
        process continues alone."""
        remaining = iter(parts)
        if self._pool is not None and self._pool.at_hand:
            batches = _Batches(self._pool, remaining)
            try:
                if self._kept is None:
                    self._kept = self._pool.keep((self._make, self._arguments))
                yield from batches.answers(work, self._kept, stop)
            except WorkersError as error:
                self._pool.gone = str(error)
            remaining = chain(batches.unfinished(), remaining) if self._pool.gone is not None else iter(())
        for part in remaining:
            if stop():
                return
            if self._here is None:
                self._here = self._make(*self._arguments)
            yield part, work(self._here, part)


class _Batches(Generic[_P]):
    """Parts grouped into batches of the target time, with those currently at the workers."""

    def __init__(self, pool: WorkerPool, parts: Iterator[_P]) -> None:
        self._pool, self._parts = pool, parts
        self._size, self._number = 1, 0
        self._out: dict[int, tuple[_P, ...]] = {}

    def unfinished(self) -> list[_P]:
        """Return the parts that were handed out without a result."""
        return [part for _, batch in sorted(self._out.items()) for part in batch]

    def answers(self, work: Callable[..., _R], kept: tuple[SharedPath | str, str], stop: Callable[[], bool]) -> Iterator[tuple[_P, _R]]:
        """Yield parts with their results. A batch whose worker died in every attempt is repeated part by part.

        Raises:
            WorkersError: There are no workers any more.
        """
        singly: list[tuple[int, tuple[_P, ...]]] = []
        for tasks in (self._batches(), singly):

            def arguments(task: tuple[int, tuple[_P, ...]]) -> tuple[Any, ...]:
                return (*kept, work, task[1])

            done: FinishedTask[tuple[int, tuple[_P, ...]], tuple[float, list[_R]]]
            for done in self._pool.run(decide, tasks, arguments, stop):
                number, batch = done.task
                if done.value is not None:
                    del self._out[number]
                    seconds, results = done.value
                    self._size = max(1, min(MAX_BATCH_PARTS, int(BATCH_SECONDS * len(batch) / max(seconds, 1e-6))))
                    yield from zip(batch, results, strict=True)
                elif not done.lost:
                    assert done.error is not None
                    raise done.error
                elif len(batch) > 1:
                    singly += [(self._hand_out(part), (part,)) for part in batch]
                    del self._out[number]
                else:
                    self._pool.lost += 1
                    del self._out[number]

    def _hand_out(self, *batch: _P) -> int:
        self._number += 1
        self._out[self._number] = batch
        return self._number

    def _batches(self) -> Iterator[tuple[int, tuple[_P, ...]]]:
        while batch := tuple(islice(self._parts, self._size)):
            yield self._hand_out(*batch), batch


_subjects: OrderedDict[str, Any] = OrderedDict()


def decide(kept: SharedPath | str, digest: str, work: Callable[[Any, _P], _R], parts: tuple[_P, ...]) -> tuple[float, list[_R]]:
    """Decide a batch in a worker. Return its seconds and the result of each part.

    Raises:
        NotHereError: The subject must be sent to this worker first.
    """
    if digest not in _subjects:
        while len(_subjects) >= _MAX_SUBJECTS:
            _subjects.popitem(last=False)
        with open(local_path(kept), "rb") as file:
            make, arguments = pickle.load(file)
        _subjects[digest] = make(*arguments)
    _subjects.move_to_end(digest)
    began = time.monotonic()
    results = [work(_subjects[digest], part) for part in parts]
    return time.monotonic() - began, results
