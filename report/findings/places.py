"""Files as formats name them: relative to the folder where the command ran, with slashes, or as URIs."""

from __future__ import annotations

from pathlib import PurePath
from typing import Final
from urllib.parse import quote

from kubestow.models.documents.findings.check import Position
from kubestow.models.snapshot.sources import STDIN
from kubestow.report.findings.outcomes import STREAM, Outcome, Report

#: What a URI may hold as it is beside letters and digits (RFC 3986, pchar and the slash), but for the colon: before the first slash it
#: would end a scheme.
_AS_IT_IS: Final = "/!$&'()*+,;=@~"


def path(file: str) -> str:
    """Return the path of a file with slashes, without ``.`` in it."""
    return PurePath(file).as_posix()


def uri(file: str) -> str:
    """Return a reference to a file: a relative one stays relative (RFC 3986, 4.2)."""
    found = PurePath(file)
    quoted = quote(found.as_posix(), safe=_AS_IT_IS, errors="surrogateescape")
    return f"file://{'' if quoted.startswith('/') else '/'}{quoted}" if found.is_absolute() else quoted


def place(outcome: Outcome, report: Report) -> Position | None:
    """Return where an outcome is shown: of what is in none of the files at the first of them; None: nowhere."""
    position = outcome.position
    if position is None:
        return Position(report.file) if report.file is not None else None
    return Position(STREAM, position.line, position.column) if position.file == STDIN else position
