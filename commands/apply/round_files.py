"""Files of the later rounds of ``apply --until-done``, kept next to the first document, and those of earlier runs."""

from __future__ import annotations

import os
from dataclasses import dataclass

from kubestow.live.apply.journal import journal_path
from kubestow.live.apply.kept_journal import set_aside, unfinished
from kubestow.live.apply.progress import progress_of
from kubestow.models.documents import journal
from kubestow.models.snapshot.snapshot import InputError


@dataclass(frozen=True)
class RoundFiles:
    """Paths of a round's document and snapshot.

    Attributes:
        number: The round; the run itself plans rounds from 2 on.
        document: Path of its plan or placement.
        snapshot: Path of the snapshot that it was made from.
    """

    number: int
    document: str
    snapshot: str


def of(path: str, number: int) -> RoundFiles:
    """Return the files of a round, given the path of the previous round's document."""
    stem = path.removesuffix(f".round-{number - 1}.json")
    return RoundFiles(number, f"{stem}.round-{number}.json", f"{stem}.round-{number}.snapshot.json")


def check(path: str, rounds: int) -> None:
    """Refuse to begin if an earlier run was cut off in a later round, because its files would be overwritten.

    Raises:
        InputError: a journal of a later round is unfinished or not a journal.
    """
    for number in range(2, rounds + 1):
        files = RoundFiles(number, f"{path}.round-{number}.json", f"{path}.round-{number}.snapshot.json")
        name = journal_path(files.document)
        progress = progress_of(journal.read(name).lines if _is_written(name) else ())
        why = unfinished(progress)
        if why and progress.requests:
            raise InputError(
                [
                    f"{name}: round {number} of an earlier run {why}; resume it (kubestow apply {files.snapshot} --result "
                    f"{files.document} --yes --resume), or move the file away"
                ]
            )


def make_room(files: RoundFiles) -> None:
    """Rename the files of a round that an earlier run left, to the name of that run.

    Raises:
        InputError: they cannot be renamed.
    """
    name = journal_path(files.document)
    try:
        run = journal.read(name).run.run if _is_written(name) else "earlier"
        for path in (files.document, files.snapshot, name):
            if os.path.lexists(path):
                set_aside(path, run)
    except OSError as error:
        raise InputError([f"{error.filename}: {error.strerror}"]) from error


def _is_written(path: str) -> bool:
    return os.path.exists(path) and os.path.getsize(path) > 0
