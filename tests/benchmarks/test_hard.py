"""The table of the hardest instances: which rows there are, which tier decides, one row from file to memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.benchmarks import bench_hard
from tests.benchmarks.bench_hard import Row, cells, deciding, rows
from tests.benchmarks.bench_scale import Result, Run, Tier, _Pending, run

pytestmark = pytest.mark.slow


def test_rows_are_chosen_by_their_names() -> None:
    assert [row.name for row in rows(["soft-60-*"], [4])] == ["soft-60-70-s0", "soft-60-70-s1", "soft-60-70-s2"]
    assert [row.name for row in rows(["large*", "greedy*"], [4, 5])] == ["large-seed4", "large-seed5", "greedy-seed4", "greedy-seed5"]
    assert [row.name for row in rows(["rules*"], [4])] == [*(f"rules-32x8-100-s{seed}" for seed in range(3)), "rules-32x8-100-seed4"]
    assert rows(["nothing"], [4]) == []


def test_the_first_open_tier_that_was_asked_for_decides() -> None:
    high, low, soft, spread = Tier("placed", 5, 5, 10), Tier("placed", 7, 8, 0), Tier("soft", -3, 4), Tier("topologySpread", 0, 9)
    assert deciding([high, low, soft, spread]) is low
    assert deciding([high, soft, spread]) is soft
    assert deciding([high, spread]) is high
    result = Result("feasible", "lns", _Pending(13), [high, low, soft, spread])
    assert cells(Row("soft-60-70-s0", None), Run(2.0, 50.0, result, 3.0)) == [
        "soft-60-70-s0", "12/13", "placed 0", "7", "8", "14.29%", "2.0", "3.0", "50",
    ]  # fmt: skip


@pytest.mark.slow
def test_a_generated_instance_is_solved_and_weighed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(bench_hard.CLUSTERS, "greedy", (4, 60, (), ("--engine", "greedy")))
    for row in rows(["greedy*", "pack-32x8-100-seed*"], [3]):
        result = run(*row.write(tmp_path))
        assert 0 < result.result.placed <= result.result.snapshot.pending
        assert result.cpu > 0
        assert result.peak > 10
        assert cells(row, result)[0] == row.name
