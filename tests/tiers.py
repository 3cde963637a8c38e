"""Marks that divide test parameters between the quick tier and the full tier (see CONTRIBUTING.md)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest


def sampled(values: Iterable[Any], every: int) -> list[Any]:
    """Return the parameters, with all marked ``full`` except every ``every``-th, starting with the first."""
    return [value if i % every == 0 else in_full(value) for i, value in enumerate(values)]


def quick_where(values: Iterable[Any], chosen: Callable[[Any], bool]) -> list[Any]:
    """Return the parameters, with all marked ``full`` except those for which ``chosen`` is true."""
    return [value if chosen(value) else in_full(value) for value in values]


def in_full(value: Any) -> Any:
    """Return a parameter with the mark ``full``. A plain tuple means several arguments, a named tuple one argument."""
    return pytest.param(*(value if type(value) is tuple else (value,)), marks=pytest.mark.full)
