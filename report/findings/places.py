"""File names in output formats: relative to the working directory, with slashes, or as URIs."""

from __future__ import annotations

from pathlib import PurePath
from typing import Final
from urllib.parse import quote

from kubestow.models.documents.findings.check import Position
from kubestow.models.snapshot.sources import STDIN
from kubestow.report.findings.outcomes import STREAM, Report, ReportOutcome

#: Characters besides letters and digits that a URI may contain unquoted (RFC 3986, pchar and slash). The colon is
#: excluded, because
#: before the first slash it would end a scheme.
_UNQUOTED: Final = "/!$&'()*+,;=@~"


def path(file: str) -> str:
    """Return the path of a file with slashes and without ``.``."""
    return PurePath(file).as_posix()


def uri(file: str) -> str:
    """Return a URI reference to a file. Relative paths stay relative (RFC 3986, 4.2)."""
    found = PurePath(file)
    quoted = quote(found.as_posix(), safe=_UNQUOTED, errors="surrogateescape")
    return f"file://{'' if quoted.startswith('/') else '/'}{quoted}" if found.is_absolute() else quoted


def place(outcome: ReportOutcome, report: Report) -> Position | None:
    """Return the position at which an outcome is shown: the first file for objects in none of the files. None: nowhere."""
    position = outcome.position
    if position is None:
        return Position(report.file) if report.file is not None else None
    return Position(STREAM, position.line, position.column) if position.file == STDIN else position
