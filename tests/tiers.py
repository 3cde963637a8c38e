"""Marks that divide test parameters between the tiers quick, full and slow (see CONTRIBUTING.md)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest
from hypothesis import settings


def sampled(values: Iterable[Any], every: int, full: int = 1) -> list[Any]:
    """Return the parameters in three tiers, counted from the first: every ``every``-th without a mark, every ``full``-th of the others
    marked ``full``, and the rest marked ``slow``."""
    return [value if i % every == 0 else in_full(value) if i % full == 0 else in_slow(value) for i, value in enumerate(values)]


def thinned(values: Iterable[Any], every: int) -> list[Any]:
    """Return the parameters, with all marked ``slow`` except every ``every``-th, starting with the first."""
    return [value if i % every == 0 else in_slow(value) for i, value in enumerate(values)]


def seeds(first: int, count: int, start: int = 0) -> pytest.MarkDecorator:
    """Give a test the argument ``seeds``: the first numbers from ``start`` on, and again, marked ``slow``, the others up to ``count``."""
    others = pytest.param(range(start + first, start + count), marks=pytest.mark.slow, id="others")
    return pytest.mark.parametrize("seeds", [pytest.param(range(start, start + first), id="first"), others])


def quick_where(values: Iterable[Any], chosen: Callable[[Any], bool]) -> list[Any]:
    """Return the parameters, with all marked ``full`` except those for which ``chosen`` is true."""
    return [value if chosen(value) else in_full(value) for value in values]


def in_full(value: Any) -> Any:
    """Return a parameter with the mark ``full``. A plain tuple means several arguments, a named tuple one argument."""
    return _marked(value, pytest.mark.full)


def in_slow(value: Any) -> Any:
    """Return a parameter with the mark ``slow``. A plain tuple means several arguments, a named tuple one argument."""
    return _marked(value, pytest.mark.slow)


def _marked(value: Any, mark: pytest.MarkDecorator) -> Any:
    return pytest.param(*(value if type(value) is tuple else (value,)), marks=mark)


def examples(most: int) -> settings:
    """Return the settings of a property: a quarter of ``most`` examples, and all of them with ``--hypothesis-profile=default``."""
    return settings(max_examples=most // 4 if settings.default is not None and settings.default.derandomize else most, deadline=None)
