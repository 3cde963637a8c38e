"""Pods that others have asked to be evicted: they are not evicted a second time, and it is said who asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kubestow.live.api.answers import Object
from kubestow.live.apply.run import RunListener
from kubestow.models.disruption.eviction_requests import notes, of_uid, requested
from kubestow.models.snapshot.snapshot import from_objects
from tests.live.apply.drift_cluster import DriftCluster, move, plan, running, verdict
from tests.live.apply.fake_cluster import nodes
from tests.live.apply.small_cluster import SmallCluster
from tests.live.apply.small_cluster import plan as steps
from tests.live.apply.small_cluster import running as stands
from tests.live.apply.test_run import Run, sent
from tests.objects import node

WHO = "EvictionRequest default/r of example.com/drainer"


def request(pod: str, uid: str = "", *, intent: str = "Eviction", over: str = "") -> Object:
    spec = {"target": {"pod": {"name": pod, "uid": uid}}, "requester": "example.com/drainer", "intent": intent}
    status = {"conditions": [{"type": over, "status": "True"}]} if over else {}
    found: Object = {"apiVersion": "lifecycle.k8s.io/v1alpha1", "kind": "EvictionRequest", "spec": spec, "status": status}
    found["metadata"] = {"name": "r", "namespace": "default"}
    return found


def _world(*more: Any) -> DriftCluster:
    return DriftCluster(
        [
            *(node(name) for name in ("n1", "n2", "n3")),
            running("web-1", "n1", "ReplicaSet/web"),
            running("low-1", "n2", "ReplicaSet/low"),
            *more,
        ]
    )


PLAN = plan(move("web-1", "n1", "n2"))


def test_a_request_for_a_pod_of_a_coming_step_ends_the_run() -> None:
    now = _world(request("web-1", "Pod.default.web-1"))
    assert verdict(_world(), now, PLAN).faults == [f"Pod default/web-1 of a coming step is to be evicted by others: {WHO} asks for it"]
    assert verdict(now, now, PLAN).faults != []  # a plan that was made without looking at it


def test_a_request_for_another_pod_is_harmless_and_said() -> None:
    now = _world(request("low-1"))
    found = verdict(_world(), now, PLAN)
    assert found.faults == []
    assert [drift.message for drift in found.harmless] == [f"{WHO} asks for the eviction of pod default/low-1"]


def test_requests_that_do_not_count_change_nothing() -> None:
    for each in (
        request("web-1", "earlier"),
        request("web-1", intent="Withdrawn"),
        request("web-1", over="Failed"),
        request("web-1", over="TargetEvicted"),
    ):
        assert verdict(_world(), _world(each), PLAN).faults == []


def test_a_pod_is_not_evicted_twice(tmp_path: Path) -> None:
    """The request comes after the wave was judged."""
    world = SmallCluster(*nodes("n1", "n2"), stands("web-1", "n1"), stands("api-1", "n1", "ReplicaSet/api"))

    class Drainer(RunListener):
        def wave(self, number: int, steps: int) -> None:
            if number == 2:
                world.put(request("api-1", "uid-api-1"))

    outcome = Run(world, steps((1, "web-1", "n1", "n2"), (2, "api-1", "n1", "n2")), tmp_path)(listener=Drainer())
    assert outcome.state == "stopped"
    assert outcome.reasons == [f"pod default/api-1 is to be evicted by others: {WHO} asks for it"]
    assert sent(world, "eviction") == ["web-1"]
    assert world.at("web-new1") == "n2"


def test_a_request_that_is_withdrawn_meanwhile_is_none(tmp_path: Path) -> None:
    world = SmallCluster(*nodes("n1", "n2"), stands("web-1", "n1"))
    world.put(request("web-1", "uid-web-1", intent="Withdrawn"))
    assert Run(world, steps((1, "web-1", "n1", "n2")), tmp_path)().state == "done"
    assert sent(world, "eviction") == ["web-1"]


def test_what_is_said_before_a_run() -> None:
    listed = {"u": request("web-1", "x"), "v": request("low-1", intent="Withdrawn"), "w": request("low-1", over="Failed")}
    assert notes(listed) == [f"pod default/web-1 is to be evicted by others: {WHO} asks for it"]
    assert (of_uid(listed, "x"), of_uid(listed, "y"), of_uid({}, "x")) == (WHO, None, None)


def test_the_first_request_of_a_pod_is_named() -> None:
    second = request("web-1")
    second["metadata"] = {"name": "a", "namespace": "default"}
    snapshot = from_objects([node("n1"), running("web-1", "n1", "ReplicaSet/web"), request("web-1"), second])
    assert {key: found.metadata.name for key, found in requested(snapshot).items()} == {"default/web-1": "a"}
