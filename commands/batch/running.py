"""The tasks of a batch through workers: rows as they come, ^C, and a folder that is full."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from kubestow.commands.batch import rows
from kubestow.commands.batch.folder import Folder
from kubestow.commands.batch.task import Task
from kubestow.commands.batch.worker import FULL, Outcome, Work, work
from kubestow.models.documents.batch import Row
from kubestow.report.terminal.fleet.progress import Display
from kubestow.solver.executors.run import Done, run
from kubestow.solver.executors.workers import Workers

#: Rows that say why they failed, as they come.
_TOLD: Final = 20


class Full(Exception):
    """There is no room in the folder."""


class _Ends:
    """^C and SIGTERM while tasks run: at once where workers are waited for, else when the row at hand is kept."""

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

    def next(self, found: Iterator[Done[Task, Outcome]]) -> Done[Task, Outcome] | None:
        """Return the next one.

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


def rows_of(tasks: Sequence[Task], open_workers: Callable[[], Workers], common: Work, folder: Folder, display: Display) -> Iterator[Row]:
    """Yield the row of each task when it is done and kept in the folder.

    Raises:
        KeyboardInterrupt: ^C; the workers are ended then, and what is done is kept.
        Full: the folder has no room; the same.
        WorkersError: there are none, or no more; the same.
        OSError: the folder cannot be written.
    """
    ends, ended = _Ends(), False
    with ends.heard():
        workers = open_workers()
        try:

            def arguments(task: Task) -> tuple[Any, ...]:
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


def _row(done: Done[Task, Outcome]) -> Row:
    """Return the row of a task, also of one that has none of its own."""
    if done.value is not None:
        return done.value.row
    if done.lost:
        why = "its worker died each time that it was tried: out of memory, perhaps"
    elif isinstance(done.error, MemoryError):
        why = "out of memory"
    else:
        why = f"internal fault, please report it: {type(done.error).__name__}: {done.error}"
    return rows.row(done.task, None, [" ".join(why.split())], None, None)


class Log:
    """What is said of tasks as they end."""

    def __init__(self, display: Display, *, quiet: bool, verbose: bool) -> None:
        self._display, self._quiet, self._most = display, quiet, None if verbose else _TOLD
        self._failed = 0

    def take(self, row: Row) -> None:
        """Count a row that is new."""
        self._display.end(failed=row.result is None)
        self.tell(row)

    def tell(self, row: Row) -> None:
        """Say why a row failed, if it did."""
        if row.result is None:
            self._failed += 1
            if not self._quiet and (self._most is None or self._failed <= self._most):
                self._display.say(f"failed: {', '.join(row.snapshot)}: {row.command}: {row.reason}")
            if not self._quiet and self._most is not None and self._failed == self._most + 1:
                self._display.say("failed: more tasks, which the summary lists (-v shows all here)")
