"""Which attributes expressions read, and what comes of those that fail."""

from __future__ import annotations

import pytest

from kubestow.models.devices.selecting import reads

MODEL = ("attributes", "d.io", "model")


@pytest.mark.parametrize(
    ("expression", "read"),
    [
        ('device.driver == "d"', set()),
        ("device.allowMultipleAllocations", set()),
        ('device.attributes["d.io"].model == "x"', {MODEL}),
        ("device.attributes['d.io']['model'].startsWith('x')", {MODEL}),
        ('has(device.attributes["d.io"].model)', {MODEL}),
        ('device.attributes["d.io"].?model.orValue("") == "x"', {MODEL}),
        ('device.attributes[?"d.io"].?model.hasValue()', {MODEL}),
        ('device.capacity["d.io"].memory.compareTo(quantity("1Gi")) >= 0', {("capacity", "d.io", "memory")}),
        ('"device" == "device"', set()),
    ],
)
def test_plain_expressions(expression: str, read: set[tuple[str, str, str]]) -> None:
    assert reads([expression]) == frozenset(read)


@pytest.mark.parametrize(
    "expression",
    [
        '"d.io" in device.attributes',
        'device.attributes["d.io"].exists(k, k == "model")',
        'device.attributes.all(d, d == "d.io")',
        "device.attributes[device.driver].model",
        'cel.bind(a, device.attributes["d.io"], a.model)',
        'device.attributes["d.io"].?[?"model"]',
        'device.driver == "\\"" && device.attributes["d.io"].model',
        "size(device.capacity) > 1",
    ],
)
def test_others_may_read_anything(expression: str) -> None:
    assert reads(['device.driver == "d"', expression]) is None
