"""Which snapshots a batch is about: files, patterns, and folders of files or folders that are one snapshot each."""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence

from kubestow.models.snapshot import sources
from kubestow.models.snapshot.snapshot import InputError


def expand(named: Sequence[str], *, each_directory: bool, without: str | None = None) -> list[str]:
    """Return the paths of all snapshots, each once, in the order in which they are named and by name within.

    A folder stands for the files in it, at any depth, or is one snapshot with ``each_directory``. A file that is named and is not there is
    a snapshot all the same, for its row to say so.

    Args:
        without: The folder of the results. Its files are no snapshots, unless they are named themselves.

    Raises:
        InputError: a pattern matches nothing, or a folder holds nothing.
    """
    problems: list[str] = []
    found: dict[str, None] = {}
    own = os.path.realpath(without) if without is not None else None
    for name in named:
        matches = [name] if os.path.lexists(name) or not glob.has_magic(name) else sorted(glob.glob(name, recursive=True))
        if not matches:
            problems.append(f"{name}: no file matches this pattern")
        for path in matches:
            if each_directory or not os.path.isdir(path):
                here = [path]
            else:
                here = [file.path for file in sources.files([path], lambda where, why: problems.append(f"{where}: {why}"))]
            named_itself = path == name and not os.path.isdir(path)
            found.update(dict.fromkeys(file for file in here if own is None or named_itself or not _inside(file, own)))
    if problems:
        raise InputError(problems)
    return list(found)


def _inside(path: str, folder: str) -> bool:
    real = os.path.realpath(path)
    return real == folder or real.startswith(folder + os.sep)
