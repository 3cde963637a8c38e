"""Why pods cannot be placed and what would help, and what became of gangs, as text for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from models.documents.placement import Cause, GangResult
from report.terminal.canvas import grid, heading, plain


def causes(found: Sequence[Cause]) -> Iterator[RenderableType]:
    """Yield each cause with its facts and its remedies, cheapest first."""
    if not found:
        return
    yield heading("Why not, and what would help")
    for cause in found:
        yield Padding(_title(cause), (0, 0, 0, 2))
        for fact in cause.facts:
            rule = plain(f"{fact.rule}: ", style="yellow")
            yield Padding(rule.append_text(plain(fact.message.removeprefix(f"{fact.rule}: "), style="default")), (0, 0, 0, 4))
        if cause.waysOut:
            who = "one of them" if cause.gang is None and 1 == cause.together < len(cause.pods) else "it"
            yield Padding(plain(f"any one of these lets {who} be placed (each was tried):", style="dim"), (0, 0, 0, 4))
        for way in cause.waysOut:
            line = plain(way.message, style="green")
            if way.options:
                line.append_text(plain(f"   {' '.join(way.options)}", style="dim"))
            yield Padding(Text("- ").append_text(line), (0, 0, 0, 6))
        if not cause.waysOut:
            yield Padding(plain("no single change that was tried lets it be placed", style="dim"), (0, 0, 0, 4))


def _title(cause: Cause) -> Text:
    name = f"gang {cause.gang}, " if cause.gang is not None else ""
    pods = cause.pods[0] if len(cause.pods) == 1 else f"{len(cause.pods):,} pods ({cause.pods[0]}, ...)"
    text = plain(name + pods, style="bold red")
    how = "cannot be placed" if cause.proved else "no place was found"
    because = "these rules and capacities together rule it out" if len(cause.facts) > 1 else "this alone rules it out"
    if not cause.alone:
        because += ", the other pods being where they were placed"
    if not cause.minimal:
        because += " (there was no time to leave out what does not matter)"
    return text.append(f": {how}; {because}:")


def gangs(found: Sequence[GangResult]) -> Iterator[RenderableType]:
    """A line for each gang: whole, in part, or not placed."""
    if not found:
        return
    yield heading("Gangs")
    table = grid("gang", "placed", "of", "needed", "running", "topology", right=(1, 2, 3, 4))
    for gang in found:
        style = "green" if gang.placed == gang.pending else "yellow" if gang.placed else "red"
        where = "" if gang.topologyKey is None else f"{gang.topologyKey}{'=' + gang.domain if gang.domain else ''}"
        numbers = str(gang.pending), str(gang.needed), str(gang.bound or "")
        table.add_row(plain(gang.gang), Text(str(gang.placed), style=style), *numbers, plain(where))
    yield Padding(table, (0, 0, 0, 2))
