"""The prose follows docs/style.md: forbidden patterns, first lines of docstrings, names of constants, width of pages."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests import prose

#: Words of which the name of a numeric constant contains one: the quantity, or its unit. A plural counts as a unit of its own.
QUANTITIES: Final = {
    "MAX", "MIN", "LIMIT", "COUNT", "SIZE", "WIDTH", "HEIGHT", "GAP", "INDENT", "SECONDS", "TIMEOUT", "INTERVAL", "PERIOD",
    "FRACTION", "RATIO", "FACTOR", "PERCENT", "DIVISOR", "PROBABILITY", "WEIGHT", "SCALE", "EXPONENT", "DENOMINATOR", "TOLERANCE",
    "TEMPERATURE", "COST", "PRICE", "PRIORITY", "SLACK", "CAPACITY", "RANK", "PER", "PORT", "CODE", "MIB", "BITS", "VERSION",
}  # fmt: skip
#: Modules whose numbers are codes of an enumeration: type codes of CEL, flags of the data of the report page.
ENUMERATIONS: Final = frozenset({"models/cel/values.py", "report/page/devices.py", "report/page/nodes.py", "report/page/places.py"})
#: First words that no imperative begins with, though they are common in docstrings.
NOT_IMPERATIVE: Final = {
    "A", "An", "The", "This", "That", "These", "Those", "What", "Which", "Whether", "Who", "Whose", "How", "Why", "Where", "When",
    "If", "As", "Of", "By", "In", "On", "With", "Without", "For", "From", "To", "Per", "Until", "Since", "Before", "After",
    "Among", "Like", "Every", "Each", "All", "Some", "No", "One", "Two", "Same", "Both", "Pods", "Nodes", "Points", "Findings",
    "Names", "Sums", "True", "False", "None",
}  # fmt: skip


def _trees() -> Iterator[tuple[str, ast.Module]]:
    for file in prose.files():
        if file.suffix == ".py":
            yield str(file.relative_to(prose.ROOT)), ast.parse(file.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def hits() -> list[prose.Hit]:
    return list(prose.hits(prose.passages()))


@pytest.mark.parametrize("pattern", prose.PATTERNS, ids=lambda pattern: pattern.name)
def test_a_forbidden_pattern_is_at_its_goal(pattern: prose.Pattern, hits: list[prose.Hit]) -> None:
    found = [hit for hit in hits if hit.pattern == pattern.name]
    assert len(found) <= pattern.goal, "\n".join(map(str, found))


def test_pages_are_at_most_120_columns_wide() -> None:
    found = list(prose.wide_lines())
    assert found == [], "\n".join(map(str, found))


def _is_property(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any("property" in ast.unparse(each) for each in function.decorator_list)


def test_docstrings_of_functions_begin_with_an_imperative() -> None:
    found = []
    for file, tree in _trees():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not _is_property(node):
                first = (ast.get_docstring(node) or "Return").split()[0].rstrip(",.:;")
                if not first.isalpha() or not first[0].isupper() or first in NOT_IMPERATIVE:
                    found.append(f"{file}:{node.lineno}: {node.name} begins with {first!r}")
    assert found == [], "\n".join(found)


def _is_number(value: ast.expr) -> bool:
    """Return True for a number, or arithmetic on numbers alone."""
    parts = [node for node in ast.walk(value) if isinstance(node, ast.expr)]
    numbers = [part for part in parts if isinstance(part, ast.Constant)]
    return all(isinstance(part, ast.Constant | ast.BinOp | ast.UnaryOp) for part in parts) and all(
        isinstance(number.value, int | float) and not isinstance(number.value, bool) for number in numbers
    )


def _constants(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the lines and names of numeric constants of a module."""
    for node in tree.body:
        if isinstance(node, ast.AnnAssign):
            target: ast.expr | None = node.target
        else:
            target = node.targets[0] if isinstance(node, ast.Assign) and len(node.targets) == 1 else None
        if isinstance(target, ast.Name) and target.id.isupper() and node.value is not None and _is_number(node.value):  # type: ignore[attr-defined]
            yield node.lineno, target.id


def _says_quantity(name: str) -> bool:
    parts = name.strip("_").split("_")
    return any(part in QUANTITIES or part.startswith("INT") or (len(part) > 3 and part.endswith("S")) for part in parts)


def test_names_of_numeric_constants_say_their_quantity() -> None:
    found = [
        f"{file}:{line}: {name}"
        for file, tree in _trees()
        if file not in ENUMERATIONS
        for line, name in _constants(tree)
        if not _says_quantity(name)
    ]
    assert found == [], "\n".join(found)


CODE = '''
def f():
    """What is told of it, once more anew.

    Beside that:
    * no more pods than 3 at most.
    """
    # hardly a comment, so many words
    raise ValueError(f"node {name}: there is to be one, whoever asks")
'''


def test_patterns_are_found_where_they_are() -> None:
    found = list(prose.hits(prose.of_code("x.py", CODE)))
    assert {(hit.line, hit.pattern) for hit in found} == {
        (3, "opens with a relative clause"),
        (3, "what is, what they"),
        (3, "told, tells"),
        (3, "of which, of them, of it"),
        (3, "anew"),
        (5, "beside"),
        (6, "ends with an adverbial"),
        (8, "nothing of, hardly, to be had"),
        (8, "so many, so much"),
        (9, "nothing of, hardly, to be had"),
        (9, "whoever, whatever, whichever"),
    }
    assert str(found[0]).startswith("x.py:3: ")


def test_code_blocks_and_comments_of_pages_are_not_read() -> None:
    page = "# What is it?\n\n<!-- show: What is left -->\n```console\n$ anew\n```\n\nSo `anew` is code, hardly prose.\n"
    assert [(hit.line, hit.pattern) for hit in prose.hits(prose.of_docs("x.md", page))] == [
        (1, "what is, what they"),
        (8, "nothing of, hardly, to be had"),
    ]


def test_a_wide_line_is_named(tmp_path: Path) -> None:
    (tmp_path / "x.md").write_text(f"short\n{'word ' * 25}\n| {'cell ' * 30} |\n```\n{'code ' * 30}\n```\n", encoding="utf-8")
    numbers = [number for number, line in prose.running_lines((tmp_path / "x.md").read_text()) if len(line) > prose.MAX_DOCS_COLUMNS]
    assert numbers == [2]


@pytest.mark.parametrize("name", ["EXPLAIN_TIMEOUT", "MAX_PODS", "SLICE_FRACTION", "_RETRY_SECONDS", "PATTERNS"])
def test_a_name_with_a_quantity_passes(name: str) -> None:
    assert _says_quantity(name)


@pytest.mark.parametrize("name", ["GLANCE", "SILENCE", "MANY", "KEPT", "_FEW", "ENOUGH"])
def test_a_name_without_one_fails(name: str) -> None:
    assert not _says_quantity(name)
