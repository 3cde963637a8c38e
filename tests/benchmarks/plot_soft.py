"""A drawing of how the soft tier's incumbent and bound close on each other.

    python tests/benchmarks/plot_soft.py [--time-limit 60] [-o docs/soft-progress.svg] [INSTANCE]

One solve in this process; each improvement that it reports is a step. The dashed line is kube-scheduler's recorded placement of the same
pods. The bound starts far off: it is drawn from where it comes within reach of the rest.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from xml.sax.saxutils import escape

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from kubestow.solver.runtime.options import Progress
from tests.benchmarks.bench_soft import baseline, soft_tier, solve

ROOT = Path(__file__).resolve().parents[2]
WIDTH, HEIGHT = 720, 400
LEFT, RIGHT, TOP, BOTTOM = 90, 20, 64, 48
#: Of middle brightness, so that they can be read on light and on dark paper.
INK, FAINT, BLUE, ORANGE, VIOLET = "#6e7781", "#8c959f", "#2f81f7", "#d1692f", "#8b6fd6"

Points = list[tuple[float, int]]


@dataclass
class Curve:
    """Progress of a solve's soft tier: (seconds, points) whenever the incumbent or the bound got better."""

    values: Points = field(default_factory=list)
    bounds: Points = field(default_factory=list)
    end: float = 0.0

    def __call__(self, progress: Progress) -> None:
        self.end = max(self.end, progress.seconds)
        if progress.tier == "soft" and progress.value is not None and progress.bound is not None:
            self.add(progress.seconds, progress.value, progress.bound)

    def add(self, seconds: float, value: int, bound: int) -> None:
        self.end = max(self.end, seconds)
        if not self.values or value > self.values[-1][1]:
            self.values.append((seconds, value))
        if not self.bounds or bound < self.bounds[-1][1]:
            self.bounds.append((seconds, bound))


def ticks(low: float, high: float, limit: int) -> list[float]:
    """Return at most ``limit`` round numbers between two: multiples of 1, 2 or 5 times a power of ten."""
    if not high > low:
        return [low]
    power = 10.0 ** math.floor(math.log10((high - low) / limit))
    for factor in (1, 2, 5, 10, 20):
        step = factor * power
        found = [i * step for i in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]
        if len(found) <= limit:
            break
    return found


def _span(curve: Curve, recorded: int | None) -> tuple[float, float]:
    """The points that the vertical axis shows: all incumbents, the record, the final bound, and as much again above them."""
    shown = [v for _, v in curve.values] + [curve.bounds[-1][1]] + ([] if recorded is None else [recorded])
    low, high = min(shown), max(shown)
    reach = max(1, high - low)
    above = min(max(b for _, b in curve.bounds), high + reach)
    return low - 0.05 * reach, above + 0.05 * reach


def svg(curve: Curve, title: str, recorded: int | None) -> str:
    """The drawing. ``recorded``: kube-scheduler's points."""
    low, high = _span(curve, recorded)
    end = max(curve.end, 1e-3)

    def x(seconds: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * seconds / end

    def y(points: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (points - low) / (high - low)

    def steps(points: Points) -> str:
        path = f"M{x(points[0][0]):.1f} {y(points[0][1]):.1f}"
        return path + "".join(f"H{x(s):.1f}V{y(v):.1f}" for s, v in points[1:]) + f"H{x(end):.1f}"

    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
    elements = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" role="img">',
        f"<title>{escape(title)}</title>",
        f'<clipPath id="frame"><rect x="{LEFT}" y="{TOP}" width="{right - LEFT}" height="{bottom - TOP}"/></clipPath>',
        f'<g font-family="sans-serif" font-size="12" fill="{INK}">',
        f'<text x="{LEFT}" y="22" font-size="15">{escape(title)}</text>',
    ]
    for value in ticks(low, high, 8):
        elements.append(f'<path d="M{LEFT} {y(value):.1f}H{right}" stroke="{FAINT}" stroke-opacity="0.3"/>')
        elements.append(f'<text x="{LEFT - 8}" y="{y(value) + 4:.1f}" text-anchor="end">{value:,.0f}</text>')
    for seconds in ticks(0, end, 10):
        elements.append(f'<path d="M{x(seconds):.1f} {bottom}v5" stroke="{FAINT}"/>')
        elements.append(f'<text x="{x(seconds):.1f}" y="{bottom + 19}" text-anchor="middle">{seconds:g}</text>')
    elements.append(f'<text x="{(LEFT + right) / 2:.1f}" y="{HEIGHT - 8}" text-anchor="middle">seconds</text>')
    elements.append(f'<path d="M{LEFT} {TOP}V{bottom}H{right}" fill="none" stroke="{FAINT}"/>')
    lines = [("bound", ORANGE, "", steps(curve.bounds)), ("kubestow", BLUE, "", steps(curve.values))]
    if recorded is not None:
        lines.append(("kube-scheduler", VIOLET, ' stroke-dasharray="6 4"', f"M{LEFT} {y(recorded):.1f}H{right}"))
    start = LEFT
    for name, colour, dashes, path in lines:
        style = f'fill="none" stroke="{colour}" stroke-width="2"{dashes}'
        elements.append(f'<path d="{path}" clip-path="url(#frame)" {style}/>')
        elements.append(f'<path d="M{start} 44h24" {style}/><text x="{start + 30}" y="48">{name}</text>')
        start += 60 + 8 * len(name)
    return "\n".join([*elements, "</g>", "</svg>", ""])


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", nargs="?", default="soft-200-75-s0", metavar="INSTANCE")
    parser.add_argument("--time-limit", type=float, default=60.0)
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "docs" / "soft-progress.svg")
    options = parser.parse_args(arguments)
    curve = Curve()
    result, seconds = solve(options.name, options.time_limit, curve)
    tier = soft_tier(result)
    curve.add(seconds, tier.value, tier.bound)
    options.output.write_text(svg(curve, f"{options.name}: points of the soft tier", baseline().get(options.name)))
    print(f"{options.name}: {tier.value:,} of at most {tier.bound:,} ({tier.gap:.2%}), {len(curve.values)} steps, {seconds:.0f} s")


if __name__ == "__main__":
    main()
