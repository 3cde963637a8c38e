"""A task of a batch: a command with options on one snapshot, identified by a hash of its content."""

from __future__ import annotations

import hashlib
import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import click

from kubestow.commands import COMMANDS, VERSION
from kubestow.commands.batch.plan import OptionSet
from kubestow.solver.executors.files import digest_of


@dataclass(frozen=True)
class BatchTask:
    """A command with options on one snapshot.

    Attributes:
        id: The hash that identifies the task.
        command: Name of the command.
        options: Options as on the command line.
        files: Files of the snapshot, as named by the user.
        digests: Pairs of path and SHA-256 of all input files, including files of options.
        label: Name of the option set in the plan; None without one.
        since: Earlier snapshots of the cluster.
    """

    id: str
    command: str
    options: tuple[str, ...]
    files: tuple[str, ...]
    digests: tuple[tuple[str, str], ...]
    label: str | None = None
    since: tuple[str, ...] = ()


def digest(path: str, known: dict[str, str]) -> str:
    """Return the SHA-256 of a file, or of a directory's files and their names. ``known`` caches digests by path.

    Raises:
        OSError: the file cannot be read.
    """
    if path not in known:
        known[path] = digest_of(path)
    return known[path]


def make(chosen: OptionSet, files: Sequence[str], known: dict[str, str], since: Sequence[str] = ()) -> BatchTask:
    """Return the task. Its id depends on command, options and the content of files, not on their paths.

    Raises:
        OSError: an input file cannot be read.
    """
    command, options = chosen.command, chosen.options
    named = list(input_files(command, options))
    digests = tuple((path, digest(path, known)) for path in dict.fromkeys((*files, *named, *since)))
    hashes = dict(digests)
    parts = [VERSION, command, *(instead(option, hashes) for option in options), *(hashes[path] for path in files)]
    parts += ["--since", *(hashes[path] for path in since)] if since else []
    name = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
    return BatchTask(name, command, options, tuple(files), digests, chosen.label, tuple(since))


def instead(option: str, of_path: Mapping[str, str]) -> str:
    """Return an option with its path replaced according to ``of_path``, also in ``NAME=FILE``."""
    name, equals, path = option.partition("=")
    return of_path.get(option) or (f"{name}={of_path[path]}" if equals and path in of_path else option)


def input_files(command: str, options: Sequence[str]) -> Iterator[str]:
    """Yield the files and folders that options name, also as ``NAME=FILE``."""
    takes = {spelt: p for p in COMMANDS[command].params if isinstance(p, click.Option) and not p.is_flag for spelt in p.opts}
    for spelt, value in itertools.pairwise(options):
        if spelt in takes:
            there = os.path.exists if isinstance(takes[spelt].type, click.Path) else os.path.isfile
            yield from (path for path in (value, value.partition("=")[2]) if path and there(path))
