"""The folder of a batch: results, a journal of finished rows, and a lock against a second batch."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import IO, Any, Final, Self

import msgspec

from kubestow.commands.common.exit_codes import fail
from kubestow.models.documents.batch import Row
from kubestow.report.documents.output import write_file

try:
    import fcntl
except ImportError:  # this platform has no such locks
    fcntl = None  # type: ignore[assignment]

RESULTS: Final = "results"
_JOURNAL: Final = "rows.jsonl"
_LOCK: Final = ".lock"
SUMMARY: Final = "summary.json"
#: Further files of a summary.
_MORE: Final = ("summary.csv", "index.html", "series.csv")


class Folder:
    """A folder for one batch at a time, used as a context manager.

    Attributes:
        path: Path of the folder.
        done: Rows of finished tasks by id.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.done: dict[str, Row] = {}
        self._lock: IO[Any] | None = None
        self._journal: IO[bytes] | None = None

    def take(self, *, resume: bool) -> Self:
        """Create and lock the folder and read finished rows. End the command if it is in use or has other results.

        Raises:
            OSError: the folder cannot be created or written.
        """
        os.makedirs(os.path.join(self.path, RESULTS), exist_ok=True)
        self._lock = _locked(os.path.join(self.path, _LOCK))
        if self._lock is None:
            fail([f"{self.path}: another batch is running in this folder"])
        journal = Path(self.path, _JOURNAL)
        there = (journal.exists() and journal.stat().st_size > 0) or any(Path(self.path, RESULTS).iterdir())
        if there and not resume:
            self.release()
            fail([f"{self.path}: has results of a batch: continue it with --resume, or name another folder"])
        whole = True
        if journal.exists():
            text = journal.read_bytes()
            whole = not text or text.endswith(b"\n")
            self.done = {row.id: row for row in _rows(text) if self._is_there(row)}
        self._journal = journal.open("ab", buffering=0)
        if not whole:  # the last run ended in the middle of a line
            self._journal.write(b"\n")
        return self

    def _is_there(self, row: Row) -> bool:
        return row.result is not None and os.path.isfile(os.path.join(self.path, row.result))

    def record(self, row: Row, document: bytes | None = None) -> None:
        """Append a row to the journal. ``document``: a result from a remote worker, which is written first.

        Raises:
            OSError: the files cannot be written, for example because the disk is full.
        """
        if document is not None and row.result is not None:
            write_file(os.path.join(self.path, row.result), [document])
        if self._journal is not None:
            self._journal.write(msgspec.json.encode(row) + b"\n")

    def release(self) -> None:
        """Unlock the folder."""
        if self._journal is not None:
            self._journal.close()
        if self._lock is not None:
            self._lock.close()
        self._journal = self._lock = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def written(path: str, *, results: bool) -> list[str]:
    """Return the files that a batch in this folder writes or replaces. ``results``: include existing results of tasks."""
    found = [os.path.join(path, name) for name in (SUMMARY, *_MORE)]
    folder = Path(path, RESULTS)
    if results:
        found += [os.path.join(path, name) for name in (_JOURNAL, _LOCK)]
        found += sorted(map(str, folder.iterdir())) if folder.is_dir() else []
    return found


def _rows(text: bytes) -> list[Row]:
    """Return the complete rows of a journal."""
    found = []
    for line in text.splitlines():
        with contextlib.suppress(msgspec.DecodeError, msgspec.ValidationError):
            found.append(msgspec.json.decode(line, type=Row))
    return found


def _locked(path: str) -> IO[Any] | None:
    """Open and lock a file; None if another process holds the lock. The lock ends with the process."""
    file = open(path, "ab")  # noqa: SIM115 (open as long as the batch runs)
    try:
        if fcntl is not None:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return None
    return file
