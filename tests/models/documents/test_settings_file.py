"""Errors of files name the field, also inside mappings and lists."""

from __future__ import annotations

from typing import Annotated

import msgspec
import pytest
from msgspec import Meta

from kubestow.models.documents import settings_file
from kubestow.models.snapshot.snapshot import InputError


class Inner(msgspec.Struct, forbid_unknown_fields=True):
    """A part."""

    shares: dict[str, Annotated[float, Meta(le=100)]] = {}


class Outer(msgspec.Struct, forbid_unknown_fields=True):
    """A file."""

    shares: dict[str, Annotated[float, Meta(le=100)]] = {}
    parts: dict[str, Inner] = {}
    listed: list[Inner] = []


@pytest.mark.parametrize(
    ("plain", "said"),
    [
        ({"shares": {"cpu": 1, "memory": 101}}, "shares.memory: Expected `float` <= 100.0"),
        ({"shares": {"cpu": "1", "memory": 101}}, "shares.cpu: Expected `float`, got `str`"),
        ({"parts": {"a": {}, "b": {"shares": {"x": 1, "y": None}}}}, "parts.b.shares.y: Expected `float`, got `null`"),
        ({"parts": {"a": 5}}, "parts.a: Expected `object`, got `int`"),
        ({"listed": [{}, {"shares": {"x": []}}]}, "listed[1].shares.x: Expected `float`, got `array`"),
        ({"shares": {"cpu": 1, "memory": 101}, "listed": [5]}, "shares.memory: Expected `float` <= 100.0"),
        ({"parts": {n: {"shares": {"x": 1, "y": 101}} for n in "ab"}}, "parts.a.shares.y: Expected `float` <= 100.0"),
        ({"shares": {"a\nb": []}}, "shares.a\\nb: Expected `float`, got `array`"),
        ({"shares": []}, "shares: Expected `object`, got `array`"),
        ({"unheard": 1}, "Object contains unknown field `unheard`"),
        (5, "Expected `object`, got `int`"),
    ],
)
def test_the_place_of_a_problem_is_named(plain: object, said: str) -> None:
    with pytest.raises(InputError) as error:
        settings_file.fitted("a.yaml", plain, Outer)
    assert error.value.problems == [f"a.yaml: Outer: {said}"]
