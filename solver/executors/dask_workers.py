"""Workers of Dask, on this machine or on many: connecting, versions, files that workers do not see, and what of it can be gone.

``distributed`` is imported when workers are asked for: it is the extra ``kubestow[dask]``.
"""

from __future__ import annotations

import contextlib
import json
import logging
import pickle
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future, InvalidStateError, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from kubestow.solver.executors import dask_tasks, files
from kubestow.solver.executors.cores import cores
from kubestow.solver.executors.dask_tasks import Told, call, insist_on, take, versions
from kubestow.solver.executors.files import NotHereError, Shared
from kubestow.solver.executors.workers import SchedulerGone, WorkersError, interrupts_held

_R = TypeVar("_R")

#: Seconds until a scheduler, and workers, have to answer.
_TIMEOUT: Final = 10
#: Seconds after which the scheduler is asked how many workers there are.
_ASKED: Final = 2
#: Seconds without any worker after which the tasks are given up.
_PATIENCE: Final = 60
#: How often a task may find that a file has to be brought to its worker first.
_BOUNCES: Final = 20
#: Seconds that tasks which go to a worker together take at most, as the longest of so many last ones tell, and the most tasks.
_PARCEL: Final = 0.25
_LATELY: Final = 64
_MOST: Final = 64


@dataclass
class _Task:
    """A task that was handed out. ``bounces``: how often it found that a file has to be brought to its worker first."""

    outer: Future[Any]
    parcel: bytes
    bounces: int = 0


def open_dask(target: str, jobs: int | None = None) -> DaskWorkers:
    """Return the workers of a scheduler.

    Args:
        target: Its address; or ``local``: it is started here, with workers that are processes; or the file that it wrote for clients.
        jobs: How many workers are started for ``local``, None: one a core.

    Raises:
        WorkersError: there are none that could do the tasks, in one line.
    """
    try:
        import distributed
    except ImportError as error:
        raise WorkersError("workers of Dask need the extra kubestow[dask]: pip install 'kubestow[dask]'") from error
    _quiet(distributed)
    if target == "local":
        cluster = _local(distributed, jobs or cores())
        try:
            return DaskWorkers(distributed, _connected(distributed, cluster.scheduler_address, "local"), "local", cluster)
        except BaseException:
            cluster.close(timeout=_TIMEOUT)
            raise
    return DaskWorkers(distributed, _connected(distributed, _address(target), target), target)


def _quiet(distributed: Any) -> None:
    """Keep the library's own log from standard error: what goes wrong is told in one line."""
    for name in ("distributed", *(name for name in logging.root.manager.loggerDict if name.startswith(("distributed.", "tornado")))):
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    warnings.filterwarnings("ignore", category=distributed.versions.VersionMismatchWarning)


def _local(distributed: Any, jobs: int) -> Any:
    with interrupts_held():
        return distributed.LocalCluster(
            n_workers=jobs,
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",
            memory_limit=None,
            silence_logs=logging.CRITICAL + 1,
            preload="from kubestow.solver.executors.workers import ignore_interrupts\n\nignore_interrupts()\n",
        )


def _address(target: str) -> str:
    """Return the address that a target says, or the file that it names.

    Raises:
        WorkersError: neither.
    """
    if "://" in target:
        return target
    if not Path(target).exists() and ":" in target:
        return f"tcp://{target}"
    try:
        told = json.loads(Path(target).read_bytes())
        return str(told["address"])
    except OSError as error:
        raise WorkersError(f"{target}: {error.strerror or error}; an address of a scheduler is like tcp://HOST:8786") from error
    except (ValueError, KeyError, TypeError) as error:
        raise WorkersError(f"{target}: not a file that a Dask scheduler writes (--scheduler-file)") from error


def _connected(distributed: Any, address: str, target: str) -> Any:
    """Return a client of the scheduler, with workers that are fit.

    Raises:
        WorkersError: it does not answer; or a worker has other versions, or more than one thread.
    """
    try:
        client = _within(lambda: distributed.Client(address, timeout=_TIMEOUT, set_as_default=False))
    except (OSError, ValueError, TypeError) as error:
        raise WorkersError(f"{target}: no Dask scheduler answers there ({_line(error)})") from error
    try:
        try:
            client.wait_for_workers(1, timeout=_TIMEOUT)
        except OSError as error:
            raise WorkersError(f"{target}: the scheduler has no workers") from error
        _fit(client, target)
    except BaseException:
        client.close(timeout=_TIMEOUT)
        raise
    return client


def _within(connect: Callable[[], _R]) -> _R:
    """Call in a thread that is left behind if it takes too long: a client waits for ever for who takes connections and says nothing.

    Raises:
        TimeoutError: it takes too long.
    """
    future: Future[_R] = Future()

    def call() -> None:
        try:
            future.set_result(connect())
        except BaseException as error:  # noqa: BLE001 it is raised where it is waited for
            future.set_exception(error)

    threading.Thread(target=call, daemon=True).start()
    return future.result(2 * _TIMEOUT)


def _fit(client: Any, target: str) -> None:
    try:
        threads = client.sync(client.scheduler.ncores, callback_timeout=_TIMEOUT)
        told = client.sync(client._run, eval, dask_tasks.VERSIONS, on_error="return", callback_timeout=_TIMEOUT)
    except OSError as error:
        raise WorkersError(f"{target}: the scheduler or a worker does not answer within {_TIMEOUT} s") from error
    if not threads:  # the last one went after it had been waited for
        raise WorkersError(f"{target}: the scheduler has no workers")
    for worker, number in sorted(threads.items()):
        if number != 1:
            raise WorkersError(f"worker {worker} has {number} threads: kubestow's tasks need workers with one (dask worker --nthreads 1)")
    for worker, answer in sorted(told.items()):
        if isinstance(answer, BaseException):
            raise WorkersError(f"worker {worker} cannot run kubestow: {_line(answer)}")
        insist_on(versions(), worker, dict(answer))


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__


class DaskWorkers:
    """Workers of a Dask scheduler, one thread each.

    A worker's death is the scheduler's to mend: it gives the task to others, as often as ``distributed.scheduler.allowed-failures`` says.
    It charges all tasks that wait at a worker which dies (``Scheduler.remove_worker``, https://github.com/dask/distributed): what it gives
    up is tried once more, one task at a time (:func:`kubestow.solver.executors.run.run`).

    Attributes:
        sent: Bytes of files that were sent to workers.
    """

    shared_fate = False
    tries = 1

    def __init__(self, distributed: Any, client: Any, target: str, cluster: Any = None) -> None:
        self._client, self._target, self._cluster = client, target, cluster
        self._killed = distributed.KilledWorker
        self._executor = client.get_executor(pure=False)
        self._uploads = ThreadPoolExecutor(1, thread_name_prefix="kubestow-files")
        self._width, self._asked, self._seen = 1, -float(_ASKED), time.monotonic()
        self._closed = threading.Event()
        self._lock, self._waiting = threading.Lock(), list[_Task]()
        self._lately: deque[float] = deque(maxlen=_LATELY)
        self.sent = 0
        self.check()

    @property
    def width(self) -> int:
        """Return the number of workers, as of lately: they may come and go."""
        return max(1, self._width)

    def share(self, path: str, digest: str) -> Shared:
        """Return what stands for a file: workers that see it with this content read it in place, others have it brought to them once."""
        return Shared(str(Path(path).absolute()), digest)

    @property
    def ahead(self) -> int:
        """Return the tasks that are at the workers for each that runs: enough for parcels that take as long as they should."""
        return 2 * self._together()

    def _together(self) -> int:
        """How many tasks go to a worker at once: as the longest of the last ones tell."""
        return max(1, min(_MOST, int(_PARCEL / max(1e-6, *self._lately)))) if len(self._lately) > 1 else 1

    def submit(self, work: Callable[..., _R], *arguments: Any) -> Future[_R]:
        """Have it done by a worker that the scheduler chooses; short tasks go together."""
        task = _Task(Future(), pickle.dumps((work, arguments), pickle.HIGHEST_PROTOCOL))
        with self._lock:
            self._waiting.append(task)
            first = len(self._waiting) == 1
        if first:
            self._client.loop.add_callback(self._send_waiting)
        return task.outer

    def _send_waiting(self) -> None:
        with self._lock:
            waiting, self._waiting = self._waiting, []
        size = min(self._together(), -(-len(waiting) // self.width))
        for first in range(0, len(waiting), size):
            self._send(waiting[first : first + size])

    def _send(self, tasks: list[_Task], worker: str | None = None) -> None:
        where = {} if worker is None else {"workers": [worker], "allow_other_workers": True}
        try:
            inner = self._executor.submit(call, versions(), tuple(task.parcel for task in tasks), **where)
        except Exception:  # noqa: BLE001 as of an executor that was shut down
            self._fail(tasks, self._gone())
            return
        for task in tasks:
            task.outer.add_done_callback(lambda _: inner.cancel() if all(each.outer.cancelled() for each in tasks) else None)
        inner.add_done_callback(partial(self._ended, tasks))

    def _ended(self, tasks: list[_Task], inner: Future[list[Told]]) -> None:
        """Hand on what came of tasks, or bring their worker the file that it misses; called in the client's thread."""
        error = None if inner.cancelled() else inner.exception()
        if inner.cancelled() or isinstance(error, CancelledError):
            self._fail(tasks, self._gone())
        elif isinstance(error, WorkersError) or (error is not None and len(tasks) == 1):
            self._fail(tasks, error)
        elif error is not None:  # one of them is why: alone, each tells for itself
            for task in tasks:
                self._send([task])
        else:
            for task, (value, why, seconds) in zip(tasks, inner.result(), strict=True):
                if isinstance(why, NotHereError) and task.bounces < _BOUNCES and not self._closed.is_set():
                    self._uploads.submit(self._bring, task, why)
                elif why is not None:
                    self._fail([task], why)
                else:
                    self._lately.append(seconds)
                    self._succeed(task, value)

    def _succeed(self, task: _Task, value: bytes) -> None:
        try:
            found = pickle.loads(value)
        except Exception as error:  # noqa: BLE001 it is the task's
            self._fail([task], error)
            return
        with contextlib.suppress(InvalidStateError):  # it was cancelled meanwhile
            task.outer.set_result(found)

    @staticmethod
    def _fail(tasks: list[_Task], error: BaseException) -> None:
        for task in tasks:
            with contextlib.suppress(InvalidStateError):
                task.outer.set_exception(error)

    def _bring(self, task: _Task, missing: NotHereError) -> None:
        shared, worker = missing.shared, missing.worker
        try:
            if files.digest_of(shared.path) != shared.digest:
                raise OSError(f"{shared.path}: it changed while tasks used it")
            with contextlib.suppress(_WorkerGone):
                self._upload(shared, worker)
            task.bounces += 1
            self._send([task], worker)
        except Exception as error:  # noqa: BLE001 it is the task's
            self._fail([task], error)

    def _upload(self, shared: Shared, worker: str) -> None:
        if self._on(worker, files.is_kept, shared.digest):
            return
        packed = Path(shared.path).is_dir()
        for number, block, last in files.blocks(shared.path):
            self._on(worker, take, shared, number, block, last, packed)
            self.sent += len(block)

    def _on(self, worker: str, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function on a worker, beside its task.

        Raises:
            _WorkerGone: it does not answer.
        """
        try:
            told = self._client.sync(
                self._client._run, function, *arguments, workers=[worker], on_error="return", callback_timeout=_PATIENCE
            )
        except OSError as error:
            raise _WorkerGone from error
        answer = told.get(worker, _WorkerGone())
        if not isinstance(answer, BaseException):
            return answer
        if type(answer).__module__.startswith("distributed"):
            raise _WorkerGone from answer
        raise answer

    def is_lost(self, error: BaseException) -> bool:
        """Return whether each worker that was given the task died."""
        return isinstance(error, self._killed)

    def mend(self) -> None:
        """The scheduler, and who runs the workers, do."""

    def check(self) -> None:
        """Ask the scheduler, at times, how many workers there are.

        Raises:
            SchedulerGone: it does not answer.
            WorkersError: there has been no worker for a while.
        """
        if self._client.status != "running":
            raise self._gone()
        now = time.monotonic()
        if now - self._asked < _ASKED:
            return
        try:
            told = self._client.sync(self._client.scheduler.identity, n_workers=0, callback_timeout=_TIMEOUT)
        except (OSError, CancelledError) as error:
            raise self._gone() from error
        self._asked, self._width = now, int(told["total_threads"])
        self._seen = now if self._width else self._seen
        if now - self._seen > _PATIENCE:
            raise WorkersError(f"{self._target}: there has been no worker for {_PATIENCE} s")

    def _gone(self) -> SchedulerGone:
        return SchedulerGone(f"{self._target}: the Dask scheduler is gone")

    def close(self, *, now: bool) -> None:
        """Let go of the scheduler, and end it where it was started here. Tasks at work on other machines end by themselves, unheard."""
        self._closed.set()
        self._uploads.shutdown(wait=False, cancel_futures=True)
        with _whatever_happens():
            self._executor.shutdown(wait=False)
        with _whatever_happens():
            self._client.close(timeout=_TIMEOUT)
        if self._cluster is not None:
            with _whatever_happens():
                self._cluster.close(timeout=_TIMEOUT)


class _WorkerGone(Exception):
    """A worker to which a file was to be brought; the task goes to another one."""


@contextlib.contextmanager
def _whatever_happens() -> Iterator[None]:
    """Let go of as much as there still is: of a scheduler that is gone, nothing."""
    with contextlib.suppress(Exception):
        yield
