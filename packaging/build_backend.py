"""The build backend: setuptools, plus man pages written to ``build/man``, from where pyproject.toml includes them."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

from setuptools import build_meta
from setuptools.build_meta import (
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]

_ROOT = Path(__file__).resolve().parents[1]


def _write_man_pages() -> None:
    runpy.run_path(str(_ROOT / "packaging" / "man.py"))["write"](_ROOT / "build" / "man")


def build_wheel(*arguments: Any, **options: Any) -> str:
    """Build the wheel with its man pages."""
    _write_man_pages()
    return str(build_meta.build_wheel(*arguments, **options))


def build_sdist(*arguments: Any, **options: Any) -> str:
    """Build the source distribution. It has no man pages; building a wheel from it creates them."""
    return str(build_meta.build_sdist(*arguments, **options))


def build_editable(*arguments: Any, **options: Any) -> str:
    """Build the wheel of an editable install with its man pages."""
    _write_man_pages()
    return str(build_meta.build_editable(*arguments, **options))
