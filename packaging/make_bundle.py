"""Create one executable file for this version of Python: ``python packaging/make_bundle.py kubestow.pyz`` (needs shiv).

The file contains kubestow and its dependencies, for the system and the version of Python that created it. It
unpacks itself once, below ``SHIV_ROOT`` (default ``~/.shiv``).
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
#: Folder name of tests of dependencies, which are not needed.
_LEFT_OUT = "tests"


def make(target: Path, extras: str = "") -> None:
    """Write the bundle.

    Args:
        target: The file.
        extras: Extras to install, such as ``[apply]``.

    Raises:
        subprocess.CalledProcessError: pip or shiv failed and printed the reason.
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
    """Create the bundle and print its size."""
    parser = argparse.ArgumentParser(description="Create one file with kubestow and its dependencies.")
    parser.add_argument("target", type=Path, help="the file to write")
    parser.add_argument("--extras", default="", help="extras to install, such as [apply]")
    asked = parser.parse_args()
    try:
        make(asked.target, asked.extras)
    except subprocess.CalledProcessError as error:
        sys.exit(f"make_bundle: {error.cmd[0]} {error.cmd[2]} exited with code {error.returncode}")
    print(f"{asked.target}: {asked.target.stat().st_size / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
