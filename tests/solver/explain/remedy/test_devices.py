"""Remedies for pods that lack devices: each is applied, and the pods can be placed then."""

from __future__ import annotations

import pytest

from kubestow.models.snapshot.snapshot import from_objects
from kubestow.solver.runtime.options import Options
from kubestow.solver.solve import place
from tests.objects import Object, node, pod
from tests.solver.devices.test_shortage import LINK, claim, device, device_class, gpus, in_use, linked, published
from tests.solver.explain.remedy.test_search import ask, unit

TAINT = {"key": "k", "value": "v", "effect": "NoSchedule"}


def asking(name: str = "p", of: str = "c", priority: int = 10) -> Object:
    made = pod(name, priority=priority, resourceClaims=[{"name": "gpus", "resourceClaimName": of}])
    made["metadata"]["uid"] = f"uid-{name}"
    return made


def holding(name: str, of: str, at: str = "n1") -> Object:
    made = asking(name, of, 0)
    made["spec"]["nodeName"] = at
    made["status"] = {"phase": "Running"}
    return made


CELL = [{"cel": {"expression": 'device.driver == "x"'}}]


@pytest.mark.parametrize(
    ("things", "expected"),
    [
        (
            [published("n1", *(device(name) for name in "abc")), claim(gpus(5))],
            {"lowerDeviceCount": {"workload": "Pod default/p", "claim": "gpus", "request": "gpu", "from": "5", "to": "3"}},
        ),
        (
            [published("n1", linked("a", "x"), linked("b", "y")), claim(gpus(2), constraints=LINK)],
            {
                "lowerDeviceCount": {"workload": "Pod default/p", "claim": "gpus", "request": "gpu", "from": "2", "to": "1"},
                "dropDeviceConstraint": {
                    "workload": "Pod default/p",
                    "claim": "gpus",
                    "constraint": '{"matchAttribute":"d.example.com/link"}',
                },
            },
        ),
        (
            [published("n1", device("a")), claim(gpus(1, selectors=CELL))],
            {
                "dropDeviceSelector": {
                    "workload": "Pod default/p",
                    "claim": "gpus",
                    "request": "gpu",
                    "expression": 'device.driver == "x"',
                }
            },
        ),
        (
            [published("n1", device("a", taints=[TAINT])), claim(gpus(1))],
            {
                "tolerateDeviceTaint": {
                    "workload": "Pod default/p",
                    "claim": "gpus",
                    "request": "gpu",
                    "key": "k",
                    "effect": "NoSchedule",
                    "value": "v",
                }
            },
        ),
    ],
)
def test_a_claim_may_ask_for_less(things: list[Object], expected: dict[str, dict[str, str]]) -> None:
    found = ask(unit([node("n1"), device_class("gpu"), asking(), *things]), "DynamicResources")
    assert {way.change: dict(way.arguments) for way in found} == expected


def test_whoever_has_devices_may_leave_and_they_come_free() -> None:
    """The one that has a device on the node; another one that shares its claim keeps it."""
    allocated = in_use("a", "n1")
    allocated["status"]["reservedFor"] = [{"resource": "pods", "name": "old", "uid": "uid-old"}]
    common = in_use("b", "n1", "common")
    common["status"]["reservedFor"] = [{"resource": "pods", "name": name, "uid": f"uid-{name}"} for name in ("x", "y")]
    things = [published("n1", device("a"), device("b")), allocated, common, claim(gpus(1)), holding("old", "taken")]
    given = unit([node("n1"), device_class("gpu"), asking(), *things, holding("x", "common"), holding("y", "common")])
    found = {way.change: way.arguments["pods"] for way in ask(given, "DynamicResources") if way.change == "evict"}
    assert found == {"evict": "default/old"}


def test_pods_that_are_placed_keep_their_devices_from_those_that_are_left() -> None:
    """A remedy that counted on devices of placed pods would be none."""
    things = [published("n1", device("a"), device("b"), device("c")), claim(gpus(2)), claim(gpus(2), name="d")]
    result = place(from_objects([node("n1"), device_class("gpu"), asking(), asking("q", "d"), *things]), Options(time_limit=20.0))
    assert [entry.pod for entry in result.unplaced] == ["default/p" if result.assignments[0].pod == "default/q" else "default/q"]
    (cause,) = result.causes
    assert [(way.change, way.arguments.get("to")) for way in cause.waysOut] == [("addNodes", None), ("lowerDeviceCount", "1")]
    assert [each.device for each in result.assignments[0].devices] == ["a", "b"]
