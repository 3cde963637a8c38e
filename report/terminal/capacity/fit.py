"""The report on a Fit for terminals."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType
from rich.text import Text

from kubestow.models.documents.fit import Fit, Growth
from kubestow.models.documents.placement import Cause
from kubestow.report.documents.output import counted
from kubestow.report.terminal.canvas import Surface, grid, heading, inset, more, plain
from kubestow.report.terminal.capacity import headroom
from kubestow.report.terminal.columns import Name
from kubestow.report.terminal.placement import unmodelled_and_notes

#: Maximum number of listed node kinds.
_MAX_KINDS = 20


def outcome(found: Fit) -> str:
    """Return the result in one line: ``64 more replicas of Deployment shop/web fit (proved)``."""
    single = len(found.templates) == 1
    noun = f"more replica{'s' * (found.units != 1)} of {found.templates[0].workload}" if single else f"unit{'s' * (found.units != 1)}"
    proof = "proved" if found.units == found.bound else f"at most {found.bound:,}"
    verb = "fits" if found.units == 1 else "fit"
    return f"{f'{found.units:,}' if found.units else 'no'} {noun} {verb} ({proof})"


def fit(found: Fit, surface: Surface) -> Iterator[RenderableType]:
    """Yield the parts: counts per template, the limiting conflict, and the gain from one more node."""
    yield Text(outcome(found), style="bold green" if found.units else "bold red")
    yield Text()
    if found.keep is not None:
        yield plain(f"{found.keep.percent} % of every {found.keep.of} stays free, of each resource that the templates request")
    table = grid("template", "running", "more that fit", "total", "at most", "per unit", right=(1, 2, 3, 4, 5))
    for t in found.templates:
        numbers = (t.runs, t.fits, t.runs + t.fits, t.runs + t.bound, t.ratio)
        table.add_row(Name(t.workload), *(f"{number:,}" for number in numbers))
    yield inset(table)
    if found.cause is not None:
        yield from _cause(found, found.cause)
    if found.growth:
        yield from _growth(found, surface)
    yield from headroom.of_fit(found.headroom, surface)
    yield from unmodelled_and_notes(found, surface)


def _cause(found: Fit, cause: Cause) -> Iterator[RenderableType]:
    unit = "replica" if len(found.templates) == 1 else "unit"
    yield heading(f"Limit: why {unit} {found.units + 1:,} does not fit")
    condition = "" if cause.alone else ", given the places of the others"
    kept = any(fact.rule == "Keep" for fact in cause.facts)
    suffix = "" if cause.minimal else " (in addition to the rules)" if kept else " (not minimal: the time was up)"
    said = "these rules and capacities together rule it out" if len(cause.facts) > 1 else "this alone rules it out"
    yield inset(plain(f"{counted(cause.together, 'pod')} requested at once{condition}: {said}{suffix}"))
    for fact in cause.facts:
        message = fact.message.removeprefix(f"{fact.rule}: ")
        yield inset(plain(f"{fact.rule}: ", style="yellow").append_text(plain(message, style="default")), 4)


def _growth(found: Fit, surface: Surface) -> Iterator[RenderableType]:
    yield heading("Gain from one more node")
    what = "replicas" if len(found.templates) == 1 else "units"
    table = grid("like node", "nodes of this kind", f"more {what}", right=(1, 2))
    shown = found.growth[: surface.limit(_MAX_KINDS)]
    for entry in shown:
        table.add_row(Name(entry.like), f"{entry.nodes:,}", _range(entry))
    yield inset(table)
    yield from more(len(found.growth) - len(shown), "{} more kinds (--all shows them)")


def _range(entry: Growth) -> str:
    """Return the gain, or its range."""
    return f"{entry.units:+,}" if entry.units == entry.bound else f"{entry.units:+,} to {entry.bound:+,}"
