"""Tests of injected faults, and of actions at given moments."""

from __future__ import annotations

import http.client
from typing import Any

import pytest

from tests.api_server import Behaviour, Faults, Server, SimulatedCluster
from tests.api_server.client import PODS, Client
from tests.objects import node, pod

_PATH = "/api/v1/nodes/n1"


def _world(**behaviour: Any) -> SimulatedCluster:
    world = SimulatedCluster(Behaviour(scheduler="off", **behaviour))
    world.load([node("n1"), *(pod(f"p{i}") for i in range(4))])
    return world


def _outcome(client: Client, path: str, label: str) -> int:
    try:
        return client.patch(path, {"metadata": {"labels": {label: "x"}}})[0]
    except (ConnectionError, http.client.HTTPException):
        return 0


@pytest.mark.parametrize(
    ("faults", "codes", "done"),
    [
        (Faults(error_before=1.0), {500, 502, 503, 504}, False),
        (Faults(error_after=1.0), {500, 502, 503, 504}, True),
        (Faults(lost_before=1.0), {0}, False),
        (Faults(lost_after=1.0), {0}, True),
        (Faults(throttled=1.0), {429}, False),
    ],
)
def test_requests_fail_before_or_after_they_took_effect(faults: Faults, codes: set[int], done: bool) -> None:
    world = _world(faults=faults)
    with Server(world) as server:
        client = Client(server)
        first = _outcome(client, _PATH, "a")
        assert first in codes
        if first == 429:
            assert client.headers["Retry-After"] == "1"
        found = world.get("Node", "n1")
        assert found is not None
        assert ("a" in found["metadata"]["labels"]) == done
        assert _outcome(client, _PATH, "b") in codes
        assert _outcome(client, _PATH, "c") == 200


def test_the_seed_decides_whatever_the_order_of_requests() -> None:
    def outcomes(order: list[int]) -> dict[int, int]:
        with Server(_world(seed=3, faults=Faults(error_before=0.4, lost_before=0.2))) as server:
            client = Client(server)
            return {i: _outcome(client, f"{PODS}/p{i}", "x") for i in order}

    one = outcomes([0, 1, 2, 3])
    assert outcomes([3, 1, 0, 2]) == one
    assert len(set(one.values())) > 1


def test_watches_end_by_the_seed() -> None:
    world = _world(faults=Faults(watch_events=2))
    with Server(world) as server:
        assert 1 <= len(list(Client(server).watch("/api/v1/pods"))) <= 2


def test_watches_end_when_tests_say_so() -> None:
    world = _world()
    with Server(world) as server:
        events = Client(server).watch("/api/v1/nodes")
        assert next(events)["type"] == "ADDED"
        server.drop_watches()
        assert list(events) == []
        events = Client(server).watch("/api/v1/nodes")
        assert next(events)["type"] == "ADDED"
        server.expire_watches()
        last = list(events)[-1]
    assert (last["type"], last["object"]["code"]) == ("ERROR", 410)


def test_a_share_of_watches_is_gone_at_once() -> None:
    with Server(_world(faults=Faults(gone=1.0, most=1))) as server:
        client = Client(server)
        assert next(client.watch("/api/v1/nodes"))["type"] == "ERROR"
        assert next(client.watch("/api/v1/nodes"))["type"] == "ADDED"


@pytest.mark.parametrize("effect", [True, False])
def test_a_client_dies_at_a_request_and_comes_back(effect: bool) -> None:
    world, killed = _world(), []
    with Server(world) as server:
        client = Client(server)
        server.crash_client_after(2, lambda: killed.append(world.requests), effect=effect)
        assert client.bind("p0", "n1")[0] == 201
        for name in ("p1", "p2"):
            with pytest.raises((ConnectionError, http.client.HTTPException)):
                client.bind(name, "n1")
        assert len(killed) == 1
        assert sorted(world.where()) == ["default/p0", "default/p1"][: 2 if effect else 1]
        assert Client(server, "other").bind("p3", "n1")[0] == 201
        server.revive()
        assert client.bind("p2", "n1")[0] == 201


def test_others_act_at_set_moments() -> None:
    world = _world()
    world.on_request(2, lambda: world.delete("Pod", "default/p1", "someone"))
    world.when(lambda w: "default/p0" in w.where(), lambda: world.create(node("n2"), "someone"))
    with Server(world) as server:
        client = Client(server)
        assert client.bind("p0", "n1")[0] == 201
        assert world.get("Node", "n2") is not None
        assert client.bind("p1", "n1")[0] == 404
        assert client.bind("p2", "n1")[0] == 201
    assert world.requests == 3
    assert [(one.verb, one.key) for one in world.log if one.actor == "someone"] == [("create", "n2"), ("delete", "default/p1")]


def test_requests_take_their_time_side_by_side_with_the_world() -> None:
    world = _world(latency=0.002, start=0.003)
    with Server(world) as server:
        client = Client(server)
        assert client.bind("p0", "n1")[0] == 201
        events = client.watch("/api/v1/pods", "fieldSelector=metadata.name%3Dp0")
        phases = []
        while "Running" not in phases:
            phases.append(next(events)["object"]["status"]["phase"])
        events.close()
    assert phases[-1] == "Running"
