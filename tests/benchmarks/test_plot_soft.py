"""The drawing of the soft tier's progress."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubestow.solver.runtime.options import Progress
from tests.benchmarks import plot_soft
from tests.benchmarks.plot_soft import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, Curve, svg, ticks

pytestmark = pytest.mark.full

SPACE = "{http://www.w3.org/2000/svg}"


def curve() -> Curve:
    plotted = Curve()
    for step in ((0.5, -100, 5000), (1.0, -50, 5000), (1.5, -60, 400), (2.0, 100, 200)):
        plotted.add(*step)
    plotted.add(4.0, 100, 200)
    return plotted


def test_only_improvements_of_the_soft_tier_are_kept() -> None:
    plotted = curve()
    assert plotted.values == [(0.5, -100), (1.0, -50), (2.0, 100)]
    assert plotted.bounds == [(0.5, 5000), (1.5, 400), (2.0, 200)]
    assert plotted.end == 4.0
    plotted(Progress("greedy", "placed", 0, 999, 999, 5.0))
    plotted(Progress("exact", "soft", None, 150, 200, 6.0))
    assert plotted.values[-1] == (6.0, 150)
    assert len(plotted.bounds) == 3


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6), st.integers(2, 12))
def test_ticks_are_few_round_and_inside(low: float, width: float, limit: int) -> None:
    numbers = ticks(low, low + width, limit)
    assert len(numbers) <= limit
    assert all(low - 1e-6 * width <= t <= low + width * (1 + 1e-6) for t in numbers)
    gaps = {float(f"{b - a:.3g}") for a, b in pairwise(numbers)}
    assert len(gaps) <= 1
    assert all(f"{gap:e}"[0] in "125" for gap in gaps)


def test_the_lines_step_from_the_first_answer_to_the_end() -> None:
    root = ElementTree.fromstring(svg(curve(), "a <title> & more", 50))
    assert root.findtext(f"{SPACE}title") == "a <title> & more"
    paths = [p for p in root.iter(f"{SPACE}path") if p.get("clip-path")]
    bound, value, recorded = (p.get("d", "") for p in paths)
    assert [p.get("stroke-dasharray") for p in paths] == [None, None, "6 4"]
    middle = LEFT + (WIDTH - LEFT - RIGHT) / 2
    assert f"H{middle:.1f}V" in value  # the last gain, at half time
    assert value.endswith(f"H{WIDTH - RIGHT:.1f}")
    heights = [float(h) for h in re.findall(r"(?:V|^M\S+ )([\d.]+)", value)]
    assert heights == sorted(heights, reverse=True)  # higher is better, and the axis of a drawing points down
    assert all(TOP <= h <= HEIGHT - BOTTOM for h in heights)
    last = float(re.findall(r"V([\d.]+)", bound)[-1])
    level = float(recorded.split()[1].split("H")[0])
    assert last < heights[-1] < level  # bound above incumbent above record


def test_without_a_record_there_are_two_lines() -> None:
    root = ElementTree.fromstring(svg(curve(), "title", None))
    assert len([p for p in root.iter(f"{SPACE}path") if p.get("clip-path")]) == 2


def test_a_single_point_can_be_drawn() -> None:
    plotted = Curve()
    plotted.add(0.0, 7, 7)
    ElementTree.fromstring(svg(plotted, "proved at once", 7))


def test_the_command_draws_a_solve(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "drawing.svg"
    plot_soft.main(["soft-60-70-s0", "--time-limit", "2", "-o", str(target)])
    assert "soft-60-70-s0" in capsys.readouterr().out
    root = ElementTree.fromstring(target.read_text())
    assert len([p for p in root.iter(f"{SPACE}path") if p.get("clip-path")]) == 3
