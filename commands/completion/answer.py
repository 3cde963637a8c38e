"""Candidates for the last word of a line, within a time limit."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Sequence
from typing import Final

import click
from click.shell_completion import CompletionItem, ShellComplete

from kubestow.commands.batch.arguments import BATCHED, by_name, unfit
from kubestow.commands.completion import shells, values

#: Limits in seconds of CPU time and of clock time. The shell blocks meanwhile.
_MAX_CPU_SECONDS: Final = 3.0
_MAX_CLOCK_SECONDS: Final = 30.0


def answer(main: click.Group, program: str, shell: str) -> None:
    """Print candidates for the last word of the line of a shell or kubectl; nothing after any error."""
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
    """Return the candidates for ``word`` after the words ``before``, without the program."""
    name = next((each for each in before if not each.startswith("-")), "")
    if name == "batch":
        return _of_batch(main, program, before, word)
    return _completed(main, program, before, word, name)


def _of_batch(main: click.Group, program: str, before: Sequence[str], word: str) -> list[CompletionItem[str]]:
    """Return the candidates for a batch: its own options, and those of the inner command."""
    start = next((at for at, each in enumerate(before) if each in BATCHED), None)
    if start is None:
        commands = [] if word.startswith("-") or before[-1].startswith("-") else [name for name in BATCHED if name.startswith(word)]
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
    options = main.commands[name].params if name in main.commands else []
    types = [option.type for option in options]
    for option in options:
        if option.metavar is not None and option.metavar in values.BY_METAVAR:
            option.type = values.Value(option.metavar)
    try:
        return ShellComplete(main, {}, program, shells.VARIABLE).get_completions(list(before), word)
    finally:
        for option, type_ in zip(options, types, strict=True):
            option.type = type_


def _end_in_time() -> None:
    """Set timers that end the process after the limits, if the platform has them."""
    with contextlib.suppress(AttributeError, ValueError):
        for timer, number, seconds in (
            (signal.ITIMER_PROF, signal.SIGPROF, _MAX_CPU_SECONDS),
            (signal.ITIMER_REAL, signal.SIGALRM, _MAX_CLOCK_SECONDS),
        ):
            signal.signal(number, lambda *_: os._exit(0))
            signal.setitimer(timer, seconds)
