"""Rendering of rich renderables to bytes for a terminal, a pipe or a file."""

from __future__ import annotations

import io
import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.text import Text

from kubestow.report.documents.numbers import amount
from kubestow.report.documents.output import one_line
from kubestow.report.terminal.columns import Grid, UsageBar, folded

#: Columns if there is no terminal to ask.
_DEFAULT_COLUMNS: Final = 100
_MIN_COLUMNS: Final = 40
#: Text of :func:`more` below findings.
FINDINGS: Final = "… and {} more (--all lists all)"


@dataclass(frozen=True)
class Surface:
    """The target of a table.

    Attributes:
        width: Columns of a terminal. None: unlimited line length.
        colour: True to use colour.
        encoding: Unsupported characters are replaced.
        whole: True to keep names whole even beyond ``width``.
        wide: True to show amounts and more columns.
        everything: True to show lists in full.
    """

    width: int | None = _DEFAULT_COLUMNS
    colour: bool = False
    encoding: str = "utf-8"
    whole: bool = False
    wide: bool = False
    everything: bool = False

    @property
    def unicode(self) -> bool:
        return self.encoding.lower().replace("-", "").replace("_", "").startswith("utf")

    def limit(self, number: int) -> int:
        """Return the maximum number of list entries, given the default ``number``."""
        return sys.maxsize if self.everything else number


def a_file() -> Surface:
    """Return the surface for output that is not a terminal. COLUMNS sets the width of running text; names stay whole."""
    columns = os.environ.get("COLUMNS", "")
    return Surface(max(_MIN_COLUMNS, int(columns)) if columns.isascii() and columns.isdigit() and len(columns) < 6 else None, whole=True)


def standard_output() -> Surface:
    """Return standard output as a surface, with colour only on a terminal and unless NO_COLOR is set."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    if sys.stdout is None or not sys.stdout.isatty():
        return replace(a_file(), encoding=encoding)
    colour = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return Surface(max(_MIN_COLUMNS, shutil.get_terminal_size((_DEFAULT_COLUMNS, 24)).columns), colour, encoding)


def render(parts: Sequence[RenderableType], surface: Surface) -> bytes:
    """Render the parts one below another."""
    drawn = io.BytesIO()
    # rich chooses Unicode or ASCII by the encoding of the file.
    file = io.TextIOWrapper(drawn, encoding=surface.encoding, errors="replace", newline="\n")
    console = Console(
        file=file,
        width=surface.width or _DEFAULT_COLUMNS,
        color_system="standard" if surface.colour else None,
        force_terminal=surface.colour,
        no_color=not surface.colour,
        highlight=False,
        markup=False,
        emoji=False,
    )
    for part in parts:
        lines = list(_lines(part, surface, 0))
        if lines:
            console.print(Text("\n", no_wrap=True, overflow="ignore").join(lines), soft_wrap=True)
    file.flush()
    if surface.colour:
        return drawn.getvalue()
    return b"".join(line.rstrip() + b"\n" for line in drawn.getvalue().splitlines())


def _lines(part: RenderableType, surface: Surface, indent: int) -> Iterator[Text]:
    """Yield the lines of a part, with running text wrapped at blanks and names kept whole."""
    if isinstance(part, Padding):
        yield from [Text()] * part.top
        yield from _lines(part.renderable, surface, indent + part.left)
        yield from [Text()] * part.bottom
        return
    room = None if surface.width is None else max(1, surface.width - indent)
    if isinstance(part, Grid):
        title, found = part.lines(None if surface.wide else room, amounts=surface.wide, whole=surface.whole)
        if part.title:  # the title is not indented
            yield from title
        else:
            found = title + found
    else:
        text = part if isinstance(part, Text) else Text(str(part))
        found = list(text.split(allow_blank=True)) if room is None else folded(text, room)
    yield from (Text(" " * indent).append_text(line) for line in found) if indent else found


def header(text: str) -> list[RenderableType]:
    """Return a dim line and a blank line above a table, or nothing for an empty text."""
    return [plain(text, style="dim"), Text()] if text else []


def plain(text: object, style: str = "") -> Text:
    """Return text without markup and without control characters."""
    return Text(one_line(str(text)), style=style)


def heading(text: str) -> Text:
    return Text(f"\n{one_line(text)}", style="bold")


def bar(used: int, total: int, resource: str, surface: Surface) -> UsageBar:
    """Return the usage of a resource as a bar."""
    return UsageBar(used, total, f"{amount(resource, used)}/{amount(resource, total)}", surface.unicode)


def inset(part: RenderableType, by: int = 2) -> Padding:
    """Return a part indented by ``by`` columns."""
    return Padding(part, (0, 0, 0, by))


def more(count: int, text: str = "... and {:,} more (--all lists all)", by: int = 2) -> Iterator[RenderableType]:
    """Yield the number of omitted entries, if any.

    Args:
        count: Number of omitted entries.
        text: Format with a placeholder for the number.
        by: Indent in columns.
    """
    if count > 0:
        yield inset(plain(text.format(count), style="dim"), by)


def listed(title: str, texts: Sequence[str], limit: int = sys.maxsize, text: str = "") -> Iterator[RenderableType]:
    """Yield a heading and the first sentences below it, or nothing without sentences. ``text`` is as for :func:`more`."""
    if texts:
        yield heading(title)
        yield from (inset(plain(each)) for each in texts[:limit])
        yield from more(len(texts) - limit, text)


def grid(*headers: str, right: Sequence[int] = (), prose: Sequence[int] = (), title: str = "") -> Grid:
    """Return a table without lines.

    Args:
        headers: Column headings.
        right: Indices of right-aligned columns.
        prose: Indices of columns with running text, which may be wrapped.
        title: Title of the table.
    """
    return Grid(headers, right=right, prose=prose, title=title)
