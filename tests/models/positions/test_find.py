"""Positions of fields: in YAML and JSON, through anchors and merge keys, in lists, folders, gzip, standard input and charts."""

from __future__ import annotations

import gzip
import io
import json
from pathlib import Path
from textwrap import dedent
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubestow.models.documents.findings.check import Position
from kubestow.models.positions.charts import folders
from kubestow.models.positions.find import Positions, read
from kubestow.models.snapshot import sources
from kubestow.models.snapshot.snapshot import InputError, load

WEB = """\
# A comment, and a word of two bytes: Zürich.
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  namespace: shop
  labels: {example.com/zone: "a", tier: 'ü', owner: x}
spec:
  replicas: 3
  template:
    spec:
      containers:
      - name: web
        resources:
          requests:
            cpu: 100m
            example.com/gpu: 1
      - {name: proxy, image: "proxy:1", resources: {limits: {cpu: 1}}}
      topologySpreadConstraints:
        - maxSkew: 1
          topologyKey: zone
"""
POD = "spec.template.spec"


def of(text: str, field: str | None, *, kind: str = "Deployment", namespace: str | None = "shop", name: str = "web") -> tuple[int, int]:
    found = Positions([("x.yaml", text.encode())]).of(kind, namespace, name, field)
    assert found is not None
    assert found.file == "x.yaml"
    assert found.line is not None
    assert found.column is not None
    return found.line, found.column


@pytest.mark.parametrize(
    ("field", "line", "column"),
    [
        (None, 2, 1),
        ("spec", 8, 1),
        ("spec.replicas", 9, 3),
        (f"{POD}.containers", 12, 7),
        (f"{POD}.containers[0]", 13, 9),
        (f"{POD}.containers[0].resources.requests", 15, 11),
        (f"{POD}.containers[0].resources.requests.example.com/gpu", 17, 13),
        (f"{POD}.containers[0].resources.requests[example.com/gpu]", 17, 13),
        (f"{POD}.containers[name=proxy]", 18, 9),
        (f"{POD}.containers[1].resources.limits.cpu", 18, 62),
        (f"{POD}.topologySpreadConstraints[0].topologyKey", 21, 11),
        ("metadata.labels[example.com/zone]", 7, 12),
        ("metadata.labels[owner]", 7, 46),
        # missing fields: the nearest one that exists
        (f"{POD}.containers[0].resources.limits.cpu", 14, 9),
        (f"{POD}.containers[7].resources", 12, 7),
        (f"{POD}.affinity.podAntiAffinity", 11, 5),
        (f"{POD}.containers[name=other].image", 12, 7),
        ("status.conditions", 2, 1),
        ("spec.replicas.more[0]", 9, 3),
        ("", 2, 1),
    ],
)
def test_a_field_is_where_it_is_written_or_where_its_nearest_ancestor_is(field: str | None, line: int, column: int) -> None:
    assert of(WEB, field) == (line, column)


def test_json_has_the_same_fields_at_its_own_places() -> None:
    text = json.dumps(
        {"metadata": {"namespace": "shop", "name": "web"}, "spec": {"a.b/c": [1, {"name": "x", "n": 1}]}, "kind": "Deployment"}
    )
    text = '\t{\n "apiVersion": "apps/v1",\r\n\t' + text[1:]
    for field, word in (("spec", '"spec"'), ("spec.a.b/c", '"a.b/c"'), ("spec[a.b/c]", '"a.b/c"'), ("spec.a.b/c[1].n", '"n"')):
        assert of(text, field) == (3, text.splitlines()[2].index(word) + 1)
    assert of(text, "spec.a.b/c[name=x]") == (3, text.splitlines()[2].index('{"name": "x"') + 1)
    assert of(text, "spec.a.b/c[0]") == (3, text.splitlines()[2].index("[1, {") + 2)
    assert of(text, "spec.none") == of(text, "spec")
    assert of(text, None) == (1, 2)


def test_an_anchor_and_a_merge_key_lead_to_where_the_field_is_written() -> None:
    text = dedent("""\
        kind: Deployment
        x-small: &small
          requests: {cpu: 1}
        x-more: &more
          limits: {cpu: 2}
        metadata: {name: web}
        spec:
          one: *small
          two:
            <<: *small
            limits: {cpu: 3}
          three:
            <<: [*more, *small]
          list: [&item {name: a}, *item]
          ? &key four
          : *more
    """)
    assert of(text, "spec.one", namespace="default") == (8, 3)
    assert of(text, "spec.one.requests.cpu", namespace="default") == (3, 14)
    assert of(text, "spec.two.requests", namespace="default") == (3, 3)
    assert of(text, "spec.two.limits.cpu", namespace="default") == (11, 14)
    assert of(text, "spec.three.limits", namespace="default") == (5, 3)
    assert of(text, "spec.three.requests", namespace="default") == (3, 3)
    assert of(text, "spec.list[1].name", namespace="default") == (14, 17)
    assert of(text, "spec.four.limits", namespace="default") == (5, 3)


def test_objects_of_lists_and_streams_are_found_one_by_one() -> None:
    text = dedent("""\
        ---
        # nothing
        ---
        apiVersion: v1
        kind: List
        items:
        - {kind: Pod, metadata: {name: a}}
        - apiVersion: v1
          kind: PodList
          items:
            - metadata: {name: b, namespace: shop}
              spec: {nodeName: n1}
        ...
        ---
        - kind: Node
          metadata: {name: n1}
        ---
        kind: Gadget
        metadata: {name: g}
    """)
    assert of(text, None, kind="Pod", namespace="default", name="a") == (7, 3)
    assert of(text, "spec.nodeName", kind="Pod", name="b") == (12, 14)
    assert of(text, None, kind="Node", namespace=None, name="n1") == (15, 3)
    assert of(text, None, kind="Gadget", namespace="default", name="g") == (18, 1)
    as_json = '[{"kind": "PodList", "items": [{"metadata": {"name": "b"}}]}]\n {"kind": "Node", "metadata": {"name": "n1"}}'
    assert of(as_json, None, kind="Pod", namespace="default", name="b") == (1, 32)
    assert of(as_json, "metadata.name", kind="Node", namespace=None, name="n1") == (2, 32)


def test_an_object_of_another_namespace_is_another_one() -> None:
    found = Positions([("x.yaml", b"kind: Pod\nmetadata: {name: a}\n")], namespace="shop")
    assert found.of("Pod", "shop", "a") == Position("x.yaml", 1, 1)
    assert found.of("Pod", "default", "a") is None
    assert found.of("Job", "shop", "a") is None


def test_columns_are_characters_and_lines_those_of_editors() -> None:
    text = 'kind: Pod\r\nmetadata: {name: a, annotations: {"😀ü": "\u2028\u0085", b: c}}\r\nspec: {}\r\n'
    assert of(text, "metadata.annotations[b]", kind="Pod", namespace="default", name="a") == (2, 47)
    assert of(text, "spec", kind="Pod", namespace="default", name="a") == (3, 1)


def test_files_are_named_as_they_were_found(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "a.json.gz").write_bytes(gzip.compress(b'\n{"kind": "Pod", "metadata": {"name": "a"}}'))
    (tmp_path / "b.yml").write_bytes("kind: Pod\nmetadata:\n  name: b\n".encode("utf-16"))
    (tmp_path / "c.yaml").write_bytes(b"kind: [")
    found = read([str(tmp_path / "b.yml"), str(tmp_path), str(tmp_path / "none.yaml")])
    assert found.of("Pod", "default", "a", "metadata") == Position(str(tmp_path / "d" / "a.json.gz"), 2, 17)
    assert found.of("Pod", "default", "b", "metadata.name") == Position(str(tmp_path / "b.yml"), 3, 3)


HELM = """\
---
# Source: shop/templates/deployment.yaml
# A comment of the chart.
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
---
# Source: shop/charts/db/templates/db.yaml
apiVersion: v1
kind: Pod
metadata: {name: db}
---
apiVersion: v1
kind: Pod
metadata:
  name: bare
  annotations:
    text: |
      # Source: not/this.yaml
"""


def test_the_first_template_needs_no_marker_above_it() -> None:
    text = "# Source: shop/a.yaml\nkind: Pod\nmetadata: {name: a}\n---\nkind: Pod\nmetadata: {name: b}\n"
    found = Positions([("-", text.encode())])
    assert found.of("Pod", "default", "a") == Position("shop/a.yaml")
    assert found.of("Pod", "default", "b") == Position("-", 5, 1)


def test_a_rendered_chart_leads_to_its_templates_and_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    text = HELM.replace(
        "metadata:\n  name: web\n",
        "metadata:\n  name: web\nspec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}}}\n",
    )
    text = (
        text.replace("{name: db}", "{name: db}\nspec: {containers: [{name: c, image: i}]}") + "spec: {containers: [{name: c, image: i}]}\n"
    )
    text = text.replace("{a: b}}}}", "{a: b}}, spec: {containers: [{name: c, image: i}]}}}")
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(text.encode())))
    with sources.keeping() as kept:
        load(["-"], manifests=True)
        found = read(["-"], kept)
    assert found.of("Deployment", "default", "web", "spec.selector") == Position("shop/templates/deployment.yaml")
    assert found.of("Pod", "default", "db") == Position("shop/charts/db/templates/db.yaml")
    assert found.of("Pod", "default", "bare", "metadata.name") == Position("-", 19, 3)


def test_templates_are_in_the_folder_of_their_chart(tmp_path: Path) -> None:
    chart = tmp_path / "my-shop"
    chart.mkdir()
    (chart / "Chart.yaml").write_text("apiVersion: v2\nname: shop\n")
    found = Positions([("-", HELM.encode())], charts=folders([f"{chart}/"]))
    assert found.of("Deployment", "default", "web") == Position(f"{chart}/templates/deployment.yaml")
    assert found.of("Pod", "default", "db") == Position(f"{chart}/charts/db/templates/db.yaml")
    assert Positions([("-", HELM.encode())], charts={"other": "x"}).of("Pod", "default", "db") == Position(
        "shop/charts/db/templates/db.yaml"
    )


@pytest.mark.parametrize("text", [None, "", "- name\n", "name: 3\n", "name: [", "version: 1\n"])
def test_a_folder_that_is_no_chart_is_bad_input(text: str | None, tmp_path: Path) -> None:
    if text is not None:
        (tmp_path / "Chart.yaml").write_text(text)
    with pytest.raises(InputError, match=r"Chart\.yaml: "):
        folders([str(tmp_path)])


def test_two_charts_of_one_name_are_bad_input(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "Chart.yaml").write_text("name: shop\n")
    with pytest.raises(InputError, match="already that of the chart in"):
        folders([str(tmp_path / "a"), str(tmp_path / "b")])


def test_a_rendered_chart_in_a_file_has_lines_of_that_file(tmp_path: Path) -> None:
    (tmp_path / "out.yaml").write_text(HELM)
    assert read([str(tmp_path / "out.yaml")]).of("Pod", "default", "db") == Position(str(tmp_path / "out.yaml"), 10, 1)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        '{"kind": "Pod", "metadata": {"name"',
        "[1, 2",
        "a: *b",
        "&a [*a]",
        "? [a]\n: b",
        "kind: Pod\nmetadata: [",
        "\ud800",
        "- " * 500,
    ],
)
def test_what_cannot_be_read_has_no_positions(text: str) -> None:
    assert Positions([("x", text.encode("utf-8", "surrogatepass"))]).of("Pod", "default", "a", "spec") is None


_KEYS = st.text(st.characters(exclude_characters=".[]=", codec="utf-8", exclude_categories=["Cc", "Cs"]), min_size=1, max_size=5)
_VALUES = st.recursive(
    st.text(max_size=4) | st.integers() | st.none() | st.booleans(),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(_KEYS, below, max_size=3),
    max_leaves=12,
)


def _paths(value: object, path: str = "spec") -> list[tuple[str, object]]:
    found: list[tuple[str, object]] = [(path, value)]
    if isinstance(value, dict):
        for key, below in value.items():
            found += _paths(below, f"{path}[{key}]")
    elif isinstance(value, list):
        for index, below in enumerate(value):
            found += _paths(below, f"{path}[{index}]")
    return found


@pytest.mark.full
@given(st.dictionaries(_KEYS.filter(lambda key: not key.isdecimal()), _VALUES, max_size=3), st.sampled_from([None, 1, "\t"]))
def test_at_each_place_of_json_its_key_or_element_is_read_again(spec: dict[str, object], indent: int | str | None) -> None:
    text = json.dumps({"kind": "Pod", "metadata": {"name": "a"}, "spec": spec}, indent=indent, ensure_ascii=False)
    lines = text.split("\n")
    for path, value in _paths(spec):
        line, column = of(text, path, kind="Pod", namespace="default", name="a")
        text_after = "\n".join([lines[line - 1][column - 1 :], *lines[line:]])
        read_back, end = json.JSONDecoder().raw_decode(text_after)
        key = path.rpartition("[")[2].removesuffix("]")
        if read_back == key and text_after[end:].startswith(":"):
            read_back, _ = json.JSONDecoder().raw_decode(text_after[end + 1 :].lstrip())
        assert path == "spec" or read_back == value
