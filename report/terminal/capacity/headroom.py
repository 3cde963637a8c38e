"""The headroom of CapacityBuffers, one line per buffer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.text import Text

from kubestow.models.catalogue import money
from kubestow.models.documents.headroom import BufferRoom, Headroom
from kubestow.models.documents.sizing import Sizing
from kubestow.report.documents.output import counted
from kubestow.report.terminal.canvas import Surface, heading, inset, more, plain

#: Maximum number of listed buffers.
_MAX_BUFFERS = 20


def of_fit(rooms: Sequence[Headroom] | None, surface: Surface) -> Iterator[RenderableType]:
    """Yield the headroom now, and with all replicas that fit."""
    labels = {"now": "now", "placed": "with all these replicas"}
    lines = []
    for parts in _by_buffer(rooms):
        first = parts[0][1]
        said = "; ".join(f"{labels.get(state, state)} {_fits(room)}" for state, room in parts)
        lines.append(_line(first, said, all(room.fits == room.chunks for _, room in parts)))
    yield from _section(lines, surface)


def of_states(rooms: Sequence[Headroom] | None, noun: str, surface: Surface) -> Iterator[RenderableType]:
    """Yield the headroom in the worst state. ``noun`` names a state: failure or wave."""
    lines = []
    when = {"failure": "after the failure of", "wave": "in wave"}[noun]
    for parts in _by_buffer(rooms):
        state, worst = min(parts, key=lambda part: part[1].fits)
        short = sum(room.fits < room.chunks for _, room in parts)
        if not short:
            lines.append(_line(worst, f"all {counted(worst.chunks, 'chunk')} fit in each of {counted(len(parts), noun)} (proved)", True))
        else:
            said = f"{when} {state} {_fits(worst)}, the fewest; fewer than requested in {short:,} of {counted(len(parts), noun)}"
            lines.append(_line(worst, said, False))
    yield from _section(lines, surface)


def of_sizing(result: Sizing, surface: Surface) -> Iterator[RenderableType]:
    """Yield the headroom that the nodes provide for buffers, and its cost."""
    lines = [_line(room, f"the nodes hold {counted(room.chunks, 'chunk')}", True) for room in result.buffers or ()]
    without = result.withoutBuffers
    if lines and without is not None:
        paid, less = money.parse(result.cost.value), money.parse(without.value)
        sure = result.cost.value == result.cost.bound and without.value == without.bound
        cost = f"cost {money.text(paid - less)} per hour" if paid > less else "cost nothing"
        lines.append(plain(f"without these chunks {money.text(less)} per hour would be paid: they {cost} ({'' if sure else 'not '}proved)"))
    yield from _section(lines, surface)


def _section(lines: Sequence[Text], surface: Surface) -> Iterator[RenderableType]:
    if not lines:
        return
    yield heading("Headroom of CapacityBuffers")
    shown = lines[: surface.limit(_MAX_BUFFERS)]
    for line in shown:
        yield inset(line)
    yield from more(len(lines) - len(shown), "{} more buffers (--all shows them)")


def _by_buffer(rooms: Sequence[Headroom] | None) -> Iterator[list[tuple[str, BufferRoom]]]:
    """Yield, for each buffer, its states with the available headroom."""
    for place in range(len(rooms[0].buffers) if rooms else 0):
        yield [(room.state, room.buffers[place]) for room in rooms or ()]


def _fits(room: BufferRoom) -> str:
    proof = "proved" if room.fits == room.bound else f"at most {room.bound:,}"
    return f"{room.fits:,} of {counted(room.chunks, 'chunk')} fit{'s' if room.fits == 1 else ''} ({proof})"


def _line(room: BufferRoom, said: str, whole: bool) -> Text:
    if room.problem is not None:
        return plain(f"{room.buffer}: ", style="red").append_text(plain(f"requests nothing: {room.problem}", style="default"))
    return plain(f"{room.buffer}: ", style="green" if whole else "yellow").append_text(plain(said, style="default"))
