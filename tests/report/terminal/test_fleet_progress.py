"""How far a batch is: tasks done, running, failed, and the time that is left."""

from __future__ import annotations

import pytest
from rich.text import Text

from kubestow.report.terminal.fleet import progress
from kubestow.report.terminal.fleet.progress import Display, FleetBar, FleetLines


class Clock:
    """Seconds that a test lets pass."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(progress, "time", made)
    return made


def do(display: Display, *ends: bool, begun: int) -> None:
    """Hand out some tasks, and end some, each failed or not."""
    for task in range(begun):
        display.begin(task)
    for failed in ends:
        display.end(failed=failed)


def test_a_batch_tells_what_is_done_running_failed_and_left(clock: Clock) -> None:
    display = Display(10, 2)
    assert display.text() == "0 of 10 done, 0 running"
    do(display, begun=4)
    assert display.text() == "0 of 10 done, 2 running"  # two wait for a worker
    clock.now += 12
    do(display, False, True, False, begun=2)
    assert display.text() == "3 of 10 done, 2 running, 1 failed, 28 s left"
    do(display, *[False] * 6, begun=4)
    assert display.text() == "9 of 10 done, 1 running, 1 failed, 1 s left"
    do(display, True, begun=0)
    assert display.text() == "10 of 10 done, 0 running, 2 failed"


@pytest.mark.parametrize(
    ("seconds", "left"), [(9, "9 s"), (99, "99 s"), (101, "2 min"), (99 * 60, "99 min"), (100 * 60, "1 h 40 min"), (90_061, "25 h 2 min")]
)
def test_the_time_that_is_left_is_in_the_unit_that_fits(clock: Clock, seconds: int, left: str) -> None:
    display = Display(2)
    clock.now += seconds
    do(display, False, begun=2)
    assert display.text() == f"1 of 2 done, 1 running, {left} left"


def test_the_bar_grows_with_what_is_done_and_fits_the_terminal(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal:
        encoding = "ascii"

    bar = FleetBar(4, 2)
    monkeypatch.setattr("sys.stderr", Terminal())
    clock.now += 5
    do(bar, True, begun=3)
    shown = bar.__rich__()
    assert isinstance(shown, Text)
    assert shown.plain == "######..................  1 of 4 done, 2 running, 1 failed, 15 s left"
    assert shown.no_wrap
    Terminal.encoding = "UTF-8"
    do(bar, False, False, False, begun=1)
    assert bar.__rich__().plain == "█" * 24 + "  4 of 4 done, 0 running, 1 failed"


def test_without_a_terminal_a_line_comes_now_and_then(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    display = FleetLines(9, 1)
    do(display, False, begun=2)
    assert capsys.readouterr().err == ""
    clock.now += 20
    do(display, True, False, begun=1)
    assert capsys.readouterr().err == "2 of 9 done, 1 running, 1 failed, 70 s left\n"
