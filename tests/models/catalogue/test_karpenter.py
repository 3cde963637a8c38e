"""Instance types of Karpenter's kwok provider as shapes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kubestow.models.catalogue.catalogue import Catalogue, read
from kubestow.models.snapshot.snapshot import InputError

_INSTANCE = Path(__file__).parents[3] / "instances" / "karpenter-instance-types.json"


def offering(price: Any = 0.1, kind: str = "on-demand", zone: str = "a", **more: Any) -> dict[str, Any]:
    requirements = [
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": [kind]},
        {"key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone]},
    ]
    return {"Price": price, "Available": True, "Requirements": requirements, **more}


def instance_type(*offerings: dict[str, Any], **fields: Any) -> dict[str, Any]:
    found: dict[str, Any] = {
        "name": "t",
        "architecture": "amd64",
        "operatingSystems": ["linux"],
        "resources": {"cpu": "4", "memory": "16Gi", "pods": "58"},
    }
    found |= {"offerings": list(offerings) or [offering()], **fields}
    return {key: value for key, value in found.items() if value is not None}


def reading(tmp_path: Path, *types: Any) -> Catalogue:
    file = tmp_path / "types.json"
    file.write_text(json.dumps(types))
    return read(str(file))


def problem(tmp_path: Path, *types: Any) -> str:
    with pytest.raises(InputError) as raised:
        reading(tmp_path, *types)
    [found] = raised.value.problems
    return found.removeprefix(f"{tmp_path / 'types.json'}: ")


def test_spot_offerings_are_a_shape_of_their_own() -> None:
    found = read(str(_INSTANCE))
    assert list(found.shapes) == ["s-4x-amd64-linux", "s-4x-amd64-linux.spot", "m-16x-arm64-linux"]
    assert found.spot == {"s-4x-amd64-linux.spot"}
    assert [(offer.shape.name, offer.zone, offer.cost) for offer in found.offers] == [
        ("s-4x-amd64-linux", "a", 117_180), ("s-4x-amd64-linux", "b", 117_180), ("s-4x-amd64-linux.spot", "a", 81_900),
        ("m-16x-arm64-linux", "a", 537_400), ("m-16x-arm64-linux", "b", 537_400),
    ]  # fmt: skip
    assert found.shapes["s-4x-amd64-linux.spot"].labels == {
        "node.kubernetes.io/instance-type": "s-4x-amd64-linux", "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux",
        "karpenter.sh/capacity-type": "spot",
    }  # fmt: skip


def test_what_is_left_out_is_counted() -> None:
    assert read(str(_INSTANCE)).notes == (
        "1 offering not available is left out of the catalogue",
        "1 instance type of windows is left out of the catalogue, which is of linux",
    )


def test_the_kubelet_keeps_what_the_provider_takes_off(tmp_path: Path) -> None:
    shape = reading(tmp_path, instance_type()).shapes["t"]
    assert shape.allocatable == {"cpu": "3900m", "memory": "16374Mi", "pods": "58"}
    assert shape.capacity == {"cpu": "4", "memory": "16Gi", "pods": "58"}


def test_a_machine_takes_110_pods_unless_it_says_otherwise(tmp_path: Path) -> None:
    found = reading(tmp_path, instance_type(resources={"cpu": "50m", "memory": "1Mi"})).shapes["t"]
    assert found.allocatable == {"cpu": "0", "memory": "0Mi", "pods": 110}


def test_the_older_form_of_offerings_is_read(tmp_path: Path) -> None:
    old = [{"capacityType": kind, "zone": "a", "price": price} for kind, price in (("on-demand", 1.624), ("spot", 0.5))]
    found = reading(tmp_path, instance_type(*old))
    assert [(offer.shape.name, offer.zone, offer.cost) for offer in found.offers] == [("t", "a", 1_624_000), ("t.spot", "a", 500_000)]


def test_of_two_offerings_for_the_same_the_cheaper_counts(tmp_path: Path) -> None:
    found = reading(tmp_path, instance_type(offering(0.3), offering(0.2), offering(0.25)))
    assert [offer.cost for offer in found.offers] == [200_000]


def test_what_is_not_read_is_said(tmp_path: Path) -> None:
    zone_id = {"key": "topology.example.com/zone-id", "operator": "In", "values": ["z1"]}
    one = offering(CapacityOverride={"cpu": "1"})
    one["Requirements"].append(zone_id)
    found = reading(tmp_path, instance_type(one, offering(kind="reserved"), color="blue"))
    assert found.notes == (
        "1 offering of capacity type reserved is left out of the catalogue",
        "not read of the catalogue: color, requirements of topology.example.com/zone-id, CapacityOverride",
    )


@pytest.mark.parametrize(
    ("given", "line"),
    [
        (instance_type(name=None), "[0]: name: missing, expected its name"),
        (instance_type(architecture=None), "instance type 't': architecture: missing, expected its architecture, such as amd64"),
        (instance_type(resources=None), "instance type 't': resources: missing, expected the machine's resources"),
        (instance_type(offerings={}), "instance type 't': offerings: got an object, expected a list of offerings"),
        (instance_type(offering(-1)), "instance type 't': offerings[0]: got -1, expected a number within 0..1000000"),
        (instance_type(offering("x")), "instance type 't': offerings[0]: got 'x', expected a number within 0..1000000"),
        (instance_type(offering([])), "instance type 't': offerings[0]: Price: got a list, expected a number"),
        (instance_type({"zone": "a"}), "instance type 't': offerings[0]: Price: missing, expected the price of a node per hour"),
        (instance_type({"price": 1}), "instance type 't': offerings[0]: zone: missing, expected the zone of the offering"),
        (instance_type(offering(zone="a b")), "shape 't': zones: got 'a b', expected a label value"),
        (
            instance_type(offering(Requirements=[{"key": "topology.kubernetes.io/zone", "operator": "NotIn", "values": ["a"]}])),
            "instance type 't': offerings[0]: requirement topology.kubernetes.io/zone: got NotIn a list, expected In and one value",
        ),
        (instance_type(resources={"cpu": "4x", "memory": "1Gi"}), "shape 't': allocatable[cpu]: '4x' is not a quantity"),
        (instance_type(offering(Available=False)), "no instance type has an available offering, expected at least one"),
        (3, "[0]: name: missing, expected its name"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, given: Any, line: str) -> None:
    with pytest.raises(InputError) as raised:
        reading(tmp_path, given)
    assert raised.value.problems[0].removeprefix(f"{tmp_path / 'types.json'}: ").startswith(line)


def test_a_type_that_is_given_twice_is_refused(tmp_path: Path) -> None:
    assert problem(tmp_path, instance_type(), instance_type()) == "shape 't': is given twice, expected each name once"
