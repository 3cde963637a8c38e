"""The remains of a killed run are found, reported and undone, and nothing else is touched."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from kubestow.live.api.answers import Object, ServerAnswer
from kubestow.live.apply.fence import Fence
from kubestow.live.apply.lease import Lease, LeaseLost, LeaseTaken
from kubestow.live.apply.leftovers import Leftover, describe, find, open_leftovers
from kubestow.models.kube.closed_nodes import CLOSED_BY, LET_IN, ClosedBy
from tests import objects
from tests.live.apply.fake_cluster import FakeCluster, nodes

BY = ClosedBy("4f2a", "2026-11-22T12:03:00Z")
CORDON = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
LETS_IN = {"key": LET_IN, "value": "uid-p", "effect": "NoSchedule"}


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, 20))


def left(name: str, by: ClosedBy | None = BY, **spec: Any) -> Object:
    node = objects.node(name, **spec)
    if by is not None:
        node["metadata"]["annotations"] = {CLOSED_BY: str(by)}
    return node


def found_in(cluster: FakeCluster) -> list[Leftover]:
    return find(cluster.objects("Node").values())


def some() -> FakeCluster:
    return FakeCluster(
        *nodes("free"),
        *nodes("theirs", unschedulable=True, taints=[CORDON]),
        left("c", unschedulable=True, taints=[CORDON]),
        left("b", taints=[LETS_IN]),
        left("a", ClosedBy("1111", "2026-11-21T08:00:00Z"), unschedulable=True),
        left("stray", None, unschedulable=True, taints=[CORDON, LETS_IN]),
    )


def test_closed_and_let_in_nodes_are_found_and_told_by_run() -> None:
    found = found_in(some())
    assert [(each.node, each.by and each.by.run, each.pod, each.closed) for each in found] == [
        ("a", "1111", "", True),
        ("b", "4f2a", "uid-p", False),
        ("c", "4f2a", "", True),
        ("stray", None, "uid-p", True),
    ]
    assert describe(found) == [
        "run 1111 closed a node at 2026-11-21T08:00:00Z that are still closed: a",
        "run 4f2a closed 2 nodes at 2026-11-22T12:03:00Z that are still closed: b, c",
        "2 nodes are open for one pod alone (taint kubestow.dev/let-in): b, stray",
        "without the mark of a run, so only the taint is removed: stray",
    ]
    assert describe([]) == []


def test_leftovers_are_opened_and_the_nodes_of_others_stay_as_they_are() -> None:
    async def work() -> None:
        cluster = some()
        async with Lease(cluster, "open-1") as lease:
            assert await open_leftovers(cluster, found_in(cluster), lease) == {}
        assert found_in(cluster) == []
        assert sorted(n["metadata"]["name"] for n in cluster.objects("Node").values() if n["spec"].get("unschedulable")) == [
            "stray",
            "theirs",
        ]
        assert cluster.node("stray")["spec"]["taints"] == cluster.node("theirs")["spec"]["taints"] == [CORDON]
        assert "taints" not in cluster.node("b")["spec"]
        assert "taints" not in cluster.node("c")["spec"]

    run(work())


@pytest.mark.full
def test_nothing_is_opened_while_the_run_lives() -> None:
    async def work() -> None:
        cluster = FakeCluster(*nodes("a"))
        async with Lease(cluster, "alive"):
            made = Fence(cluster, cluster, "alive", cluster)
            await made.close()
            with pytest.raises(LeaseTaken, match="run alive is active"):
                await Lease(cluster, "open-1").take()
            await made.open()

    run(work())


def test_nothing_is_opened_without_the_lease() -> None:
    async def work() -> None:
        cluster = some()
        async with Lease(cluster, "open-1") as lease:
            pass
        sent = len(cluster.sent)
        with pytest.raises(LeaseLost):
            await open_leftovers(cluster, found_in(cluster), lease)
        assert len(cluster.sent) == sent

    run(work())


def test_a_node_that_cannot_be_opened_is_named_and_the_others_are_opened() -> None:
    async def work() -> None:
        cluster = some()
        async with Lease(cluster, "open-1") as lease:
            refused = ServerAnswer(403, {"message": "nodes is forbidden"})
            cluster.before = lambda method, path, body: refused if (method, path[-2:]) == ("PATCH", "/c") else None
            failed = await open_leftovers(cluster, found_in(cluster), lease, pause=0.001)
            assert failed == {"c": "node c cannot be changed: nodes is forbidden"}
            assert [each.node for each in found_in(cluster)] == ["c"]

    run(work())


def test_a_node_deleted_or_unmarked_meanwhile_is_left_alone() -> None:
    async def work() -> None:
        cluster = some()
        found = found_in(cluster)
        cluster.remove("Node", "a")
        cluster.edit("Node", "c", {"metadata": {"annotations": {CLOSED_BY: None}}})
        async with Lease(cluster, "open-1") as lease:
            assert await open_leftovers(cluster, found, lease) == {}
        assert cluster.node("c")["spec"]["unschedulable"]

    run(work())
