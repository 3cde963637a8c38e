from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from kubestow.report.documents import yaml_text

_SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
_KEYS = st.text()
_VALUES: st.SearchStrategy[Any] = st.recursive(_SCALARS, lambda v: st.lists(v, max_size=4) | st.dictionaries(_KEYS, v, max_size=4))


@given(_VALUES)
def test_yaml_reads_back_as_it_was(value: object) -> None:
    assert yaml.load(yaml_text.dump(value), Loader=yaml.CSafeLoader) == value


@given(st.from_regex(r"[-+0-9a-zA-Z.:/_ #,'!&*?|>%@~\[\]{}=()]{1,12}", fullmatch=True))
def test_text_stays_text(value: str) -> None:
    assert yaml.load(yaml_text.dump({value: [value]}), Loader=yaml.CSafeLoader) == {value: [value]}


@pytest.mark.parametrize(
    "text", ["1e3", "0o17", "017", "1_000", "12:30:45", "yes", "NO", "y", "null", "~", "", "2001-01-01", ".5", ".inf", "-"]
)
def test_what_some_yaml_reader_takes_for_something_else_is_quoted(text: str) -> None:
    assert yaml_text.dump({"name": text}) == f'name: "{text}"\n'


@pytest.mark.parametrize(
    "text", ["prod/web-1", "NodeResourcesFit", "insufficient cpu (3 of 7)", "kubestow.dev/v1alpha1", "a:b", "n1.x, n2"]
)
def test_ordinary_text_is_plain(text: str) -> None:
    assert yaml_text.dump({"name": text}) == f"name: {text}\n"


def test_unicode_is_kept_and_control_characters_are_not() -> None:
    assert yaml_text.dump("köln/✓") == '"köln/✓"\n'
    assert yaml_text.dump("a\x1b\u2028\U000e0001") == '"a\\x1b\\u2028\\U000e0001"\n'


def test_half_a_surrogate_pair_cannot_be_encoded() -> None:
    """An escape for it is no YAML, and JSON refuses it too."""
    with pytest.raises(UnicodeEncodeError):
        yaml_text.dump({"namespace": "a\udced\ud800"}).encode()


def test_layout() -> None:
    document = {"a": [{"b": 1, "c": []}, {"d": {"e": None}}], "f": {}, "g": [[True], "x"]}
    assert yaml_text.dump(document) == "a:\n- b: 1\n  c: []\n- d:\n    e: null\nf: {}\ng:\n- - true\n- x\n"


@pytest.mark.parametrize("value", [{1: 2}, object(), [float("nan")], {"a": {1, 2}}])
def test_what_has_no_form_is_refused(value: object) -> None:
    with pytest.raises(TypeError):
        yaml_text.dump(value)
