"""Renaming of finished journals, so that the run of a new document can use the name and nothing is overwritten."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from typing import Final

from kubestow.live.apply.progress import ApplyProgress, Fate
from kubestow.models.documents.journal import ENDING
from kubestow.models.kube.lenient_decode import some

#: Run ids that are safe in file names. Users may have edited their journals.
_RUN_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,63}", re.ASCII)


def unfinished(progress: ApplyProgress) -> str:
    """Return the reason why a run is unfinished, as the end of a sentence; empty if it is finished.

    A finished run has ended on its own and has no pod half moved. Remaining steps of its document do not matter, because nothing in the
    cluster waits for them. Nodes that it left closed do not matter either, because their annotations identify the run.
    """
    if not progress.ended:
        return "was cut off"
    half_done = [step.pod for step in progress.steps.values() if not step.done and _may_be_begun(step.requests.values())]
    if half_done:
        return f"did not finish with {some(half_done)}"
    return ""


def set_aside(path: str, run: str) -> str:
    """Rename a journal, or a document of its run, to an unused name with the run's id, and return the name.

    ``plan.json`` becomes ``plan.json.RUN``, and its journal gets the matching name.

    Raises:
        OSError: the folder is not writable.
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
            os.replace(path, name)  # replaces the empty file created above
        except OSError:
            os.unlink(name)
            raise
        return name


def _may_be_begun(fates: Iterable[Fate]) -> bool:
    """Return True if one of the requests may have been executed."""
    return any(fate != "refused" for fate in fates)
