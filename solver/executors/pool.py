"""One question in many parts: workers that learn once what it is about, and then decide parts of it in small batches.

Those who ask such questions know of executors what is here, and nothing else.
"""

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

from kubestow.solver.executors.files import Shared, digest_of, local_path
from kubestow.solver.executors.run import Done, run
from kubestow.solver.executors.workers import Processes, Workers, WorkersError, jobs_and_share

_S = TypeVar("_S")
_P = TypeVar("_P")
_R = TypeVar("_R")

#: Seconds that a batch of parts should take, and the most parts in one: what was learned meanwhile is known to the next.
BATCH: Final = 0.25
MOST: Final = 64
#: Subjects that a worker keeps in memory.
_KEPT: Final = 2


class Pool:
    """Workers for the parts of questions. Processes are started when the first part is handed out.

    Attributes:
        gone: Why there are no workers any more, in one line; None as long as there are.
        lost: Parts that nobody decided, since their worker died each time that they were tried.
    """

    def __init__(self, opened: Callable[[], Workers], jobs: int) -> None:
        self._open, self._jobs = opened, jobs
        self._workers: Workers | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._files = 0
        self._busy = False  # parts that were handed out are still at work
        self.gone: str | None = None
        self.lost = 0

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._workers is not None:
            self._workers.close(now=self._busy or error is not None)
            self._workers = None
        if self._folder is not None:
            self._folder.cleanup()

    @property
    def width(self) -> int:
        """Return how many parts are decided at once."""
        return self._jobs if self._workers is None else self._workers.width

    @property
    def at_hand(self) -> bool:
        """Return whether workers take parts."""
        return self.gone is None and not self._busy

    def share(self, workers: int | None) -> int:
        """Return the searches in parallel that each part gets: ``workers``, None: its share of the cores."""
        return jobs_and_share(self._jobs, workers)[1]

    def keep(self, subject: tuple[Callable[..., Any], tuple[Any, ...]]) -> tuple[Shared | str, str]:
        """Write down what a question is about, and return what stands for it, with its hash."""
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="kubestow-")
        self._files += 1
        path = os.path.join(self._folder.name, str(self._files))
        with open(path, "wb") as file:
            pickle.dump(subject, file, pickle.HIGHEST_PROTOCOL)
        digest = digest_of(path)
        return self.open().share(path, digest), digest

    def open(self) -> Workers:
        """Return the workers, which are started if there are none yet.

        Raises:
            WorkersError: there are none.
        """
        if self._workers is None:
            self._workers = self._open()
        return self._workers

    def run(
        self, work: Callable[..., _R], tasks: Iterable[_P], arguments: Callable[[_P], tuple[Any, ...]], stop: Callable[[], bool]
    ) -> Any:
        """Yield what comes of tasks, as :func:`kubestow.solver.executors.run.run` does; after ``stop`` those at work are left."""
        self._busy = True
        yield from run(self.open(), work, tasks, arguments=arguments, stop=_Asked(stop))
        self._busy = stop()


class _Asked:
    """What is asked whether it is set."""

    def __init__(self, asked: Callable[[], bool]) -> None:
        self.is_set = asked


def pool_of(jobs: int | None, dask: str | None = None) -> Pool | None:
    """Return workers as options ask for them: ``jobs`` processes, or those of a Dask scheduler, which have to answer first; None where
    this process is to do everything by itself.

    Raises:
        WorkersError: none answer, or they have other versions, in one line.
    """
    if dask is None:
        number = jobs or 1
        return Pool(lambda: Processes(number), number) if number > 1 else None
    from kubestow.solver.executors.dask_workers import open_dask

    pool = Pool(lambda: open_dask(dask, jobs), jobs or jobs_and_share(None, None)[0])
    pool.open()
    return pool


class Question(Generic[_S]):
    """A question whose parts have a subject in common: workers make it by ``make(*arguments)``, which are sent to each of them once.

    ``here``: it is made in this process already. Without a pool, or with one that is busy with what nobody waits for any more, this process
    decides everything.
    """

    def __init__(self, pool: Pool | None, make: Callable[..., _S], arguments: tuple[Any, ...], here: _S | None = None) -> None:
        self._pool, self._here, self._make, self._arguments = pool, here, make, arguments
        self._kept: tuple[Shared | str, str] | None = None

    @property
    def width(self) -> int:
        """Return how many parts are decided at once."""
        return 1 if self._pool is None or not self._pool.at_hand else self._pool.width

    def answers(self, work: Callable[[_S, _P], _R], parts: Iterable[_P], stop: Callable[[], bool]) -> Iterator[tuple[_P, _R]]:
        """Yield parts with ``work(subject, part)``, as they are decided: in any order, and not those that are left after ``stop``.

        ``parts`` are read as they are handed out: who has learned that one needs no decision leaves it out. Where the workers are gone,
        this process goes on by itself.
        """
        left = iter(parts)
        if self._pool is not None and self._pool.at_hand:
            crew = _Batches(self._pool, left)
            try:
                if self._kept is None:
                    self._kept = self._pool.keep((self._make, self._arguments))
                yield from crew.answers(work, self._kept, stop)
            except WorkersError as error:
                self._pool.gone = str(error)
            left = chain(crew.left(), left) if self._pool.gone is not None else iter(())
        for part in left:
            if stop():
                return
            if self._here is None:
                self._here = self._make(*self._arguments)
            yield part, work(self._here, part)


class _Batches(Generic[_P]):
    """Parts in batches that take as long as a batch should, and those of them that are at the workers."""

    def __init__(self, pool: Pool, parts: Iterator[_P]) -> None:
        self._pool, self._parts = pool, parts
        self._size, self._number = 1, 0
        self._out: dict[int, tuple[_P, ...]] = {}

    def left(self) -> list[_P]:
        """Return the parts that were handed out and did not come back."""
        return [part for _, batch in sorted(self._out.items()) for part in batch]

    def answers(self, work: Callable[..., _R], kept: tuple[Shared | str, str], stop: Callable[[], bool]) -> Iterator[tuple[_P, _R]]:
        """Yield parts with what came of them. A batch whose worker died each time is tried once more, part by part.

        Raises:
            WorkersError: there are no workers any more.
        """
        singly: list[tuple[int, tuple[_P, ...]]] = []
        for tasks in (self._batches(), singly):

            def arguments(task: tuple[int, tuple[_P, ...]]) -> tuple[Any, ...]:
                return (*kept, work, task[1])

            done: Done[tuple[int, tuple[_P, ...]], tuple[float, list[_R]]]
            for done in self._pool.run(decide, tasks, arguments, stop):
                number, batch = done.task
                if done.value is not None:
                    del self._out[number]
                    seconds, found = done.value
                    self._size = max(1, min(MOST, int(BATCH * len(batch) / max(seconds, 1e-6))))
                    yield from zip(batch, found, strict=True)
                elif not done.lost:
                    assert done.error is not None
                    raise done.error
                elif len(batch) > 1:
                    singly += [(self._given(part), (part,)) for part in batch]
                    del self._out[number]
                else:
                    self._pool.lost += 1
                    del self._out[number]

    def _given(self, *batch: _P) -> int:
        self._number += 1
        self._out[self._number] = batch
        return self._number

    def _batches(self) -> Iterator[tuple[int, tuple[_P, ...]]]:
        while batch := tuple(islice(self._parts, self._size)):
            yield self._given(*batch), batch


_known: OrderedDict[str, Any] = OrderedDict()


def decide(kept: Shared | str, digest: str, work: Callable[[Any, _P], _R], parts: tuple[_P, ...]) -> tuple[float, list[_R]]:
    """Decide a batch, in a worker; return the seconds that it took and what came of each part.

    Raises:
        NotHereError: what the question is about has to be brought here first.
    """
    if digest not in _known:
        while len(_known) >= _KEPT:
            _known.popitem(last=False)
        with open(local_path(kept), "rb") as file:
            make, arguments = pickle.load(file)
        _known[digest] = make(*arguments)
    _known.move_to_end(digest)
    began = time.monotonic()
    found = [work(_known[digest], part) for part in parts]
    return time.monotonic() - began, found
