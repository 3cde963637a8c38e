"""Modules that snapshots without devices do not import."""

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
print(*(name for name in sys.modules if name.startswith(("google", "cel_expr", "kubestow.models.cel", "kubestow.models.devices.",
    "kubestow.checker.devices."))))
"""


@pytest.mark.full
def test_solving_without_devices_imports_nothing_of_them(tmp_path: Path) -> None:
    options = ["solve", str(ROOT / "instances" / "quickstart.yaml"), "--engine", "greedy", "-q", "-f", "json", "-o", str(tmp_path / "out")]
    found = subprocess.run([sys.executable, "-c", SOLVING, *options], cwd=ROOT, capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["kubestow.checker.devices.entry"]
