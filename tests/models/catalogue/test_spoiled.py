"""Catalogues with parts replaced at random: each is read, or refused with lines that begin with the file."""

from __future__ import annotations

import copy
import json
import random
from pathlib import Path
from typing import Any

import pytest
import yaml

from kubestow.models.catalogue.catalogue import Offer, read
from kubestow.models.catalogue.nodes import Newcomers
from kubestow.models.snapshot.snapshot import InputError, Snapshot
from tests.tiers import sampled

_FOLDER = Path(__file__).parents[3] / "instances"
_GOOD = {name: yaml.safe_load((_FOLDER / name).read_text()) for name in ("catalogue.yaml", "karpenter-instance-types.json")}
_ODD: tuple[Any, ...] = (
    None, True, 0, -1, 1.5, 1e300, 10**30, float("nan"), "", "x", "x y", "\x1b[31m", "4", "-4", "1e3", "1Gi", "In", [], [[]], [None],
    "é" * 300, ["a", 1], {}, {"": ""}, {"a": None}, {"a": {"b": []}},
)  # fmt: skip


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every container of a document with each of its keys."""
    keys = list(value) if isinstance(value, dict) else list(range(len(value))) if isinstance(value, list) else []
    return [(value, key) for key in keys] + [place for key in keys for place in places(value[key])]


def spoiled(name: str, draw: random.Random) -> Any:
    document = copy.deepcopy(_GOOD[name])
    for _ in range(draw.randint(1, 3)):
        container, key = draw.choice(places(document) or [([0], 0)])
        how = draw.random()
        if how < 0.2:
            del container[key]
        elif how < 0.4 and isinstance(container, dict):
            container[draw.choice(["name", "spot", "Price", "é", "zones", "\x00"])] = container.pop(key)
        else:
            container[key] = copy.deepcopy(draw.choice(_ODD))
    return document


@pytest.mark.parametrize("name", _GOOD)
@pytest.mark.parametrize("seed", sampled(range(40), every=20, full=4))
def test_nothing_but_lines_about_the_file(tmp_path: Path, name: str, seed: int) -> None:
    draw = random.Random(f"{name} {seed}")
    for number in range(20):
        file = tmp_path / f"{number}.json"
        file.write_text(json.dumps(spoiled(name, draw)))
        problems: list[str] = []
        offers: list[Offer] = []
        try:
            offers = read(str(file)).offers
        except InputError as error:
            problems = error.problems
        assert bool(problems) != bool(offers)
        assert all(line.startswith(f"{file}: ") and line.isprintable() for line in problems), problems
        snapshot = Snapshot()
        for offer in offers:
            assert 0 <= offer.price <= 10**12
            assert 0 <= offer.fixed <= 10**12
            assert Newcomers(snapshot, Snapshot()).buy(offer.shape, offer.zone, 1)
