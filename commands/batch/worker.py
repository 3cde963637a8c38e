"""Execution of one task in a worker, from its files to the result in the folder."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Final

import click

from kubestow.commands import COMMANDS
from kubestow.commands.batch import rows, utilisation
from kubestow.commands.batch.task import BatchTask, instead
from kubestow.commands.common.exit_codes import BAD_INPUT, INTERRUPTED, OUTSIDE, why_not
from kubestow.models.documents.batch import Row
from kubestow.solver.executors.files import SharedPath, local_path

try:
    import resource
except ImportError:  # this platform has no such limits
    resource = None  # type: ignore[assignment]

WRONG_USAGE_CODE: Final = 2
#: Error numbers of a full disk.
FULL: Final = (errno.ENOSPC, errno.EDQUOT)


@dataclass(frozen=True)
class Ending:
    """The end of a task.

    Attributes:
        exit: Exit code.
        said: Lines on standard error.
        seconds: Run time on the clock.
        full: True if the disk was full.
    """

    exit: int
    said: tuple[str, ...]
    seconds: float
    full: bool = False


@dataclass(frozen=True)
class BatchWork:
    """Common settings of all tasks of a batch.

    Attributes:
        folder: Folder of results; None if workers cannot access it and return results instead.
        memory: Memory limit of a task in bytes; None without one.
        share: Parallel searches of a task that has no --workers.
        measure: True to record the utilisation of nodes in rows.
    """

    folder: str | None
    memory: int | None = None
    share: int = 1
    measure: bool = False


@dataclass(frozen=True)
class TaskOutcome:
    """A row, the returned result if any, and whether the disk is full."""

    row: Row
    document: bytes | None = None
    full: bool = False


def name_of(task: BatchTask) -> str:
    """Return the path of a task's result, relative to the folder of the summary."""
    return f"results/{task.id}.json"


def work(task: BatchTask, common: BatchWork, shared: tuple[SharedPath | str, ...]) -> TaskOutcome:
    """Run a task and return its row. ``shared``: local stand-ins for its files, in the order of its digests.

    Raises:
        NotHereError: a file has to be transferred first.
    """
    paths = {path: local_path(each) for (path, _), each in zip(task.digests, shared, strict=True)}
    here = replace(
        task,
        files=tuple(paths.get(path, path) for path in task.files),
        options=tuple(instead(option, paths) for option in task.options),
        since=tuple(paths.get(path, path) for path in task.since),
    )
    with contextlib.ExitStack() as stack:
        if common.folder is None:
            target = os.path.join(stack.enter_context(tempfile.TemporaryDirectory(prefix="kubestow-")), "result.json")
        else:
            target = os.path.join(common.folder, name_of(task))
            with contextlib.suppress(FileNotFoundError):
                os.unlink(target)  # left by a run that ended before it wrote its row
        since = (token for path in here.since for token in ("--since", path))
        ending = perform(here, target, common.memory, (*within(task, common.share), *since))
        document = None
        if ending.exit != INTERRUPTED:  # an interrupted search has no valid result of the task
            with contextlib.suppress(FileNotFoundError), open(target, "rb") as file:
                document = file.read()
        said = [_as_named(line, paths) for line in ending.said]
        row = rows.row(task, ending.exit, said, (name_of(task), document) if document is not None else None, ending.seconds)
        if common.measure and row.result is not None and row.capturedAt:
            row.room = utilisation.measured(here.files, task.digests)
    return TaskOutcome(row, document if common.folder is None else None, ending.full)


def _as_named(line: str, paths: dict[str, str]) -> str:
    """Return a line with local paths replaced by those of the user."""
    for path, here in paths.items():
        line = line.replace(here, path) if here != path else line
    return line


def within(task: BatchTask, share: int) -> tuple[str, ...]:
    """Return the additional options of a task that runs in parallel with others.

    A deterministic search keeps its number of workers, which affects its result.
    """
    names = {p.name for p in COMMANDS[task.command].params if isinstance(p, click.Option)}
    own = "workers" not in names or "--workers" in task.options or "--deterministic" in task.options
    return (*(("--jobs", "1") if "jobs" in names else ()), *(() if own else ("--workers", str(share))))


def perform(task: BatchTask, target: str, memory: int | None = None, more: tuple[str, ...] = ()) -> Ending:
    """Run the command of a task in this process. Its document goes to ``target``, which a failed run leaves untouched.

    Only one thread of a process may run this at a time, because the command's output is captured.

    Args:
        task: The task.
        target: File of the result.
        memory: Memory limit in bytes; None without one.
        more: Further options.
    """
    started = time.monotonic()
    import_module(f"kubestow.commands.{task.command}.run")  # before the limit, so that a task does not pay for the program
    heard = io.StringIO()
    with contextlib.redirect_stdout(heard), contextlib.redirect_stderr(heard), _at_most(memory):
        code, full = _run([*task.options, *more, "-q", "-f", f"json={target}", "--", *task.files], task.command)
    lines = tuple(line for line in heard.getvalue().splitlines() if line.strip())
    return Ending(code, lines, round(time.monotonic() - started, 3), full)


def _run(arguments: list[str], name: str) -> tuple[int, bool]:
    """Return the exit code, and True if the disk was full."""
    try:
        code = COMMANDS[name].main(arguments, prog_name=f"kubestow {name}", standalone_mode=False)
    except click.exceptions.Exit as end:
        return end.exit_code, False
    except click.UsageError as error:
        return _said(error.format_message(), WRONG_USAGE_CODE), False
    except click.Abort:
        return INTERRUPTED, False
    except OUTSIDE as error:
        return _said(why_not(error)), isinstance(error, OSError) and error.errno in FULL
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else BAD_INPUT, False
    return code if isinstance(code, int) else 0, False


def _said(line: str, code: int = BAD_INPUT) -> int:
    sys.stderr.write(f"{line}\n")
    return code


@contextlib.contextmanager
def _at_most(memory: int | None) -> Iterator[None]:
    """Limit the address space while a task runs. Beyond the limit, allocations and the task fail."""
    if memory is None or resource is None or not os.path.exists("/proc/self/statm"):
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    with open("/proc/self/statm", encoding="ascii") as sizes:
        now = int(sizes.read().split()[0]) * resource.getpagesize()
    limit = now + memory if hard == resource.RLIM_INFINITY else min(now + memory, hard)
    resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
