"""How far a batch is, on standard error: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any, Final

from kubestow.report.terminal.progress import Lines, Redrawn

if TYPE_CHECKING:
    from rich.text import Text

#: Seconds between plain lines.
_PAUSE: Final = 15.0
_BAR: Final = 24


class Display(Lines):
    """Counts tasks and shows nothing; also the base of those that do. ``width``: tasks that run at once."""

    def __init__(self, total: int, width: int = 1) -> None:
        self.total, self.width = total, width
        self.begun = self.done = self.failed = 0
        self._started = time.monotonic()

    def begin(self, task: Any) -> None:
        """Count a task that was handed out."""
        self.begun += 1

    def end(self, *, failed: bool) -> None:
        """Count a task that is done, with or without a result."""
        self.done += 1
        self.failed += failed

    def text(self) -> str:
        """Return the numbers in a line."""
        running = max(0, min(self.width, self.begun - self.done, self.total - self.done))
        parts = [f"{self.done:,} of {self.total:,} done", f"{running:,} running"]
        parts += [f"{self.failed:,} failed"] if self.failed else []
        if 0 < self.done < self.total:
            left = (time.monotonic() - self._started) / self.done * (self.total - self.done)
            parts.append(f"{_clock(left)} left")
        return ", ".join(parts)


def _clock(seconds: float) -> str:
    """Return a time that is left, in the unit that fits it."""
    whole = round(seconds)
    if whole < 100:
        return f"{whole} s"
    minutes = -(-whole // 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60} min"


class PlainLines(Display):
    """A line every few seconds, when a task ends."""

    def __init__(self, total: int, width: int = 1) -> None:
        super().__init__(total, width)
        self._when = self._started

    def end(self, *, failed: bool) -> None:
        super().end(failed=failed)
        now = time.monotonic()
        if now - self._when >= _PAUSE:
            self._when = now
            self.say(self.text())


class Bar(Redrawn, Display):
    """A bar and the numbers in one line, redrawn in place and removed at the end."""

    def __rich__(self) -> Text:
        from rich.text import Text

        full = _BAR * self.done // max(1, self.total)
        unicode = (getattr(sys.stderr, "encoding", None) or "").lower().replace("-", "").startswith("utf")
        bar = ("█" * full + "·" * (_BAR - full)) if unicode else ("#" * full + "." * (_BAR - full))
        return Text(f"{bar}  {self.text()}", no_wrap=True, overflow="ellipsis")


def choose(total: int, width: int, *, quiet: bool) -> Display:
    """Return the display that fits standard error and -q."""
    if quiet or sys.stderr is None:
        return Display(total, width)
    return Bar(total, width) if sys.stderr.isatty() else PlainLines(total, width)
