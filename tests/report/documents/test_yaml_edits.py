"""Values are inserted into YAML text, and the rest of the text is unchanged."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubestow.models.snapshot import yaml_reader
from kubestow.report.documents import yaml_text
from kubestow.report.documents.yaml_edits import YamlChange, applied, edited
from tests.tiers import examples

TEXT = """\
# é: a header
spec:
  # about the pod
  containers:
  - name: x # kept
    args: ["-c", 'it''s']
  affinity:
    list:
    # mine
    - weight: 1
  # the end
"""


@pytest.mark.parametrize(
    ("before", "path", "value", "after"),
    [
        ("a:\n  # of b\n  b: 1\n", ("a", "c"), "x", "a:\n  c: x\n  # of b\n  b: 1\n"),
        ("a: {b: 1} # c\n", ("a", "d", "e"), ["x"], 'a: {"d": {"e": ["x"]}, b: 1} # c\n'),
        ("a: {} # c\n", ("a", "d"), 1, 'a: {"d": 1} # c\n'),
        ("a:\nb: 1\n", ("a", "d"), 1, 'a: {"d": 1}\nb: 1\n'),
        ("a: ~ # none\n", ("a", "d"), 1, 'a: {"d": 1} # none\n'),
        ("- b: 1\n- c: 2 # two\n", (1, "d"), "x", "- b: 1\n- d: x\n  c: 2 # two\n"),
        ("a:\n- 1 # one\n", ("a",), [0, 1], "a:\n- 0\n- 1 # one\n"),
        ("a: [1] # one\n", ("a",), [0, 1], "a: [0, 1] # one\n"),
        ("a: 'x' # old\n", ("a",), "y", 'a: "y" # old\n'),
        ("a:\n  - b:\n      c: 1\n  # after\nd: 1\n", ("a",), ["z"], "a:\n  - z\n  # after\nd: 1\n"),
    ],
)
def test_a_change_touches_its_own_place_alone(before: str, path: tuple[str | int, ...], value: Any, after: str) -> None:
    assert edited(before, [YamlChange(0, path, value)]) == after


def test_several_changes_of_several_documents_at_once() -> None:
    changes = [
        YamlChange(0, ("spec", "gates"), [1]),
        YamlChange(0, ("spec", "affinity", "list"), [{"weight": 9}, {"weight": 1}]),
        YamlChange(0, ("spec", "affinity", "more"), {"k": "v"}),
        YamlChange(2, ("spec", "containers", 0, "name"), "y"),
    ]
    text = f"{TEXT}---\n# nothing\n---\n{TEXT}"
    found = edited(text, changes)
    assert found is not None
    assert [line for line in text.splitlines() if line not in found.splitlines()] == []
    assert 'name: "y" # kept' in found
    assert "    list:\n    - weight: 9\n    # mine\n    - weight: 1\n" in found


@pytest.mark.parametrize("text", ["a: &x {b: 1}\nc: *x\n", "a: &x\n  b: 1\nc: *x\n"])
def test_what_an_alias_repeats_is_not_changed_in_the_text(text: str) -> None:
    assert edited(text, [YamlChange(0, ("a", "d"), 1)]) is None


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text("ab:#-'\" \né", max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", min_size=1, max_size=2), inner, max_size=3),
    max_leaves=12,
)


@examples(150)
@given(st.dictionaries(st.sampled_from("abc"), PLAIN, min_size=1), st.lists(st.sampled_from("abcd"), min_size=1, max_size=3), PLAIN)
def test_any_change_that_is_made_in_the_text_is_the_right_one(document: Any, path: list[str], value: Any) -> None:
    text = f"# first\n{yaml_text.dump(document)}# last\n"
    change = YamlChange(0, tuple(path), value)
    at = document
    for key in path:  # only mappings and nothing are gone through
        if not isinstance(at, dict | None):
            return
        at = (at or {}).get(key)
    found = edited(text, [change])
    assert found is not None
    assert list(yaml_reader.documents(found)) == applied([document], [change])
    assert "# first\n" in found
    assert "# last\n" in found
