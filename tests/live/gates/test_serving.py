"""A server treats what comes later, and nothing is held for ever."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kubestow.live.api.reflector import Reflector
from kubestow.live.apply.lease import Times
from kubestow.live.gates.gates import Gates, ReleaseOptions
from kubestow.live.gates.serve_lease import serve
from tests.api_server import Behaviour, Server
from tests.live.gates.stage import Stage, Told, workload
from tests.objects import node, pod

NODES = [node("n1", cpu="4"), node("n2", cpu="4"), node("n3", cpu="4")]
#: Times of a Lease that a busy machine cannot let expire: it changes hands only when it is released.
STEADY = Times(duration=60, renew=0.05, margin=0.5, skew=0.1)


async def until(true: Callable[[], bool], seconds: float = 30) -> None:
    async with asyncio.timeout(seconds):
        while not true():
            await asyncio.sleep(0.005)


def is_replaced(stage: Stage, gone: str, counts: dict[str, int]) -> bool:
    return gone not in stage.pods("web") and stage.counts("web") == counts


def served(stage: Stage, folder: Path, use: Callable[[], Awaitable[None]]) -> None:
    async def both(gates: Gates) -> None:
        task = asyncio.create_task(serve(gates, "one", STEADY))
        try:
            await use()
            assert not task.done()
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    stage.journaled = False
    stage.run(folder, both)


def test_a_successor_gets_the_node_that_is_short_and_later_pods_go_free(tmp_path: Path) -> None:
    stage = Stage(NODES, [workload("Deployment", replicas=3)], ["n3", "n3", "n2"])

    async def use() -> None:
        stage.apply()
        planned = {"n2": 1, "n3": 2}
        await until(lambda: stage.counts("web") == planned)
        for node_name in ("n2", "n3"):
            gone = next(name for name, where in stage.pods("web").items() if where == node_name)
            stage.world.delete("Pod", f"default/{gone}")
            await until(partial(is_replaced, stage, gone, planned))
        stage.world.patch("Deployment", "default/web", {"spec": {"replicas": 5}})
        await until(lambda: len(stage.pods("web")) == 5 and not stage.counts("web").get("", 0))
        await until(lambda: list(stage.told.nodes.values()).count(None) == 2)
        assert stage.held() == []

    served(stage, tmp_path, use)
    assert any("serving: one has the Lease kube-system/kubestow-serve" in note for note in stage.told.notes)


@pytest.mark.parametrize("told", [True, False])
def test_a_pod_whose_node_is_gone_goes_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: bool) -> None:
    stage = Stage(NODES, [workload("StatefulSet", "db", replicas=2, serviceName="db", podManagementPolicy="Parallel")], ["n3", "n1"])
    take = Reflector._take

    def late(reflector: Reflector, event: Any) -> bool:
        return reflector.store.resource.kind.name != "Node" and take(reflector, event)

    async def use() -> None:
        stage.apply()
        await until(lambda: stage.pods("db") == {"db-0": "n3", "db-1": "n1"})
        if not told:  # kinds are watched one by one: what pods do may be heard before what became of their nodes
            await asyncio.sleep(0.3)  # the cluster is read once more after pods were let go
            monkeypatch.setattr(Reflector, "_take", late)
        stage.world.delete("Node", "n3")
        stage.world.delete("Pod", "default/db-0", grace=0)
        await until(lambda: stage.pods("db").get("db-0") in ("n1", "n2"))
        await until(lambda: stage.told.nodes["default/db-0"] is None)

    served(stage, tmp_path, use)


def test_a_pod_that_no_planned_node_takes_goes_free_after_a_while(tmp_path: Path) -> None:
    stage = Stage(NODES, [workload("Deployment", replicas=2)], ["n3", "n1"], options=ReleaseOptions(timeout=0.2, pause=0.01))

    async def use() -> None:
        stage.apply()
        await until(lambda: stage.counts("web") == {"n1": 1, "n3": 1})
        gone = next(name for name, where in stage.pods("web").items() if where == "n3")
        stage.world.patch("Node", "n3", {"spec": {"unschedulable": True}})
        stage.world.delete("Pod", f"default/{gone}")
        await until(lambda: gone not in stage.pods("web") and stage.counts("web").get("", 0) == 0 and len(stage.pods("web")) == 2)
        await until(lambda: list(stage.told.nodes.values()).count(None) == 1)
        assert "n3" not in stage.counts("web")

    served(stage, tmp_path, use)


def test_a_gang_waits_for_room_and_says_so(tmp_path: Path) -> None:
    stage = Stage(NODES, [workload("Deployment", replicas=2)], ["n3", "n1"], options=ReleaseOptions(timeout=0.1, pause=0.01))
    stage.world.load([pod("foreign", cpu="3500m", node_name="n3")])

    async def use() -> None:
        stage.apply()
        await until(lambda: any("NodeResourcesFit" in note for note in stage.told.notes))
        await asyncio.sleep(0.2)
        assert len(stage.held()) == 2
        stage.world.delete("Pod", "default/foreign", grace=0)
        await until(lambda: stage.counts("web") == {"n1": 1, "n3": 1})

    served(stage, tmp_path, use)


def test_watches_that_drop_and_expire_lose_nothing(tmp_path: Path) -> None:
    stage = Stage(NODES, [workload("Deployment", replicas=2)], ["n3", "n1"])

    async def use() -> None:
        stage.apply()
        await until(lambda: stage.counts("web") == {"n1": 1, "n3": 1})
        for drop in (stage.server.drop_watches, stage.server.expire_watches):
            drop()
            gone = next(iter(stage.pods("web")))
            stage.world.delete("Pod", f"default/{gone}")
            await until(partial(is_replaced, stage, gone, {"n1": 1, "n3": 1}))

    served(stage, tmp_path, use)


def test_a_server_that_starts_again_goes_on(tmp_path: Path) -> None:
    stage = Stage(NODES, [workload("Deployment", replicas=2)], ["n3", "n3"])
    gone: list[str] = []

    async def first() -> None:
        stage.apply()
        await until(lambda: stage.counts("web") == {"n3": 2} and len(stage.told.nodes) == 2)
        gone.append(next(iter(stage.pods("web"))))

    async def second() -> None:
        stage.world.delete("Pod", f"default/{gone[0]}")
        await until(lambda: gone[0] not in stage.pods("web") and stage.counts("web") == {"n3": 2})
        await until(lambda: len(stage.told.nodes) == 3)

    served(stage, tmp_path, first)
    served(stage, tmp_path, second)
    assert set(stage.told.nodes.values()) == {"n3"}


@pytest.mark.full
def test_of_two_servers_one_acts_and_the_other_takes_over(tmp_path: Path) -> None:
    stage = Stage(NODES, [workload("Deployment", replicas=2)], ["n3", "n1"], journaled=False)
    stage.apply()
    one, other = Told(), Told()

    async def two() -> None:
        async with stage.gates(tmp_path, one) as ours, stage.gates(tmp_path, other) as theirs:
            first = asyncio.create_task(serve(ours, "a", STEADY))
            await until(lambda: len(one.nodes) == 2)
            second = asyncio.create_task(serve(theirs, "b", STEADY))
            await until(lambda: any("run a is active" in note for note in other.notes))
            first.cancel()
            with suppress(asyncio.CancelledError):
                await first
            stage.world.delete("Pod", f"default/{next(iter(stage.pods('web')))}")
            await until(lambda: len(other.nodes) == 1)
            second.cancel()
            with suppress(asyncio.CancelledError):
                await second

    with Server(stage.world) as stage.server:
        asyncio.run(asyncio.wait_for(two(), 30))
    assert stage.counts("web") == {"n1": 1, "n3": 1}
    assert len(one.nodes) == 2


def test_a_pod_that_waits_for_a_node_which_is_gone_is_told_once(tmp_path: Path) -> None:
    stage = Stage(NODES, [workload("Deployment", replicas=1)], ["n3"], behaviour=Behaviour(scheduler="off"))

    def stranded() -> list[str]:
        return [note for note in stage.told.notes if "can only be deleted" in note]

    async def use() -> None:
        stage.apply()
        await until(lambda: list(stage.told.nodes.values()) == ["n3"])
        stage.world.delete("Node", "n3")
        await until(lambda: len(stranded()) == 1)
        stage.world.patch("Deployment", "default/web", {"spec": {"replicas": 2}})
        await until(lambda: len(stage.told.nodes) == 2)

    served(stage, tmp_path, use)
    (name,) = [name for name, where in stage.told.nodes.items() if where == "n3"]
    assert stranded() == [f"Pod {name} was let go to node n3, which is gone: it stays Pending, and can only be deleted"]
