"""YAML as Kubernetes tools read it, and the refused cases."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from kubestow.models.snapshot import yaml_reader
from kubestow.models.snapshot.snapshot import InputError, Snapshot, load
from kubestow.models.snapshot.yaml_reader import YamlError, documents


def one(text: str) -> Any:
    (value,) = documents(text)
    return value


def load_text(tmp_path: Path, text: str) -> Snapshot:
    path = tmp_path / "in.yaml"
    path.write_text(text)
    return load([str(path)])


def problems(tmp_path: Path, text: str) -> list[str]:
    with pytest.raises(InputError) as error:
        load_text(tmp_path, text)
    start = f"{tmp_path}/in.yaml: "
    assert all(line.startswith(start) and "\n" not in line for line in error.value.problems)
    return [line.removeprefix(start) for line in error.value.problems]


def refusal(text: str) -> str:
    with pytest.raises(YamlError) as error:
        list(documents(text))
    return str(error.value)


# --- values -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("22:30", "22:30"),
        ("190:20:30.15", "190:20:30.15"),
        ("2024-01-01", "2024-01-01"),
        ("2024-01-01T10:00:00Z", "2024-01-01T10:00:00Z"),
        ("=", "="),
        ("v1", "v1"),
        ("1.2.3", "1.2.3"),
        ("12e", "12e"),
        ("0x", "0x"),
        ("0b12", "0b12"),
        ("_1", "_1"),
        ("-", [None]),
        ("~", None),
        ("", None),
        ("null", None),
        ("yes", True),
        ("off", False),
        ("'yes'", "yes"),
        ('"12"', "12"),
        ("! 12", "12"),
        ("12", 12),
        ("-12", -12),
        ("+12", 12),
        ("1_000", 1000),
        ("0x1F", 31),
        ("-0b11", -3),
        ("010", 8),
        ("0o10", 8),
        ("0", 0),
        ("089", 89.0),
        ("0.5", 0.5),
        ("1e3", 1000.0),
        (".5", 0.5),
        ("-.inf", float("-inf")),
        ("!!str 12", "12"),
        ("!!int 12", 12),
        ("!!float 12", 12),
        ("!!bool yes", True),
        ("!!null ''", None),
        ("!!map {a: 1}", {"a": 1}),
        ("!!seq [1]", [1]),
        ("<<", "<<"),
        ("[<<]", ["<<"]),
    ],
)
def test_scalars(text: str, value: object) -> None:
    got = one(f"a: {text}\n" if text != "-" else "a:\n- \n")["a"]
    assert got == value
    assert type(got) is type(value) or text == "!!float 12"


def test_a_not_a_number_is_read() -> None:
    assert str(one("a: .nan")["a"]) == "nan"


def test_numbers_beyond_measure_are_told(tmp_path: Path) -> None:
    text = POD.format("p", ", resources: {requests: {cpu: " + "9" * 5000 + "}}")
    (line,) = problems(tmp_path, text)
    assert "is not a quantity" in line


def test_keys_are_text() -> None:
    assert one("{1: a, true: b, 0.5: c, x: d}") == {"1": "a", "true": "b", "0.5": "c", "x": "d"}


def test_several_documents() -> None:
    assert list(documents("---\na: 1\n---\n---\n# only a comment\n---\n- b\n...\n")) == [{"a": 1}, None, None, ["b"]]


# --- anchors, aliases, merge keys -------------------------------------------------------------------------------------


def test_anchors_and_aliases() -> None:
    assert one("a: &x {k: v}\nb: *x\nc: [*x, &y 5, *y]") == {"a": {"k": "v"}, "b": {"k": "v"}, "c": [{"k": "v"}, 5, 5]}


def test_merge_keys() -> None:
    text = "base: &b {x: 1, y: 1}\nother: &o {x: 2, z: 2}\none: {<<: *b, y: 9}\nmany: {z: 9, <<: [*b, *o]}\nquoted: {'<<': 1}"
    got = one(text)
    assert got["one"] == {"x": 1, "y": 9}
    assert got["many"] == {"x": 1, "y": 1, "z": 9}
    assert got["quoted"] == {"<<": 1}


def test_anchors_end_with_their_document() -> None:
    assert refusal("a: &x 1\n---\nb: *x") == "line 3: alias 'x' is not defined"


@pytest.mark.parametrize(
    "merge",
    ["[{}]", "{{<<: [{}]}}"],
    ids=["lists", "merge keys"],
)
def test_alias_bombs_are_refused(tmp_path: Path, merge: str) -> None:
    lines = ["a0: &a0 {k: [x, x, x, x, x, x, x, x, x, x]}"]
    lines += [f"a{i}: &a{i} {merge.format(', '.join([f'*a{i - 1}'] * 10))}" for i in range(1, 12)]
    (line,) = problems(tmp_path, "\n".join(lines))
    assert line.endswith(f"aliases expand to more than {yaml_reader._MAX_ALIASED_NODES} nodes")


# --- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("a: 1\nb: 2\na: 3\n", "line 3: duplicate key 'a'"),
        ("a:\n  - k: 1\n    k: 2\n", "line 3: duplicate key 'k'"),
        ("1: a\n'1': b\n", "line 2: duplicate key '1'"),
        (
            "a: !!python/object/apply:os.system [x]",
            "line 1: unknown tag 'tag:yaml.org,2002:python/object/apply:os.system', expected plain data",
        ),
        ("a: !custom x", "line 1: unknown tag '!custom', expected plain data"),
        ("a: !!binary eA==", "line 1: unknown tag 'tag:yaml.org,2002:binary', expected plain data"),
        ("a: !!timestamp 2024-01-01", "line 1: unknown tag 'tag:yaml.org,2002:timestamp', expected plain data"),
        ("a: !!set {x}", "line 1: unknown tag 'tag:yaml.org,2002:set', expected plain data"),
        ("a: !!int x", "line 1: 'x' is not of type int"),
        ("a: &x [*x]", "line 1: alias 'x' refers to itself"),
        ("a: *nothing", "line 1: alias 'nothing' is not defined"),
        ("? [a]\n: b", "line 1: a key is not a string"),
        ("? {a: b}\n: c", "line 1: a key is not a string"),
        ("~: b", "line 1: a key is not a string"),
        ("<<: 1", "line 1: << takes a mapping or a list of mappings"),
        ("<<: [1]", "line 1: << takes a mapping or a list of mappings"),
        ("a: b: c", "line 1: mapping values are not allowed in this context"),
    ],
)
def test_refuses_with_the_line(tmp_path: Path, text: str, want: str) -> None:
    assert problems(tmp_path, text) == [want]


@pytest.mark.parametrize(
    ("text", "line", "shown"),
    [
        ("kind: ConfigMap\nmetadata:\n  name: {{ .Release.Name }}\n", 3, "{{ .Release.Name }}"),
        ("{{- if .Values.on }}\nkind: A\n{{- end }}\n", 1, "{{- if .Values.on }}"),
        ('name: {{ include "a" . }}-x', 1, '{{ include "a" . }}'),
        ("a: b\n{{ range .x }}\nc: d\n{{ end }}\n", 2, "{{ range .x }}"),
        ("labels:\n    {{- toYaml .x | nindent 4 }}\n", 2, "{{- toYaml .x | nindent 4 }}"),
        ("{% if x %}\na: b\n", 1, "{% if x %}"),
    ],
)
def test_a_template_that_is_not_rendered_is_told_as_one(tmp_path: Path, text: str, line: int, shown: str) -> None:
    want = f"line {line}: {shown!r} looks like a template that is not rendered (helm template renders charts)"
    assert problems(tmp_path, text) == [want]


def test_braces_in_quotes_are_no_template(tmp_path: Path) -> None:
    assert problems(tmp_path, 'a: "{{ x }}"\nb: c: d\n') == ["line 2: mapping values are not allowed in this context"]


@pytest.mark.parametrize("text", ["[" * 100_000, "- " * 10_000, "{a: " * 5_000])
def test_deep_nesting_is_refused(tmp_path: Path, text: str) -> None:
    (line,) = problems(tmp_path, "a: " + text if text[0] != "-" else text)
    assert "nested deeper than" in line


@pytest.mark.parametrize("content", [b"a: \xff\xfe", b"a: \x00", b"a: '\\uD800'".replace(b"'", b'"'), b"\x80", b"a: 'x"])
def test_what_is_no_text_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "in.yaml"
    path.write_bytes(content)
    with pytest.raises(InputError) as error:
        load([str(path)])
    assert len(error.value.problems) == 1


@pytest.mark.parametrize("text", ["", "\n\n", "# nothing\n", "---\n---\n"])
def test_empty_input_is_a_problem(tmp_path: Path, text: str) -> None:
    assert problems(tmp_path, text) == ["holds no objects, expected JSON or YAML of Kubernetes objects"]


# --- objects ----------------------------------------------------------------------------------------------------------

POD = "kind: Pod\nmetadata: {{name: {}}}\nspec: {{containers: [{{name: c{}}}]}}\n"


def test_objects_of_all_documents(tmp_path: Path) -> None:
    listed = "kind: List\nitems:\n- {kind: Node, metadata: {name: n}}\n"
    snapshot = load_text(tmp_path, "---\n".join([POD.format("a", ""), "# nothing\n", listed, POD.format("b", "")]))
    assert snapshot.counts() == {"Node": 1, "Pod": 2}


def test_bad_objects_are_told_as_in_json(tmp_path: Path) -> None:
    text = "---\n".join(
        [POD.format("a", ", ports: 3"), "metadata: {name: x}\n", "3\n", POD.format("b", ", resources: {requests: {cpu: 1x}}")]
    )
    lines = problems(tmp_path, text)
    assert lines[0] == "Pod default/a: spec.containers[0].ports: got 3, expected a list"
    assert lines[1] == "document 2: kind: missing, expected text such as Pod"
    assert lines[2] == "document 3: got 3, expected an object"
    assert lines[3].startswith("Pod default/b: spec.containers[0].resources.requests.cpu: '1x' is not a quantity")


def test_a_syntax_error_leaves_what_came_before_judged(tmp_path: Path) -> None:
    lines = problems(tmp_path, POD.format("a", ", ports: 3") + "---\na: [\n")
    assert len(lines) == 2
    assert lines[1].startswith("line ")


def test_labels_must_be_text(tmp_path: Path) -> None:
    assert problems(tmp_path, POD.format("p, labels: {on: yes, at: 22:30}", "")) == [
        "Pod default/p: metadata.labels.true: got true, expected text",
    ]


# --- against PyYAML ---------------------------------------------------------------------------------------------------


def text(size: int) -> st.SearchStrategy[str]:
    """Any text that PyYAML and Kubernetes' reader take for text alike: not a number such as 0E0 or 0o7, which PyYAML leaves unquoted."""
    return st.text(st.characters(codec="utf-8"), max_size=size).filter(lambda t: not re.match(r"[-+.]*[0-9]", t))


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | text(20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(text(8), inner, max_size=4),
    max_leaves=20,
)


@pytest.mark.parametrize(("written", "value"), [("0E0", 0.0), ("1e3", 1000.0), ("0o7", 7)])
def test_numbers_that_pyyaml_takes_for_text(written: str, value: float) -> None:
    assert list(documents(f"a: {written}")) == [{"a": value}]


@given(value=PLAIN, flow=st.sampled_from([True, False, None]))
def test_reads_what_pyyaml_writes(value: object, flow: bool | None) -> None:
    dumped = yaml.safe_dump(value, default_flow_style=flow)
    assert list(documents(dumped)) == [value]
