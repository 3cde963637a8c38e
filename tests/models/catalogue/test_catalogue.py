"""Catalogue files: the fields that are read, and a separate line for every kind of fault."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from kubestow.models.catalogue.catalogue import read
from kubestow.models.snapshot.snapshot import InputError

_ROOT = Path(__file__).parents[3]
_INSTANCE = _ROOT / "instances" / "catalogue.yaml"


def shape(**fields: Any) -> dict[str, Any]:
    """A shape without faults except the given fields; fields that are None are left out."""
    found = {"name": "m", "allocatable": {"cpu": 4, "memory": "8Gi", "pods": 110}, "zones": ["a", "b"], "price": 0.4, **fields}
    return {key: value for key, value in found.items() if value is not None}


def problems(tmp_path: Path, document: Any) -> list[str]:
    """Return the messages about a file with this document, without the file's name at the beginning of each line."""
    file = tmp_path / "catalogue.json"
    file.write_text(json.dumps(document) if not isinstance(document, str) else document)
    with pytest.raises(InputError) as raised:
        read(str(file))
    assert all(problem.startswith(f"{file}: ") for problem in raised.value.problems)
    return [problem.removeprefix(f"{file}: ") for problem in raised.value.problems]


def test_the_offers_of_a_catalogue_are_its_shapes_by_zone() -> None:
    found = read(str(_INSTANCE))
    costs = {(offer.shape.name, offer.zone): (offer.price, offer.fixed, offer.cost) for offer in found.offers}
    assert len(costs) == len(found.offers) == 16
    assert costs["g2.2xlarge", "c"] == (402_000, 0, 402_000)
    assert costs["h3.metal", "b"] == (2_448_000, 750_000, 3_198_000)
    assert found.most == {"g2.2xlarge.spot": 6, "x1.8xlarge": 2, "h3.metal": 4}
    assert found.spot == {"g2.2xlarge.spot"}
    assert found.most_spot == 50


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        ({"price": None}, "shape 'm': price: missing, expected the price of a node per hour"),
        ({"zones": None}, "shape 'm': zones: missing, expected the zones that offer it"),
        ({"zones": []}, "shape 'm': zones: empty, expected at least one zone that offers it"),
        ({"zones": ["a", "a"]}, "shape 'm': zones: 'a' is given twice, expected each zone once"),
        ({"zones": ["a", "not a zone"]}, "shape 'm': zones: got 'not a zone', expected a label value"),
        ({"price": -1}, "shape 'm': price: got -1, expected a decimal number within 0..1000000 with at most 6 decimal places"),
        ({"price": "cheap"}, "shape 'm': price: got 'cheap', expected a decimal number"),
        ({"price": 0.1234567}, "shape 'm': price: got 0.1234567, expected a decimal number"),
        ({"fixedPrice": -0.5}, "shape 'm': fixedPrice: got -0.5, expected a decimal number"),
        ({"price": {"a": 1}}, "shape 'm': price[b]: missing, expected the price in each of zones"),
        ({"price": {"a": 1, "b": 1, "c": 1}}, "shape 'm': price[c]: no such zone in zones"),
        ({"price": {"a": 1, "b": -2}}, "shape 'm': price[b]: got -2, expected a decimal number"),
        ({"price": [1]}, "shape 'm': price: Expected "),
        (
            {"allocatable": {"cpu": 4, "memory": "8Gi"}},
            "shape 'm': allocatable.pods: missing, expected the number of pods that a node takes",
        ),
        ({"allocatable": {"cpu": "4x", "memory": "8Gi", "pods": 1}}, "shape 'm': allocatable[cpu]: '4x' is not a quantity"),
        ({"allocatable": {"cpu": -4, "memory": "8Gi", "pods": 1}}, "shape 'm': allocatable[cpu]: got -4, expected no negative amount"),
        (
            {"allocatable": {"cpu": 4, "memory": "8Gi", "pods": 1, "memroy": 1}},
            "shape 'm': allocatable[memroy]: no such resource, expected cpu, memory, pods, ephemeral-storage, "
            "hugepages-SIZE or DOMAIN/NAME; did you mean memory?",
        ),
        ({"allocatable": {"cpu": [], "memory": "8Gi", "pods": 1}}, "shape 'm': allocatable[...]: Expected "),
        ({"capacity": {"cpu": 3}}, "shape 'm': capacity[cpu]: got 3, expected at least the allocatable amount 4"),
        ({"labels": {"Not a key": "v"}}, "shape 'm': labels: got the key 'Not a key', expected a label key"),
        ({"labels": {"k": "not a value"}}, "shape 'm': labels[k]: got 'not a value', expected a label value"),
        (
            {"labels": {"topology.kubernetes.io/zone": "a"}},
            "shape 'm': labels[topology.kubernetes.io/zone]: set for each node automatically, expected it to be left out",
        ),
        ({"taints": [{"key": "k", "effect": "No"}]}, "shape 'm': taints[0].effect: Invalid enum value 'No'"),
        ({"taints": [{"key": "", "effect": "NoExecute"}]}, "shape 'm': taints[0].key: got '', expected a label key"),
        (
            {"taints": [{"key": "k", "value": "a b", "effect": "NoExecute"}]},
            "shape 'm': taints[0].value: got 'a b', expected a label value",
        ),
        ({"taints": [{"key": "k", "effect": "NoExecute"}] * 2}, "shape 'm': taints[1]: k:NoExecute is given twice"),
        ({"most": -1}, "shape 'm': most: Expected `int` >= 0"),
        ({"volumes": {"csi.example.com": -1}}, "shape 'm': volumes[csi.example.com]: got -1, expected a whole number within"),
        ({"spot": "perhaps"}, "shape 'm': spot: Expected `bool`, got `str`"),
        ({"prize": 1}, "shape 'm': prize: no such field; did you mean price?"),
        ({"name": "a shape"}, "shape 'a shape': name: got 'a shape', expected a label value"),
        ({"name": None}, "shapes[0]: name: missing, expected it of each shape"),
    ],
)
def test_what_is_wrong_with_a_shape_is_said_in_one_line(tmp_path: Path, fields: dict[str, Any], line: str) -> None:
    [found] = problems(tmp_path, {"shapes": [shape(**fields)]})
    assert found.startswith(line)


@pytest.mark.parametrize(
    ("document", "line"),
    [
        ({"shapes": []}, "shapes: empty, expected at least one shape"),
        ({}, "shapes: missing, expected a list of shapes"),
        ({"shapes": {"m": 1}}, "shapes: got an object, expected a list of shapes"),
        ({"shapes": [3]}, "shapes[0]: got 3, expected an object"),
        ({"shapes": [shape()], "mostSpot": 101}, "mostSpot: Expected `int` <= 100"),
        ({"shapes": [shape()], "kind": "Node"}, "kind: Invalid enum value 'Node'"),
        ({"shapes": [shape()], "shape": []}, "shape: no such field; did you mean shapes?"),
        ({"shapes": [shape(), shape(price=2)]}, "shape 'm': is given twice, expected each name once"),
        ("shapes", "got 'shapes', expected a Catalogue"),
        ("", "no documents, expected one Catalogue"),
        ("a: 1\n---\nb: 1\n", "2 documents, expected one Catalogue"),
        ("{", "line 2: did not find expected node content"),
    ],
)
def test_what_is_wrong_with_a_catalogue_is_said_in_one_line(tmp_path: Path, document: Any, line: str) -> None:
    [found] = problems(tmp_path, document)
    assert found.startswith(line)


def test_several_problems_have_several_lines(tmp_path: Path) -> None:
    bad = [shape(price=None, most=-1), shape(name="n", zones=[], price=-1), shape(name="o"), shape(name="o")]
    assert [line.split(": ")[1] + ": " + line.split(": ")[0] for line in problems(tmp_path, {"shapes": bad})] == [
        "most: shape 'm'", "price: shape 'm'", "zones: shape 'n'", "price: shape 'n'", "is given twice, expected each name once: shape 'o'",
    ]  # fmt: skip


def test_a_file_that_is_not_there_is_said_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        read(str(tmp_path / "none.yaml"))


def test_the_schema_takes_what_is_read() -> None:
    schema = json.loads((_ROOT / "docs" / "schema" / "catalogue-v1alpha1.json").read_text())
    Draft202012Validator(schema).validate(yaml.safe_load(_INSTANCE.read_text()))


def test_the_catalogue_of_the_page_is_one(tmp_path: Path) -> None:
    [shown] = re.findall(r"```yaml\n(.*?)```", (_ROOT / "docs" / "catalogue.md").read_text(encoding="utf-8"), re.DOTALL)
    file = tmp_path / "catalogue.yaml"
    file.write_text(shown)
    assert [(offer.shape.name, offer.zone, offer.cost) for offer in read(str(file)).offers] == [
        ("g2.2xlarge", "a", 430_000), ("g2.2xlarge", "b", 430_000), ("g2.2xlarge", "c", 452_000),
        ("g2.2xlarge.spot", "a", 130_000), ("g2.2xlarge.spot", "b", 130_000),
    ]  # fmt: skip
