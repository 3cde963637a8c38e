"""Pods and workloads as arguments, as for kubectl: ``pod/NAME``, ``deploy/NAME``, ``sts NAME``.

See https://kubernetes.io/docs/reference/kubectl/#syntax.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import click

#: A name after a kind, ``sts NAME``. A word with the ending of a file is a file, even if there is none.
_NAME: Final = re.compile(r"(?!.*\.(json|ya?ml|gz|tgz|tar|zip)$)[^/]+")


@dataclass(frozen=True)
class NamedObject:
    """A pod or workload that the command line names.

    Attributes:
        typed: The words of the user, for messages.
        kind: ``Pod``, or the kind of a workload.
        name: The name; ``NAMESPACE/NAME`` if the user gave both.
    """

    typed: str
    kind: str
    name: str


def split(words: Sequence[str]) -> tuple[tuple[str, ...], NamedObject | None]:
    """Return the files among the arguments, and the pod or workload that the others name; None without one.

    A word that names an existing file is a file. The word ``pods`` alone means all pods and is dropped.

    Raises:
        click.UsageError: several objects, or a kind of workloads without a name.
    """
    files: list[str] = []
    found: list[NamedObject] = []
    remaining = list(words)
    while remaining:
        word = remaining.pop(0)
        head, slash, name = word.partition("/")
        kind = None if _is_file(word) else _kind(head)
        if kind is None:
            files.append(word)
        elif slash:
            if not name or name.count("/") > 1 or name.startswith("/") or name.endswith("/"):
                raise click.UsageError(f"{word}: expected {head}/NAME (and -n NAMESPACE)")
            found.append(NamedObject(word, kind, name))
        elif remaining and not _is_file(remaining[0]) and _NAME.fullmatch(remaining[0]):
            name = remaining.pop(0)
            found.append(NamedObject(f"{word} {name}", kind, name))
        elif kind != "Pod":
            raise click.UsageError(f"{word}: expected {word}/NAME")
    if len(found) > 1:
        raise click.UsageError(f"{found[0].typed} and {found[1].typed}: expected one pod or workload")
    return tuple(files), found[0] if found else None


def _is_file(word: str) -> bool:
    return word == "-" or os.path.lexists(word)


def _kind(word: str) -> str | None:
    """Return the kind that a word names. The table of kinds is imported for the rare words that are no files."""
    from kubestow.models.workloads.view import kind_named

    return kind_named(word)
