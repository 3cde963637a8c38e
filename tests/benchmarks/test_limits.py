"""The counts of the benchmark of limits: time inside OR-tools once, regardless of concurrent calls, and ratios to the barest row."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from tests.benchmarks import bench_hard
from tests.benchmarks.bench_limits import Inside, passes, passes_table, placed, searched, spent

pytestmark = pytest.mark.full


def test_calls_that_overlap_count_once() -> None:
    inside, opened, over = Inside(), threading.Event(), threading.Event()

    def work() -> None:
        with inside.call():
            opened.set()
            over.wait()

    thread = threading.Thread(target=work)
    started = time.monotonic()
    thread.start()
    opened.wait()
    with inside.call():
        over.set()
        thread.join()
    ended = time.monotonic()
    assert inside.calls == 2
    assert 0 < inside.wall <= ended - started
    before = inside.wall
    time.sleep(0.01)
    assert inside.wall == before


def test_the_least_of_the_runs_counts() -> None:
    done: list[int] = []
    spent(lambda: done.append(1), 4)
    assert len(done) == 4


@pytest.mark.slow
def test_each_pass_does_what_it_says(tmp_path: Path) -> None:
    path, target = placed(tmp_path, 60)
    rows = list(passes(path, target))
    assert [size for _, _, size in rows] == [path.stat().st_size] * 6 + [60] * 2
    drawn = passes_table([("a", 2.0, 10), ("b", 5.0, 10), ("c", 1.0, 4), ("d", 8.0, 4)])
    assert list(drawn.columns[-1].cells) == ["1.0", "2.5", "1.0", "8.0"]
    assert list(drawn.columns[-2].cells) == ["", "", "250000.00", "2000000.00"]


def test_a_search_says_how_much_of_it_was_inside(monkeypatch: pytest.MonkeyPatch) -> None:
    (row,) = bench_hard.rows(["rules-32x8-100-seed3"], [3])
    monkeypatch.setitem(bench_hard.LIMITS, "rules", "5")
    name, workers, *_, share, _, elsewhere = searched(row, "1")
    assert (name, workers) == (row.name, "1")
    assert 0 <= int(share.rstrip("%")) <= 100
    assert float(elsewhere) > 0
