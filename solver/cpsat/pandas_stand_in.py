"""OR-tools without pandas, whose import would take half of the CPU time of a short ``kubestow solve``.

``ortools.sat.python.cp_model`` imports pandas for series of variables, which kubestow does not use. :func:`install` lets that import find
a stand-in. A caller that passes a series has imported pandas: from then on the stand-in returns the attributes of pandas.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import cache
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import ModuleType
from typing import Any

_IMPORTER = "ortools.sat.python.cp_model"


class _Pandas(ModuleType):
    """Return the attributes of pandas if it has been imported; otherwise an empty class for each name, of which nothing is an instance."""

    def __getattr__(self, name: str) -> Any:
        pandas = sys.modules.get("pandas", self)
        return _absent(name) if pandas is self else getattr(pandas, name)


@cache
def _absent(name: str) -> type:
    return type(name, (), {})


class _Loader(SourceFileLoader):
    """Execute a module that finds the stand-in if it imports pandas."""

    def exec_module(self, module: ModuleType) -> None:
        if "pandas" in sys.modules:
            super().exec_module(module)
            return
        sys.modules["pandas"] = _Pandas("pandas")
        try:
            super().exec_module(module)
        finally:
            del sys.modules["pandas"]


class _Finder:
    """Find ``cp_model`` where Python would find it, with another loader."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Return the specification of ``cp_model``, None for every other module."""
        spec = PathFinder.find_spec(name, path, target) if name == _IMPORTER else None
        if spec is None or type(spec.loader) is not SourceFileLoader:
            return None
        spec.loader = _Loader(spec.loader.name, spec.loader.path)
        return spec


def install() -> None:
    """Let later imports of ``cp_model`` in this process do without pandas."""
    if _Finder not in sys.meta_path:
        sys.meta_path.insert(0, _Finder)
