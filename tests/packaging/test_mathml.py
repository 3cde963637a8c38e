"""Formulas of the pages on the site: MathML, and nothing else is touched."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import markdown
import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def mathml() -> ModuleType:
    spec = importlib.util.spec_from_file_location("mathml", ROOT / "packaging" / "mathml.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _html(mathml: ModuleType, text: str) -> str:
    return markdown.markdown(text, extensions=["tables", "fenced_code", mathml.makeExtension()])


def test_a_fenced_formula_is_a_block(mathml: ModuleType) -> None:
    html = _html(mathml, "Before\n\n```math\n\\sum_{g} x_g * y_g \\le 1\n```\n\nAfter\n")
    assert re.search(r'<math[^>]+display="block"', html)
    assert "<em>" not in html
    assert "<p>Before</p>" in html
    assert "<p>After</p>" in html


def test_an_inline_formula_stays_in_its_sentence_and_cell(mathml: ModuleType) -> None:
    html = _html(mathml, "Let $`x_g`$ be it.\n\n| a | b |\n|---|---|\n| $`y_n`$ | two |\n")
    assert re.search(r'<p>Let <math[^>]+display="inline">.*</math> be it.</p>', html)
    assert re.search(r"<td><math.*</math></td>\s*<td>two</td>", html)


def test_dollars_in_code_are_no_formulas(mathml: ModuleType) -> None:
    html = _html(mathml, "```sh\n$ echo $`date`$\n```\n")
    assert "<math" not in html
    assert "echo $`date`$" in html


def test_every_formula_of_the_pages_can_be_read(mathml: ModuleType) -> None:
    pages = [path for path in (ROOT / "docs").rglob("*.md") if "```math" in path.read_text(encoding="utf-8")]
    assert pages
    for page in pages:
        html = _html(mathml, page.read_text(encoding="utf-8"))
        shown = re.sub(r"<(math|code)\b.*?</\1>", "", html, flags=re.DOTALL)
        assert "$" not in shown, page
        unread = re.findall(r"<m[io]>\\\w+", html)
        assert unread == [], page
