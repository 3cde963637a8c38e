"""What workers of Dask do: tasks, of which short ones come together, and files that are brought to them."""

from __future__ import annotations

import pickle
import time
from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from kubestow.solver.executors import files
from kubestow.solver.executors.files import NotHereError, Shared
from kubestow.solver.executors.workers import WorkersError

#: Read as text by any Python, so that workers without kubestow can say so.
VERSIONS: Final = (
    "[('kubestow', __import__('commands').VERSION), ('Python', __import__('platform').python_version())]"
    " + [(name, __import__('importlib.metadata').metadata.version(name)) for name in ('ortools', 'msgspec', 'numpy')]"
)


#: The pickle of a task's value, its error and its seconds. What cannot be pickled is the task's error here: Dask itself would ask for it
#: again and again.
Told = tuple[bytes, BaseException | None, float]


@cache
def versions() -> tuple[tuple[str, str], ...]:
    """Return the versions that results depend on, of this process."""
    return tuple(eval(VERSIONS))


def insist_on(expected: tuple[tuple[str, str], ...], worker: str, there: Mapping[str, str]) -> None:
    """Raise WorkersError where a worker has other versions."""
    differences = [f"{name} {there.get(name)} there, {here} here" for name, here in expected if there.get(name) != here]
    if differences:
        raise WorkersError(f"worker {worker} has other versions: {'; '.join(differences)}")


def call(expected: tuple[tuple[str, str], ...], parcels: tuple[bytes, ...]) -> list[Told]:
    """Do some tasks, on a worker, and tell what came of each: the pickle of its value or its error, and the seconds that it
    took. ``parcels``: pickles of functions with their arguments.

    Raises:
        WorkersError: this worker, which came later, is not like those that were there at first.
    """
    from distributed import get_worker

    worker = get_worker()
    if worker.state.nthreads != 1:
        raise WorkersError(f"worker {worker.address} has {worker.state.nthreads} threads: kubestow's tasks need workers with one")
    insist_on(expected, worker.address, dict(versions()))
    return [_told(parcel, worker.address) for parcel in parcels]


def _told(parcel: bytes, address: str) -> Told:
    began = time.monotonic()
    files.begin()
    try:
        work, arguments = pickle.loads(parcel)
        return pickle.dumps(work(*arguments), pickle.HIGHEST_PROTOCOL), None, time.monotonic() - began
    except NotHereError as error:
        return b"", NotHereError(error.shared, address), time.monotonic() - began
    except Exception as error:  # noqa: BLE001 it is the task's
        return b"", _sent_well(error), time.monotonic() - began


def _sent_well(error: Exception) -> Exception:
    """Return an error that survives the way, with what it says."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # noqa: BLE001 whatever keeps it
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


def take(shared: Shared, number: int, block: bytes, last: bool, packed: bool, dask_worker: Any = None) -> None:
    """Take a block of a file, on a worker."""
    files.take(shared, number, block, last=last, packed=packed, scratch=dask_worker.local_directory)
