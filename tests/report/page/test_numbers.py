"""Amounts and shares have the same format in tables and on the page, where a script writes most."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kubestow.report import page
from kubestow.report.documents import numbers
from kubestow.report.page.words import offer

if TYPE_CHECKING:
    from playwright.sync_api import Page

_SCRIPT = (Path(page.__file__).parent / "assets" / "05-format.js").read_text(encoding="utf-8")
_CPU = [0, 1, 250, 999, 1000, 1005, 1250, 9995, 9999, 12345, 99950, 100500, 1290000, 10**9]
_MEMORY = [0, 1023, 1024, 1536 * 2**20, 2**30 - 1, int(1.005 * 2**30), 255 * 2**30, 1023 * 2**30, 5 * 2**50 + 3, 2**52 + 2**41]
_SHARES = [(0, 0), (1, 0), (1, 1000), (5, 1000), (25, 1000), (999, 1000), (1000, 1000), (1001, 1000), (199, 200), (3, 2), (1, 8)]


def test_the_script_of_the_page_rounds_as_tables_do(window: Page) -> None:
    def asked(expression: str, values: object) -> object:
        return window.evaluate(f"(values) => {{ {_SCRIPT}; return values.map({expression}); }}", values)

    assert asked("cpu", _CPU) == [numbers.cpu(value) for value in _CPU]
    assert asked("([a, b]) => percent(a, b)", _SHARES) == [numbers.percent(*share) for share in _SHARES]
    shown = asked("(value) => bytes(value)", _MEMORY)
    assert shown == [offer("memory", value) for value in _MEMORY]
    units = [text.replace(" ", "").removesuffix("iB").removesuffix("B") for text in shown]
    assert units == [numbers.amount("memory", value).removesuffix("i") for value in _MEMORY]


def test_amounts_of_tables_are_those_of_the_page() -> None:
    assert [numbers.cpu(value) for value in (250, 1250, 12345, 1290000)] == ["250m", "1.25", "12.3", "1,290"]
    assert [numbers.amount("memory", value) for value in (1536 * 2**20, 1023 * 2**20)] == ["1.5Gi", "1,023Mi"]
    assert [numbers.amount(name, 12345) for name in ("pods", "nvidia.com/gpu")] == ["12,345", "12,345"]
    assert [numbers.percent(*share) for share in ((995, 1000), (1000, 1000), (1001, 1000), (1, 0), (0, 0))] == [99, 100, 101, 101, 0]
