"""A task of a batch: a command with its options on the files of one snapshot, and the name that follows from its content."""

from __future__ import annotations

import hashlib
import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import click

from kubestow.commands import VERSION
from kubestow.solver.executors.files import digest_of

#: Commands whose results can be put side by side.
COMMANDS: Final = ("audit", "solve", "explain", "rebalance", "fit", "size", "survive", "upgrade")


@dataclass(frozen=True)
class Task:
    """``id``: its name; ``files``: of the snapshot, as they were named; ``digests``: SHA-256 of each input file by its path, those that
    options name included; ``label``: the option set's name in the plan, if any; ``since``: earlier snapshots of the cluster."""

    id: str
    command: str
    options: tuple[str, ...]
    files: tuple[str, ...]
    digests: tuple[tuple[str, str], ...]
    label: str | None = None
    since: tuple[str, ...] = ()


def digest(path: str, known: dict[str, str]) -> str:
    """Return the SHA-256 of a file, or of all files of a directory with their names; ``known``: digests by path, added to.

    Raises:
        OSError: it cannot be read.
    """
    if path not in known:
        known[path] = digest_of(path)
    return known[path]


def make(
    command: str,
    options: Sequence[str],
    files: Sequence[str],
    known: dict[str, str],
    label: str | None = None,
    since: Sequence[str] = (),
) -> Task:
    """Return the task, named by its input's content, command and options; where a file lies does not matter.

    Raises:
        OSError: an input file cannot be read.
    """
    named = list(input_files(command, options))
    digests = tuple((path, digest(path, known)) for path in dict.fromkeys((*files, *named, *since)))
    told = dict(digests)
    parts = [VERSION, command, *(instead(option, told) for option in options), *(told[path] for path in files)]
    parts += ["--since", *(told[path] for path in since)] if since else []
    name = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
    return Task(name, command, tuple(options), tuple(files), digests, label, tuple(since))


def instead(option: str, of_path: Mapping[str, str]) -> str:
    """Return an option with what stands for a file, such as its content, in place of its path."""
    name, equals, path = option.partition("=")
    return of_path.get(option) or (f"{name}={of_path[path]}" if equals and path in of_path else option)


def command_of(name: str) -> click.Command:
    """Return a command by its name."""
    from importlib import import_module

    found: click.Command = getattr(import_module(f"kubestow.commands.{name}"), name)
    return found


def input_files(command: str, options: Sequence[str]) -> Iterator[str]:
    """Return what options name for reading: values that are paths of files or folders, also as ``NAME=FILE``."""
    takes = {spelt: p for p in command_of(command).params if isinstance(p, click.Option) and not p.is_flag for spelt in p.opts}
    for spelt, value in itertools.pairwise(options):
        if spelt in takes:
            there = os.path.exists if isinstance(takes[spelt].type, click.Path) else os.path.isfile
            yield from (path for path in (value, value.partition("=")[2]) if path and there(path))
