"""The result of a run from its journal: progress, wave times, remaining steps, and the end state of the cluster."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rich.console import RenderableType
from rich.text import Text

from kubestow.models.documents.answers import CarriedOut
from kubestow.report.documents.output import counted
from kubestow.report.terminal.canvas import Surface, grid, heading, inset, listed, more, plain
from kubestow.report.terminal.columns import Name

#: Maximum number of list entries by default.
_MAX_LINES: Final = 50
_MORE: Final = "... and {} more (-f json has all)"


def summary_line(result: CarriedOut) -> str:
    """Return the completed part of the document in one line."""
    shares = [(result.moves, "move"), (result.evictions, "eviction"), (result.bindings, "binding")]
    parts = ", ".join(f"{share.done} of {counted(share.of, noun)} done" for share, noun in shares if share.of) or "nothing to do"
    resumed = "" if not result.resumed else f", resumed {counted(result.resumed, 'time')}"
    ended = f"ended at {result.ended}" if result.ended else "was interrupted, or is still running"
    return f"journal: {parts}; the run of {result.began}{resumed}, {ended}"


def carried_out(result: CarriedOut, surface: Surface) -> Iterator[RenderableType]:
    """Yield the report of a run."""
    yield Text()
    yield plain(summary_line(result), style="bold")
    sent = result.requests
    counts = [
        counted(sent.evictions, "eviction"),
        counted(sent.bindings, "Binding"),
        f"{sent.nodes} for nodes",
        counted(sent.others, "other"),
    ]
    yield inset(plain(f"requests: {', '.join(counts)}; {sent.refused} refused, {sent.unanswered} without a response"))
    closed = "all are open again" if not result.leftClosed else f"still closed: {', '.join(result.leftClosed)}"
    yield inset(plain(f"{counted(result.nodesClosed, 'node')} closed for the run{f', {closed}' if result.nodesClosed else ''}"))
    yield Text()
    waves = grid("wave", "pods", "done", "seconds", right=(0, 1, 2, 3))
    for wave in result.waves:
        seconds = "" if wave.seconds is None else f"{wave.seconds:.1f}"
        waves.add_row(plain(wave.wave), plain(wave.pods), plain(wave.done), plain(seconds))
    yield inset(waves)
    yield from _left(result, surface)
    yield from listed("Messages of the run", result.messages, surface.limit(_MAX_LINES), _MORE)
    if result.end is not None:
        if not result.end.missed:
            yield heading("The end state is as planned")
        yield from listed("Differences from the planned end state", result.end.missed, surface.limit(_MAX_LINES), _MORE)
        yield from listed("Changed by others", result.end.foreign, surface.limit(_MAX_LINES), _MORE)


def _left(result: CarriedOut, surface: Surface) -> Iterator[RenderableType]:
    if not result.left:
        return
    yield heading(f"Not done ({len(result.left)})")
    table = grid("step", "wave", "pod", "node", "", "refused because", right=(0, 1), prose=(5,))
    shown = result.left[: surface.limit(_MAX_LINES)]
    for entry in shown:
        begun = plain("begun" if entry.begun else "")
        table.add_row(plain(entry.step), plain(entry.wave), Name(entry.pod), Name(entry.node or "(evicted)"), begun, plain(entry.why))
    yield inset(table)
    yield from more(len(result.left) - len(shown), _MORE)
