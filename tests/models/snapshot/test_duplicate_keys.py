"""Keys that a JSON object has twice are found wherever they are."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

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


@pytest.mark.parametrize("seed", thinned(range(24), 4))
def test_the_comparison_of_colons_misses_none(seed: int) -> None:
    rng = random.Random(seed)
    root = {"items": [value(rng, 5) for _ in range(5)], "kind": "List"}
    good, bad = written(root, rng).encode(), written(spoiled(root, rng), rng).encode()
    assert list(duplicate_keys.problems(good)) == []
    assert len(list(duplicate_keys.problems(bad))) == 1


def test_a_colon_that_is_no_longer_escaped_makes_up_for_no_dropped_key() -> None:
    text = '{"a": 1, "a": "\\u003a"}'
    assert list(duplicate_keys.problems(text.encode())) == [("object", "a: duplicate key, expected each key once")]


def test_larger_files_are_not_examined(monkeypatch: pytest.MonkeyPatch) -> None:
    text = b'{"a": 1, "a": 2}'
    monkeypatch.setattr(duplicate_keys, "MAX_EXAMINED_BYTES", len(text) - 1)
    assert list(duplicate_keys.problems(text)) == []


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
def test_what_is_no_json_is_left_to_the_reader(text: str) -> None:
    assert list(duplicate_keys.problems(text.encode())) == []


def test_depth_beyond_what_is_decoded_does_no_harm() -> None:
    assert list(duplicate_keys.problems(b'{"a":' * 20000 + b"1" + b"}" * 20000)) == []
