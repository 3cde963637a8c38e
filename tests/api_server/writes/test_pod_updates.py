"""Tests of the pod updates that the API allows."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api_server import Behaviour, Refused, SimulatedCluster
from tests.objects import node, pod

Object = dict[str, Any]
_GATE = [{"name": "kubestow.dev/placement"}]
_NAME = {"key": "metadata.name", "operator": "In", "values": ["n1"]}
_ZONE = {"key": "zone", "operator": "In", "values": ["a"]}
_DISK = {"key": "disk", "operator": "Exists"}


def _required(*terms: Object) -> Object:
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}}


@pytest.fixture
def world() -> SimulatedCluster:
    found = SimulatedCluster(Behaviour(scheduler="off"))
    two = _required({"matchExpressions": [_ZONE]}, {"matchExpressions": [_DISK]})
    found.load(
        [node("n1"), pod("bound", node_name="n1"), pod("gated", schedulingGates=_GATE, affinity=two), pod("plain", schedulingGates=_GATE)]
    )
    return found


def _toleration(key: str) -> Object:
    return {"key": key, "operator": "Exists", "effect": "NoSchedule"}


def test_tolerations_are_added_and_never_taken(world: SimulatedCluster) -> None:
    world.patch("Pod", "default/bound", {"spec": {"tolerations": [_toleration("a")]}})
    world.patch("Pod", "default/bound", {"spec": {"tolerations": [_toleration("b"), _toleration("a")]}})
    with pytest.raises(Refused, match="existing toleration can not be modified"):
        world.patch("Pod", "default/bound", {"spec": {"tolerations": [_toleration("b")]}})


def test_nothing_else_of_a_bound_pod_changes(world: SimulatedCluster) -> None:
    for spec in ({"nodeSelector": {"a": "b"}}, {"nodeName": "n2"}, {"priority": 7}, {"schedulingGates": _GATE}):
        with pytest.raises(Refused) as refused:
            world.patch("Pod", "default/bound", {"spec": spec})
        assert (refused.value.code, refused.value.reason) == (422, "Invalid")


def test_a_gate_goes_with_an_affinity_that_is_narrowed_in_one_update(world: SimulatedCluster) -> None:
    narrowed = _required({"matchExpressions": [_ZONE], "matchFields": [_NAME]}, {"matchExpressions": [_DISK], "matchFields": [_NAME]})
    world.patch("Pod", "default/gated", {"spec": {"schedulingGates": None, "affinity": narrowed}})
    found = world.get("Pod", "default/gated")
    assert found is not None
    assert "schedulingGates" not in found["spec"]
    assert found["spec"]["affinity"] == narrowed
    with pytest.raises(Refused, match="only deletion is allowed, but found new scheduling gate"):
        world.patch("Pod", "default/gated", {"spec": {"schedulingGates": _GATE}})


def test_a_pod_without_affinity_may_get_any_while_it_is_gated(world: SimulatedCluster) -> None:
    world.patch("Pod", "default/plain", {"spec": {"affinity": _required({"matchFields": [_NAME]}), "schedulingGates": []}})
    with pytest.raises(Refused, match="may not change fields other than"):
        world.patch("Pod", "default/plain", {"spec": {"affinity": None}})


@pytest.mark.parametrize(
    "terms",
    [
        [{"matchExpressions": [_ZONE]}],
        [{"matchExpressions": [_DISK]}, {"matchExpressions": [_DISK]}],
        [{"matchExpressions": [_DISK, _ZONE]}, {"matchExpressions": [_DISK]}],
        [{"matchFields": [_NAME]}, {"matchExpressions": [_DISK]}],
    ],
)
def test_terms_are_not_changed_otherwise(world: SimulatedCluster, terms: list[Object]) -> None:
    with pytest.raises(Refused, match=r"no additions/deletions|only additions are allowed"):
        world.patch("Pod", "default/gated", {"spec": {"affinity": _required(*terms)}})


def test_selectors_only_grow(world: SimulatedCluster) -> None:
    world.patch("Pod", "default/gated", {"spec": {"nodeSelector": {"a": "b"}}})
    world.patch("Pod", "default/gated", {"spec": {"nodeSelector": {"a": "b", "c": "d"}}})
    with pytest.raises(Refused, match=r"only additions to spec\.nodeSelector"):
        world.patch("Pod", "default/gated", {"spec": {"nodeSelector": {"a": "x"}}})


def test_another_uid_is_refused(world: SimulatedCluster) -> None:
    with pytest.raises(Refused, match="field is immutable"):
        world.patch("Pod", "default/plain", {"metadata": {"uid": "another"}})
