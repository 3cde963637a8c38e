"""The snapshots of a batch: files, patterns, and folders."""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence

from kubestow.models.snapshot import sources
from kubestow.models.snapshot.snapshot import InputError


def expand(named: Sequence[str], *, each_directory: bool, without: str | None = None) -> list[str]:
    """Return the distinct paths of all snapshots, in the given order, and sorted by name within a pattern or folder.

    A missing file that is named itself is included, so that its row reports the error.

    Args:
        named: Files, patterns and folders.
        each_directory: True if a folder is one snapshot; False if each file in it is one, at any depth.
        without: The folder of results. Its files are skipped unless named themselves.

    Raises:
        InputError: a pattern has no match, or a folder has no snapshots.
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
