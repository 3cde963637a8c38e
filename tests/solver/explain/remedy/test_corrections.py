"""Corrections, changes of single nodes and lower requests: each is applied and works, and none is offered where it would not help."""

from __future__ import annotations

from typing import Any

import pytest

from kubestow.models.documents.placement import Remedy
from kubestow.models.kube import quantity
from kubestow.models.kube.pod_requests import pod_request
from kubestow.solver.explain.conflict.placement_question import PlacementQuestion
from kubestow.solver.explain.remedy.apply import applied
from kubestow.solver.explain.remedy.search import find_remedies
from kubestow.solver.rules.remedies import LOWER_REQUEST
from tests import tiny
from tests.objects import node, pod
from tests.solver.explain.questions import within
from tests.solver.explain.remedy.test_search import HOST, ask, messages, spread, unit, webs

NOT_READY = "node.kubernetes.io/not-ready"


def taint(key: str, effect: str = "NoSchedule", value: str | None = None) -> dict[str, Any]:
    return {"key": key, "effect": effect} | ({"value": value} if value else {})


def resources(*requests: dict[str, str], **fields: Any) -> dict[str, Any]:
    """A pending pod with a container for each of the requests."""
    made = pod("x", **fields)
    made["spec"]["containers"] = [{"name": f"c{i}", "resources": {"requests": each, "limits": each}} for i, each in enumerate(requests)]
    return made


def lowered(given: PlacementQuestion) -> list[str]:
    return [way.message for way in ask(given, "NodeResourcesFit") if way.change == "lowerRequest"]


def test_a_request_is_lowered_to_the_largest_that_fits() -> None:
    found = ask(unit([node("a", cpu="2"), node("b", cpu="3"), resources({"cpu": "4"})]), "NodeResourcesFit")
    assert messages(found) == ["request at most 3 CPU instead of 4 in default/x (fits on b)"]
    more = applied(unit([node("a", cpu="2"), node("b", cpu="3"), resources({"cpu": "4"})]), found[0])
    assert [pod_request(each, more.snapshot.gates)["cpu"] for each in more.snapshot.pods] == [3000]


def test_the_container_with_the_largest_request_gives_it_up_and_equal_limits_follow() -> None:
    given = unit([node("a", cpu="4"), resources({"cpu": "5"}, {"cpu": "1"})])
    (way,) = ask(given, "NodeResourcesFit")
    first, second = list(applied(given, way).snapshot.pods[0].spec.containers or ())
    assert first.resources is not None
    assert second.resources is not None
    assert (first.resources.requests, first.resources.limits) == ({"cpu": "3"}, {"cpu": "3"})
    assert second.resources.requests == {"cpu": "1"}


def test_a_request_of_several_pods_is_lowered_for_all_of_them() -> None:
    given = unit([node("a", cpu="3"), *webs(2, cpu="2")])
    assert lowered(given) == ["request at most 1500m CPU instead of 2 in prod/web"]


def test_a_request_is_not_lowered_if_another_resource_is_short_or_little_would_remain() -> None:
    assert lowered(unit([node("a", cpu="3", memory="1Gi"), resources({"cpu": "4", "memory": "2Gi"})])) == []
    assert lowered(unit([node("a", cpu="100m"), resources({"cpu": "4"})])) == []


def test_a_pod_without_room_for_its_smaller_request_elsewhere_names_the_node_that_its_selector_allows() -> None:
    nodes = [node("a", cpu="2", labels={"pool": "x"}), node("b", cpu="3")]
    assert lowered(unit([*nodes, resources({"cpu": "4"}, selector={"pool": "x"})])) == [
        "request at most 2 CPU instead of 4 in default/x (fits on a)"
    ]


def test_a_node_that_becomes_ready_takes_the_pod() -> None:
    down = node("down", taints=[taint(NOT_READY), taint(NOT_READY, "NoExecute")])
    assert messages(ask(unit([down, pod("x", cpu="1")]), "TaintToleration")) == ["wait until down is Ready"]
    full = node("full", cpu="100m", taints=[taint(NOT_READY)])
    assert messages(ask(unit([full, down, pod("x", cpu="1")]), "TaintToleration"))[0] == "wait until down is Ready"
    own = node("own", taints=[taint(NOT_READY), taint("dedicated")])
    assert messages(ask(unit([own, pod("x", cpu="1")]), "TaintToleration")) == [
        "wait until own is Ready; and let default/x tolerate the taint dedicated:NoSchedule"
    ]


@pytest.mark.parametrize(
    ("key", "state"),
    [("unreachable", "is reachable"), ("disk-pressure", "has disk space again"), ("network-unavailable", "has its network")],
)
def test_conditions_of_nodes_in_words(key: str, state: str) -> None:
    down = node("down", taints=[taint(f"node.kubernetes.io/{key}")])
    assert messages(ask(unit([down, pod("x")]), "TaintToleration")) == [f"wait until down {state}"]


def test_only_labels_of_operators_that_no_node_has_are_put_on_nodes() -> None:
    some = [node("a", labels={"pool": "x"}, cpu="100m"), node("b")]
    assert not any("label" in text for text in messages(ask(unit([*some, pod("x", cpu="1", selector={"pool": "x"})]), "NodeAffinity")))
    assert messages(ask(unit([node("b"), pod("x", selector={"pool": "x"})]), "NodeAffinity"))[0] == "label b with pool=x"
    for key, put in {"example.com/pool": True, "node-role.kubernetes.io/infra": True, "topology.kubernetes.io/rack": False}.items():
        found = messages(ask(unit([node("b"), pod("x", selector={key: "x"})]), "NodeAffinity"))
        assert found == [f"label b with {key}=x"] * put + [f"drop {key}=x from the nodeSelector of default/x"]


def test_a_misspelt_label_of_several_is_corrected_in_an_expression() -> None:
    term = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["sdd", "nvem"]}]}
    wanted = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}
    nodes = [node("a", labels={"disk": "ssd"}), node("b", labels={"disk": "nvme"})]
    found = messages(ask(unit([*nodes, pod("x", affinity=wanted)]), "NodeAffinity"))
    assert found[:2] == [
        "write disk=ssd instead of disk=sdd in the required node affinity of default/x",
        "write disk=nvme instead of disk=nvem in the required node affinity of default/x",
    ]


def test_taints_are_honoured_only_if_that_helps() -> None:
    taken = [pod("web-9", namespace="prod", labels={"app": "web"}, owner="StatefulSet/web", node_name="a")]
    given = unit([node("a"), node("b", cpu="100m"), *taken, *webs(1, cpu="1", spread=[spread(1, HOST)])])
    assert not any("Policy" in text for text in messages(ask(given, "PodTopologySpread", "NodeResourcesFit")))


def test_the_pods_of_the_question_stay_as_they_are() -> None:
    given = unit([node("a", cpu="2"), resources({"cpu": "4"})])
    before = given.snapshot.pods[0].spec.containers
    ask(given, "NodeResourcesFit")
    assert given.snapshot.pods[0].spec.containers is before
    assert given.feasible(within(20)) is False


@pytest.mark.parametrize("kind", ["resources", "mixed"])
def test_no_larger_request_than_the_lowered_one_fits(kind: str) -> None:
    lowered_requests = 0
    for seed in range(60):
        given = unit(tiny.snapshot(seed, kind, nodes=3, pods=4))
        if not given.pods or given.feasible(within(20)) is not False:
            continue
        for way in find_remedies(given, ["NodeResourcesFit"], within(60), limit=30):
            if way.change == LOWER_REQUEST and "most" not in way.arguments:
                lowered_requests += 1
                unit_of = quantity.parse("1m") if way.arguments["resource"] == "cpu" else 1
                more = quantity.canonical(quantity.parse(way.arguments["to"]) + unit_of)
                assert applied(given, way).feasible(within(20)) is True, (seed, way)
                assert applied(given, Remedy(way.change, "", way.arguments | {"to": more})).feasible(within(20)) is False, (seed, way)
    assert lowered_requests
