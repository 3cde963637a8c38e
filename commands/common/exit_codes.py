"""Exit codes, and the messages with which a command ends."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence
from typing import Final, NoReturn

import click

from kubestow.commands.common.error_pages import section

#: Errors outside the program's control, which :func:`why_not` describes.
OUTSIDE: Final = (OSError, MemoryError, RecursionError, UnicodeError)

DONE, BAD_INPUT, INCOMPLETE, VIOLATED, INTERRUPTED = 0, 1, 3, 4, 130


class Aborted(KeyboardInterrupt):
    """A second ^C, while a search still runs in its thread."""


def say(text: str) -> None:
    """Write one line to standard error; ignore a closed stream."""
    from kubestow.report.documents.output import one_line

    with contextlib.suppress(OSError):
        click.echo(one_line(text), err=True)


def why_not(error: Exception) -> str:
    """Describe an error outside the program's control in one line: files, memory, or input that is nested too deeply."""
    if isinstance(error, OSError):
        where = f"{os.fsdecode(error.filename)}: " if isinstance(error.filename, str | bytes) else ""
        return f"{where}{error.strerror or error}"
    if isinstance(error, MemoryError):
        return "out of memory"
    return "the input is nested too deeply" if isinstance(error, RecursionError) else f"text that cannot be encoded: {error}"


def on_a_terminal() -> bool:
    """Return True if standard error is a terminal."""
    try:
        return sys.stderr.isatty()
    except (AttributeError, ValueError):  # no stream, or a closed one
        return False


def fail(problems: Sequence[str], code: int = BAD_INPUT) -> NoReturn:
    """End the command with one line per problem on standard error. On a terminal, add the address of the matching help."""
    for text in problems:
        problem = f"(no file name){text}" if text.startswith(": ") else text
        page = section(problem) if code == BAD_INPUT and on_a_terminal() else None
        say(f"kubestow: {problem}" if page is None else f"kubestow: {problem} ({page})")
    raise click.exceptions.Exit(code)


def refuse(wrong: object, why: str) -> None:
    """End the command with a usage error if ``wrong`` is true."""
    if wrong:
        raise click.UsageError(why)
