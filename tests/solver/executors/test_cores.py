"""The number of cores: those of the process, within the limits of control groups."""

from __future__ import annotations

from pathlib import Path

import pytest

from kubestow.solver.cpsat.run import CpSat
from kubestow.solver.executors import cores as module
from kubestow.solver.executors.cores import core_limit, cores
from kubestow.solver.runtime.options import Options
from kubestow.solver.runtime.run_context import RunContext


@pytest.mark.parametrize(
    ("quota", "expected"), [("max 100000", None), ("150000 100000", 1.5), ("50000 100000", 0.5), ("nonsense", None), ("1 0", None)]
)
def test_limits_of_groups_are_read(tmp_path: Path, quota: str, expected: float | None) -> None:
    (tmp_path / "own").write_text("0::/pod/app\n1:name=systemd:/x\nodd\n")
    (tmp_path / "groups/pod/app").mkdir(parents=True)
    (tmp_path / "groups/pod/cpu.max").write_text(quota + "\n")
    (tmp_path / "groups/pod/app/cpu.max").write_text("max 100000\n")
    assert core_limit(tmp_path / "groups", tmp_path / "own") == expected


def test_limits_of_older_groups_are_read(tmp_path: Path) -> None:
    (tmp_path / "own").write_text("4:cpu,cpuacct:/docker/a\n5:memory:/docker/a\n")
    folder = tmp_path / "cpu/docker/a"
    folder.mkdir(parents=True)
    (folder / "cpu.cfs_quota_us").write_text("200000\n")
    (folder / "cpu.cfs_period_us").write_text("100000\n")
    assert core_limit(tmp_path, tmp_path / "own") == 2
    (folder / "cpu.cfs_quota_us").write_text("-1\n")
    assert core_limit(tmp_path, tmp_path / "own") is None


@pytest.mark.parametrize("limited", ["cpu", "cpu/pods"])
def test_older_groups_have_the_limits_of_those_that_they_are_in(tmp_path: Path, limited: str) -> None:
    """The first is as in a container, which finds the files of its own group where the root's would be."""
    (tmp_path / "own").write_text("4:cpu,cpuacct:/pods/a\n")
    folder = tmp_path / limited
    folder.mkdir(parents=True)
    (folder / "cpu.cfs_quota_us").write_text("150000\n")
    (folder / "cpu.cfs_period_us").write_text("100000\n")
    assert core_limit(tmp_path, tmp_path / "own") == 1.5


@pytest.mark.parametrize(("limit", "expected"), [(None, 8), (0.5, 1), (2.5, 2), (16, 8)])
def test_a_limit_of_groups_leaves_so_many_workers(limit: float | None, expected: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "usable_cores", lambda: 8)
    monkeypatch.setattr(module, "_limit", lambda: limit)
    assert cores() == expected
    solver = CpSat(RunContext.start(Options()))._solver(1, tight=False, quick=False)
    assert solver.parameters.num_workers == expected
