"""Keys that a JSON object has twice are found wherever they are, by the quick look of large files as by the slow one."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from kubestow.models.snapshot import duplicate_keys
from tests.tiers import thinned

TEXTS = [
    "a",
    "b",
    "name",
    "topologyKey",
    'a"b',
    "a\\",
    "{",
    "}:{",
    'x":{"y',
    "é",
    "\u2028",
    "example.com/one-name",
    "example.com/two-name",
    "",
]


class Twice(dict[str, Any]):
    """A dict whose first key is written once more at its end."""


def written(value: Any, rng: random.Random) -> str:
    """JSON with spaces in odd places."""
    gap = rng.choice(["", "", " ", "\n\t"])
    if isinstance(value, dict):
        items = list(value.items())
        if isinstance(value, Twice):
            items.append((items[0][0], 1))
        return "{" + ",".join(f"{gap}{_text(key, rng)}{gap}:{gap}{written(item, rng)}" for key, item in items) + gap + "}"
    if isinstance(value, list):
        return "[" + ",".join(gap + written(item, rng) for item in value) + "]"
    return json.dumps(value, ensure_ascii=rng.random() < 0.5)


def _text(key: str, rng: random.Random) -> str:
    if key and key.isalpha() and rng.random() < 0.1:
        return f'"\\u{ord(key[0]):04x}{key[1:]}"'
    return json.dumps(key, ensure_ascii=rng.random() < 0.5)


def value(rng: random.Random, depth: int) -> Any:
    kind = rng.random()
    if depth == 0 or kind < 0.3:
        return rng.choice([*TEXTS, 1, None, True])
    if kind < 0.5:
        return [value(rng, depth - 1) for _ in range(rng.randrange(4))]
    keys = rng.sample(TEXTS, rng.randrange(1, 6))
    return {key: value(rng, depth - 1) for key in keys}


def objects(root: Any) -> Iterator[dict[str, Any]]:
    if isinstance(root, dict):
        yield root
        for item in root.values():
            yield from objects(item)
    elif isinstance(root, list):
        for item in root:
            yield from objects(item)


def spoiled(root: Any, rng: random.Random) -> Any:
    """The same with one key of one object written twice."""
    chosen = rng.choice(list(objects(root)))

    def copy(item: Any) -> Any:
        if isinstance(item, dict):
            made = Twice if item is chosen else dict
            return made({key: copy(below) for key, below in item.items()})
        return [copy(below) for below in item] if isinstance(item, list) else item

    return copy(root)


@pytest.mark.parametrize("chunk", [1, 7, 64, 2**19])
@pytest.mark.parametrize("seed", thinned(range(24), 4))
def test_the_quick_look_misses_none(seed: int, chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cuts between two parts may fall anywhere: in strings, between keys and colons, in open objects."""
    monkeypatch.setattr(duplicate_keys, "_CHUNK_BYTES", chunk)
    monkeypatch.setattr(duplicate_keys, "_MAX_UNSCANNED_BYTES", 0)
    rng = random.Random(seed)
    root = {"items": [value(rng, 5) for _ in range(5)], "kind": "List"}
    good, bad = written(root, rng).encode(), written(spoiled(root, rng), rng).encode()
    assert list(duplicate_keys.problems(good)) == []
    assert duplicate_keys.suspected(bad)
    assert len(list(duplicate_keys.problems(bad))) == 1


def test_the_quick_look_rarely_sends_for_the_slow_one() -> None:
    """Names that begin and end alike are compared byte by byte; what managed fields have for keys needs no second look."""
    labels = {f"example.com/{letter}-service-name": "x" for letter in "abcdefgh"}
    fields: dict[str, Any] = {'k:{"name":"app"}': {"f:image": {}}, 'k:{"name":"web"}': {"f:image": {}}}
    pods = [{"kind": "Pod", "metadata": {"name": f"p{i}", "labels": labels, "managedFields": [fields]}} for i in range(1000)]
    for indent in (None, 4):
        assert not duplicate_keys.suspected(json.dumps({"kind": "List", "items": pods}, indent=indent).encode())


def test_keys_that_share_cells_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """In four cells in place of two million, nearly every key shares its cell with many."""
    monkeypatch.setattr(duplicate_keys, "_CELL_SHIFT", np.uint64(62))
    many: dict[str, Any] = {f"name-{i}": i for i in range(500)}
    text = json.dumps([many] * 3)
    assert not duplicate_keys.suspected(text.encode())
    for first in ("name-0", "name-250", "name-499"):
        start = text.index("{", len(text) // 2)  # of the last object
        assert duplicate_keys.suspected(f'{text[: start + 1]}"{first}": 0, {text[start + 1 :]}'.encode())


def test_an_object_and_its_field_are_named() -> None:
    pod = '{"kind": "Pod", "metadata": {"name": "web", "namespace": "prod"}, "spec": {"containers": [{"name": "a", "name": "b"}]}}'
    filler = ", ".join(json.dumps({"kind": "Pod", "metadata": {"name": f"p{i}"}, "spec": {"nodeName": "n"}}) for i in range(3000))
    for text in (pod, f'{{"kind": "List", "items": [{pod}]}}', f'{{"kind": "List", "items": [{filler}, {pod}]}}'):
        found = list(duplicate_keys.problems(text.encode()))
        assert found == [("Pod prod/web", "spec.containers[0].name: duplicate key, expected each key once")]


def test_a_list_with_two_sets_of_items_is_found() -> None:
    filler = ", ".join(json.dumps({"kind": "Pod", "metadata": {"name": f"p{i}"}, "spec": {"nodeName": "n"}}) for i in range(3000))
    text = f'{{"kind": "List", "items": [{filler}], "items": []}}'
    assert list(duplicate_keys.problems(text.encode())) == [("object", "items: duplicate key, expected each key once")]


@pytest.mark.parametrize("text", ["", "{", '{"a', '{"a":1', "}", '"', "\\", '{"a":1}{"b":2', ":::", '{"a":1}}}', "[[[[", "{:}", '\\"' * 50])
@pytest.mark.parametrize("small", [0, 1000])
def test_what_is_no_json_is_left_to_the_reader(text: str, small: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(duplicate_keys, "_MAX_UNSCANNED_BYTES", small)
    assert list(duplicate_keys.problems(text.encode())) == []


def test_depth_beyond_what_is_decoded_does_no_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(duplicate_keys, "_MAX_UNSCANNED_BYTES", 0)
    assert list(duplicate_keys.problems(b'{"a":' * 20000 + b"1" + b"}" * 20000)) == []
