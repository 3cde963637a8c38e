"""Share parameters out between the quick tier and the full one; CONTRIBUTING.md describes the tiers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest


def sampled(values: Iterable[Any], every: int) -> list[Any]:
    """Return parameters of which each ``every``-th, from the first on, is in the quick tier and all others are marked ``full``."""
    return [value if i % every == 0 else in_full(value) for i, value in enumerate(values)]


def quick_where(values: Iterable[Any], chosen: Callable[[Any], bool]) -> list[Any]:
    """Return parameters of which the chosen ones are in the quick tier and all others are marked ``full``."""
    return [value if chosen(value) else in_full(value) for value in values]


def in_full(value: Any) -> Any:
    """Return a parameter with the mark ``full``. A plain tuple stands for several arguments, a named one for itself."""
    return pytest.param(*(value if type(value) is tuple else (value,)), marks=pytest.mark.full)
