"""Code that runs on Dask workers: tasks, sent in batches if short, and files sent to workers."""

from __future__ import annotations

import pickle
import time
from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from kubestow.solver.executors import files
from kubestow.solver.executors.files import FileBlock, NotHereError, SharedPath
from kubestow.solver.executors.workers import WorkersError

#: Evaluated as text, so that workers without kubestow can report that it is missing.
VERSIONS: Final = (
    "[('kubestow', __import__('commands').VERSION), ('Python', __import__('platform').python_version())]"
    " + [(name, __import__('importlib.metadata').metadata.version(name)) for name in ('ortools', 'msgspec', 'numpy')]"
)


#: Pickle of a task's value, its error, and its seconds. Pickling errors are returned as the task's error, because Dask itself would retry
#: forever.
TaskResult = tuple[bytes, BaseException | None, float]


@cache
def versions() -> tuple[tuple[str, str], ...]:
    """Return the versions in this process that results depend on."""
    return tuple(eval(VERSIONS))


def insist_on(expected: tuple[tuple[str, str], ...], worker: str, there: Mapping[str, str]) -> None:
    """Raise WorkersError if a worker has other versions."""
    differences = [f"{name} {there.get(name)} there, {here} here" for name, here in expected if there.get(name) != here]
    if differences:
        raise WorkersError(f"worker {worker} has other versions: {'; '.join(differences)}")


def call(expected: tuple[tuple[str, str], ...], parcels: tuple[bytes, ...]) -> list[TaskResult]:
    """Run some tasks on a worker.

    Args:
        expected: Versions that the tasks require; see :func:`versions`.
        parcels: Pickles of functions with their arguments.

    Returns:
        For each task, the pickle of its value or its error, and its seconds.

    Raises:
        WorkersError: This worker, which joined later, has other versions or more than one thread.
    """
    from distributed import get_worker

    worker = get_worker()
    if worker.state.nthreads != 1:
        raise WorkersError(f"worker {worker.address} has {worker.state.nthreads} threads: kubestow's tasks need workers with one")
    insist_on(expected, worker.address, dict(versions()))
    return [_result(parcel, worker.address) for parcel in parcels]


def _result(parcel: bytes, address: str) -> TaskResult:
    began = time.monotonic()
    files.begin()
    try:
        work, arguments = pickle.loads(parcel)
        return pickle.dumps(work(*arguments), pickle.HIGHEST_PROTOCOL), None, time.monotonic() - began
    except NotHereError as error:
        return b"", NotHereError(error.shared, address), time.monotonic() - began
    except Exception as error:  # noqa: BLE001 it is the task's
        return b"", _picklable(error), time.monotonic() - began


def _picklable(error: Exception) -> Exception:
    """Return an error that survives pickling, with its message."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # noqa: BLE001 pickling may fail in any way
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


def take(shared: SharedPath, block: FileBlock, dask_worker: Any = None) -> None:
    """Store a block of a file on a worker."""
    files.take(shared, block, dask_worker.local_directory)
