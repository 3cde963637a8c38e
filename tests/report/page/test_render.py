"""The page is one file, safe with any data, and the same for the same data."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubestow.models.documents.placement import Assignment, Cause, Fact, Placement, Reason, Remedy, SnapshotRef, Unmodelled, Unplaced
from kubestow.models.kube.objects import Container, Node, ObjectMeta, Pod, PodSpec
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.report.page.data import build
from kubestow.report.page.render import embed, page, render, script
from tests.tiers import examples

TEMPLATE = (
    '<!doctype html><html><head><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="{{ policy }}">'
    "<title>{{ title }} {{ version }}</title><style>{{ style }}</style></head><body>"
    '<script type="application/json" id="data">{{ data }}</script><script>{{ script }}</script></body></html>'
)
DATA = {"title": "T", "version": "1", "kind": "Snapshot"}
HOSTILE = [
    "<script>alert(1)</script>", "</script><img src=x onerror=alert(1)>", "<!--",
    "]]>", "a\u2028b\u2029c", "\ud800lone", "nul\x00", "\u202ertl",
    '"quoted"', "'single'", "&lt;", "{{ 7 * 7 }}", "{% raw %}", "${x}", "\\u003c", "\r\n",
]  # fmt: skip


class _Reader(HTMLParser):
    """Elements with their attributes, and the text of scripts, style and title, as a browser takes them."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []
        self._inside: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag in ("script", "style", "title"):
            self._inside.append(tag)
            self.texts.append((tag, ""))

    def handle_endtag(self, tag: str) -> None:
        if self._inside and tag == self._inside[-1]:
            self._inside.pop()

    def handle_data(self, data: str) -> None:
        if self._inside:
            tag, text = self.texts[-1]
            self.texts[-1] = tag, text + data


def _read(text: str) -> _Reader:
    reader = _Reader()
    reader.feed(text)
    reader.close()
    return reader


def _hostile(text: str) -> tuple[Snapshot, Placement]:
    """All names and messages are this text, except for the suffixes that make pods distinct."""
    node = Node(ObjectMeta(name=text, labels={text: text, "topology.kubernetes.io/zone": text}))
    pods = [Pod(ObjectMeta(name=f"{text}{i}", namespace=text, labels={text: text}), PodSpec([Container(text)])) for i in range(2)]
    reasons = [Reason(text, 1, text)]
    cause = Cause([f"{text}/{text}1"], [Fact(text, text, text)], waysOut=[Remedy(text, text, options=[text])])
    result = Placement(
        SnapshotRef(text, 1, 2, 2), text, "feasible", [], [Assignment(f"{text}/{text}0", text, 1)], [Unplaced(f"{text}/{text}1", reasons)],
        causes=[cause], unmodelled=[Unmodelled(text, text, text)], notes=[text],
    )  # fmt: skip
    return Snapshot(nodes=[node], pods=pods), result


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [text for pair in value.items() for each in pair for text in _texts(each)]
    return [text for each in value for text in _texts(each)] if isinstance(value, list) else []


def _harmless(text: str, data: dict[str, Any]) -> None:
    """The page has the elements of its template and no other, and its data come out as they went in."""
    plain = _read(page(DATA, TEMPLATE, "b{}", "let x;"))
    reader = _read(text)
    assert [tag for tag, _ in reader.elements] == [tag for tag, _ in plain.elements]
    assert [tag for tag, _ in reader.texts] == ["title", "style", "script", "script"]
    assert json.loads(reader.texts[2][1]) == json.loads(json.dumps(data))
    assert reader.texts[3][1] == "let x;"
    text.encode("utf-8")
    assert all(each.isprintable() for each in _texts(data))


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_names_and_messages_are_harmless(text: str) -> None:
    snapshot, result = _hostile(text)
    data = build(snapshot, result, version=text)
    assert data["nodes"]["name"] != []
    _harmless(page(data, TEMPLATE, "b{}", "let x;"), data)


@pytest.mark.full
@given(st.text(st.characters(codec=None), min_size=1, max_size=12))
@examples(150)
def test_any_name_is_harmless(text: str) -> None:
    snapshot, result = _hostile(text)
    data = build(snapshot, result, version="1")
    _harmless(page(data, TEMPLATE, "b{}", "let x;"), data)


@pytest.mark.full
@given(st.recursive(st.text(st.characters(codec=None)) | st.integers() | st.none() | st.booleans(), st.lists, max_leaves=8))
def test_embedded_json_is_ascii_without_markup_and_reads_back(value: Any) -> None:
    text = embed(value)
    assert text.isascii()
    assert not set(text) & set("<>&")
    assert json.loads(text) == value


def test_numbers_that_json_lacks_are_refused() -> None:
    with pytest.raises(ValueError, match="JSON"):
        embed([float("nan")])


def test_the_policy_lets_the_pages_own_script_run_and_nothing_be_loaded() -> None:
    reader = _read(page(DATA, TEMPLATE, "b{}", "let x = 1 < 2 && 'é';\n"))
    (policy,) = [attributes["content"] for tag, attributes in reader.elements if tag == "meta" and "http-equiv" in attributes]
    code = reader.texts[-1][1]
    assert code == "let x = 1 < 2 && 'é';\n"
    digest = base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()
    assert policy is not None
    parts = dict(part.strip().split(" ", 1) for part in policy.split(";"))
    assert parts["default-src"] == "'none'"
    assert parts["script-src"] == f"'sha256-{digest}'"
    assert "connect-src" not in parts


@pytest.mark.parametrize(("code", "style"), [("'</Script>'", ""), ("// <!--", ""), ("", "/*</STYLE>*/")])
def test_script_and_style_that_would_end_their_element_are_refused(code: str, style: str) -> None:
    with pytest.raises(ValueError, match="contains"):
        page(DATA, TEMPLATE, style, code)


def test_the_file() -> None:
    snapshot, result = _hostile("</script>")
    data = build(snapshot, result, version="0.1.0")
    made = render(data)
    assert made == render(build(*_hostile("</script>"), version="0.1.0"))
    reader = _read(made.decode("utf-8"))
    scripts = [text for tag, text in reader.texts if tag == "script"]
    assert len(scripts) == 2
    assert json.loads(scripts[0]) == json.loads(json.dumps(data))
    digest = base64.b64encode(hashlib.sha256(scripts[1].encode()).digest()).decode()
    policies = [attributes["content"] for tag, attributes in reader.elements if tag == "meta" and "http-equiv" in attributes]
    assert len(policies) == 1
    assert f"script-src 'sha256-{digest}'" in (policies[0] or "")


def test_the_file_loads_nothing() -> None:
    reader = _read(render(build(Snapshot(), None, version="1")).decode())
    links = [
        value for _, attributes in reader.elements for name, value in attributes.items() if name in ("src", "href", "srcset", "action")
    ]
    assert all((link or "").startswith("#") or link == "data:," for link in links)
    assert links.count("data:,") == 1  # an icon of its own, or browsers ask the server for one
    assert [attributes.get("rel") for tag, attributes in reader.elements if tag == "link"] == ["icon"]
    assert not [tag for tag, _ in reader.elements if tag in ("iframe", "object", "embed", "base", "img")]
    for text in (script(), *(text for tag, text in reader.texts if tag == "style")):
        assert not re.search(
            r"\b(fetch|XMLHttpRequest|WebSocket|importScripts|sendBeacon)\b|innerHTML|outerHTML|\beval\b|url\(\s*['\"]?https?:", text
        )
