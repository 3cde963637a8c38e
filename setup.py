"""Makes the man pages when the project is built; all else is in pyproject.toml."""

import runpy
from pathlib import Path

from setuptools import setup

_ROOT = Path(__file__).resolve().parent
_PAGES = runpy.run_path(str(_ROOT / "packaging" / "man.py"))["write"](_ROOT / "build" / "man")

setup(data_files=[("share/man/man1", [str(page.relative_to(_ROOT)) for page in _PAGES])])
