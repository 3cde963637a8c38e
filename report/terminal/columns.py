"""Tables without lines that never wrap names.

If the columns do not fit side by side, bars shrink first. Then the common parts of all names in a column are left
out, as the heading says. Finally, the columns of a row continue on the next lines. A single name that is wider than
the terminal makes a longer line.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from kubestow.report.documents.numbers import percent
from kubestow.report.documents.output import one_line

#: Blanks between columns, and indent of continuation lines.
GAP: Final = 2
_INDENT: Final = 4
#: Minimum width of running text in columns, unless its longest word is shorter.
_MIN_PROSE_COLUMNS: Final = 24
#: Minimum length of a common part of names that is left out.
_MIN_COMMON_CHARACTERS: Final = 3
_SEPARATORS: Final = "-./"
#: Widths of bars, widest first, and True if amounts follow.
_BARS: Final = ((12, True), (8, False), (4, False), (0, False))


@dataclass(frozen=True)
class Name:
    """The name of an object. A narrow table may omit the common part of all names in the column. ``indent`` is in blanks."""

    text: str
    style: str = ""
    indent: int = 0


class Sized:
    """A cell that can shrink."""

    def drawn(self, width: int, *, amounts: bool) -> Text:
        """Return the cell with a bar of at most ``width`` columns, and with amounts if requested."""
        raise NotImplementedError


@dataclass(frozen=True)
class UsageBar(Sized):
    """A fraction as a bar and a percentage. ``amounts`` is the text with used and total amounts for wide tables."""

    used: int
    total: int
    amounts: str
    unicode: bool = True

    def drawn(self, width: int, *, amounts: bool) -> Text:
        full = percent(self.used, self.total)
        style = usage_style(full)
        eighths = min(share(self.used, self.total, width * 8), width * 8)
        text = Text()
        if self.unicode:
            text.append("█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8].strip(), style=style)
            text.append("·" * (width - len(text)), style="dim")
        else:
            text.append("#" * (eighths // 8), style=style)
            text.append("." * (width - len(text)), style="dim")
        text.append(f"{' ' * bool(width)}{full:3}%", style="" if width else style)
        return text.append(f" {self.amounts:15}", style="dim") if amounts else text


def share(used: int, total: int, parts: int = 100) -> int:
    """Return ``used`` out of ``total`` in ``parts`` (per cent), rounded down. Any usage of a total of 0 counts as full."""
    if total <= 0:
        return parts if used > 0 else 0
    return parts * used // total


def usage_style(full: int) -> str:
    """Return the colour for a percentage in use."""
    return "red" if full >= 95 else "yellow" if full >= 80 else "green"


Cell = Text | Name | Sized | str


@dataclass(frozen=True)
class Common:
    """The common beginning and end of names, up to a separator."""

    before: str = ""
    after: str = ""

    @classmethod
    def of(cls, names: Iterable[str]) -> Common:
        """Return the common parts of different names, or nothing for fewer than two."""
        different = sorted(set(names))
        if len(different) < 2:
            return cls()
        before = _shared(different)[: min(map(len, different)) - 1]
        before = before[: 1 + max(before.rfind(c) for c in _SEPARATORS)]
        before = before if len(before) >= _MIN_COMMON_CHARACTERS else ""
        after = _shared([name[len(before) :][::-1] for name in different])[::-1]
        starts = [at for at in (after.find(c) for c in _SEPARATORS) if at >= 0]
        after = after[min(starts) :] if starts else ""
        if len(after) < _MIN_COMMON_CHARACTERS or any(len(name) <= len(before) + len(after) for name in different):
            after = ""
        return cls(before, after)

    def __bool__(self) -> bool:
        return bool(self.before or self.after)

    def cut(self, name: str) -> str:
        """Return a name without the common parts."""
        return name.removeprefix(self.before).removesuffix(self.after) or name

    def note(self, what: str) -> str:
        """Return the omitted parts for a heading, such as ``nodes without gke- and .internal``."""
        return f"{what} without {' and '.join(one_line(part) for part in (self.before, self.after) if part)}"


NOTHING: Final = Common()


class Grid:
    """A table.

    Attributes:
        headers: Column headings.
        right: Indices of right-aligned columns.
        prose: Indices of columns with running text, which may be wrapped.
        title: Title of the table.
        least: Minimum width by column.
    """

    def __init__(self, headers: Sequence[str], *, right: Collection[int] = (), prose: Collection[int] = (), title: str = "") -> None:
        self.headers, self.right, self.prose, self.title = tuple(headers), frozenset(right), frozenset(prose), title
        self.rows: list[tuple[Cell, ...]] = []
        self.show_header = True
        self.least: dict[int, int] = {}

    def add_row(self, *cells: Cell) -> None:
        """Add a row with one cell per header."""
        self.rows.append(cells)

    def lines(self, room: int | None, *, amounts: bool = False, whole: bool = False) -> tuple[list[Text], list[Text]]:
        """Return the heading and the table, with lines no wider than ``room`` if names allow it.

        Args:
            room: Columns. None: unlimited.
            amounts: True to show amounts next to bars even without a width.
            whole: True to keep names whole and columns side by side, regardless of the width.
        """
        sizes = _BARS if amounts or room is not None else _BARS[1:]
        found = self._fitting(sizes, {}, room)
        if found is not None or whole:
            return self._heading("", room), self._drawn(found or self._rows(sizes[0], {}), room, apart=False)
        trims = self._trims()
        found = self._fitting(sizes, trims, room)
        if found is None:  # wrapped, with the widest bars that need no additional lines
            found = min((self._rows(size, trims) for size in sizes), key=lambda rows: self._height_and_excess(rows, room))
        notes = ", ".join(trims[i].note(self._called(i)) for i in sorted(trims))
        return self._heading(notes, room), self._drawn(found, room, apart=True)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Text("\n", no_wrap=True, overflow="ignore").join([*chain(*self.lines(options.max_width))])

    def _heading(self, notes: str, room: int | None) -> list[Text]:
        said = f", {notes}" if self.title.endswith(")") else f"{' ' * bool(self.title)}({notes})"
        text = Text(one_line(self.title), style="bold").append(said if notes else "")
        return [*[Text()] * bool(self.title), *([] if not text else [text] if room is None else folded(text, room))]

    def _called(self, column: int) -> str:
        """Return the noun for the names of a column in a heading."""
        named = {i for row in self.rows for i, cell in enumerate(row) if isinstance(cell, Name)}
        header = self.headers[column].strip()
        return f"{header}s" if len(named) > 1 and header else "names"

    def _trims(self) -> dict[int, Common]:
        found = {}
        for i in range(len(self.headers)):
            common = Common.of(cell.text for row in self.rows if isinstance(cell := row[i], Name))
            if common:
                found[i] = common
        return found

    def _fitting(self, sizes: Sequence[tuple[int, bool]], trims: Mapping[int, Common], room: int | None) -> list[list[Text]] | None:
        """Return the rows with the widest bars that fit, or None."""
        for size in sizes:
            rows = self._rows(size, trims)
            if room is None or sum(self._needs(rows)) + GAP * (len(self.headers) - 1) <= room:
                return rows
            if not any(isinstance(cell, Sized) for row in self.rows for cell in row):
                break
        return None

    def _rows(self, size: tuple[int, bool], trims: Mapping[int, Common]) -> list[list[Text]]:
        header = [[Text(text, style="dim") for text in self.headers]] if self.show_header else []
        return header + [[_text(cell, size, trims.get(i)) for i, cell in enumerate(row)] for row in self.rows]

    def _needs(self, rows: Sequence[Sequence[Text]]) -> list[int]:
        """Return the minimum width of each column."""
        needs = []
        for i in range(len(self.headers)):
            cells = [row[i] for row in rows]
            widest = max(map(_width, cells), default=0)
            if i in self.prose:
                word = max((Text(word).cell_len for cell in cells for word in cell.plain.split()), default=0)
                widest = min(widest, max(word, _MIN_PROSE_COLUMNS))
            needs.append(max(widest, self.least.get(i, 0)))
        return needs

    def _drawn(self, rows: list[list[Text]], room: int | None, *, apart: bool) -> list[Text]:
        """Return the lines of the table. With ``apart``, columns that do not fit continue on the next lines."""
        needs = self._needs(rows)
        groups = self._groups(needs, room if apart else None)
        widths = list(needs)
        for first, group in enumerate(groups):
            remaining_width = None if room is None else room - sum(needs[i] + GAP for i in group) + GAP - (_INDENT if first else 0)
            longest = {i: max(map(_width, (row[i] for row in rows)), default=0) for i in group if i in self.prose}
            for at, i in enumerate(sorted(longest, key=lambda i: longest[i] - needs[i])):  # prose takes the remaining width
                more = max(0, longest[i] - needs[i])
                more = more if remaining_width is None else max(0, min(more, remaining_width // (len(longest) - at)))
                widths[i], remaining_width = needs[i] + more, None if remaining_width is None else remaining_width - more
        lines = []
        for row in rows:
            for first, group in enumerate(groups):
                drawn = self._lines_of(row, group, widths)
                lines += [Text(" " * _INDENT).append_text(line) if first else line for line in drawn if not first or line.plain.strip()]
        return lines

    def _groups(self, needs: Sequence[int], room: int | None) -> list[list[int]]:
        """Return groups of columns that fit side by side."""
        groups: list[list[int]] = [[]]
        used = 0
        for i, need in enumerate(needs):
            if groups[-1] and room is not None and used + GAP + need > room:
                groups.append([])
                used = _INDENT - GAP
            used += need + (GAP if groups[-1] or len(groups) > 1 else 0)
            groups[-1].append(i)
        return groups

    def _height_and_excess(self, rows: Sequence[Sequence[Text]], room: int | None) -> tuple[int, int]:
        """Return the number of lines per row, and the excess width of the widest single column."""
        needs = self._needs(rows)
        groups = self._groups(needs, room)
        return len(groups), max(0, max(needs) - (room or 0) + (_INDENT if len(groups) > 1 else 0))

    def _lines_of(self, row: Sequence[Text], group: Sequence[int], widths: Sequence[int]) -> list[Text]:
        cells = [folded(row[i], widths[i]) if i in self.prose else _split(row[i]) for i in group]
        lines = []
        for at in range(max(map(len, cells))):
            line = Text()
            for i, cell in zip(group, cells, strict=True):
                part = cell[at] if at < len(cell) else Text()
                blanks = " " * (widths[i] - part.cell_len)
                line.append(blanks if i in self.right else "").append_text(part)
                line.append(("" if i in self.right else blanks) + " " * GAP)
            line.rstrip()
            lines.append(line)
        return lines


def _text(cell: Cell, size: tuple[int, bool], common: Common | None) -> Text:
    if isinstance(cell, Name):
        return Text(" " * cell.indent).append(one_line(common.cut(cell.text) if common else cell.text), style=cell.style or None)
    if isinstance(cell, Sized):
        return cell.drawn(size[0], amounts=size[1])
    return Text(cell) if isinstance(cell, str) else cell


def _width(text: Text) -> int:
    return max((cell_len(line) for line in text.plain.split("\n")), default=0)


def _split(text: Text) -> list[Text]:
    return list(text.split(allow_blank=True)) if "\n" in text.plain else [text]


def folded(text: Text, width: int) -> list[Text]:
    """Return the text wrapped at blanks to a width. A longer word makes a longer line."""
    lines: list[Text] = []
    for line in _split(text):
        if line.cell_len <= width:
            lines.append(line)
            continue
        breaks, column = [], 0
        for match in re.finditer(r"\s*\S+\s*", line.plain):
            if column and column + cell_len(match[0].rstrip()) > width:
                breaks.append(match.start())
                column = 0
            column += cell_len(match[0])
        parts = list(line.divide(breaks))
        for part in parts:
            part.rstrip()
        lines += parts
    return lines


def _shared(names: Sequence[str]) -> str:
    """Return the common prefix of names."""
    first, last = min(names), max(names)
    return first[: next((i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), min(len(first), len(last)))]
