"""Closed nodes of a run: the annotation names the run, and no other pod gets in."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Coroutine
from typing import Any, cast

import pytest

from kubestow.live.api.answers import Object, ServerAnswer
from kubestow.live.apply.fence import Fence, FenceTerms, Pauses
from kubestow.live.apply.journal import Journal, JournaledApi, JournalLost
from kubestow.live.apply.node_changes import FenceError
from kubestow.models.documents.journal import What
from kubestow.models.kube.closed_nodes import CLOSED_BY, LET_IN, UNSCHEDULABLE
from tests import objects
from tests.live.apply.fake_cluster import FakeCluster, nodes

CORDON = {"key": UNSCHEDULABLE, "effect": "NoSchedule"}


def fence(cluster: FakeCluster, terms: FenceTerms | None = None, run: str = "run-1") -> Fence:
    made = Fence(cluster, cluster, run, cluster, terms)
    made.pauses = Pauses(settle=0.001, patience=0.05, again=0.001)
    return made


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, 20))


def closed(cluster: FakeCluster) -> list[str]:
    return sorted(name for (kind, name), item in cluster.items.items() if kind == "Node" and item["spec"].get("unschedulable"))


def marked(cluster: FakeCluster) -> list[str]:
    return sorted(name for (_, name), item in cluster.items.items() if CLOSED_BY in (item["metadata"].get("annotations") or {}))


async def turns(count: int = 50) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def waiting(name: str, message: str = "0/2 nodes are available: 2 node(s) were unschedulable.", **spec: Any) -> Object:
    pod = objects.pod(name, **spec)
    pod["status"]["conditions"] = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}]
    return pod


def test_all_nodes_are_closed_with_the_mark_of_the_run_and_opened_without_a_trace() -> None:
    async def work() -> None:
        cluster = FakeCluster(*nodes("a", "b", taints=[{"key": "gpu", "effect": "NoSchedule"}]))
        before = {name: {**cluster.node(name), "metadata": {}} for name in "ab"}
        made = fence(cluster)
        await made.close()
        assert closed(cluster) == marked(cluster) == ["a", "b"]
        assert re.fullmatch(r"run-1 \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", cluster.node("a")["metadata"]["annotations"][CLOSED_BY])
        assert len(cluster.sent) == 2, "cordon and annotation in one patch"
        for name in "ab":
            cluster.edit("Node", name, {"spec": {"taints": [{"key": "gpu", "effect": "NoSchedule"}, CORDON]}})  # the node controller
        assert await made.open() == []
        assert {name: {**cluster.node(name), "metadata": {}} for name in "ab"} == before
        assert marked(cluster) == []
        assert [what for what, _ in cluster.facts] == ["closed", "opened"]

    run(work())


def test_closing_is_over_only_when_a_scheduler_that_lags_behind_has_heard_of_it() -> None:
    async def work() -> None:
        cluster = FakeCluster(*nodes("a", "b"))
        made = fence(cluster)
        made.pauses = Pauses(settle=0.05)
        placed: list[str] = []

        def late() -> None:
            placed.append("a")  # by what the scheduler knew when the last node was closed

        def last(method: str, path: str, body: Object | None) -> ServerAnswer | None:
            asyncio.get_running_loop().call_later(0.02, late)
            cluster.before = lambda *_: None
            return None

        cluster.before = last
        await made.close()
        assert placed == ["a"]
        sent = len(cluster.sent)
        began = asyncio.get_running_loop().time()
        await made.close()
        assert (len(cluster.sent), asyncio.get_running_loop().time() - began < 0.04) == (sent, True), "nothing was closed"
        await made.open()

    run(work())


def test_the_pause_after_closing_is_long_enough() -> None:
    assert Pauses().settle >= 0.2


def test_nodes_that_others_cordoned_stay_theirs() -> None:
    async def work() -> None:
        cluster = FakeCluster(*nodes("a"), *nodes("theirs", unschedulable=True))
        made = fence(cluster)
        await made.close()
        assert marked(cluster) == ["a"]
        await made.open()
        assert closed(cluster) == ["theirs"]

    run(work())


def test_a_node_whose_mark_somebody_takes_away_stays_closed() -> None:
    async def work() -> None:
        cluster = FakeCluster(*nodes("a", "b"))
        made = fence(cluster)
        await made.close()
        cluster.edit("Node", "a", {"metadata": {"annotations": {CLOSED_BY: None}}})
        assert await made.open() == []
        assert closed(cluster) == ["a"]

    run(work())


def test_a_node_cordoned_while_the_patch_is_under_way_is_not_taken_for_ours() -> None:
    async def work() -> None:
        cluster = FakeCluster(*nodes("a", "b"))

        def cordon(method: str, path: str, body: Object | None) -> ServerAnswer | None:
            if method == "PATCH" and path.endswith("/a"):
                cluster.before = lambda *_: None
                cluster.edit("Node", "a", {"spec": {"unschedulable": True}})
            return None

        cluster.before = cordon
        made = fence(cluster)
        await made.close()
        assert (closed(cluster), marked(cluster)) == (["a", "b"], ["b"])
        await made.open()
        assert closed(cluster) == ["a"]

    run(work())


def test_drained_nodes_stay_cordoned_without_the_mark() -> None:
    async def work() -> None:
        cluster = FakeCluster(*nodes("a", "b"))
        made = fence(cluster)
        await made.close()
        cluster.edit("Node", "a", {"spec": {"taints": [CORDON]}})
        assert await made.open(drained=["a"]) == []
        assert (closed(cluster), marked(cluster)) == (["a"], [])
        assert cluster.node("a")["spec"]["taints"] == [CORDON]

    run(work())


def test_nodes_that_appear_or_are_opened_while_a_wave_runs_are_closed_at_once() -> None:
    async def work() -> None:
        cluster = FakeCluster(*nodes("a"))
        made = fence(cluster)
        await made.close()
        cluster.put(objects.node("new"))
        await turns()
        assert closed(cluster) == marked(cluster) == ["a", "new"]
        cluster.edit("Node", "a", {"spec": {"unschedulable": None}})
        await turns()
        assert closed(cluster) == ["a", "new"]
        assert await made.open() == []
        assert closed(cluster) == []

    run(work())


def test_who_opens_a_node_again_and_again_ends_the_run() -> None:
    async def work() -> None:
        cluster = FakeCluster(*nodes("a"))
        made = fence(cluster)
        await made.close()
        for _ in range(4):
            made.check()
            cluster.edit("Node", "a", {"spec": {"unschedulable": None}})
            await turns()
        with pytest.raises(FenceError, match="node a is repeatedly opened by somebody else"):
            made.check()
        assert await made.open() == []

    run(work())


def test_leftovers_of_a_dead_run_are_taken_over_and_opened() -> None:
    async def work() -> None:
        left = objects.node("a", unschedulable=True, taints=[{"key": LET_IN, "value": "x", "effect": "NoSchedule"}])
        left["metadata"]["annotations"] = {CLOSED_BY: "dead 2026-11-22T12:03:00Z"}
        cluster = FakeCluster(left)
        made = fence(cluster)
        await made.close()
        assert cluster.node("a")["metadata"]["annotations"][CLOSED_BY].startswith("run-1 ")
        assert "taints" not in cluster.node("a")["spec"]
        assert made.notes == ["node a, which run dead left closed, is taken over and opened in the end"]
        await made.open()
        assert (closed(cluster), marked(cluster)) == ([], [])

    run(work())


def test_opening_tries_each_node_several_times_and_names_those_that_fail() -> None:
    async def work() -> None:
        cluster = FakeCluster(*nodes("a", "b", "c"))
        made = fence(cluster)
        await made.close()
        left = {"b": 2, "c": 99}

        def answer(method: str, path: str, body: Object | None) -> ServerAnswer | None:
            name = path[-1]
            left[name] = left.get(name, 0) - 1
            return ServerAnswer(0) if left[name] >= 0 else None

        cluster.before = answer
        assert await made.open() == ["c"]
        assert closed(cluster) == ["c"]
        cluster.before = lambda *_: None
        assert await made.open() == []
        assert closed(cluster) == []

    run(work())


def test_a_patch_whose_answer_is_lost_is_looked_up_before_the_node_is_opened() -> None:
    async def work() -> None:
        cluster = FakeCluster(*nodes("a"))

        def lose(method: str, path: str, body: Object | None) -> ServerAnswer | None:
            assert body is not None
            cluster.before = lambda *_: None
            cluster.edit("Node", "a", body)
            return ServerAnswer(0)

        cluster.before = lose
        made = fence(cluster)
        with pytest.raises(FenceError, match="node a cannot be closed: connection lost"):
            await made.close()
        assert await made.open() == []
        assert closed(cluster) == []

    run(work())


def test_what_the_server_refuses_is_named() -> None:
    async def work() -> None:
        cluster = FakeCluster(*nodes("a", "b", "c"))
        cluster.before = lambda method, path, body: ServerAnswer(403, {"message": "nodes is forbidden"}) if path[-1] in "bc" else None
        made = fence(cluster)
        with pytest.raises(FenceError, match=r"node b cannot be closed: .*nodes is forbidden \(and 1 more nodes\)"):
            await made.close()

    run(work())


def test_nodes_stay_closed_between_waves_if_nobody_waits() -> None:
    async def work() -> None:
        gated = objects.pod("gated", schedulingGates=[{"name": "later"}])
        planned = waiting("planned")
        daemon = waiting("daemon", tolerations=[{"operator": "Exists"}])
        cluster = FakeCluster(*nodes("a", "b"), gated, planned, daemon)
        made = fence(cluster, FenceTerms(planned={"uid-planned"}))
        await made.close()
        sent = len(cluster.sent)
        await made.between_waves()
        assert len(cluster.sent) == sent
        assert closed(cluster) == ["a", "b"]
        await made.open()

    run(work())


def test_nodes_open_between_waves_for_pods_that_wait_but_not_those_with_room_of_the_run() -> None:
    async def work() -> None:
        there = [objects.pod("left", node_name="left", cpu="1"), objects.pod("swapped", node_name="swapped", cpu="1")]
        foreign = waiting("foreign", "0/4 nodes are available: 4 node(s) were unschedulable.")
        cluster = FakeCluster(*nodes("left", "swapped", "freed", "free"), *there, foreign)
        terms = FenceTerms(keep={"freed"}, sources={"left", "swapped"}, planned={"uid-left", "uid-swapped"}, before=cluster.snapshot())
        made = fence(cluster, terms)
        await made.close()
        cluster.remove("Pod", "left")
        cluster.remove("Pod", "swapped")
        cluster.put(objects.pod("swapped-2", node_name="swapped", cpu="1"))

        pause = asyncio.create_task(made.between_waves())
        await turns()
        assert closed(cluster) == marked(cluster) == ["freed", "left"]
        assert not pause.done()
        cluster.edit("Pod", "foreign", {"spec": {"nodeName": "free"}})
        await pause
        await made.close()
        assert closed(cluster) == ["free", "freed", "left", "swapped"]
        await made.open()
        assert closed(cluster) == []

    run(work())


@pytest.mark.full
def test_a_pod_that_fits_nowhere_opens_nodes_once_and_again_when_a_foreign_pod_has_gone() -> None:
    async def work() -> None:
        cluster = FakeCluster(*nodes("a", "b"), waiting("foreign"), objects.pod("other", node_name="a"))
        made = fence(cluster)

        async def opened() -> bool:
            await made.close()
            pause = asyncio.create_task(made.between_waves())
            await turns()
            was = not closed(cluster)
            if was:
                put = waiting("foreign", "0/2 nodes are available: 2 Insufficient cpu.")
                cluster.put(put)
            await pause
            cluster.put(waiting("foreign"))
            return was

        assert await opened()
        assert not await opened()
        cluster.remove("Pod", "other")
        assert await opened()
        assert not await opened()
        cluster.put(objects.node("bought"))
        assert await opened()
        await made.open()

    run(work())


def test_one_pod_is_let_in_with_one_patch_that_opens_the_node_for_it_alone() -> None:
    async def work() -> None:
        pod = objects.pod("p", tolerations=[{"key": "x", "operator": "Exists"}])
        cluster = FakeCluster(*nodes("a", "b", taints=[{"key": "gpu", "effect": "NoSchedule"}]), pod)
        made = fence(cluster)
        await made.close()
        cluster.edit("Node", "a", {"spec": {"taints": [{"key": "gpu", "effect": "NoSchedule"}, CORDON]}})
        cluster.sent.clear()
        async with made.let_in(cluster.items["Pod", "p"], "a"):
            assert [method for method, _, _ in cluster.sent] == ["PATCH", "PATCH"]
            assert closed(cluster) == ["b"]
            only = {"key": LET_IN, "value": "uid-p", "effect": "NoSchedule"}
            assert cluster.node("a")["spec"]["taints"] == [{"key": "gpu", "effect": "NoSchedule"}, only]
            assert cluster.items["Pod", "p"]["spec"]["tolerations"] == [
                {"key": "x", "operator": "Exists"},
                {"key": LET_IN, "operator": "Equal", "value": "uid-p", "effect": "NoSchedule"},
            ]
            cluster.edit("Node", "a", {"spec": {"taints": [only, CORDON]}})  # a controller that lags behind
            await turns()
            assert cluster.node("a")["spec"]["taints"] == [only]
            assert closed(cluster) == ["b"]
        assert closed(cluster) == marked(cluster) == ["a", "b"]
        assert "taints" not in cluster.node("a")["spec"]
        made.check()
        await made.open()

    run(work())


def test_pods_are_let_in_one_after_the_other_and_the_guard_is_not_fooled() -> None:
    async def work() -> None:
        cluster = FakeCluster(*nodes("a", "b"), *(objects.pod(f"p{i}") for i in range(6)))
        made = fence(cluster)
        await made.close()
        inside = 0

        async def enter(i: int) -> None:
            nonlocal inside
            async with made.let_in(cluster.items["Pod", f"p{i}"], "a"):
                inside += 1
                assert inside == 1
                await turns(5)
                inside -= 1

        await asyncio.gather(*(enter(i) for i in range(6)))
        await turns()
        made.check()
        assert closed(cluster) == ["a", "b"]
        await made.open()

    run(work())


def test_a_cancelled_let_in_closes_the_node_first() -> None:
    async def work() -> None:
        cluster = FakeCluster(*nodes("a"), objects.pod("p"))
        made = fence(cluster)
        await made.close()
        inside = asyncio.Event()

        async def enter() -> None:
            async with made.let_in(cluster.items["Pod", "p"], "a"):
                inside.set()
                await asyncio.sleep(60)

        task = asyncio.create_task(enter())
        await inside.wait()
        cluster.latency = 0.001
        task.cancel()
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert closed(cluster) == ["a"]
        assert "taints" not in cluster.node("a")["spec"]
        await made.open()

    run(work())


def test_a_pod_recreated_meanwhile_is_not_let_in() -> None:
    async def work() -> None:
        cluster = FakeCluster(*nodes("a"), objects.pod("p"))
        made = fence(cluster)
        await made.close()
        pod = cluster.items["Pod", "p"]
        again = objects.pod("p")
        again["metadata"]["uid"] = "another"
        cluster.put(again)
        with pytest.raises(FenceError, match="pod default/p is gone"):
            async with made.let_in(pod, "a"):
                pass
        assert closed(cluster) == ["a"]
        assert "tolerations" not in cluster.items["Pod", "p"]["spec"]
        await made.open()

    run(work())


def test_no_node_of_others_is_opened_for_a_pod() -> None:
    async def work() -> None:
        cluster = FakeCluster(*nodes("a"), *nodes("theirs", unschedulable=True), objects.pod("p"))
        made = fence(cluster)
        await made.close()
        with pytest.raises(FenceError, match="pod default/p cannot be let in: node theirs is not closed by this run"):
            async with made.let_in(cluster.items["Pod", "p"], "theirs"):
                pass
        assert closed(cluster) == ["a", "theirs"]
        await made.open()
        assert closed(cluster) == ["theirs"]

    run(work())


def test_nodes_that_somebody_opened_are_closed_in_one_go() -> None:
    async def work() -> None:
        cluster = FakeCluster(*nodes(*(f"n{i}" for i in range(200))))
        cluster.latency = 0.001
        made = fence(cluster)
        await made.close()
        assert len(cluster.sent) == 200
        await made.open()
        assert len(cluster.sent) == 400
        assert closed(cluster) == []

    run(work())


def test_a_journal_that_is_lost_keeps_no_node_closed() -> None:
    async def work() -> None:
        cluster = FakeCluster(*nodes("a", "b"))

        class Lost:
            async def request(self, request: object) -> int:
                raise JournalLost("no space left on device")

            async def fact(self, what: What, **fields: object) -> None:
                raise JournalLost("no space left on device")

        made = fence(cluster)
        await made.close()
        lost = JournaledApi(cluster, cast(Journal, Lost()))
        again = Fence(lost, cluster, "run-1", Lost())
        cluster.put(objects.node("new"))
        with pytest.raises(JournalLost):
            await again.close()
        assert await again.open() == []
        assert closed(cluster) == []
        await made.open()

    run(work())


def test_nodes_that_pods_move_to_are_opened_last_and_only_for_pods_that_find_no_other() -> None:
    async def work() -> None:
        cluster = FakeCluster(*nodes("target", "other"), waiting("one"), waiting("two"))
        made = fence(cluster, FenceTerms(targets={"target"}))
        made.pauses = Pauses(0.001, 5, 0.001)
        await made.close()
        assert [path[-7:] for _, path, _ in cluster.sent] == ["/target", "s/other"]
        pause = asyncio.create_task(made.between_waves())
        await turns()
        assert closed(cluster) == ["target"]
        cluster.edit("Pod", "one", {"spec": {"nodeName": "other"}})
        cluster.put(waiting("two", "0/2 nodes are available: 2 node(s) were unschedulable."))
        await turns()
        assert closed(cluster) == ["target"], "the scheduler has not seen yet that a node is open"
        cluster.put(waiting("two", "0/2 nodes are available: 1 node(s) were unschedulable, 1 Insufficient cpu."))
        await turns()
        assert closed(cluster) == []
        cluster.edit("Pod", "two", {"spec": {"nodeName": "target"}})
        await pause
        await made.open()

    run(work())


def unplaced(name: str) -> Object:
    return waiting(name, "0/2 nodes are available: 2 Insufficient cpu.")


def test_pods_that_fitted_nowhere_before_the_run_open_no_node_until_something_changes() -> None:
    async def work() -> None:
        cluster = FakeCluster(*nodes("a", "b"), unplaced("big"), objects.pod("theirs", node_name="a"))
        made = fence(cluster)
        await made.close()
        await made.between_waves()
        assert closed(cluster) == ["a", "b"]
        cluster.remove("Pod", "theirs")
        await made.between_waves()
        assert closed(cluster) == [], "a foreign pod has left"
        await made.close()
        await made.between_waves()
        assert closed(cluster) == ["a", "b"]
        cluster.edit("Node", "b", {"status": {"allocatable": {"cpu": "64"}}})
        await made.between_waves()
        assert closed(cluster) == [], "a node has grown"
        await made.close()
        cluster.put(unplaced("new"))
        await made.between_waves()
        assert closed(cluster) == [], "a pod is new"
        await made.open()

    run(work())


def test_what_the_scheduler_said_while_a_dead_run_kept_nodes_closed_counts_for_nothing() -> None:
    async def work() -> None:
        cluster = FakeCluster(*nodes("a", "b"), waiting("big"))
        dead = fence(cluster, run="dead")
        await dead.close()
        await dead._stop_guard()
        made = fence(cluster)
        await made.close()
        await made.between_waves()
        assert closed(cluster) == []
        await made.open()

    run(work())


def test_nodes_that_an_earlier_part_of_the_run_opened_without_an_answer_are_told_as_open() -> None:
    async def work() -> None:
        cluster = FakeCluster(*nodes("a"), *nodes("drained", unschedulable=True))
        made = fence(cluster)
        made.inherit(["drained", "gone"])
        await made.close()
        assert await made.open(drained=["drained"]) == []
        assert cluster.facts == [("closed", {"nodes": ["a"]}), ("opened", {"nodes": ["a", "drained", "gone"]})]
        assert closed(cluster) == ["drained"]

    run(work())


def crowd_of_one_scheduler(cluster: FakeCluster) -> dict[str, str]:
    """Let a scheduler place each pod as soon as some node takes it, on the first that does; return where, by pod."""
    placed: dict[str, str] = {}
    send = cluster.send

    async def sending(*args: Any, **more: Any) -> ServerAnswer:
        answer = await send(*args, **more)
        free = [
            node for node in cluster.objects("Node").values() if not node["spec"].get("unschedulable") and not node["spec"].get("taints")
        ]
        for pod in list(cluster.objects("Pod").values()) if free else ():
            if not pod["spec"].get("nodeName"):
                name = placed[pod["metadata"]["name"]] = free[0]["metadata"]["name"]
                cluster.edit("Pod", pod["metadata"]["name"], {"spec": {"nodeName": name}})
        return answer

    cluster.send = sending  # type: ignore[method-assign]
    return placed


@pytest.mark.parametrize("between", [False, True])
def test_pods_that_came_meanwhile_get_the_emptiest_node_and_are_not_changed(between: bool) -> None:
    async def work() -> None:
        cluster = FakeCluster(*nodes("a", "b", "c"), *(objects.pod(f"on-{name}", cpu="1", node_name=name) for name in "ac"))
        placed = crowd_of_one_scheduler(cluster)
        made = fence(cluster)
        await made.close()
        for name in ("one", "two"):
            cluster.put(objects.pod(name))
        if between:
            await made.between_waves()
        assert await made.open() == []
        assert placed == {"one": "b", "two": "b"}
        assert not [path for method, path, _ in cluster.sent if method != "GET" and "/pods/" in path]
        assert closed(cluster) == marked(cluster) == []

    run(work())
