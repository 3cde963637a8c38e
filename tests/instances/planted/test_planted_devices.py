"""Planted devices: the claims of a node's pods take all of its devices and no device twice."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import pytest

from kubestow.models.snapshot.snapshot import from_objects
from tests.instances.planted.planted_devices import FAMILIES, PlantedDevices, planted_devices
from tests.tiers import sampled

Object = dict[str, Any]
SEEDS = range(8)
NODES = 12


def of_kind(made: PlantedDevices, kind: str) -> list[Object]:
    return [item for item in made.objects if item["kind"] == kind]


def published(made: PlantedDevices) -> dict[tuple[str, str], Object]:
    """The devices by node and name."""
    return {(s["spec"]["nodeName"], d["name"]): d for s in of_kind(made, "ResourceSlice") for d in s["spec"].get("devices", ())}


def claims(made: PlantedDevices) -> dict[str, Object]:
    """The claim of each pod that has one, by the pod's key."""
    return {f"train/{c['metadata']['ownerReferences'][0]['name']}": c["spec"]["devices"] for c in of_kind(made, "ResourceClaim")}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("seed", sampled(SEEDS, every=8, full=4))
def test_every_device_is_taken_and_none_twice(family: str, seed: int) -> None:
    made = planted_devices(family, seed, nodes=NODES)
    devices = published(made)
    taken: dict[tuple[str, str], list[int]] = defaultdict(list)
    for pod, node in made.placement.items():
        for name, amount in made.devices[pod]:
            taken[node, name].append(amount)
    counters: Counter[tuple[str, str, str]] = Counter()
    for (node, name), amounts in taken.items():
        device = devices[node, name]
        if device.get("allowMultipleAllocations"):
            assert f"{sum(amounts)}Gi" == device["capacity"]["memory"]["value"]
            continue
        assert len(amounts) == 1
        for use in device.get("consumesCounters", ()):
            for counter, amount in use["counters"].items():
                counters[node, use["counterSet"], counter] += int(amount["value"].removesuffix("Gi"))
    for item in of_kind(made, "ResourceSlice"):
        for set_ in item["spec"].get("sharedCounters", ()):
            most = {name: int(value["value"].removesuffix("Gi")) for name, value in set_["counters"].items()}
            assert counters[item["spec"]["nodeName"], set_["name"], "compute"] == most["compute"]
            assert counters[item["spec"]["nodeName"], set_["name"], "memory"] <= most["memory"]
    assert {key for key, device in devices.items() if "consumesCounters" not in device} <= set(taken)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("seed", sampled(SEEDS, every=8, full=4))
def test_the_devices_are_what_the_claims_ask_for(family: str, seed: int) -> None:
    made = planted_devices(family, seed, nodes=NODES)
    devices = published(made)
    asked = claims(made)
    for pod, node in made.placement.items():
        mine = [devices[node, name] for name, _ in made.devices[pod]]
        if pod not in asked:
            assert not mine
            continue
        wanted = sum(request["exactly"]["count"] for request in asked[pod]["requests"])
        assert len({device["name"] for device in mine}) == wanted
        for constraint in asked[pod].get("constraints", ()):
            assert len({str(device["attributes"][constraint["matchAttribute"].split("/")[1]]) for device in mine}) == 1
        for request in asked[pod]["requests"]:
            for selector in request["exactly"].get("selectors", ()):
                value = selector["cel"]["expression"].split('"')[-2]
                fitting = [d for d in mine if {"string": value} in d["attributes"].values()]
                assert len(fitting) >= request["exactly"]["count"]


def test_the_fullest_node_has_no_cpu_to_spare() -> None:
    made = planted_devices("mixed", 1, nodes=NODES)
    requested: Counter[str] = Counter()
    for pod in of_kind(made, "Pod"):
        key = f"train/{pod['metadata']['name']}"
        requested[made.placement[key]] += int(pod["spec"]["containers"][0]["resources"]["requests"]["cpu"].removesuffix("m"))
    for node in of_kind(made, "Node"):
        assert f"{max(requested.values())}m" == node["status"]["allocatable"]["cpu"]


def test_a_seed_makes_the_same_objects_and_another_one_others() -> None:
    assert planted_devices("groups", 3, nodes=4).objects == planted_devices("groups", 3, nodes=4).objects
    assert planted_devices("groups", 3, nodes=4).objects != planted_devices("groups", 4, nodes=4).objects


@pytest.mark.parametrize("family", FAMILIES)
def test_the_objects_are_what_an_api_server_would_take(family: str) -> None:
    snapshot = from_objects(planted_devices(family, 0, nodes=4).objects)
    assert snapshot.warnings == []
    assert snapshot.ignored == {}
