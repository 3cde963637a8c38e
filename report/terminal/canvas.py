"""From rich renderables to the bytes that a terminal, a pipe or a file takes."""

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
from kubestow.report.terminal.columns import Bar, Grid, folded

#: Columns where there is no terminal to ask.
_WIDTH: Final = 100
_NARROWEST: Final = 40
#: How :func:`more` puts it below findings.
FINDINGS: Final = "… and {} more (--all lists all)"


@dataclass(frozen=True)
class Surface:
    """What a table is drawn on. ``width``: of a terminal; None where there is none, and a line is as long as it gets; ``whole``: the width
    is a wish, and names are whole whatever it is; ``encoding``: text that it lacks is replaced, never an error; ``wide``: with amounts and
    more columns; ``everything``: lists are not cut."""

    width: int | None = _WIDTH
    colour: bool = False
    encoding: str = "utf-8"
    whole: bool = False
    wide: bool = False
    everything: bool = False

    @property
    def unicode(self) -> bool:
        return self.encoding.lower().replace("-", "").replace("_", "").startswith("utf")

    def most(self, number: int) -> int:
        """Return how many lines of a list are shown where ``number`` are by default."""
        return sys.maxsize if self.everything else number


def a_file() -> Surface:
    """Return what is no terminal as a surface; COLUMNS says how wide running text is to be, names are whole."""
    columns = os.environ.get("COLUMNS", "")
    return Surface(max(_NARROWEST, int(columns)) if columns.isascii() and columns.isdigit() and len(columns) < 6 else None, whole=True)


def standard_output() -> Surface:
    """Return standard output as a surface: colour on a terminal only, and not where NO_COLOR asks for none."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    if sys.stdout is None or not sys.stdout.isatty():
        return replace(a_file(), encoding=encoding)
    colour = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return Surface(max(_NARROWEST, shutil.get_terminal_size((_WIDTH, 24)).columns), colour, encoding)


def render(parts: Sequence[RenderableType], surface: Surface) -> bytes:
    """Draw the parts one below the other."""
    drawn = io.BytesIO()
    # By the encoding of its file rich decides between Unicode and ASCII.
    file = io.TextIOWrapper(drawn, encoding=surface.encoding, errors="replace", newline="\n")
    console = Console(
        file=file,
        width=surface.width or _WIDTH,
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
    """Yield a part line by line: running text broken at blanks, names whole."""
    if isinstance(part, Padding):
        yield from [Text()] * part.top
        yield from _lines(part.renderable, surface, indent + part.left)
        yield from [Text()] * part.bottom
        return
    room = None if surface.width is None else max(1, surface.width - indent)
    if isinstance(part, Grid):
        title, found = part.lines(None if surface.wide else room, amounts=surface.wide, whole=surface.whole)
        if part.title:  # it stands left of what it is the title of
            yield from title
        else:
            found = title + found
    else:
        text = part if isinstance(part, Text) else Text(str(part))
        found = list(text.split(allow_blank=True)) if room is None else folded(text, room)
    yield from (Text(" " * indent).append_text(line) for line in found) if indent else found


def header(text: str) -> list[RenderableType]:
    """Return a line to stand above a table, and a blank one; nothing for an empty text."""
    return [plain(text, style="dim"), Text()] if text else []


def plain(text: object, style: str = "") -> Text:
    """Return text as it is: no markup is read from it, and it cannot move the cursor."""
    return Text(one_line(str(text)), style=style)


def heading(text: str) -> Text:
    return Text(f"\n{one_line(text)}", style="bold")


def bar(used: int, total: int, resource: str, surface: Surface) -> Bar:
    """Return the use of a resource as a bar."""
    return Bar(used, total, f"{amount(resource, used)}/{amount(resource, total)}", surface.unicode)


def inset(part: RenderableType, by: int = 2) -> Padding:
    """Return a part that begins so many columns further right."""
    return Padding(part, (0, 0, 0, by))


def more(left: int, text: str = "... and {:,} more (--all lists all)", by: int = 2) -> Iterator[RenderableType]:
    """Yield how many entries of a list are left out, if any are; ``text``: with a place for their number; ``by``: columns to the right."""
    if left > 0:
        yield inset(plain(text.format(left), style="dim"), by)


def listed(title: str, texts: Sequence[str], most: int = sys.maxsize, text: str = "") -> Iterator[RenderableType]:
    """Yield a heading and the first few sentences below it, nothing if there are none; ``text``: as for :func:`more`."""
    if texts:
        yield heading(title)
        yield from (inset(plain(each)) for each in texts[:most])
        yield from more(len(texts) - most, text)


def grid(*headers: str, right: Sequence[int] = (), prose: Sequence[int] = (), title: str = "") -> Grid:
    """Return a table without lines; ``right``: columns of numbers, ``prose``: of running text, which may be broken at blanks."""
    return Grid(headers, right=right, prose=prose, title=title)
