"""A newcomer's first ten minutes: the commands of docs/quickstart.md as one script, from the installation to the open report."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from kubestow import cli

pytestmark = pytest.mark.full

ROOT = Path(cli.__file__).resolve().parent
TEXT = (ROOT / "docs" / "quickstart.md").read_text(encoding="utf-8")
SCRIPT = "\n".join(re.findall(r"```sh\n(.*?)```", TEXT, re.DOTALL))
#: Files of the repository that an installation needs, and the examples.
TREE = (
    "pyproject.toml", "README.md", "LICENSE", "MANIFEST.in", "packaging", "docs",
    *sorted(path.name for path in ROOT.glob("*.py")), *sorted({path.parent.name for path in ROOT.glob("*/__init__.py")} - {"tests"}),
)  # fmt: skip


def test_the_first_ten_minutes(tmp_path: Path) -> None:
    for name in TREE:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, tmp_path / name)
    environment = {k: v for k, v in os.environ.items() if k not in ("VIRTUAL_ENV", "PYTHONPATH", "PYTHONHOME")}
    done = subprocess.run(
        ["bash", "-euxo", "pipefail", "-c", SCRIPT], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr[-3000:]

    placement = json.loads((tmp_path / "placement.json").read_text())
    assert (placement["status"], len(placement["assignments"])) == ("optimal", 15)
    assert "any one of these lets it be placed" in done.stdout  # why a pod is pending, and what would help
    assert re.search(r"KS1\d\d", done.stdout)  # rules broken now
    plan = json.loads((tmp_path / "plan.json").read_text())
    assert plan["drain"] == ["n1"]
    assert not plan["obstacles"]
    assert {move["from"] for move in plan["moves"]} == {"n1"}
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert all(move["pod"] in page for move in plan["moves"])
    assert not re.search(r"""(?:src|href)=["']?(?:https?:)?//""", page)  # nothing is fetched from anywhere
