"""What a worker does: one task, from its files to the document in the folder of results."""

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
from typing import Final

import click

from kubestow.commands.batch import room, rows
from kubestow.commands.batch.task import Task, command_of, instead
from kubestow.commands.common.exit_codes import BAD_INPUT, INTERRUPTED, OUTSIDE, why_not
from kubestow.models.documents.batch import Row
from kubestow.solver.executors.files import Shared, local_path

WRONG_USAGE: Final = 2
#: What an OSError says where there is no room.
FULL: Final = (errno.ENOSPC, errno.EDQUOT)


@dataclass(frozen=True)
class Ending:
    """How a task ended. ``said``: lines on standard error; ``seconds``: on the clock; ``full``: there was no room for the result."""

    exit: int
    said: tuple[str, ...]
    seconds: float
    full: bool = False


@dataclass(frozen=True)
class Work:
    """What all tasks of a batch have in common. ``folder``: of the results, None where workers do not see it and results are handed back;
    ``memory``: bytes that a task may take; ``share``: searches in parallel that each runs, unless its options say; ``measure``: whether
    rows tell what of the nodes is taken."""

    folder: str | None
    memory: int | None = None
    share: int = 1
    measure: bool = False


@dataclass(frozen=True)
class Outcome:
    """A row, the result where it is handed back, and whether the folder is full."""

    row: Row
    document: bytes | None = None
    full: bool = False


def name_of(task: Task) -> str:
    """Return the file of a task's result, as seen from the folder of the summary."""
    return f"results/{task.id}.json"


def work(task: Task, common: Work, shared: tuple[Shared | str, ...]) -> Outcome:
    """Do a task, and return its row. ``shared``: what stands for each of its files here, in the order of its digests.

    Raises:
        NotHereError: a file has to be brought here first.
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
                os.unlink(target)  # of a run that did not come to write its row
        since = (token for path in here.since for token in ("--since", path))
        ending = perform(here, target, common.memory, (*within(task, common.share), *since))
        document = None
        if ending.exit != INTERRUPTED:  # what was found until then is not what the task is to give
            with contextlib.suppress(FileNotFoundError), open(target, "rb") as file:
                document = file.read()
        said = [_as_named(line, paths) for line in ending.said]
        row = rows.row(task, ending.exit, said, (name_of(task), document) if document is not None else None, ending.seconds)
        if common.measure and row.result is not None and row.capturedAt:
            row.room = room.measured(here.files, task.digests)
    return Outcome(row, document if common.folder is None else None, ending.full)


def _as_named(line: str, paths: dict[str, str]) -> str:
    """Return what was said with the paths that the user knows."""
    for path, here in paths.items():
        line = line.replace(here, path) if here != path else line
    return line


def within(task: Task, share: int) -> tuple[str, ...]:
    """Return what a task gets beside its options as one of several that run at once. A deterministic search has a number of workers that
    is its own, and part of its answer."""
    names = {p.name for p in command_of(task.command).params if isinstance(p, click.Option)}
    own = "workers" not in names or "--workers" in task.options or "--deterministic" in task.options
    return (*(("--jobs", "1") if "jobs" in names else ()), *(() if own else ("--workers", str(share))))


def perform(task: Task, target: str, memory: int | None = None, more: tuple[str, ...] = ()) -> Ending:
    """Run the command of a task in this process, its document to ``target``, whole or not at all. ``memory``: bytes that it may take;
    ``more``: further options.

    One thread of a process does this at a time, since what a command prints is caught.
    """
    started = time.monotonic()
    heard = io.StringIO()
    with contextlib.redirect_stdout(heard), contextlib.redirect_stderr(heard), _at_most(memory):
        code, full = _run([*task.options, *more, "-q", "-f", f"json={target}", "--", *task.files], task.command)
    lines = tuple(line for line in heard.getvalue().splitlines() if line.strip())
    return Ending(code, lines, round(time.monotonic() - started, 3), full)


def _run(arguments: list[str], name: str) -> tuple[int, bool]:
    """Return the exit code, and whether there was no room for the result."""
    try:
        code = command_of(name).main(arguments, prog_name=f"kubestow {name}", standalone_mode=False)
    except click.exceptions.Exit as end:
        return end.exit_code, False
    except click.UsageError as error:
        return _said(error.format_message(), WRONG_USAGE), False
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
    """Bound the address space while a task runs: beyond it, an allocation fails, and the task with it."""
    if memory is None or not os.path.exists("/proc/self/statm"):
        yield
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    with open("/proc/self/statm", encoding="ascii") as sizes:
        now = int(sizes.read().split()[0]) * resource.getpagesize()
    limit = now + memory if hard == resource.RLIM_INFINITY else min(now + memory, hard)
    resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
