"""Make one file that runs wherever there is this Python: ``python packaging/make_bundle.py kubestow.pyz`` (needs shiv).

The file holds kubestow and all that it needs, for the system and the version of Python that it was made with. It unpacks itself once,
below ``SHIV_ROOT`` (``~/.shiv`` if it is not set).
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
#: Tests of others, which nothing runs.
_LEFT_OUT = "tests"


def make(target: Path, extras: str = "") -> None:
    """Write the bundle.

    Args:
        target: the file.
        extras: what is installed beside, such as ``[apply]``.

    Raises:
        subprocess.CalledProcessError: pip or shiv failed, and said why.
    """
    with tempfile.TemporaryDirectory() as folder:
        site = Path(folder, "site")
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile"]
        subprocess.run([*pip, "--target", str(site), f"{ROOT}{extras}"], check=True)
        for path in sorted(site.rglob(_LEFT_OUT), reverse=True):
            if path.is_dir():
                shutil.rmtree(path)
        shiv = [sys.executable, "-m", "shiv", "--site-packages", str(site), "--compressed", "--reproducible"]
        subprocess.run([*shiv, "--entry-point", "kubestow.cli:main", "--output-file", str(target)], check=True)


def main() -> None:
    """Make the bundle, and say how large it is."""
    parser = argparse.ArgumentParser(description="Make one file that holds kubestow and all that it needs.")
    parser.add_argument("target", type=Path, help="the file to write")
    parser.add_argument("--extras", default="", help="such as [apply]")
    asked = parser.parse_args()
    try:
        make(asked.target, asked.extras)
    except subprocess.CalledProcessError as error:
        sys.exit(f"make_bundle: {error.cmd[0]} {error.cmd[2]} ended with exit code {error.returncode}")
    print(f"{asked.target}: {asked.target.stat().st_size / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
