"""From rich renderables to the bytes that a terminal, a pipe or a file takes."""

from __future__ import annotations

import io
import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from report.documents.output import one_line

#: Columns where there is no terminal to ask.
_WIDTH: Final = 100


@dataclass(frozen=True)
class Surface:
    """What a table is drawn on. ``encoding``: text that it lacks is replaced, never an error."""

    width: int = _WIDTH
    colour: bool = False
    encoding: str = "utf-8"

    @property
    def unicode(self) -> bool:
        return self.encoding.lower().replace("-", "").replace("_", "").startswith("utf")


def standard_output() -> Surface:
    """Return standard output as a surface: colour on a terminal only, and not where NO_COLOR asks for none."""
    terminal = sys.stdout is not None and sys.stdout.isatty()
    colour = terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return Surface(shutil.get_terminal_size((_WIDTH, 24)).columns, colour, getattr(sys.stdout, "encoding", None) or "utf-8")


def render(parts: Sequence[RenderableType], surface: Surface) -> bytes:
    """Draw the parts one below the other."""
    drawn = io.BytesIO()
    # By the encoding of its file rich decides between Unicode and ASCII.
    file = io.TextIOWrapper(drawn, encoding=surface.encoding, errors="replace", newline="\n")
    console = Console(
        file=file,
        width=max(40, surface.width),
        color_system="standard" if surface.colour else None,
        force_terminal=surface.colour,
        no_color=not surface.colour,
        highlight=False,
        markup=False,
        emoji=False,
    )
    for part in parts:
        console.print(part)
    file.flush()
    if surface.colour:
        return drawn.getvalue()
    return b"".join(line.rstrip() + b"\n" for line in drawn.getvalue().splitlines())


def plain(text: object, style: str = "") -> Text:
    """Return text as it is: no markup is read from it, and it cannot move the cursor."""
    return Text(one_line(str(text)), style=style)


def heading(text: str) -> Text:
    return Text(f"\n{one_line(text)}", style="bold")


def grid(*headers: str, right: Sequence[int] = ()) -> Table:
    """Return a table without lines; ``right``: columns of numbers."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for i, header in enumerate(headers):
        table.add_column(header, justify="right" if i in right else "left", no_wrap=i in right, overflow="fold")
    return table
