"""DynamicResources as pods come and go: allocated, freed and shared devices; nodes that must provide extended resources by devices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kubestow.models.cluster.cluster import Cluster
from kubestow.models.cluster.compile import compile_cluster
from kubestow.models.kube.objects import pod_key
from kubestow.models.snapshot.scope import select
from kubestow.solver.explain.per_node import explain
from kubestow.solver.rules.base import UNLIMITED_PODS
from kubestow.solver.rules.dynamic_resources.rule import DynamicResources
from tests.devices import asks, claim, compiled, device, device_class, devices, either, exactly, got, published, snapshot, using
from tests.objects import Object, node

FAST = "example.com/gpu"


def class_of(cluster: Cluster, name: str) -> int:
    return next(g for g, cls in enumerate(cluster.classes) for i in cls.pods if pod_key(cluster.snapshot.pods[i]) == f"default/{name}")


def names(rule: DynamicResources, g: int, n: int) -> list[list[str]]:
    return [[rule.state.inventory.devices[pick.device].name for pick in picks] for picks in rule.taken(g, n)]


def rejected(rule: DynamicResources, g: int) -> list[bool]:
    return [bool(each) for each in rule.rejects(g)]


TWO = [node("a"), node("b"), published("sa", devices("0", "1"), of="a"), published("sb", devices("0", "1", "2"), of="b"), device_class()]


def own(*counts: int) -> list[Object]:
    found = [claim(f"c{i}", exactly(count=count), owner=f"p{i}") for i, count in enumerate(counts)]
    return [*found, *(using(f"p{i}", made=[f"c{i}"]) for i in range(len(counts)))]


def test_pods_take_the_first_devices_and_give_back_what_they_have() -> None:
    cluster = compiled(*TWO, *own(1, 1, 1, 2))
    rule = DynamicResources(cluster)
    one, two = class_of(cluster, "p0"), class_of(cluster, "p3")
    assert (rule.room(one).tolist(), rule.room(two).tolist()) == ([2, 3], [1, 1])
    assert (rule.most(one).tolist(), rule.most(two).tolist()) == ([2, 3], [1, 1])
    rule.place(one, 0)
    rule.place(one, 0)
    assert names(rule, one, 0) == [["0"], ["1"]]
    assert (rejected(rule, one), rejected(rule, two)) == ([True, False], [True, False])
    rule.remove(one, 0)
    assert names(rule, one, 0) == [["0"]]
    assert (rejected(rule, one), rejected(rule, two)) == ([False, False], [True, False])
    rule.remove(one, 0)
    assert rule.path() == DynamicResources(cluster).path()
    assert rejected(rule, two) == [False, False]


def test_what_a_node_takes_depends_on_the_order() -> None:
    listed = [device("0", a={"model": "x"}), device("1", a={"model": "y"})]
    picky = claim("c1", exactly(expression='device.attributes["gpu.example.com"].model == "x"'), owner="p1")
    pods = [using("p0", made=["c0"]), using("p1", made=["c1"])]
    cluster = compiled(node("a"), published("s", listed, of="a"), device_class(), claim("c0", exactly(), owner="p0"), picky, *pods)
    any_, only = class_of(cluster, "p0"), class_of(cluster, "p1")
    rule = DynamicResources(cluster)
    rule.place(any_, 0)
    assert rejected(rule, only) == [True]
    rule = DynamicResources(cluster)
    rule.place(only, 0)
    assert rejected(rule, any_) == [False]
    assert rule.order_links() == [[0, 1]]


def test_a_claim_that_pods_share_is_allocated_once_and_ties_them_to_its_node() -> None:
    cluster = compiled(*TWO, claim("s", exactly(count=2)), using("p", "s"), using("q", "s"), *own(1))
    rule = DynamicResources(cluster)
    shared, single = class_of(cluster, "p"), class_of(cluster, "p0")
    assert rule.room(shared).tolist() == [UNLIMITED_PODS, UNLIMITED_PODS]  # the first one takes devices for all
    rule.place(shared, 0)
    rule.place(shared, 0)
    assert names(rule, shared, 0) == [["0", "1"], ["0", "1"]]
    assert (rejected(rule, shared), rejected(rule, single)) == ([False, True], [True, False])
    rule.remove(shared, 0)
    assert rejected(rule, single) == [True, False]
    rule.remove(shared, 0)
    assert (rejected(rule, shared), rejected(rule, single)) == ([False, False], [False, False])


def test_a_shared_claim_of_a_pool_for_many_nodes_serves_those_that_its_slices_choose() -> None:
    zones = [node(name, labels={"zone": zone}) for name, zone in (("a", "x"), ("b", "x"), ("c", "y"))]
    in_x = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["x"]}]}]}
    pools = [published("1", devices("0"), pool="p", nodeSelector=in_x), published("2", devices("0"), pool="q", allNodes=True)]
    for count, want in ((1, [False, False, True]), (2, [False, False, True])):
        cluster = compiled(*zones, *pools, device_class(), claim("s", exactly(count=count)), using("p", "s"), using("q", "s"))
        rule = DynamicResources(cluster)
        rule.place(0, 0)
        assert rejected(rule, 0) == want
    cluster = compiled(*zones, pools[1], device_class(), claim("s", exactly()), using("p", "s"), using("q", "s"))
    rule = DynamicResources(cluster)
    rule.place(0, 0)
    assert rejected(rule, 0) == [False, False, False]


def test_a_pool_of_many_nodes_is_used_up_on_all_of_them() -> None:
    network = published("1", devices("0"), pool="net", allNodes=True)
    cluster = compiled(node("a"), node("b"), network, device_class(), *own(1, 1))
    rule = DynamicResources(cluster)
    rule.place(0, 0)
    assert rejected(rule, 0) == [True, True]


IN_A = {"nodeSelector": {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]}]}}


def test_an_allocated_claim_keeps_its_nodes() -> None:
    cluster = compiled(*TWO, claim("s", exactly(), gets=[got("a", "0")], allocation=IN_A), using("p", "s"), using("q", "s"))
    rule = DynamicResources(cluster)
    assert rejected(rule, 0) == [False, True]
    assert rule.room(0).tolist() == [UNLIMITED_PODS, 0]
    assert not rule.concerned(0)


READY: Object = {"bindingConditions": ["ready"], "bindingFailureConditions": ["failed"]}
LONG_AGO = {**IN_A, "allocationTimestamp": "2020-01-01T00:00:00Z"}


@pytest.mark.parametrize(
    ("conditions", "allocation", "gates", "open_"),
    [
        ({"ready": "True"}, LONG_AGO, {}, True),
        ({"ready": "False"}, LONG_AGO, {}, False),
        ({"ready": "False"}, IN_A, {}, True),
        ({"ready": "True", "failed": "True"}, IN_A, {}, False),
        (None, LONG_AGO, {}, False),
        (None, LONG_AGO, {"DRADeviceBindingConditions": False}, True),
    ],
)
def test_devices_that_have_to_be_bound(conditions: dict[str, str] | None, allocation: Object, gates: dict[str, bool], open_: bool) -> None:
    made = claim("s", exactly(), gets=[got("a", "0", **READY)], allocation=allocation)
    if conditions is not None:
        listed = [{"type": kind, "status": status} for kind, status in conditions.items()]
        made["status"]["devices"] = [{**got("a", "0"), "conditions": listed}]
    cluster = compiled(*TWO, made, using("p", "s"), gates=gates)
    assert rejected(DynamicResources(cluster), 0)[0] is not open_


def extended(name: str, count: int, **more: Any) -> Object:
    found = using(name, **more)
    found["spec"]["containers"][0]["resources"]["requests"][FAST] = str(count)
    return found


def verdicts(*objects: Object, **more: Any) -> dict[str, list[str]]:
    (verdict,) = explain(snapshot(*objects, **more))
    return {**{n: [] for n in verdict.feasible}, **verdict.rejected}


def test_extended_resources_come_from_devices_where_a_node_lists_none() -> None:
    plugin, empty = node("c"), node("d")
    plugin["status"]["allocatable"][FAST], empty["status"]["allocatable"][FAST] = "4", "0"
    objects = [*TWO[:-1], plugin, empty, device_class(extendedResourceName=FAST)]
    fit, dynamic = ["NodeResourcesFit"], ["DynamicResources"]
    assert verdicts(*objects, extended("p", 3)) == {"a": dynamic, "b": [], "c": [], "d": dynamic}
    assert verdicts(*objects, extended("p", 5)) == {"a": dynamic, "b": dynamic, "c": fit, "d": dynamic}
    assert verdicts(*objects, extended("p", 3), gates={"DRAExtendedResource": False}) == {"a": fit, "b": fit, "c": [], "d": fit}
    other = extended("p", 1)
    other["spec"]["containers"][0]["resources"]["requests"]["example.com/other"] = "1"
    both = ["DynamicResources", "NodeResourcesFit"]
    assert verdicts(*objects, other) == {"a": both, "b": both, "c": both, "d": both}


def test_extended_resources_where_no_node_lists_them() -> None:
    cluster = compiled(*TWO[:-1], device_class(extendedResourceName=FAST), extended("p", 2), extended("q", 2))
    assert FAST not in cluster.resources
    rule = DynamicResources(cluster)
    rule.place(0, 0)
    assert names(rule, 0, 0) == [["0", "1"]]
    assert rejected(rule, 0) == [True, False]


def test_pods_that_are_placed_anew_leave_their_devices() -> None:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "r", "controller": True}
    running = using("p", made=["c"], node_name="a")
    running["metadata"]["ownerReferences"] = [owner]
    objects = [*TWO, claim("c", exactly(count=2), owner="p", gets=[got("a", "0"), got("a", "1")], allocation=IN_A), running]
    found = snapshot(*objects, *own(2))
    assert rejected(DynamicResources(compile_cluster(found, select(found))), 0) == [True, False]
    cluster = compile_cluster(found, select(found, from_scratch=True))
    assert all(rejected(DynamicResources(cluster), g) == [False, False] for g in range(cluster.n_classes))


def test_running_pods_that_may_be_moved_have_the_devices_that_they_have() -> None:
    running = using("p", made=["c"], node_name="b")
    found = snapshot(*TWO, claim("c", exactly(), owner="p", gets=[got("b", "2")]), running, *own(1))
    scope = select(found)
    scope.fixed, scope.pending = [], [*scope.fixed, *scope.pending]
    cluster = compile_cluster(found, scope, running={0: 0})
    rule = DynamicResources(cluster)
    g, other = class_of(cluster, "p"), class_of(cluster, "p0")
    rule.place(g, 1)
    rule.place(other, 1)
    assert (names(rule, g, 1), names(rule, other, 1)) == ([["2"]], [["0"]])
    rule.remove(g, 1)
    rule.place(g, 0)
    assert names(rule, g, 0) == [["0"]]


def test_a_restricted_cluster_is_the_same_of_fewer_classes() -> None:
    cluster = compiled(*TWO, *own(1, 3))
    three = class_of(cluster, "p1")
    assert rejected(DynamicResources(cluster.restricted([three])), 0) == rejected(DynamicResources(cluster), three) == [True, False]


def test_nodes_of_one_state_share_the_answer() -> None:
    many = [node(f"n{i}") for i in range(50)]
    slices = [published(f"s{i}", [device(d, a={"uuid": f"{i}-{d}"}) for d in "01"], of=f"n{i}") for i in range(50)]
    cluster = compiled(*many, *slices, device_class("gpu", 'device.driver == "gpu.example.com"'), *own(1, 1))
    rule = DynamicResources(cluster)
    assert len(np.unique(rule.state.states())) == 1
    rule.place(0, 7)
    assert len(np.unique(rule.state.states())) == 2
    assert cluster.devices is not None
    assert len(cluster.devices.inventory.kinds) == 1


def test_alternatives_leave_room_for_later_claims() -> None:
    claims = [claim("c", either("r", asks(count=2), asks()), owner="p"), claim("d", exactly(), owner="p")]
    cluster = compiled(node("a"), published("s", devices("0", "1"), of="a"), device_class(), *claims, using("p", made=["c", "d"]))
    rule = DynamicResources(cluster)
    rule.place(0, 0)
    assert [pick.request for pick in rule.taken(0, 0)[0]] == ["r/s1", "r"]


def test_without_a_library_nothing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    selected = device_class("gpu", 'device.driver == "other"')
    objects = [*TWO[:-1], selected, *own(1)]
    assert verdicts(*objects) == {"a": ["DynamicResources"], "b": ["DynamicResources"]}
    monkeypatch.setattr("kubestow.models.cel.selectors.available", lambda: False)
    assert verdicts(*objects) == {"a": [], "b": []}
