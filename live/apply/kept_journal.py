"""A finished journal that makes room for the run of a new document: it gets another name, and is never overwritten."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from typing import Final

from kubestow.live.apply.progress import Fate, Progress
from kubestow.models.documents.journal import ENDING
from kubestow.models.kube.lenient_decode import some

#: What a run's id may consist of to be part of a file name; journals are files of users, who may have changed them.
_RUN_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,63}", re.ASCII)


def unfinished(progress: Progress) -> str:
    """Return why a run is not finished, as the end of a sentence about it; empty if it is.

    A finished run has ended by itself and has no pod half moved. Whether all steps of its document are done does not matter: nothing in
    the cluster waits for the rest. Nor do nodes that it has left closed, between rounds of ``--until-done``, say: their marks tell.
    """
    if not progress.ended:
        return "was cut off"
    half_done = [step.pod for step in progress.steps.values() if not step.done and _may_be_begun(step.requests.values())]
    if half_done:
        return f"did not finish with {some(half_done)}"
    return ""


def set_aside(path: str, run: str) -> str:
    """Give the file of a journal, or of a document of its run, another name, which has the run's id and belongs to no other file.

    ``plan.json`` becomes ``plan.json.RUN``, and its journal the one of that name. Return the name.

    Raises:
        OSError: the folder does not allow it.
    """
    stem = path.removesuffix(ENDING)
    ending = path[len(stem) :]
    label = run if _RUN_ID.fullmatch(run) else "earlier"
    number = 1
    while True:
        name = f"{stem}.{label}{'' if number == 1 else f'-{number}'}{ending}"
        try:
            os.close(os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
        except FileExistsError:
            number += 1
            continue
        try:
            os.replace(path, name)  # in place of the empty file, which is nobody else's
        except OSError:
            os.unlink(name)
            raise
        return name


def _may_be_begun(fates: Iterable[Fate]) -> bool:
    """Return True if a request may have been carried out."""
    return any(fate != "refused" for fate in fates)
