"""Progress of a batch on standard error: a bar on a terminal, otherwise occasional lines."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any, Final

from kubestow.report.terminal.progress import PermanentLines, Redrawn

if TYPE_CHECKING:
    from rich.text import Text

#: Seconds between plain lines.
_LINE_INTERVAL_SECONDS: Final = 15.0
_BAR_COLUMNS: Final = 24


class Display(PermanentLines):
    """Counts tasks and shows nothing. Base of the other displays. ``width`` is the number of parallel tasks."""

    def __init__(self, total: int, width: int = 1) -> None:
        self.total, self.width = total, width
        self.begun = self.done = self.failed = 0
        self._started = time.monotonic()

    def begin(self, task: Any) -> None:
        """Count a started task."""
        self.begun += 1

    def end(self, *, failed: bool) -> None:
        """Count a finished task, successful or not."""
        self.done += 1
        self.failed += failed

    def text(self) -> str:
        """Return the numbers of done, running and failed tasks and the remaining time in one line."""
        running = max(0, min(self.width, self.begun - self.done, self.total - self.done))
        parts = [f"{self.done:,} of {self.total:,} done", f"{running:,} running"]
        parts += [f"{self.failed:,} failed"] if self.failed else []
        if 0 < self.done < self.total:
            remaining_seconds = (time.monotonic() - self._started) / self.done * (self.total - self.done)
            parts.append(f"{_clock(remaining_seconds)} left")
        return ", ".join(parts)


def _clock(seconds: float) -> str:
    """Return the remaining time in a suitable unit."""
    whole = round(seconds)
    if whole < 100:
        return f"{whole} s"
    minutes = -(-whole // 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60} min"


class FleetLines(Display):
    """Prints a line every few seconds, when a task ends."""

    def __init__(self, total: int, width: int = 1) -> None:
        super().__init__(total, width)
        self._when = self._started

    def end(self, *, failed: bool) -> None:
        super().end(failed=failed)
        now = time.monotonic()
        if now - self._when >= _LINE_INTERVAL_SECONDS:
            self._when = now
            self.say(self.text())


class FleetBar(Redrawn, Display):
    """A bar with counts in one line, redrawn in place and removed at the end."""

    def __rich__(self) -> Text:
        from rich.text import Text

        full = _BAR_COLUMNS * self.done // max(1, self.total)
        unicode = (getattr(sys.stderr, "encoding", None) or "").lower().replace("-", "").startswith("utf")
        bar = ("█" * full + "·" * (_BAR_COLUMNS - full)) if unicode else ("#" * full + "." * (_BAR_COLUMNS - full))
        return Text(f"{bar}  {self.text()}", no_wrap=True, overflow="ellipsis")


def choose(total: int, width: int, *, quiet: bool) -> Display:
    """Return the display for standard error and -q."""
    if quiet or sys.stderr is None:
        return Display(total, width)
    return FleetBar(total, width) if sys.stderr.isatty() else FleetLines(total, width)
