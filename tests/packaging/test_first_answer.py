"""The way to a first answer: two commands, as the README shows them first."""

from __future__ import annotations

import os
import runpy
from pathlib import Path

import pytest

from kubestow import cli

ROOT = Path(cli.__file__).resolve().parent
WALK = runpy.run_path(str(ROOT / "packaging/first_answer.py"))
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_at_most_three_commands_of_which_the_last_asks_the_own_cluster() -> None:
    steps = WALK["steps"](README)
    assert len(steps) <= 3
    assert [README.splitlines()[step.line - 1].strip() for step in steps] == [step.command for step in steps]
    assert steps[-1].command.startswith(".venv/bin/kubectl-stow ")
    page = (ROOT / "docs/quickstart.md").read_text(encoding="utf-8")
    assert all(f"| `{step.command}` |" in page and f"| {step.line} |" in page for step in steps), "docs/quickstart.md has the table"


def test_a_readme_without_them_is_told() -> None:
    with pytest.raises(ValueError, match=r"README\.md: expected"):
        WALK["steps"]("nothing\n")


def test_what_fails_ends_the_walk(tmp_path: Path) -> None:
    step = type(WALK["steps"](README)[0])
    timed = WALK["walk"]([step("echo 'found 3' >&2", 7)], tmp_path, dict(os.environ))
    assert [(each.line, said) for each, _, said in timed] == [(7, "found 3")]
    with pytest.raises(RuntimeError, match="exit 3: exited with code 3: why"):
        WALK["walk"]([step("echo why >&2; exit 3", 1)], tmp_path, dict(os.environ))


@pytest.mark.slow
def test_the_walk(tmp_path: Path) -> None:
    environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV")}
    environment["PATH"] = os.pathsep.join([WALK["made_cluster"](tmp_path / "bin"), environment["PATH"]])
    timed = WALK["walk"](WALK["steps"](README), WALK["copied"](tmp_path / "kubestow"), environment)
    assert "15 of 15 pods placed" in timed[0][2]
    assert "1 error" in timed[1][2]
