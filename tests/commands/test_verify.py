"""The command verify on Placements, with a checker of our own."""

from __future__ import annotations

import json
from pathlib import Path

import yaml

from tests.commands.fakes import Fakes, Run, Violation


def test_verify_says_valid_or_what_is_broken(run: Run, fakes: Fakes, result_file: str) -> None:
    good = run("verify", "x", "--result", result_file)
    assert (good.exit_code, json.loads(good.stdout)["violations"]) == (0, [])
    assert good.stderr == "valid: 2 assignments\n"
    fakes.violations = [Violation("prod/web-1", "n1", "NodePorts", "port 80 is taken")]
    bad = run("verify", "x", "--result", result_file, "-f", "yaml")
    assert bad.exit_code == 4
    assert yaml.safe_load(bad.stdout)["violations"][0]["rule"] == "NodePorts"
    assert "port 80 is taken" in run("verify", "x", "--result", result_file, "-f", "table").stdout


def test_verify_reads_the_result_from_standard_input(run: Run, result_file: str) -> None:
    assert run("verify", "x", "--result", "-", stdin=Path(result_file).read_text()).exit_code == 0


def test_verify_refuses_what_is_no_placement(run: Run, tmp_path: Path) -> None:
    (tmp_path / "r.yaml").write_text("kind: Pod\n")
    result = run("verify", "x", "--result", str(tmp_path / "r.yaml"))
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith(f"kubestow: {tmp_path / 'r.yaml'}: apiVersion: ")
