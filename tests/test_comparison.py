"""The comparison with other tools: every cell links to the documentation of its claim."""

from __future__ import annotations

import re
from pathlib import Path

from kubestow import cli

TEXT = (Path(cli.__file__).resolve().parent / "docs/comparison.md").read_text(encoding="utf-8")
ROWS = [[cell.strip() for cell in line.strip("|").split("|")] for line in TEXT.splitlines() if line.startswith("| ")]
SOURCES = dict(re.findall(r"^\[([a-z]+)\]: (https://\S+)$", TEXT, re.MULTILINE))


def test_every_cell_has_its_source() -> None:
    head, *rows = ROWS
    assert len(rows) >= 15
    for row in rows:
        assert len(row) == len(head)
        for tool, cell in zip(head[2:], row[2:], strict=True):
            sources = re.findall(r"\[[^\]]+\]\[([a-z]+)\]", cell)
            assert len(sources) == 1, f"{row[0]}: {tool}: {cell}"
            assert sources[0] in SOURCES
        assert re.fullmatch(r"(\[[^\]]+\]\([a-z-]+\.md[^)]*\)(, )?)+", row[1]), row[:2]


def test_a_tool_is_cited_by_its_own_documentation() -> None:
    words = {"kluster-capacity": "kluster-capacity", "KubeLinter": "kube-linter", "Karpenter": "karpenter"}
    head, *rows = ROWS
    for row in rows:
        for tool, cell in zip(head[2:], row[2:], strict=True):
            (source,) = re.findall(r"\]\[([a-z]+)\]", cell)
            assert words.get(tool, tool) in SOURCES[source]


def test_every_source_is_used() -> None:
    assert set(SOURCES) == set(re.findall(r"\]\[([a-z]+)\]", TEXT))
