"""The values in the table of the report page, and the page's limits: 2 s and 2 MB at 200 nodes with 4,000 pods."""

from __future__ import annotations

import argparse
import time

import pytest

from tests.benchmarks import bench_report
from tests.benchmarks.bench_report import Row, fastest, measure, table
from tests.report.pages import Chromium

pytestmark = [pytest.mark.full, pytest.mark.alone]


def test_a_row_for_each_size_and_one_for_the_growth() -> None:
    rows = [Row(10, 100, 0.1, 0.2, 150_000, 50.0), Row(100, 1_000, 1.0, 0.2, 600_000, 500.0)]
    assert list(table(rows))[2:] == [
        "| 10 | 100 | 0.10 | 0.20 | 2.0 | 0.15 | 1500 | 50 |",
        "| 100 | 1,000 | 1.00 | 0.20 | 0.2 | 0.60 | 600 | 500 |",
        "| exponent |  | 1.00 | 0.00 |  | 0.60 |  | 1.00 |",
    ]


def test_without_a_browser_a_column_is_empty() -> None:
    *_, row, exponents = table([Row(10, 100, 0.1, 0.2, 150_000, None)])
    assert row.endswith("| 1500 |  |")
    assert exponents == "| exponent |  | - | - |  | - |  | - |"


def test_the_fastest_run_counts() -> None:
    pauses = iter([0.02, 0.0, 0.02])

    def work() -> str:
        time.sleep(next(pauses))
        return "made"

    seconds, result = fastest(work, 3)
    assert 0 <= seconds < 0.015
    assert result == "made"


@pytest.mark.parametrize("text", ["5", "5x", "0x5", "axb", "5x5,"])
def test_sizes_that_are_none(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        bench_report._sizes(text)


def test_200_nodes_are_small_and_soon_interactive(chromium: Chromium) -> None:
    row = measure(200, 4_000, 1, 2, chromium)
    assert row.size <= 2_000_000
    assert row.interactive is not None
    assert 0 < row.interactive <= 2_000


def test_the_page_grows_slower_than_the_cluster() -> None:
    small, large = measure(10, 200, 1, 1, None), measure(100, 2_000, 1, 1, None)
    assert small.size < large.size < 10 * small.size
