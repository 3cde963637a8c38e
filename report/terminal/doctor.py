"""The findings of ``kubestow doctor`` as a table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rich.console import RenderableType
from rich.text import Text

from kubestow.models.documents.doctor import Doctor
from kubestow.report.documents.output import counted
from kubestow.report.terminal.canvas import Surface, grid, plain

_STYLES: Final = {"ok": "green", "note": "yellow", "failed": "red"}


def doctor_table(found: Doctor, surface: Surface) -> Iterator[RenderableType]:
    """Yield a row per item, and explanations of failures and notes below."""
    failed = sum(each.state == "failed" for each in found.examined)
    notes = sum(each.state == "note" for each in found.examined)
    line = "all requirements are met" if found.well else f"{counted(failed, 'requirement')} not met"
    yield Text(line, style="bold").append(f"  ({counted(notes, 'note')})" if notes else "", style="dim")
    yield Text()
    table = grid("", "state", "found", prose=(2,))
    for each in found.examined:
        table.add_row(plain(each.name), plain(each.state, style=_STYLES[each.state]), plain(each.found))
    yield table
    odd = [each for each in found.examined if each.meaning]
    if odd:
        yield Text()
    for each in odd:
        yield plain(f"{each.state}: {each.name}: {each.meaning}", style=_STYLES[each.state])
