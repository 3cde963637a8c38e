"""The page of a batch: one row per cluster and set of options with its newest result and lines over time, as a self-contained file."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import quote

from jinja2 import DictLoader, Environment, StrictUndefined

from kubestow.models.catalogue import money
from kubestow.models.documents.batch import BatchSummary, Row
from kubestow.report.documents.output import one_line
from kubestow.report.page.render import POLICY, asset, hash_of

_TEMPLATE: Final = "fleet.html.j2"
_SCRIPT: Final = "fleet.js"
_WIDTH, _HEIGHT = 96, 22


@dataclass(frozen=True)
class Cell:
    """A cell of the table.

    Attributes:
        text: The newest value as text.
        value: Sort key.
        lines: Points of a line over time. Empty for no line.
        says: The line as text.
    """

    text: str
    value: float | None
    lines: str = ""
    says: str = ""


@dataclass
class Line:
    """A cluster with a set of options."""

    name: str
    task: str
    files: str
    captured: str
    exit: str
    result: str
    verdict: str
    seconds: str
    snapshots: int
    cells: list[Cell] = field(default_factory=list)


def render(found: BatchSummary) -> bytes:
    """Return the page as UTF-8. Equal summaries give equal bytes."""
    good = [row for row in found.rows if row.result is not None]
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in good:
        groups.setdefault((row.cluster or _stem(row), "" if row.cluster else row.id, row.command, row.set or "", *row.options), []).append(
            row
        )
    measures = [m for m in _MEASURES if any(m[1](row) is not None for row in good)]
    lines = [_line(sorted(g, key=lambda row: row.capturedAt or ""), measures) for _, g in sorted(groups.items())]
    code = asset(_SCRIPT)
    environment = Environment(loader=DictLoader({_TEMPLATE: asset(_TEMPLATE)}), autoescape=True, undefined=StrictUndefined)
    text = environment.get_template(_TEMPLATE).render(
        policy=POLICY.format(hash_of(code)),
        script=code,
        style=asset("style.css") + asset("fleet.css"),
        found=found,
        good=len(good),
        columns=[name for name, *_ in measures],
        lines=lines,
        failed=[
            (", ".join(map(one_line, row.snapshot)), _task(row), row.exit, one_line(row.reason or ""))
            for row in found.rows
            if not row.result
        ],
        series=[(s, _changed(s.points)) for s in found.series],
        width=_WIDTH,
        height=_HEIGHT,
    )
    return text.encode("utf-8", errors="replace")


def _changed(points: Iterable[object]) -> list[object]:
    return [p for p in points if getattr(p, "appeared", None) or getattr(p, "went", None)]


def _line(rows: list[Row], measures: list[_Measure]) -> Line:
    last = rows[-1]
    return Line(
        one_line(last.cluster or _stem(last)),
        _task(last),
        ", ".join(map(one_line, last.snapshot)),
        last.capturedAt or "",
        "" if last.exit is None else str(last.exit),
        quote((last.result or "").replace(os.sep, "/"), safe="/."),
        last.verdict or "",
        "" if last.seconds is None else f"{last.seconds:.1f}",
        len(rows),
        [_cell(rows, *measure) for measure in measures],
    )


def _cell(rows: list[Row], name: str, value: Callable[[Row], float | None], text: Callable[[Row], str]) -> Cell:
    """Return the newest value, with a line if several have capture times."""
    known = [(row, v) for row in rows if row.capturedAt and (v := value(row)) is not None]
    if len(known) < 2:
        return Cell(text(rows[-1]), value(rows[-1]))
    values = [v for _, v in known]
    low, high = min(values), max(values)
    across, up = (_WIDTH - 6) / (len(values) - 1), (_HEIGHT - 6) / (high - low or 1)
    points = " ".join(
        f"{3 + i * across:.1f},{(_HEIGHT - 3 - (v - low) * up) if high > low else _HEIGHT / 2:.1f}" for i, v in enumerate(values)
    )
    by = {v: row for row, v in known}
    says = (
        f"{name}, {len(values)} snapshots: first {text(known[0][0])}, last {text(known[-1][0])}, from {text(by[low])} to {text(by[high])}"
    )
    return Cell(text(rows[-1]), value(rows[-1]), points, says)


def _of_room(part: str, whole: str, name: str) -> Callable[[Row], float | None]:
    def share(row: Row) -> float | None:
        of = getattr(row.room, whole).get(name, 0) if row.room is not None else 0
        return getattr(row.room, part).get(name, 0) / of if of > 0 else None

    return share


def _percent(share: Callable[[Row], float | None]) -> Callable[[Row], str]:
    def text(row: Row) -> str:
        value = share(row)
        return "" if value is None else f"{int(value * 1000) / 10}%"

    return text


def _placed(row: Row) -> float | None:
    return None if row.pods is None else (row.placed or 0) / row.pods if row.pods else 1.0


def _findings(row: Row) -> float | None:
    return float(sum(row.findings.values())) if row.command == "audit" else None


def _cost(row: Row) -> str:
    return "" if row.cost is None else money.text(money.rounded(row.cost))


_Measure = tuple[str, Callable[[Row], float | None], Callable[[Row], str]]
_SHARES: Final = [
    (title, _of_room(part, whole, name))
    for title, part, whole, name in (
        ("CPU requested", "requests", "allocatable", "cpu"),
        ("Memory requested", "requests", "allocatable", "memory"),
        ("CPU stranded", "stranded", "free", "cpu"),
        ("Memory stranded", "stranded", "free", "memory"),
    )
]
_MEASURES: Final[list[_Measure]] = [
    ("Placed", _placed, lambda row: "" if row.pods is None else f"{row.placed or 0:,} of {row.pods:,}"),
    (
        "Findings",
        _findings,
        lambda row: ", ".join(f"{n:,} {s}" for s, n in row.findings.items()) or ("none" if row.command == "audit" else ""),
    ),
    ("Cost per hour", lambda row: row.cost, _cost),
    *((title, share, _percent(share)) for title, share in _SHARES),
]


def _task(row: Row) -> str:
    return one_line(" ".join([row.command, row.set] if row.set else [row.command, *row.options]))


def _stem(row: Row) -> str:
    return os.path.basename(row.snapshot[0].rstrip("/")) if row.snapshot else ""
