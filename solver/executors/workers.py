"""Workers: the interface that :func:`kubestow.solver.executors.run.run` requires of an executor, and local processes."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import resource_tracker
from typing import Any, Protocol, TypeVar

from kubestow.solver.executors.cores import cores
from kubestow.solver.executors.files import SharedPath

_R = TypeVar("_R")


class WorkersError(Exception):
    """A failure of the workers as a whole, as a one-line message: no task can run."""


class SchedulerGone(WorkersError):
    """The scheduler of remote workers no longer answers. Finished tasks stay finished."""


class Workers(Protocol):
    """An executor.

    Attributes:
        shared_fate: True if a worker that dies takes the tasks of all others with it.
        tries: Attempts for a task whose worker dies while it runs alone.
    """

    shared_fate: bool
    tries: int

    @property
    def ahead(self) -> int:
        """Number of tasks to hand out per running task."""

    @property
    def width(self) -> int:
        """Number of tasks that run at once."""

    def share(self, path: str, digest: str) -> SharedPath | str:
        """Return a small reference to a file or directory for use in task arguments.

        The task gets a local path from it by :func:`kubestow.solver.executors.files.local_path`.

        Args:
            digest: Its SHA-256, from :func:`kubestow.solver.executors.files.digest_of`.
        """

    def submit(self, work: Callable[..., _R], *arguments: Any) -> Future[_R]:
        """Run ``work(*arguments)`` on some worker; both must be picklable."""

    def is_lost(self, error: BaseException) -> bool:
        """Return whether a future's error means that the worker died, not that the task failed."""

    def mend(self) -> None:
        """Replace lost workers, unless something else does."""

    def check(self) -> None:
        """Raise WorkersError if no task can run any more. Called repeatedly while tasks run."""

    def close(self, *, now: bool) -> None:
        """Release the workers.

        Args:
            now: End running tasks, where the workers can.
        """


def jobs_and_share(jobs: int | None, workers: int | None) -> tuple[int, int]:
    """Return the number of tasks to run at once, and of parallel searches in each, so that together they use the cores.

    Args:
        jobs: Requested number of tasks; None divides the cores by ``workers``.
        workers: Parallel searches per task; None means the task's part of the cores, or 1 if both are None.
    """
    have = cores()
    if jobs is None:
        each = 1 if workers is None else workers
        return max(1, have // each), each
    return jobs, max(1, have // jobs) if workers is None else workers


def ignore_interrupts() -> None:
    """Ignore ^C, which a terminal sends to all processes of a command. The calling process handles it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextlib.contextmanager
def interrupts_held() -> Iterator[None]:
    """Delay ^C and SIGTERM until the end; processes and threads started meanwhile ignore ^C.

    Otherwise a process could be interrupted before it ignores ^C, or end with a traceback because its starter leaves
    early. Blocking the signal in this thread alone is not enough: any other thread may receive it, and Python runs the
    handler in the main thread."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    received: list[int] = []
    answers: dict[int, Any] = {}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    try:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                if callable(signal.getsignal(number)):  # a Python handler, not the default or none
                    answers[number] = signal.signal(number, lambda got, _: received.append(got))
        resource_tracker.ensure_running()  # it unblocks interrupts when it starts, which it would do with the first process
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        for signal_number, answer in answers.items():
            signal.signal(signal_number, answer)
        for got in received:
            signal.raise_signal(got)


def _begin() -> None:
    """Initialise a process of a pool: it ignores interrupts, and ends with its starter, for any reason, even while it works."""
    ignore_interrupts()
    parent = multiprocessing.parent_process()

    def watch() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=watch, name="kubestow-parent", daemon=True).start()


class Processes:
    """Processes on this machine, started by spawn so that none inherits threads or locks."""

    shared_fate = True
    tries = 3
    ahead = 2

    def __init__(self, jobs: int) -> None:
        self._jobs = jobs
        self._pool = self._new()

    @property
    def width(self) -> int:
        """Number of processes."""
        return self._jobs

    def _new(self) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(self._jobs, mp_context=multiprocessing.get_context("spawn"), initializer=_begin)

    def submit(self, work: Callable[..., _R], *arguments: Any) -> Future[_R]:
        """Run it in an idle process."""
        with interrupts_held():
            return self._pool.submit(work, *arguments)

    def share(self, path: str, digest: str) -> str:
        """Return the path: all processes see the same files."""
        return path

    def check(self) -> None:
        """Do nothing: there is no scheduler that could be gone."""

    def is_lost(self, error: BaseException) -> bool:
        """Return whether a process of the pool died."""
        return isinstance(error, BrokenProcessPool)

    def mend(self) -> None:
        """Replace the pool: after losing a process it accepts no more tasks."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._pool = self._new()

    def close(self, *, now: bool) -> None:
        """End the processes; with ``now``, also those at work."""
        processes = list((self._pool._processes or {}).values()) if now else []
        self._pool.shutdown(wait=not now, cancel_futures=True)
        for process in processes:
            process.terminate()
