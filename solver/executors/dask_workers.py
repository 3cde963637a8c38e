"""Dask workers, on this machine or on many: connection, versions, files that workers cannot see, and lost connections.

``distributed`` is imported on demand: it comes with the extra ``kubestow[dask]``."""

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
from kubestow.solver.executors.dask_tasks import TaskResult, call, insist_on, take, versions
from kubestow.solver.executors.files import NotHereError, SharedPath
from kubestow.solver.executors.workers import SchedulerGone, WorkersError, interrupts_held

_R = TypeVar("_R")

_ANSWER_SECONDS: Final = 10  #: Timeout for answers of a scheduler or worker.
_REFRESH_SECONDS: Final = 2  #: Interval of asking the scheduler for the number of workers.
_NO_WORKER_SECONDS: Final = 60  #: Time without any worker after which the tasks are given up.
_MAX_BOUNCES: Final = 20  #: Attempts of a task that fail because a file must be sent to its worker first.
_PARCEL_SECONDS: Final = 0.25  #: Target time of tasks sent together, by the longest of the latest tasks.
_LATEST_TASKS: Final = 64  #: Number of latest tasks that predict the time of a task.
_MAX_PARCEL_TASKS: Final = 64  #: Tasks sent together.


@dataclass
class _Task:
    """A task that was handed out.

    Attributes:
        outer: Receives the result.
        parcel: Pickle of the function with its arguments.
        bounces: Failed attempts for lack of a file on the worker.
    """

    outer: Future[Any]
    parcel: bytes
    bounces: int = 0


def open_dask(target: str, jobs: int | None = None) -> DaskWorkers:
    """Return the workers of a Dask scheduler.

    Args:
        target: Address of the scheduler, the file that it wrote for clients, or ``local`` to start one here with worker
            processes.
        jobs: Number of workers to start for ``local``; None for one per core.

    Raises:
        WorkersError: There are no usable workers. The message is one line.
    """
    try:
        import distributed
    except ImportError as error:
        raise WorkersError("workers of Dask need the extra kubestow[dask]: pip install 'kubestow[dask]'") from error
    _quiet(distributed)
    if target == "local":
        jobs = jobs or cores()
        cluster = _local(distributed, jobs)
        try:
            return DaskWorkers(distributed, _connected(distributed, cluster.scheduler_address, "local"), "local", cluster, jobs)
        except BaseException:
            cluster.close(timeout=_ANSWER_SECONDS)
            raise
    return DaskWorkers(distributed, _connected(distributed, _address(target), target), target)


def _quiet(distributed: Any) -> None:
    """Silence the library's own log on standard error. Errors are reported in one line instead."""
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
    """Return the address of a scheduler. ``HOST:PORT`` gets the scheme ``tcp://``.

    Args:
        target: The address, or the file that the scheduler wrote for clients.

    Raises:
        WorkersError: It is neither.
    """
    if "://" in target:
        return target
    if not Path(target).exists() and ":" in target:
        return f"tcp://{target}"
    try:
        content = json.loads(Path(target).read_bytes())
        return str(content["address"])
    except OSError as error:
        raise WorkersError(f"{target}: {error.strerror or error}; an address of a scheduler is like tcp://HOST:8786") from error
    except (ValueError, KeyError, TypeError) as error:
        raise WorkersError(f"{target}: not a file that a Dask scheduler writes (--scheduler-file)") from error


def _connected(distributed: Any, address: str, target: str) -> Any:
    """Return a client of the scheduler, after checking its workers.

    Raises:
        WorkersError: It does not answer, or a worker has other versions or more than one thread.
    """
    try:
        client = _within(lambda: distributed.Client(address, timeout=_ANSWER_SECONDS, set_as_default=False))
    except (OSError, ValueError, TypeError) as error:
        raise WorkersError(f"{target}: no Dask scheduler answers there ({_line(error)})") from error
    try:
        try:
            client.wait_for_workers(1, timeout=_ANSWER_SECONDS)
        except OSError as error:
            raise WorkersError(f"{target}: the scheduler has no workers") from error
        _fit(client, target)
    except BaseException:
        client.close(timeout=_ANSWER_SECONDS)
        raise
    return client


def _within(connect: Callable[[], _R]) -> _R:
    """Return the result of a call, made in a thread that is abandoned on a timeout.

    Without the thread, a client would block indefinitely if the server accepts connections but stays silent.

    Raises:
        TimeoutError: It takes too long.
    """
    future: Future[_R] = Future()

    def call() -> None:
        try:
            future.set_result(connect())
        except BaseException as error:  # noqa: BLE001 raised again in the waiting thread
            future.set_exception(error)

    threading.Thread(target=call, daemon=True).start()
    return future.result(2 * _ANSWER_SECONDS)


def _fit(client: Any, target: str) -> None:
    try:
        threads = client.sync(client.scheduler.ncores, callback_timeout=_ANSWER_SECONDS)
        answers = client.sync(client._run, eval, dask_tasks.VERSIONS, on_error="return", callback_timeout=_ANSWER_SECONDS)
    except OSError as error:
        raise WorkersError(f"{target}: the scheduler or a worker does not answer within {_ANSWER_SECONDS} s") from error
    if not threads:  # the last worker left after the wait
        raise WorkersError(f"{target}: the scheduler has no workers")
    for worker, number in sorted(threads.items()):
        if number != 1:
            raise WorkersError(f"worker {worker} has {number} threads: kubestow's tasks need workers with one (dask worker --nthreads 1)")
    for worker, answer in sorted(answers.items()):
        if isinstance(answer, BaseException):
            raise WorkersError(f"worker {worker} cannot run kubestow: {_line(answer)}")
        insist_on(versions(), worker, dict(answer))


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__


class DaskWorkers:
    """Workers of a Dask scheduler, one thread each.

    The scheduler handles the death of a worker: it gives the task to others, as often as
    ``distributed.scheduler.allowed-failures`` says. It charges all tasks that wait at the dead worker
    (``Scheduler.remove_worker``, https://github.com/dask/distributed). So tasks that it gives up are tried once more, one
    at a time (:func:`kubestow.solver.executors.run.run`).

    Attributes:
        sent: Bytes of files sent to workers.
    """

    shared_fate = False
    tries = 1

    def __init__(self, distributed: Any, client: Any, target: str, cluster: Any = None, jobs: int = 0) -> None:
        self._client, self._target, self._cluster, self._jobs = client, target, cluster, jobs
        self._killed = distributed.KilledWorker
        self._executor = client.get_executor(pure=False)
        self._uploads = ThreadPoolExecutor(1, thread_name_prefix="kubestow-files")
        self._width, self._refreshed, self._seen = 1, -float(_REFRESH_SECONDS), time.monotonic()
        self._closed = threading.Event()
        self._lock, self._waiting = threading.Lock(), list[_Task]()
        self._latest_seconds: deque[float] = deque(maxlen=_LATEST_TASKS)
        self.sent = 0
        self.check()

    @property
    def width(self) -> int:
        """Recent number of workers. Workers may come and go."""
        return max(1, self._width)

    def share(self, path: str, digest: str) -> SharedPath:
        """Return a reference to a file. Workers that see it with this content read it in place; others receive it once."""
        return SharedPath(str(Path(path).absolute()), digest)

    @property
    def ahead(self) -> int:
        """Number of tasks to hand out per worker: enough to fill parcels."""
        return 2 * self._together()

    def _together(self) -> int:
        """Return the number of tasks to send to a worker in one parcel, so that it takes about _PARCEL_SECONDS."""
        return (
            max(1, min(_MAX_PARCEL_TASKS, int(_PARCEL_SECONDS / max(1e-6, *self._latest_seconds)))) if len(self._latest_seconds) > 1 else 1
        )

    def submit(self, work: Callable[..., _R], *arguments: Any) -> Future[_R]:
        """Run ``work(*arguments)`` on a worker that the scheduler chooses. Short tasks are sent together."""
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
        except Exception:  # noqa: BLE001 for example, the executor was shut down
            self._fail(tasks, self._gone())
            return
        for task in tasks:
            task.outer.add_done_callback(lambda _: inner.cancel() if all(each.outer.cancelled() for each in tasks) else None)
        inner.add_done_callback(partial(self._ended, tasks))

    def _ended(self, tasks: list[_Task], inner: Future[list[TaskResult]]) -> None:
        """Settle the tasks of a parcel that ended. Called in the client's thread.

        If the parcel failed, its tasks are sent again one by one. A task without its file is sent again after the file.
        """
        error = None if inner.cancelled() else inner.exception()
        if inner.cancelled() or isinstance(error, CancelledError):
            self._fail(tasks, self._gone())
        elif isinstance(error, WorkersError) or (error is not None and len(tasks) == 1):
            self._fail(tasks, error)
        elif error is not None:  # one task caused it: run each alone to find out which
            for task in tasks:
                self._send([task])
        else:
            for task, (value, why, seconds) in zip(tasks, inner.result(), strict=True):
                if isinstance(why, NotHereError) and task.bounces < _MAX_BOUNCES and not self._closed.is_set():
                    self._uploads.submit(self._bring, task, why)
                elif why is not None:
                    self._fail([task], why)
                else:
                    self._latest_seconds.append(seconds)
                    self._succeed(task, value)

    def _succeed(self, task: _Task, value: bytes) -> None:
        try:
            result = pickle.loads(value)
        except Exception as error:  # noqa: BLE001 reported as the task's error
            self._fail([task], error)
            return
        with contextlib.suppress(InvalidStateError):  # cancelled meanwhile
            task.outer.set_result(result)

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
        except Exception as error:  # noqa: BLE001 reported as the task's error
            self._fail([task], error)

    def _upload(self, shared: SharedPath, worker: str) -> None:
        if self._on(worker, files.is_kept, shared.digest):
            return
        for block in files.blocks(shared.path):
            self._on(worker, take, shared, block)
            self.sent += len(block.content)

    def _on(self, worker: str, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function on a worker and return its result, independently of the worker's tasks.

        Raises:
            _WorkerGone: It does not answer.
        """
        try:
            answers = self._client.sync(
                self._client._run, function, *arguments, workers=[worker], on_error="return", callback_timeout=_NO_WORKER_SECONDS
            )
        except OSError as error:
            raise _WorkerGone from error
        answer = answers.get(worker, _WorkerGone())
        if not isinstance(answer, BaseException):
            return answer
        if type(answer).__module__.startswith("distributed"):
            raise _WorkerGone from answer
        raise answer

    def is_lost(self, error: BaseException) -> bool:
        """Return whether every worker that got the task died."""
        return isinstance(error, self._killed)

    def mend(self) -> None:
        """Do nothing: the scheduler and the operator of the workers replace them."""

    def check(self) -> None:
        """Refresh the number of workers, at intervals.

        Raises:
            SchedulerGone: The scheduler does not answer.
            WorkersError: There has been no worker for a while.
        """
        if self._client.status != "running":
            raise self._gone()
        now = time.monotonic()
        if now - self._refreshed < _REFRESH_SECONDS:
            return
        try:
            identity = self._client.sync(self._client.scheduler.identity, n_workers=0, callback_timeout=_ANSWER_SECONDS)
        except (OSError, CancelledError) as error:
            raise self._gone() from error
        self._refreshed, self._width = now, int(identity["total_threads"])
        if self._cluster is not None and self._width < self._jobs:
            self._cluster.scale(self._jobs)  # LocalCluster closes a worker for good that takes long to restart
        self._seen = now if self._width else self._seen
        if now - self._seen > _NO_WORKER_SECONDS:
            raise WorkersError(f"{self._target}: there has been no worker for {_NO_WORKER_SECONDS} s")

    def _gone(self) -> SchedulerGone:
        return SchedulerGone(f"{self._target}: the Dask scheduler is gone")

    def close(self, *, now: bool) -> None:
        """Disconnect from the scheduler, and end it if it was started here.

        Running tasks on other machines finish without a receiver, whether ``now`` is True or not.
        """
        self._closed.set()
        self._uploads.shutdown(wait=False, cancel_futures=True)
        with _errors_ignored():
            self._executor.shutdown(wait=False)
        with _errors_ignored():
            self._client.close(timeout=_ANSWER_SECONDS)
        if self._cluster is not None:
            with _errors_ignored():
                self._cluster.close(timeout=_ANSWER_SECONDS)


class _WorkerGone(Exception):
    """The worker that should receive a file is gone. The task goes to another one."""


@contextlib.contextmanager
def _errors_ignored() -> Iterator[None]:
    """Ignore all errors, for cleaning up after a scheduler that may be gone."""
    with contextlib.suppress(Exception):
        yield
