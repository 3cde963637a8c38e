"""Which devices nodes see: relevance, generations, completeness, validity, and the order of the search."""

from __future__ import annotations

from typing import Any

import pytest

from kubestow.models.devices.read import inventory
from kubestow.models.kube.selectors import NodeColumns
from tests.devices import claim, device, devices, got, published, snapshot
from tests.objects import Object, node

SETS = [{"name": "gpu", "counters": {"slots": {"value": "4"}}}]
#: Takes 2 of 4 slots.
HALF = {"consumesCounters": [{"counterSet": "gpu", "counters": {"slots": {"value": "2"}}}]}


def seen(*objects: Object, version: str = "1.36", gates: dict[str, bool] | None = None) -> dict[str, list[str]]:
    """Return the devices that each node sees, as ``pool/device``."""
    found = snapshot(*objects, version=version, gates=gates)
    nodes = NodeColumns(found.nodes)
    what = inventory(found, nodes)
    names = {n: [f"{what.devices[i].pool}/{what.devices[i].name}" for i in what.visible(n).tolist()] for n in range(nodes.size)}
    return {nodes.names[n]: listed for n, listed in names.items()}


def broken(*objects: Object, **more: Any) -> list[str | None]:
    found = snapshot(*objects, **more)
    what = inventory(found, NodeColumns(found.nodes))
    return [next((what.views[v].broken for v in what.site(n).views if what.views[v].broken), None) for n in range(len(found.nodes))]


NODES = [node("a", labels={"zone": "x"}), node("b", labels={"zone": "y"})]
IN_X = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["x"]}]}]}


def test_devices_of_a_node_of_chosen_nodes_and_of_all() -> None:
    own, chosen, everywhere = (
        published("1", devices("d"), of="a"),
        published("2", devices("d"), pool="p", nodeSelector=IN_X),
        published("3", devices("d"), pool="net", allNodes=True),
    )
    assert seen(*NODES, own, chosen, everywhere) == {"a": ["a/d", "net/d", "p/d"], "b": ["net/d"]}


def test_devices_may_choose_their_nodes_one_by_one() -> None:
    listed = [device("1", nodeName="a"), device("2", nodeSelector=IN_X), device("3", allNodes=True)]
    of_each = published("s", listed, pool="p", perDeviceNodeSelection=True)
    assert seen(*NODES, of_each) == {"a": ["p/1", "p/2", "p/3"], "b": ["p/3"]}
    assert seen(*NODES, of_each, gates={"DRAPartitionableDevices": False}) == {"a": [], "b": []}


def test_pools_by_name_those_that_wait_for_conditions_last_and_slices_by_name() -> None:
    late = published("0", [device("d", bindingConditions=["ready"])], pool="0", allNodes=True)
    second = published("2", devices("z"), pool="q", slices=2, allNodes=True)
    first = published("1", devices("y", "x"), pool="q", slices=2, allNodes=True)
    plain = published("9", devices("d"), pool="b", allNodes=True)
    assert seen(node("a"), second, late, first, plain) == {"a": ["b/d", "q/y", "q/x", "q/z", "0/d"]}


def test_the_newest_generation_counts_and_a_pool_that_is_being_replaced_vanishes() -> None:
    old, new = published("1", devices("old"), of="a"), published("2", devices("new"), of="a", generation=2)
    assert seen(node("a"), old, new) == {"a": ["a/new"]}
    elsewhere = published("3", devices("new"), of="b", pool="a", generation=2)
    assert seen(*NODES, {**old, "spec": {**old["spec"], "pool": {"name": "a", "generation": 1, "resourceSliceCount": 2}}}, elsewhere) == {
        "a": [],
        "b": ["a/new"],
    }


def test_an_incomplete_pool_has_no_devices_since_1_35() -> None:
    part = published("1", devices("d"), of="a", slices=2)
    assert seen(node("a"), part) == {"a": []}
    assert broken(node("a"), part) == [f"pool a of {part['spec']['driver']} is incomplete: 1 of 2 slices"]
    assert seen(node("a"), part, version="1.34") == {"a": ["a/d"]}
    assert broken(node("a"), part, version="1.34") != [None]
    assert seen(*NODES, part, published("2", devices("e"), of="b", pool="a", slices=2)) == {"a": ["a/d"], "b": ["a/e"]}


@pytest.mark.parametrize(
    ("listed", "sets", "reason"),
    [
        (devices("d", "d"), SETS, "two devices d"),
        (devices("d"), SETS * 2, "two counter sets gpu"),
        ([device("d", consumesCounters=[{"counterSet": "other", "counters": {}}])], SETS, "consumes counters of other"),
        ([device("d", consumesCounters=[{"counterSet": "gpu", "counters": {"more": {"value": "1"}}}])], SETS, "consumes counter more"),
    ],
)
def test_an_invalid_pool_has_no_devices(listed: list[Object], sets: list[Object], reason: str) -> None:
    objects = [node("a"), published("1", listed, of="a", slices=2), published("2", pool="a", of="a", slices=2, sharedCounters=sets)]
    assert seen(*objects) == {"a": []}
    (text,) = broken(*objects)
    assert text is not None
    assert reason in text


def test_an_invalid_slice_for_another_node_spoils_its_pool_for_all() -> None:
    wrong = [device("d", consumesCounters=[{"counterSet": "none", "counters": {}}])]
    pool: dict[str, Any] = {"pool": "p", "slices": 2}
    assert seen(*NODES, published("1", devices("d"), of="a", **pool), published("2", wrong, of="b", **pool)) == {"a": [], "b": []}


def test_two_drivers_may_have_pools_of_one_name() -> None:
    other = published("2", devices("d"), of="a")
    other["spec"]["driver"] = "other.example.com"
    counters = published("3", pool="a", of="a", slices=2, sharedCounters=SETS)
    objects = [node("a"), published("1", [device("d", **HALF)], of="a", slices=2), counters, other]
    assert seen(*objects) == {"a": ["a/d", "a/d"]}
    found = snapshot(*objects, claim("c", gets=[{**got("a", "d"), "driver": "other.example.com"}]))
    what = inventory(found, NodeColumns(found.nodes))
    assert what.books.left == [4]  # it used no counters of the other driver


def test_allocated_devices_take_counters_wherever_they_serve() -> None:
    pool: dict[str, Any] = {"pool": "p", "slices": 3}
    here, there = published("1", [device("d", **HALF)], of="a", **pool), published("2", [device("e", **HALF)], of="b", **pool)
    counters = published("3", allNodes=True, sharedCounters=SETS, **pool)
    for gets, remaining in (([], 4), ([got("p", "e")], 2), ([got("p", "gone")], 4), ([got("p", "e", adminAccess=True)], 4)):
        found = snapshot(*NODES, here, there, counters, claim("c", gets=gets))
        assert inventory(found, NodeColumns(found.nodes)).books.left == [remaining]


def test_nodes_that_see_the_same_share_a_site() -> None:
    found = snapshot(*NODES, published("1", devices("d"), pool="net", allNodes=True))
    assert len(inventory(found, NodeColumns(found.nodes)).sites) == 1


def test_rules_taint_the_devices_that_they_choose() -> None:
    taint = {"key": "broken", "effect": "NoSchedule"}
    rule = {
        "apiVersion": "resource.k8s.io/v1beta2", "kind": "DeviceTaintRule", "metadata": {"name": "r"},
        "spec": {"taint": taint, "deviceSelector": {"device": "e"}},
    }  # fmt: skip
    for gates, want in (({"DRADeviceTaintRules": True}, [False, True]), ({}, [False, False])):
        found = snapshot(node("a"), published("1", devices("d", "e"), of="a"), rule, gates=gates)
        what = inventory(found, NodeColumns(found.nodes))
        assert [bool(what.kind(i).taints) for i in what.visible(0).tolist()] == want
