"""Running of a batch's tasks on workers: rows as they finish, ^C, and a full disk."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from kubestow.commands.batch import rows
from kubestow.commands.batch.folder import Folder
from kubestow.commands.batch.task import BatchTask
from kubestow.commands.batch.worker import FULL, BatchWork, TaskOutcome, work
from kubestow.models.documents.batch import Row
from kubestow.report.terminal.fleet.progress import Display
from kubestow.solver.executors.run import FinishedTask, run
from kubestow.solver.executors.workers import Workers

#: Number of failures printed without -v.
_MAX_FAILURES_LISTED: Final = 20


class Full(Exception):
    """The disk of the folder is full."""


class _Ends:
    """^C and SIGTERM during tasks: at once while waiting for workers, otherwise after the current row is kept."""

    def __init__(self) -> None:
        self.received = False
        self.waiting = False

    @contextlib.contextmanager
    def heard(self) -> Iterator[None]:
        before: dict[int, Any] = {}

        def answer(number: int, frame: object) -> None:
            self.received = True
            if self.waiting:
                self.waiting = False
                raise KeyboardInterrupt

        if threading.current_thread() is threading.main_thread():
            before = {number: signal.signal(number, answer) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, how in before.items():
                signal.signal(number, how)

    def next(self, found: Iterator[FinishedTask[BatchTask, TaskOutcome]]) -> FinishedTask[BatchTask, TaskOutcome] | None:
        """Return the next finished task; None at the end.

        Raises:
            KeyboardInterrupt: ^C.
        """
        if self.received:
            raise KeyboardInterrupt
        self.waiting = True
        try:
            return next(found, None)
        finally:
            self.waiting = False


def rows_of(
    tasks: Sequence[BatchTask], open_workers: Callable[[], Workers], common: BatchWork, folder: Folder, display: Display
) -> Iterator[Row]:
    """Yield the row of each task after it is finished and kept in the folder.

    Raises:
        KeyboardInterrupt: ^C. In all cases the workers are ended, and finished rows are kept.
        Full: the disk is full.
        WorkersError: no workers are left.
        OSError: the folder cannot be written.
    """
    ends, ended = _Ends(), False
    with ends.heard():
        workers = open_workers()
        try:

            def arguments(task: BatchTask) -> tuple[Any, ...]:
                return task, common, tuple(workers.share(path, digest) for path, digest in task.digests)

            found = run(workers, work, tasks, arguments=arguments, on_begin=display.begin)
            while (done := ends.next(found)) is not None:
                row, outcome = _row(done), done.value
                if outcome is not None and outcome.full:
                    raise Full
                try:
                    folder.record(row, outcome.document if outcome is not None else None)
                except OSError as error:
                    if error.errno in FULL:
                        raise Full from error
                    raise
                yield row
            ended = True
        finally:
            workers.close(now=not ended)


def _row(done: FinishedTask[BatchTask, TaskOutcome]) -> Row:
    """Return the row of a task; make one if its worker failed."""
    if done.value is not None:
        return done.value.row
    if done.lost:
        why = "its worker died in every attempt, perhaps for lack of memory"
    elif isinstance(done.error, MemoryError):
        why = "out of memory"
    else:
        why = f"internal fault, please report it: {type(done.error).__name__}: {done.error}"
    return rows.row(done.task, None, [" ".join(why.split())], None, None)


class Log:
    """Messages about finished tasks."""

    def __init__(self, display: Display, *, quiet: bool, verbose: bool) -> None:
        self._display, self._quiet, self._most = display, quiet, None if verbose else _MAX_FAILURES_LISTED
        self._failed = 0

    def take(self, row: Row) -> None:
        """Count a new row and report a failure."""
        self._display.end(failed=row.result is None)
        self.tell(row)

    def tell(self, row: Row) -> None:
        """Print the reason of a failed row."""
        if row.result is None:
            self._failed += 1
            if not self._quiet and (self._most is None or self._failed <= self._most):
                self._display.say(f"failed: {', '.join(row.snapshot)}: {row.command}: {row.reason}")
            if not self._quiet and self._most is not None and self._failed == self._most + 1:
                self._display.say("failed: more tasks, listed in the summary (-v prints all)")
