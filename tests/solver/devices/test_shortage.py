"""The missing devices of nodes, in words."""

from __future__ import annotations

from typing import Any

import pytest

from kubestow.models.snapshot.snapshot import from_objects
from kubestow.solver.explain.per_node import explain
from tests.objects import Object, node, pod

ONE: Object = {"name": "gpu", "exactly": {"deviceClassName": "gpu"}}


def device_class(name: str, expression: str = "true") -> Object:
    spec = {"selectors": [{"cel": {"expression": expression}}]}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": name}, "spec": spec}


def published(of_node: str, *devices: Object) -> Object:
    pool = {"name": of_node, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "d.example.com", "nodeName": of_node, "pool": pool, "devices": list(devices)}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": of_node}, "spec": spec}


def device(name: str, **more: Any) -> Object:
    return {"name": name, **more}


def linked(name: str, link: str) -> Object:
    return device(name, attributes={"d.example.com/link": {"string": link}})


def claim(*requests: Object, constraints: list[Object] | None = None, name: str = "c", status: Object | None = None) -> Object:
    spec = {"devices": {"requests": list(requests), **({"constraints": constraints} if constraints else {})}}
    found = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": name, "namespace": "default"}, "spec": spec}
    return {**found, **({"status": status} if status else {})}


def gpus(count: int, **more: Any) -> Object:
    return {"name": "gpu", "exactly": {"deviceClassName": "gpu", "count": count, **more}}


def in_use(name: str, at: str, name_of_claim: str = "taken") -> Object:
    result = {"request": "gpu", "driver": "d.example.com", "pool": at, "device": name}
    return claim(ONE, name=name_of_claim, status={"allocation": {"devices": {"results": [result]}}})


def said(*things: Object, wanted: Object) -> str:
    asking = pod("p", resourceClaims=[{"name": "c", "resourceClaimName": "c"}])
    snapshot = from_objects([node("n1"), node("n2"), device_class("gpu"), device_class("bad", "device.foo"), asking, wanted, *things])
    (verdict,) = explain(snapshot)
    return verdict.messages.get("DynamicResources", "")


LINK = [{"matchAttribute": "d.example.com/link"}]


@pytest.mark.parametrize(
    ("slices", "wanted", "words"),
    [
        ([published("n1", device("a"))], claim(gpus(1)), "1 gpu asked for: no devices on n2"),
        ([published("n1", device("a"))], claim(gpus(2)), "2 gpu asked for: only 1 matches on n1, no devices on n2"),
        (
            [published("n1", device("a"), device("b")), in_use("a", "n1"), published("n2", device("a"))],
            claim(gpus(2)),
            "2 gpu asked for: 1 of 2 free on n1, only 1 matches on n2",
        ),
        (
            [published("n1", device("a", taints=[{"key": "k", "effect": "NoSchedule"}]))],
            claim(gpus(1)),
            "1 gpu asked for: 0 of 1 that match may be taken on n1, no devices on n2",
        ),
        (
            [published("n1", device("a"))],
            claim(gpus(1, selectors=[{"cel": {"expression": 'device.driver == "x"'}}])),
            "1 gpu asked for: none matches on n1, no devices on n2",
        ),
        (
            [published("n1", linked("a", "x"), linked("b", "x"), linked("c", "y"))],
            claim(gpus(3), constraints=LINK),
            "3 gpu of one d.example.com/link asked for: at most 2 of the 3 free on n1, no devices on n2",
        ),
        (
            [published("n1", linked("a", "x"), linked("b", "y"))],
            claim({**gpus(1), "name": "r"}, {**gpus(1), "name": "s"}, constraints=LINK),
            "1 gpu of one d.example.com/link, 1 gpu of one d.example.com/link asked for: not free together under the constraints on n1",
        ),
    ],
)
def test_each_kind_of_node_is_told_with_its_number_or_name(slices: list[Object], wanted: Object, words: str) -> None:
    assert said(*slices, wanted=wanted).startswith(words)


def test_what_keeps_a_pod_from_all_nodes_is_told_as_it_is() -> None:
    asking = pod("p", resourceClaims=[{"name": "c", "resourceClaimName": "gone"}])
    (verdict,) = explain(from_objects([node("n1"), asking]))
    assert verdict.messages == {"DynamicResources": "claim default/gone does not exist"}


def test_a_claim_that_is_allocated_elsewhere_is_named() -> None:
    at = {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]}
    wanted = claim(ONE, status={"allocation": {"devices": {"results": []}, "nodeSelector": at}})
    assert said(wanted=wanted) == "claim default/c is allocated elsewhere, or not ready: 1 node"


def test_the_error_of_a_selector_is_told() -> None:
    assert "foo" in said(published("n1", device("a")), wanted=claim({"name": "r", "exactly": {"deviceClassName": "bad"}}))


def test_a_pool_that_yields_nothing_is_told() -> None:
    lacking = device("a", consumesCounters=[{"counterSet": "nope", "counters": {"m": {"value": "1"}}}])
    assert "pool n1 of d.example.com is invalid" in said(published("n1", lacking), wanted=claim(gpus(1)))


def test_long_errors_are_cut() -> None:
    wanted = claim(gpus(1, selectors=[{"cel": {"expression": "device.driver =="}}]))
    assert len(said(published("n1", device("a")), wanted=wanted)) < 250
