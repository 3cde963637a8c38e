"""Progress on standard error during a solve: a live line on a terminal, otherwise occasional plain lines."""

from __future__ import annotations

import contextlib
import sys
import time
from abc import ABC, abstractmethod
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from kubestow.report.documents.output import one_line
from kubestow.report.documents.tier_words import gap_text

if TYPE_CHECKING:
    from rich.live import Live
    from rich.text import Text

    from kubestow.solver.runtime.options import Progress

#: Seconds between plain lines within a phase.
_LINE_INTERVAL_SECONDS: Final = 5.0


def describe(event: Progress) -> str:
    """Return phase, tier, incumbent, bound and gap in one line."""
    parts = [event.phase]
    if event.tier is not None:
        parts.append(event.tier if event.priority is None else f"{event.tier} (priority {event.priority})")
    if event.value is not None:
        parts.append(f"best {event.value}")
    if event.bound is not None:
        parts.append(f"bound {event.bound}")
    if event.value is not None and event.bound is not None:
        parts.append("proved" if event.value == event.bound else f"gap {gap_text(event.value, event.bound)}")
    if event.detail is not None:
        parts.append(event.detail)
    return one_line(" · ".join(parts))


class PermanentLines:
    """Base of all displays, which only prints permanent lines."""

    def say(self, text: str) -> None:
        """Print a permanent line."""
        with contextlib.suppress(OSError):
            print(one_line(text), file=sys.stderr, flush=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Remove the display."""


class Redrawn(PermanentLines, ABC):
    """A line given by ``__rich__`` that is redrawn in place and removed at the end. Permanent lines are printed above it."""

    _live: Live | None = None

    @abstractmethod
    def __rich__(self) -> Text:
        """Return the current line."""

    def say(self, text: str) -> None:
        if self._live is None:
            super().say(text)
        else:
            self._live.console.print(one_line(text), markup=False, highlight=False, soft_wrap=True)

    def __enter__(self) -> Self:
        from rich import console, live

        self._live = live.Live(self, console=console.Console(stderr=True), refresh_per_second=4, transient=True, redirect_stdout=False)
        self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None


class Quiet(PermanentLines):
    """Shows nothing. Base of the other progress displays."""

    def update(self, event: Progress) -> None:
        """Record an event. May be called from any thread."""


class PlainLines(Quiet):
    """Prints a line when the phase or tier changes, and every few seconds in between."""

    def __init__(self) -> None:
        self._last: tuple[str, str | None, int | None, str | None] | None = None
        self._when = 0.0

    def update(self, event: Progress) -> None:
        now = time.monotonic()
        this = (event.phase, event.tier, event.priority, event.detail)
        if this != self._last or now - self._when >= _LINE_INTERVAL_SECONDS:
            self._last, self._when = this, now
            print(f"{event.seconds:7.1f} s  {describe(event)}".replace("·", "-"), file=sys.stderr, flush=True)


class LiveLine(Redrawn, Quiet):
    """A live line with a clock that continues between events."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._event: Progress | None = None

    def update(self, event: Progress) -> None:
        self._event = event

    def __rich__(self) -> Text:
        from rich.text import Text

        text = describe(self._event) if self._event is not None else "starting"
        return Text(f"{time.monotonic() - self._started:6.1f} s  {text}", no_wrap=True, overflow="ellipsis")


def choose(*, quiet: bool, verbose: bool) -> Quiet:
    """Return the display for standard error and the options -q and -v."""
    if quiet or sys.stderr is None:
        return Quiet()
    if sys.stderr.isatty():
        return LiveLine()
    return PlainLines() if verbose else Quiet()
