"""The values in the tables of whole processes: phases, memory, exponents, ratios, goals."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.table import Table

from tests.benchmarks import bench_planted, bench_scale, bench_speed
from tests.benchmarks.bench_scale import Result, Run, Tier, exponent

pytestmark = pytest.mark.slow


def drawn(table: Table) -> list[str]:
    console = Console(width=200, record=True, quiet=False, file=io.StringIO())
    console.print(table)
    return console.export_text().splitlines()


def fake(seconds: float, placed: int = 10, pending: int = 10, phases: dict[str, float] | None = None, bound: int = 10) -> Run:
    tiers = [Tier("placed", placed, bound, 0), Tier("strategy", -5, 0)]
    return Run(seconds, 50.0, Result("feasible", "greedy", bench_scale._Pending(pending), tiers, phases or {}))


@given(st.floats(0.2, 3.0), st.floats(1e-6, 1e3), st.lists(st.integers(1, 10**6), min_size=2, max_size=6, unique=True))
def test_the_exponent_of_a_power_is_found(e: float, factor: float, sizes: list[int]) -> None:
    estimate = exponent(sizes, [factor * size**e for size in sizes])
    assert estimate == pytest.approx(e, abs=1e-6)


@pytest.mark.parametrize(("sizes", "seconds"), [([], []), ([5], [1.0]), ([5, 50], [0.0, 1.0]), ([5, 5], [1.0, 2.0])])
def test_no_exponent_without_two_points(sizes: Sequence[float], seconds: Sequence[float]) -> None:
    assert exponent(sizes, seconds) is None


def test_phases_add_up_to_the_whole() -> None:
    one = fake(10.0, phases={"load": 1.0, "compile": 2.0, "solve": 3.0, "verify": 1.5})
    assert one.phases == {"load": 1.0, "compile": 2.0, "solve": 3.0, "verify": 1.5, "rest": 2.5, "whole": 10.0}


def test_the_scale_table_has_a_row_for_each_size_and_the_exponents() -> None:
    lines = drawn(bench_scale.table([100, 1000], [fake(1.0, phases={"solve": 0.5}), fake(10.0, phases={"solve": 5.0})]))
    assert sum("100.00%" in line for line in lines) == 2
    (exponents,) = (line for line in lines if "exponent" in line)
    assert re.sub(r"[^-.\d ]", "", exponents).split() == ["-", "-", "1.00", "-", "1.00", "1.00"]


def test_one_small_cluster_from_generation_to_memory(tmp_path: Path) -> None:
    path = bench_scale.generate(tmp_path / "cluster.json", 4, 60, 1)
    one = bench_scale.run(path, ("--engine", "greedy"))
    assert one.result.snapshot.pending == 60
    assert 0 < one.result.placed <= 60
    assert set(one.result.seconds) >= {"load", "compile", "solve", "verify"}
    assert 10 < one.peak < 2000
    assert one.seconds >= one.result.seconds["solve"]


def test_a_process_without_a_result_is_an_error_with_its_words(tmp_path: Path) -> None:
    (tmp_path / "broken.json").write_text("{")
    with pytest.raises(RuntimeError, match=r"broken\.json: exit 1: kubestow: "):
        bench_scale.run(tmp_path / "broken.json")


def test_every_shape_has_a_recorded_time() -> None:
    shapes = bench_speed.shapes(["*"])
    assert len(shapes) == 8
    assert set(shapes) == set(bench_speed.baseline())
    assert bench_speed.baseline()["perf-basic"] == 6.43  # default sampling, not that of all nodes
    assert bench_speed.shapes(["*spread"]) == ["perf-prefspread", "perf-spread"]


def test_the_speed_table_takes_medians_and_a_geometric_mean() -> None:
    measured = {"a": [fake(9.0), fake(1.0), fake(2.0)], "b": [fake(10.0, placed=5)]}
    lines = drawn(bench_speed.table(measured, {"a": 16.0, "b": 20.0}))
    rows = {line.split("│")[1].strip(): [cell.strip() for cell in line.split("│")[2:-1]] for line in lines if line.startswith("│")}
    assert rows["a"] == ["10", "100.0%", "16.00", "2.00", "8.00", "3: met"]
    assert rows["b"] == ["10", "50.0%", "20.00", "10.00", "2.00", "3: missed"]
    assert rows["geometric mean"][-2:] == ["4.00", "5: missed"]


def test_goals_of_planted_instances() -> None:
    result = bench_planted.instances(8, 40, [0, 1], 5.0, ["*"])
    assert [i.name for i in result[:4]] == ["planted-97-s0", "planted-97-s1", "planted-100-s0", "planted-100-s1"]
    assert [i.name for i in result[4:]] == [f"rules-200x12-97-s{s}" for s in range(3)]
    nearly, rules = fake(1.0, placed=998, pending=1000, bound=1000), result[-1]
    assert not result[0].met(nearly)
    assert result[2].met(nearly)
    assert rules.met(fake(1.0, placed=10, bound=10))
    assert not rules.met(fake(1.0, placed=10, bound=11))  # complete, and not proved


@pytest.mark.slow
def test_a_small_planted_instance_is_solved() -> None:
    (instance,) = bench_planted.instances(4, 16, [0], 60.0, ["planted-97-s0"])
    cells = bench_planted.row(instance, bench_planted.solve(instance))
    assert cells[:4] == ("planted-97-s0", "16", "16", "100.00%")
    assert cells[5] == "optimal"
    assert cells[-1] == "99.9%: met"


def test_the_page_names_commands_that_exist() -> None:
    page = (bench_scale.ROOT / "docs" / "performance.md").read_text()
    named = set(re.findall(r"\b(?:bench|plot)_\w+\.py", page))
    assert named == {path.name for pattern in ("bench_*.py", "plot_*.py") for path in Path(__file__).parent.glob(pattern)}
    for before, after in re.findall(r"<!-- measured: (.+?) -->\n(?:<!-- at .+? -->\n)?(.)", page):
        assert before.startswith("python tests/benchmarks/")
        assert after == "|", f"no table below {before}"
