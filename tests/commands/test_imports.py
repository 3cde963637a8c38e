"""Modules of other packages that a run without need for them does not import."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOLVING = """
import sys
from kubestow import cli
try:
    cli.main()
except SystemExit as end:
    assert not end.code, end.code
print(*(name for name in sys.modules if name.partition(".")[0] in ("google", "cel_expr_python", "ortools", "pandas")))
"""


@pytest.mark.full
def test_a_greedy_solve_without_devices_imports_no_solver_and_no_library_of_selectors(tmp_path: Path) -> None:
    options = ["solve", str(ROOT / "instances" / "quickstart.yaml"), "--engine", "greedy", "-q", "-f", "json", "-o", str(tmp_path / "out")]
    found = subprocess.run([sys.executable, "-c", SOLVING, *options], cwd=ROOT, capture_output=True, text=True, check=True)
    assert found.stdout.split() == []
