"""Check types with mypy: ``python packaging/check_types.py [OPTION...]``.

The package kubestow is the root of the checkout, whose folder may have any name. So mypy sees it through a link named kubestow.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def main() -> int:
    """Run mypy on the package and the tests, then on packaging/; return the first nonzero exit code."""
    with tempfile.TemporaryDirectory() as folder:
        for name, target in (("kubestow", ROOT), ("tests", ROOT / "tests")):
            Path(folder, name).symlink_to(target, target_is_directory=True)
        environment = {**os.environ, "MYPYPATH": folder}
        settings = ["--config-file", str(ROOT / "pyproject.toml"), "--cache-dir", str(ROOT / ".mypy_cache")]
        command = [sys.executable, "-m", "mypy", *settings, *sys.argv[1:]]
        modules = subprocess.run([*command, "-p", "kubestow", "-p", "tests"], cwd=folder, env=environment, check=False).returncode
        scripts = subprocess.run([*command, str(ROOT / "packaging")], cwd=folder, env=environment, check=False).returncode
        return modules or scripts


if __name__ == "__main__":
    sys.exit(main())
