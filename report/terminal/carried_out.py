"""What a journal tells of a run: how much is done, how long its waves took, what is left, and the cluster's end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rich.console import RenderableType
from rich.text import Text

from kubestow.models.documents.answers import CarriedOut
from kubestow.report.documents.output import counted
from kubestow.report.terminal.canvas import Surface, grid, heading, inset, listed, more, plain
from kubestow.report.terminal.columns import Name

#: Lines of a list that are shown, unless all are asked for.
_LINES: Final = 50
_MORE: Final = "... and {} more (-f json has all)"


def summary_line(told: CarriedOut) -> str:
    """Return one line: how much of the document is done."""
    shares = [(told.moves, "move"), (told.evictions, "eviction"), (told.bindings, "binding")]
    parts = ", ".join(f"{share.done} of {counted(share.of, noun)} done" for share, noun in shares if share.of) or "nothing to do"
    resumed = "" if not told.resumed else f", resumed {counted(told.resumed, 'time')}"
    ended = f"ended at {told.ended}" if told.ended else "was cut off, or goes on"
    return f"journal: {parts}; the run of {told.began}{resumed}, {ended}"


def carried_out(told: CarriedOut, surface: Surface) -> Iterator[RenderableType]:
    """Yield what a run did."""
    yield Text()
    yield plain(summary_line(told), style="bold")
    sent = told.requests
    counts = [
        counted(sent.evictions, "eviction"),
        counted(sent.bindings, "Binding"),
        f"{sent.nodes} of nodes",
        counted(sent.others, "other"),
    ]
    yield inset(plain(f"requests: {', '.join(counts)}; {sent.refused} refused, {sent.unanswered} without an answer"))
    closed = "all are open again" if not told.leftClosed else f"still closed: {', '.join(told.leftClosed)}"
    yield inset(plain(f"{counted(told.nodesClosed, 'node')} closed for the run{f', {closed}' if told.nodesClosed else ''}"))
    yield Text()
    waves = grid("wave", "pods", "done", "seconds", right=(0, 1, 2, 3))
    for wave in told.waves:
        seconds = "" if wave.seconds is None else f"{wave.seconds:.1f}"
        waves.add_row(plain(wave.wave), plain(wave.pods), plain(wave.done), plain(seconds))
    yield inset(waves)
    yield from _left(told, surface)
    yield from listed("Said by the run", told.messages, surface.most(_LINES), _MORE)
    if told.end is not None:
        if not told.end.missed:
            yield heading("The end is as the document says")
        yield from listed("The end, and what it should be", told.end.missed, surface.most(_LINES), _MORE)
        yield from listed("Changed by others", told.end.foreign, surface.most(_LINES), _MORE)


def _left(told: CarriedOut, surface: Surface) -> Iterator[RenderableType]:
    if not told.left:
        return
    yield heading(f"Left ({len(told.left)})")
    table = grid("step", "wave", "pod", "node", "", "refused because", right=(0, 1), prose=(5,))
    shown = told.left[: surface.most(_LINES)]
    for entry in shown:
        begun = plain("begun" if entry.begun else "")
        table.add_row(plain(entry.step), plain(entry.wave), Name(entry.pod), Name(entry.node or "(evicted)"), begun, plain(entry.why))
    yield inset(table)
    yield from more(len(told.left) - len(shown), _MORE)
