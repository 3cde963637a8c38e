"""The bundle: one file, made and run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kubestow import cli

ROOT = Path(cli.__file__).resolve().parent


@pytest.mark.slow
def test_a_bundle_solves_where_nothing_is_installed(tmp_path: Path) -> None:
    """Takes the index of packages that pip has here."""
    pytest.importorskip("shiv")
    bundle = tmp_path / "kubestow.pyz"
    made = subprocess.run(
        [sys.executable, str(ROOT / "packaging/make_bundle.py"), str(bundle)], capture_output=True, text=True, check=False
    )
    assert made.returncode == 0, made.stderr
    environment = {"PATH": os.environ["PATH"], "SHIV_ROOT": str(tmp_path / "unpacked"), "HOME": "/nonexistent"}
    command = [sys.executable, "-I", str(bundle), "solve", str(ROOT / "instances/quickstart.yaml"), "-q", "-f", "table"]
    for _ in range(2):  # unpacked by the first
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stderr
        assert "15 of 15 pods placed" in done.stdout
    assert 50e6 < bundle.stat().st_size < 150e6
