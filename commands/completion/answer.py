"""The answer to a TAB, in good time: candidates for the last word of a line."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Sequence
from typing import Final

import click
from click.shell_completion import CompletionItem, ShellComplete

from kubestow.commands.completion import shells, values

#: Seconds of the processor and of the clock after which nothing is answered: a shell waits meanwhile.
_BUSY: Final = 3.0
_WAITING: Final = 30.0


def answer(main: click.Group, program: str, shell: str) -> None:
    """Print what completes the last word of the line that a shell, or kubectl, gives; nothing, where anything is wrong."""
    _end_in_time()
    with contextlib.suppress(Exception):
        words = sys.argv if shell == "kubectl" else shells.words_of(os.environ["COMP_LINE"])
        before, word = list(words[1:-1]), words[-1] if len(words) > 1 else ""
        items = complete(main, program, before, word)
        text = "".join(f"{row}\n" for row in shells.rows(shell, items, word, os.environ.get("COMP_WORD", word)))
        sys.stdout.buffer.write(text.encode())
        sys.stdout.buffer.flush()
    os._exit(0)


def complete(main: click.Group, program: str, before: Sequence[str], word: str) -> list[CompletionItem[str]]:
    """Return what completes ``word`` after the words ``before``, the program left out."""
    name = next((each for each in before if not each.startswith("-")), "")
    if name == "batch":
        return _of_batch(main, program, before, word)
    return _completed(main, program, before, word, name)


def _of_batch(main: click.Group, program: str, before: Sequence[str], word: str) -> list[CompletionItem[str]]:
    """Return what completes a batch: its own options, and those of the command that it runs."""
    from kubestow.commands.batch.arguments import by_name, unfit
    from kubestow.commands.batch.task import COMMANDS

    start = next((at for at, each in enumerate(before) if each in COMMANDS), None)
    if start is None:
        commands = [] if word.startswith("-") or before[-1].startswith("-") else [name for name in COMMANDS if name.startswith(word)]
        return [*map(CompletionItem, commands), *_completed(main, program, before, word, "batch")]
    if before[-1] in by_name(main.commands["batch"]):
        return _completed(main, program, ["batch", before[-1]], word, "batch")
    theirs = _completed(main, program, before[start:], word, before[start])
    if not word.startswith("-") or "=" in word:
        return theirs
    options = by_name(main.commands[before[start]])
    own = _completed(main, program, ["batch"], word, "batch")
    known = {item.value for item in own}
    return own + [item for item in theirs if item.value not in known and not unfit(options[item.value])]


def _completed(main: click.Group, program: str, before: Sequence[str], word: str, name: str) -> list[CompletionItem[str]]:
    for option in main.commands[name].params if name in main.commands else ():
        if option.metavar is not None and option.metavar in values.BY_METAVAR:
            option.type = values.Value(option.metavar)
    return ShellComplete(main, {}, program, shells.VARIABLE).get_completions(list(before), word)


def _end_in_time() -> None:
    """End the process where it is busy or waits for too long; not where there are no such timers."""
    with contextlib.suppress(AttributeError, ValueError):
        for timer, number, seconds in (
            (signal.ITIMER_PROF, signal.SIGPROF, _BUSY),
            (signal.ITIMER_REAL, signal.SIGALRM, _WAITING),
        ):
            signal.signal(number, lambda *_: os._exit(0))
            signal.setitimer(timer, seconds)
