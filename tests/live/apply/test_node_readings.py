"""Readings of nodes may arrive in any order: answers overtake one another, and watches lag. The latest one counts."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Coroutine, Mapping
from typing import Any

import pytest

from kubestow.live.api.answers import Object, ServerAnswer
from kubestow.live.apply.fence import Fence, Pauses
from kubestow.live.apply.node_changes import Nodes, is_open_for, letting_in, opening
from kubestow.models.kube.closed_nodes import CLOSED_BY, LET_IN
from tests import objects
from tests.live.apply.fake_cluster import FakeCluster, nodes
from tests.tiers import thinned


def node(version: str, **spec: Any) -> Object:
    marks = {CLOSED_BY: "run 2026-11-27T05:34:14Z"}
    return {"metadata": {"name": "n", "uid": "uid-n", "resourceVersion": version, "annotations": marks}, "spec": spec}


def closed(version: str) -> Object:
    return node(version, unschedulable=True)


def opened(version: str) -> Object:
    return node(version, taints=[{"key": LET_IN, "value": "uid", "effect": "NoSchedule"}])


class Held:
    """An API whose answers are given by hand."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, asyncio.Future[ServerAnswer]]] = []

    async def send(self, method: str, path: str, body: Any = None, **more: Any) -> ServerAnswer:
        self.asked.append((method, asyncio.get_running_loop().create_future()))
        return await self.asked[-1][1]

    def answer(self, method: str, answer: ServerAnswer) -> None:
        next(future for asked, future in self.asked if asked == method and not future.done()).set_result(answer)


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, 20))


async def turns(count: int = 20) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


@pytest.mark.parametrize("order", list(itertools.permutations(("PATCH", "GET"))))
def test_an_answer_that_was_read_before_a_patch_does_not_replace_that_of_the_patch(order: tuple[str, str]) -> None:
    async def work() -> None:
        api = Held()
        made = Nodes(api, lambda: {"u": closed("1")})  # the watch has not heard of the patch yet
        change = letting_in("run", "uid")
        let_in = asyncio.create_task(made.change_all({"n": change}))
        await turns()
        guard = asyncio.create_task(made.change_all({"n": change}))
        await turns()
        answers = {"PATCH": ServerAnswer(200, opened("2")), "GET": ServerAnswer(200, closed("1"))}
        for method in order:
            api.answer(method, answers[method])
            await turns()
        assert await let_in == {}
        seen = made.get("n")
        assert seen is not None
        assert (seen["metadata"]["resourceVersion"], is_open_for(seen, "uid")) == ("2", True)
        guard.cancel()
        for _, future in api.asked:
            if not future.done():
                future.set_result(ServerAnswer(409))
        await turns()

    run(work())


def test_a_reading_that_a_patch_overlaps_does_not_settle_what_became_of_the_patch() -> None:
    async def work() -> None:
        api = Held()
        made = Nodes(api, lambda: {"u": closed("1")})
        change = letting_in("run", "uid")
        first = asyncio.create_task(made.change_all({"n": change}))
        await turns()
        second = asyncio.create_task(made.change_all({"n": lambda _: None}))
        await turns()
        api.answer("GET", ServerAnswer(200, closed("1")))  # read before the patch was carried out
        assert await second == {}
        api.answer("PATCH", ServerAnswer(504, {"message": "timeout"}))
        assert await first == {"n": "node n cannot be changed: timeout"}
        third = asyncio.create_task(made.change_all({"n": change}))
        await turns()
        assert api.asked[-1][0] == "GET", "whether the patch was carried out is not known"
        api.answer("GET", ServerAnswer(200, opened("2")))
        assert await third == {}

    run(work())


def test_a_watch_that_lags_counts_only_once_it_says_something_new() -> None:
    async def work() -> None:
        for first, second, third in (("1", "2", "3"), ("x", "b", "a")):  # versions that can be compared, and others
            api, watch = Held(), {"u": closed(first)}
            made = Nodes(api, lambda watch=watch: watch)  # type: ignore[misc]
            task = asyncio.create_task(made.change_all({"n": letting_in("run", "uid")}))
            await turns()
            api.answer("PATCH", ServerAnswer(200, opened(second)))
            assert await task == {}
            assert is_open_for(made.all()["n"], "uid"), first
            watch["u"] = closed(third)
            assert not is_open_for(made.all()["n"], "uid"), first

    run(work())


def test_a_node_that_the_server_no_longer_knows_is_gone_though_the_watch_still_has_it() -> None:
    async def work() -> None:
        api = Held()
        made = Nodes(api, lambda: {"u": closed("1")})
        task = asyncio.create_task(made.change_all({"n": letting_in("run", "uid")}))
        await turns()
        api.answer("PATCH", ServerAnswer(404))
        assert await task == {}
        assert made.get("n") is None

    run(work())


class Shuffled(FakeCluster):
    """Answers about nodes arrive in any order, and what the watch shows of nodes lags behind by up to some readings."""

    def __init__(self, seed: int, *items: Object) -> None:
        self.chance = random.Random(seed)
        self.shown: dict[str, Object] = {}
        super().__init__(*items)

    def objects(self, kind: str) -> Mapping[str, Object]:
        now = super().objects(kind)
        if kind != "Node":
            return now
        for uid, each in now.items():
            if uid not in self.shown or self.chance.random() < 0.3:
                self.shown[uid] = each
        return {uid: self.shown[uid] for uid in now}

    async def send(self, method: str, path: str, body: Any = None, **more: Any) -> ServerAnswer:
        for _ in range(self.chance.randint(0, 6)):
            await asyncio.sleep(0)
        answer = await super().send(method, path, body, **more)
        for _ in range(self.chance.randint(0, 6)):
            await asyncio.sleep(0)
        return answer


@pytest.mark.parametrize("seed", thinned(range(100), 5))
def test_no_order_of_readings_keeps_a_pod_from_being_let_in_or_a_node_from_being_opened(seed: int) -> None:
    async def work() -> None:
        cluster = Shuffled(seed, *nodes("a", "b", "c"), objects.pod("p"), objects.pod("q"))
        made = Fence(cluster, cluster, "run-1", cluster)
        made.pauses = Pauses(settle=0.0, patience=0.05, again=0.001)
        await made.close()

        async def meddle() -> None:  # a kubelet renews its node, and somebody opens one
            for name in ("a", "b", "c", "a"):
                await turns(cluster.chance.randint(1, 8))
                cluster.edit("Node", name, {"status": {"phase": str(cluster.chance.random())}})
            cluster.edit("Node", "c", {"spec": {"unschedulable": None}})

        meddling = asyncio.create_task(meddle())
        for pod, target in (("p", "a"), ("q", "b"), ("p", "b")):
            async with made.let_in(cluster.items["Pod", pod], target):
                made.check()
                await turns(cluster.chance.randint(1, 10))
        await meddling
        assert await made.open() == []
        assert not any(
            each["spec"].get("unschedulable") or each["spec"].get("taints") for each in FakeCluster.objects(cluster, "Node").values()
        )

    run(work())


def test_opening_goes_by_the_latest_reading() -> None:
    async def work() -> None:
        api = Held()
        made = Nodes(api, lambda: {"u": closed("4")})
        task = asyncio.create_task(made.change_all({"n": opening(lambda run: run == "run")}))
        await turns()
        api.answer("PATCH", ServerAnswer(409))
        await turns()
        api.answer("GET", ServerAnswer(200, closed("5")))
        await turns()
        api.answer("PATCH", ServerAnswer(200, {**node("6"), "metadata": {"name": "n", "resourceVersion": "6"}}))
        assert await task == {}
        assert made.all()["n"]["metadata"]["resourceVersion"] == "6"

    run(work())
