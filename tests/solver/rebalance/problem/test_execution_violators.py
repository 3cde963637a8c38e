"""Who has to go where a rule that holds during execution is broken."""

from __future__ import annotations

from typing import Any

import pytest

from kubestow.models.snapshot.snapshot import from_objects
from kubestow.solver.rebalance.problem.execution_violators import violators
from tests.objects import node, pod
from tests.solver.rebalance.problem.test_problem import HOST, apart, near

Object = dict[str, Any]
DURING = "Required"


def _named(*objects: Object) -> set[str]:
    snapshot = from_objects(objects)
    return {snapshot.pods[i].metadata.name or "" for i in violators(snapshot)}


def _pod(name: str, at: str = "n0", **more: Any) -> Object:
    return pod(name, node_name=at, labels={"app": name[0]}, **more)


def _leaving(thing: Object) -> Object:
    thing["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return thing


NODES = [node("n0", labels={"zone": "z", "disk": "hdd"}), node("n1", labels={"zone": "z", "disk": "ssd"}), node("n2", labels={"zone": "y"})]


@pytest.mark.parametrize(
    ("mine", "other", "going"),
    [(0, 0, {"a"}), (0, 5, {"a"}), (5, 0, {"b"}), (None, None, {"a"}), (None, -1, {"b"})],
)
def test_of_pods_that_keep_apart_the_owner_of_the_rule_goes_or_the_lower(mine: int | None, other: int | None, going: set[str]) -> None:
    assert _named(*NODES, _pod("a", affinity=apart("b", during=DURING), priority=mine), _pod("b", priority=other)) == going


def test_of_two_with_the_rule_both_may_go() -> None:
    assert _named(*NODES, *(_pod(name, affinity=apart("a", during=DURING)) for name in ("a1", "a2"))) == {"a1", "a2"}


def test_rules_that_hold_when_pods_come_only_make_nobody_go() -> None:
    assert _named(*NODES, _pod("a", affinity=apart("b")), _pod("b"), _pod("c", affinity=near("x"))) == set()


@pytest.mark.parametrize(("at", "key", "going"), [("n1", HOST, set()), ("n1", "zone", {"a"}), ("n2", "zone", set()), ("n0", "rack", set())])
def test_pods_in_different_domains_are_apart(at: str, key: str, going: set[str]) -> None:
    assert _named(*NODES, _pod("a", affinity=apart("b", key, DURING)), _pod("b", at)) == going


def test_namespaces_of_a_term() -> None:
    other = pod("b", node_name="n0", labels={"app": "b"}, namespace="other")
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other", "labels": {"team": "x"}}}
    for requested, going in (
        ({}, set()),
        ({"namespaces": ["other"]}, {"a"}),
        ({"namespaces": ["third"]}, set()),
        ({"namespaceSelector": {}}, {"a"}),
        ({"namespaceSelector": {"matchLabels": {"team": "x"}}}, {"a"}),
        ({"namespaceSelector": {"matchLabels": {"team": "y"}}}, set()),
    ):
        rule = apart("b", during=DURING)
        rule["podAntiAffinity"]["requiredDuringSchedulingRequiredDuringExecution"][0] |= requested
        assert _named(*NODES, space, _pod("a", affinity=rule), other) == going, requested


@pytest.mark.parametrize(
    ("others", "going"),
    [([], {"a"}), ([("b", "n0")], set()), ([("b", "n1")], set()), ([("b", "n2")], {"a"}), ([("c", "n0")], {"a"})],
)
def test_who_misses_others_goes(others: list[tuple[str, str]], going: set[str]) -> None:
    assert _named(*NODES, _pod("a", affinity=near("b", "zone", DURING)), *(_pod(*other) for other in others)) == going


def test_who_wants_its_own_kind_and_is_the_only_one_stays() -> None:
    own = near("a", "zone", DURING)
    assert _named(*NODES, _pod("a1", affinity=own)) == set()
    assert _named(*NODES, _pod("a1", affinity=own), _pod("a2", "n2", affinity=own)) == {"a1", "a2"}
    assert _named(*NODES, _pod("a1", affinity=own), _pod("a2", "n1", affinity=own)) == set()
    assert _named(node("n0"), _pod("a1", affinity=own)) == {"a1"}  # its node lacks the key


def test_who_would_be_let_in_again_stays() -> None:
    """Nobody matches all of its terms but itself: the filter takes it for the first of its kind, wherever the others are."""
    rule = near("a", "zone", DURING)
    rule["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] = [
        {"topologyKey": "zone", "labelSelector": {"matchLabels": {"team": "x"}}}
    ]
    alone = _pod("a1", affinity=rule)
    alone["metadata"]["labels"]["team"] = "x"
    assert _named(*NODES, alone, _pod("a2", "n2")) == set()
    other = _pod("a2", "n2")
    other["metadata"]["labels"]["team"] = "x"
    assert _named(*NODES, alone, other) == {"a1"}


def test_who_is_on_a_node_that_its_affinity_does_not_take_goes() -> None:
    terms = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}]}
    for variant, going in (("Required", {"a"}), ("Ignored", set[str]())):
        rule = {"nodeAffinity": {f"requiredDuringScheduling{variant}DuringExecution": terms}}
        assert _named(*NODES, _pod("a", "n0", affinity=rule), _pod("b", "n1", affinity=rule)) == going


def test_who_leaves_anyway_or_is_over_or_waits_is_no_culprit() -> None:
    rule = apart("b", during=DURING)
    assert _named(*NODES, _leaving(_pod("a", affinity=rule)), _pod("b")) == set()
    assert _named(*NODES, _pod("a", affinity=rule, priority=5), _leaving(_pod("b", priority=0))) == set()
    over = _pod("b")
    over["status"]["phase"] = "Failed"
    assert _named(*NODES, _pod("a", affinity=rule), over) == set()
    assert _named(*NODES, pod("a", affinity=rule), _pod("b")) == set()
