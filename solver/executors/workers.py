"""Where tasks run: what :func:`kubestow.solver.executors.run.run` needs of an executor."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any, Protocol, TypeVar

from kubestow.solver.executors.cores import cores
from kubestow.solver.executors.files import Shared

_R = TypeVar("_R")


class WorkersError(Exception):
    """What is wrong with the workers as a whole, in one line: no task can be done."""


class SchedulerGone(WorkersError):
    """Who hands tasks to workers elsewhere does not answer any more; tasks that are done stay done."""


class Workers(Protocol):
    """An executor and what is special about it.

    Attributes:
        shared_fate: Whether a worker that dies takes the tasks of all others with it.
        tries: How often a task is tried whose worker dies, and nothing else was there.
    """

    shared_fate: bool
    tries: int

    @property
    def ahead(self) -> int:
        """Return how many tasks are to be at the workers for each that runs."""

    @property
    def width(self) -> int:
        """Return how many tasks run at once."""

    def share(self, path: str, digest: str) -> Shared | str:
        """Return what stands for a file or directory in the arguments of a task, small; ``digest``: its SHA-256, as ``digest_of`` says.
        The task gets a path of it by :func:`kubestow.solver.executors.files.local_path`."""

    def submit(self, work: Callable[..., _R], *arguments: Any) -> Future[_R]:
        """Have ``work(*arguments)`` done somewhere; both are picklable."""

    def is_lost(self, error: BaseException) -> bool:
        """Return whether an error of a future says that the worker is gone, not that the task failed."""

    def mend(self) -> None:
        """Make new workers in place of lost ones, where nobody else does."""

    def check(self) -> None:
        """Raise WorkersError where no task can be done any more; called now and then while tasks run."""

    def close(self, *, now: bool) -> None:
        """Let go of the workers; ``now``: end those at work."""


def jobs_and_share(jobs: int | None, workers: int | None) -> tuple[int, int]:
    """Return how many tasks run at once, and how many searches each of them runs in parallel, so that together they have the cores.

    ``jobs``: as asked for, None: cores divided by ``workers``; ``workers``: searches in parallel of one task, None: its share of the cores,
    1 where neither is said.
    """
    have = cores()
    if jobs is None:
        each = 1 if workers is None else workers
        return max(1, have // each), each
    return jobs, max(1, have // jobs) if workers is None else workers


def ignore_interrupts() -> None:
    """Leave ^C, which the terminal sends to all processes of a command, to the one that was called."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextlib.contextmanager
def interrupts_held() -> Iterator[None]:
    """Hold ^C and SIGTERM until the end, and have processes that are started meanwhile, and threads, begin deaf to ^C.

    A process is interrupted before it could ignore ^C else; and one whose starter leaves before it has told it what to do ends with a
    traceback. That the thread here does not hear the signal is not enough: any other one may, and Python has the main thread answer.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    from multiprocessing import resource_tracker

    received: list[int] = []
    answers: dict[int, Any] = {}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    try:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                if callable(signal.getsignal(number)):  # neither the system's answer nor none
                    answers[number] = signal.signal(number, lambda got, _: received.append(got))
        resource_tracker.ensure_running()  # it lets interrupts through again when it starts, which it does with the first process
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        for held, answer in answers.items():
            signal.signal(held, answer)
        for got in received:
            signal.raise_signal(got)


def _begin() -> None:
    """Begin a process of a pool: it ends with the one that started it, however that ends, also where it is at work."""
    ignore_interrupts()
    parent = multiprocessing.parent_process()

    def watch() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=watch, name="kubestow-parent", daemon=True).start()


class Processes:
    """Processes on this machine, each started anew (spawn), so that none inherits threads or locks."""

    shared_fate = True
    tries = 3
    ahead = 2

    def __init__(self, jobs: int) -> None:
        self._jobs = jobs
        self._pool = self._new()

    @property
    def width(self) -> int:
        """Return the number of processes."""
        return self._jobs

    def _new(self) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(self._jobs, mp_context=multiprocessing.get_context("spawn"), initializer=_begin)

    def submit(self, work: Callable[..., _R], *arguments: Any) -> Future[_R]:
        """Have it done by a process that is idle."""
        with interrupts_held():
            return self._pool.submit(work, *arguments)

    def share(self, path: str, digest: str) -> str:
        """Return the path: all processes see the same files."""
        return path

    def check(self) -> None:
        """There is nothing between this process and the others that could be gone."""

    def is_lost(self, error: BaseException) -> bool:
        """Return whether a process of the pool died."""
        return isinstance(error, BrokenProcessPool)

    def mend(self) -> None:
        """Replace the pool: one that lost a process takes no more tasks."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._pool = self._new()

    def close(self, *, now: bool) -> None:
        """End the processes, those at work first where it is to be ``now``."""
        processes = list((self._pool._processes or {}).values()) if now else []
        self._pool.shutdown(wait=not now, cancel_futures=True)
        for process in processes:
            process.terminate()
