from __future__ import annotations

import sys
import time

import pytest

from kubestow.report.terminal import progress
from kubestow.solver.runtime.options import Progress


def event(
    phase: str,
    tier: str | None = None,
    priority: int | None = None,
    value: int | None = None,
    bound: int | None = None,
    seconds: float = 1.0,
    detail: str | None = None,
) -> Progress:
    return Progress(phase, tier, priority, value, bound, seconds, detail)


def test_describe() -> None:
    assert progress.describe(event("compile")) == "compile"
    assert progress.describe(event("exact", "placed", 10, 4, 5)) == "exact · placed (priority 10) · best 4 · bound 5 · gap 25.0 %"
    assert progress.describe(event("compile", detail="5 pods in 2 classes")) == "compile · 5 pods in 2 classes"
    assert progress.describe(event("exact", "soft", None, 5, 5)) == "exact · soft · best 5 · bound 5 · proved"


def test_plain_lines_come_with_news_and_then_occasionally(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    lines = progress.PlainLines()
    for step, news in [(0.0, event("greedy")), (1.0, event("greedy")), (1.0, event("exact")), (6.0, event("exact", seconds=9.0))]:
        now[0] += step
        lines.update(news)
    assert capsys.readouterr().err.splitlines() == ["    1.0 s  greedy", "    1.0 s  exact", "    9.0 s  exact"]


def test_choice_of_display(monkeypatch: pytest.MonkeyPatch) -> None:
    assert type(progress.choose(quiet=False, verbose=False)) is progress.Quiet
    assert type(progress.choose(quiet=False, verbose=True)) is progress.PlainLines
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    assert type(progress.choose(quiet=False, verbose=False)) is progress.LiveLine
    assert type(progress.choose(quiet=True, verbose=False)) is progress.Quiet


def test_the_live_line_is_drawn_and_goes_away(capsys: pytest.CaptureFixture[str]) -> None:
    with progress.LiveLine() as live:
        live.update(event("exact", "placed", 0, 4, 5))
        assert "best 4" in live.__rich__().plain
        live.say("[red]stopping")
    streams = capsys.readouterr()
    assert streams.out == ""
    assert "[red]stopping\n" in streams.err


def test_lines_that_stay_are_lines(capsys: pytest.CaptureFixture[str]) -> None:
    progress.Quiet().say("a\nb")
    progress.LiveLine().say("c")
    assert capsys.readouterr().err == "a\\nb\nc\n"
