"""The files of the later rounds of ``apply --until-done``, which are kept beside the first document, and those of earlier runs."""

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
    """Where a round's document and snapshot are kept.

    Attributes:
        number: The round; 2 is the first that is planned by the run itself.
        document: Path of its plan or placement.
        snapshot: Path of the snapshot that it was made from.
    """

    number: int
    document: str
    snapshot: str


def of(path: str, number: int) -> RoundFiles:
    """Return the files of a round, by the path of the document of the round before."""
    stem = path.removesuffix(f".round-{number - 1}.json")
    return RoundFiles(number, f"{stem}.round-{number}.json", f"{stem}.round-{number}.snapshot.json")


def check(path: str, rounds: int) -> None:
    """Refuse to begin where an earlier run was cut off in a later round: its files would be in the way.

    Raises:
        InputError: a journal of a later round is not finished, or is no journal.
    """
    for number in range(2, rounds + 1):
        files = RoundFiles(number, f"{path}.round-{number}.json", f"{path}.round-{number}.snapshot.json")
        name = journal_path(files.document)
        progress = progress_of(journal.read(name).lines if _is_written(name) else ())
        why = unfinished(progress)
        if why and progress.requests:
            raise InputError(
                [
                    f"{name}: round {number} of an earlier run {why}; go on with it (kubestow apply {files.snapshot} --result "
                    f"{files.document} --yes --resume), or move the file away"
                ]
            )


def make_room(files: RoundFiles) -> None:
    """Give the files that an earlier run has left for a round the name of that run.

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
