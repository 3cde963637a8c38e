"""For any manifests and cluster, ``check`` ends as documented, in a readable form, with positions that exist in the files."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz import run
from tests.fuzz.cases import Case
from tests.fuzz.check import cases
from tests.tiers import thinned

#: Cases of one test.
PIECE = 15


@pytest.mark.full
@pytest.mark.parametrize("first", [*thinned(range(0, 7 * PIECE, PIECE), 3), 6835])
def test_spoiled_manifests(first: int) -> None:
    assert cases.several(first, PIECE) == {}


@pytest.mark.slow
@pytest.mark.parametrize("first", range(100_000, 108_000, 1000))
def test_spoiled_manifests_at_length(first: int) -> None:
    assert cases.several(first, 1000) == {}


@pytest.mark.parametrize("seed", range(4))
def test_a_number_gives_the_same_case(seed: int, tmp_path: Path) -> None:
    assert run.made(cases.make, seed, tmp_path / "a") == run.made(cases.make, seed, tmp_path / "b")


def test_a_lie_would_be_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "web.yaml"
    path.write_text("apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {containers: [{name: c, image: i}]}\n")
    case = Case("check", inputs=["-w", str(path)], arguments=["-f", "json", "--fail-on", "never"])
    assert cases.judge(case) == []
    told = run.here(case.words())
    line = b'"line": '
    assert line in told.out
    monkeypatch.setattr(run, "here", lambda *_: run.Outcome(told.code, told.out.replace(line, b'"line": 9'), told.err))
    assert any("is not in the file" in each for each in cases.judge(case))
    monkeypatch.setattr(run, "here", lambda *_: run.Outcome(3, told.out, told.err))
    assert cases.judge(case) == ["exit code 3, and all fits"]
