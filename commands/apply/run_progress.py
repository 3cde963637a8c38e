"""Progress of a run of ``kubestow apply`` on standard error: bars on a terminal, otherwise one line for each wave."""

from __future__ import annotations

import asyncio
import sys
from types import TracebackType
from typing import Any, Final, Literal, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from kubestow.live.apply.moving.work import RunListener
from kubestow.live.apply.steps import RunStep
from kubestow.models.documents.placement import Placement
from kubestow.models.documents.rebalance_plan import RebalancePlan
from kubestow.report.documents.output import one_line

_DOES: Final = {"evicting": "evicted", "gone": "is gone", "bound": "is bound", "done": "is done"}


class RunProgress(RunListener):
    """Progress as lines of text."""

    def __init__(self, waves: int, steps: int, pause: float | None, *, quiet: bool, verbose: bool) -> None:
        self._waves, self._steps, self._pause = waves, steps, pause
        self._quiet, self._verbose = quiet, verbose

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Clean up; lines leave nothing behind."""

    def wave(self, number: int, steps: int) -> None:
        """Print that a wave begins."""
        if not self._quiet:
            self._say(f"wave {number} of {self._waves}: {steps} {'step' if steps == 1 else 'steps'}")

    def step(self, step: RunStep, what: Literal["evicting", "gone", "bound", "done"], name: str) -> None:
        """Print the event of a step's pod, if -v was given."""
        if self._verbose:
            where = f" on {step.target}" if what in ("bound", "done") and step.target else ""
            self._say(f"  {name}: {_DOES[what]}{where}")

    def note(self, message: str) -> None:
        """Print a note, also with -q."""
        self._say(f"note: {message}")

    async def pause(self, wave: int) -> bool:
        """Wait or ask before a wave; return True to continue."""
        if self._pause:
            await asyncio.sleep(self._pause)
            return True
        self._say(f"wave {wave} of {self._waves} is next. Continue? [Y/n]")
        answer = await asyncio.to_thread(sys.stdin.readline)
        return answer.strip().lower() in ("y", "yes") or answer == "\n"

    def _say(self, text: str) -> None:
        print(one_line(text), file=sys.stderr, flush=True)


class _Bars(RunProgress):
    """Progress as bars for waves and pods."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        self._bars = Progress(*columns, console=Console(stderr=True), transient=True)
        self._wave_bar = self._bars.add_task("waves", total=self._waves)
        self._pod_bar = self._bars.add_task("pods", total=self._steps)

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._bars.stop()

    def wave(self, number: int, steps: int) -> None:
        self._bars.update(self._wave_bar, completed=number - 1, description=f"wave {number}")

    def step(self, step: RunStep, what: Literal["evicting", "gone", "bound", "done"], name: str) -> None:
        super().step(step, what, name)
        if what == "done":
            self._bars.advance(self._pod_bar)

    async def pause(self, wave: int) -> bool:
        if self._pause:
            return await super().pause(wave)
        self._bars.stop()
        try:
            return await super().pause(wave)
        finally:
            self._bars.start()

    def _say(self, text: str) -> None:
        self._bars.console.print(one_line(text), markup=False, highlight=False, soft_wrap=True)


def choose(document: Placement | RebalancePlan, pause: float | None, *, quiet: bool, verbose: bool) -> RunProgress:
    """Return the progress display for a run. ``pause``: seconds between waves, 0 to ask."""
    kind = _Bars if sys.stderr.isatty() and not quiet else RunProgress
    if isinstance(document, Placement):
        return kind(1, len(document.assignments), pause, quiet=quiet, verbose=verbose)
    return kind(document.waves, len(document.moves) + len(document.evictions), pause, quiet=quiet, verbose=verbose)
