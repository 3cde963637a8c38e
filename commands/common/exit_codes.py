"""How a command ends, and what it says of that."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence
from typing import Final, NoReturn

import click

from kubestow.commands.common.error_pages import section

#: What :func:`why_not` tells.
OUTSIDE: Final = (OSError, MemoryError, RecursionError, UnicodeError)

DONE, BAD_INPUT, INCOMPLETE, VIOLATED, INTERRUPTED = 0, 1, 3, 4, 130


def say(text: str) -> None:
    """Write one line to standard error; that nobody listens there is no reason to fail."""
    from kubestow.report.documents.output import one_line

    with contextlib.suppress(OSError):
        click.echo(one_line(text), err=True)


def why_not(error: Exception) -> str:
    """Return what can go wrong outside our hands as one line: files, memory, and input that no machine can follow."""
    if isinstance(error, OSError):
        where = f"{os.fsdecode(error.filename)}: " if isinstance(error.filename, str | bytes) else ""
        return f"{where}{error.strerror or error}"
    if isinstance(error, MemoryError):
        return "out of memory"
    return "the input is nested too deeply" if isinstance(error, RecursionError) else f"text that cannot be encoded: {error}"


def on_a_terminal() -> bool:
    """Return whether somebody reads standard error as it is written."""
    try:
        return sys.stderr.isatty()
    except (AttributeError, ValueError):  # there is none, or it is closed
        return False


def fail(problems: Sequence[str], code: int = BAD_INPUT) -> NoReturn:
    """End the command with one line per problem on standard error, on a terminal with the address of what is written about it."""
    for told in problems:
        problem = f"(no file name){told}" if told.startswith(": ") else told
        page = section(problem) if code == BAD_INPUT and on_a_terminal() else None
        say(f"kubestow: {problem}" if page is None else f"kubestow: {problem} ({page})")
    raise click.exceptions.Exit(code)


def refuse(wrong: object, why: str) -> None:
    """End the command as wrongly used, if it is."""
    if wrong:
        raise click.UsageError(why)
