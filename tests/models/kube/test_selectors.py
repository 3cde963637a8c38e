"""Selection of nodes by name: at most by one name at a time, and by no other field."""

from __future__ import annotations

import pytest

from kubestow.models.kube.objects import Node, NodeSelectorRequirement, NodeSelectorTerm, ObjectMeta
from kubestow.models.kube.selectors import NodeColumns


def matched(*requirements: tuple[str, str, list[str]], names: tuple[str, ...] = ("a", "b", "a", "")) -> list[bool]:
    table = NodeColumns([Node(ObjectMeta(name)) for name in names])
    fields = [NodeSelectorRequirement(*requirement) for requirement in requirements]
    found = table.term(NodeSelectorTerm(None, fields)).tolist()
    assert found == table.term(NodeSelectorTerm(None, fields)).tolist()  # nothing is left of the first answer
    return list(found)


@pytest.mark.parametrize(
    ("requirement", "expected"),
    [
        (("metadata.name", "In", ["a"]), [True, False, True, False]),
        (("metadata.name", "NotIn", ["a"]), [False, True, False, True]),
        (("metadata.name", "In", ["c"]), [False] * 4),
        (("metadata.name", "NotIn", ["c"]), [True] * 4),
        (("metadata.name", "In", [""]), [False, False, False, True]),
        (("metadata.name", "In", ["a", "b"]), [False] * 4),
        (("metadata.name", "NotIn", ["a", "b"]), [False] * 4),
        (("metadata.name", "In", []), [False] * 4),
        (("metadata.name", "Exists", []), [False] * 4),
        (("spec.nodeName", "In", ["a"]), [False] * 4),
        (("spec.nodeName", "NotIn", ["a"]), [True] * 4),
    ],
)
def test_fields(requirement: tuple[str, str, list[str]], expected: list[bool]) -> None:
    assert matched(requirement) == expected


def test_all_fields_of_a_term_hold() -> None:
    assert matched(("metadata.name", "NotIn", ["a"]), ("metadata.name", "NotIn", ["b"])) == [False, False, False, True]
    assert matched(("metadata.name", "In", ["a"]), ("metadata.name", "In", ["b"])) == [False] * 4
