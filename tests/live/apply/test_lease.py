"""Two runs in one cluster are kept apart, and a run that lost its Lease knows."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kubestow.live.api.answers import Object, ServerAnswer, Unreachable
from kubestow.live.apply.lease import NAME, Lease, LeaseLost, LeaseTaken, Times, live_run
from tests.live.apply.fake_cluster import FakeCluster

QUICK = Times(duration=30, renew=0.01, margin=5)
START = datetime(2026, 11, 22, 12, 3, tzinfo=UTC)


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, 20))


def lease_of(cluster: FakeCluster) -> Object:
    return cluster.items["Lease", NAME]


class Clock:
    def __init__(self) -> None:
        self.time = START

    def __call__(self) -> datetime:
        return self.time


def test_the_lease_is_taken_renewed_and_given_back() -> None:
    async def work() -> None:
        cluster, clock = FakeCluster(), Clock()
        async with Lease(cluster, "one", QUICK, clock) as lease:
            taken = lease_of(cluster)["spec"]
            assert (taken["holderIdentity"], taken["leaseDurationSeconds"]) == ("one", 30)
            assert taken["acquireTime"] == taken["renewTime"] == "2026-11-22T12:03:00.000000Z"
            clock.time += timedelta(seconds=20)
            await cluster.until(lambda: lease_of(cluster)["spec"]["renewTime"] != taken["renewTime"] or None, 5)
            assert lease_of(cluster)["spec"]["renewTime"] == "2026-11-22T12:03:20.000000Z"
            assert lease_of(cluster)["spec"]["acquireTime"] == taken["acquireTime"]
            clock.time += timedelta(seconds=20)
            lease.check()
            await asyncio.sleep(0.05)
        assert lease_of(cluster)["spec"]["holderIdentity"] == ""
        assert await live_run(cluster) is None
        with pytest.raises(LeaseLost, match="it was released"):
            lease.check()
        async with Lease(cluster, "two", QUICK, clock):
            assert lease_of(cluster)["spec"]["holderIdentity"] == "two"
            assert lease_of(cluster)["spec"]["leaseTransitions"] == 1

    run(work())


def test_another_live_run_is_named_with_the_end_of_its_lease() -> None:
    async def work() -> None:
        cluster, clock = FakeCluster(), Clock()
        async with Lease(cluster, "one", Times(), clock):
            clock.time += timedelta(seconds=29)
            with pytest.raises(LeaseTaken, match=r"run one is active .* Lease kube-system/kubestow-apply until 2026-11-22T12:03:30Z"):
                await Lease(cluster, "two", QUICK, clock).take()
            assert lease_of(cluster)["spec"]["holderIdentity"] == "one"

    run(work())


def left(cluster: FakeCluster, renewed: datetime, run: str = "dead") -> None:
    time = renewed.isoformat(timespec="microseconds").replace("+00:00", "Z")
    spec = {"holderIdentity": run, "leaseDurationSeconds": 30, "acquireTime": time, "renewTime": time, "leaseTransitions": 4}
    cluster.put({"kind": "Lease", "metadata": {"name": NAME, "namespace": "kube-system"}, "spec": spec})


def test_the_lease_of_a_dead_run_is_taken_over_once_it_has_ended() -> None:
    async def work() -> None:
        cluster, clock = FakeCluster(), Clock()
        left(cluster, START - timedelta(seconds=31))
        async with Lease(cluster, "two", QUICK, clock):
            assert lease_of(cluster)["spec"]["holderIdentity"] == "two"
            assert lease_of(cluster)["spec"]["leaseTransitions"] == 5

    run(work())


def test_a_lease_that_seems_to_have_ended_but_is_renewed_belongs_to_a_run_whose_clock_is_behind() -> None:
    async def work() -> None:
        cluster, clock = FakeCluster(), Clock()
        left(cluster, START - timedelta(seconds=60))
        task = asyncio.create_task(Lease(cluster, "two", Times(renew=0.05), clock).take())
        await asyncio.sleep(0.01)
        left(cluster, START - timedelta(seconds=50))
        with pytest.raises(LeaseTaken, match="run dead is active"):
            await task

    run(work())


def test_a_run_that_is_resumed_has_its_lease_at_once() -> None:
    async def work() -> None:
        cluster, clock = FakeCluster(), Clock()
        left(cluster, START, run="one")
        async with Lease(cluster, "one", QUICK, clock) as lease:
            lease.check()

    run(work())


def test_of_two_that_take_it_at_once_one_gets_it() -> None:
    async def work() -> None:
        cluster = FakeCluster()
        cluster.latency = 0.001
        pair = [Lease(cluster, name) for name in ("one", "two")]
        found = await asyncio.gather(*(lease.take() for lease in pair), return_exceptions=True)
        assert sum(isinstance(each, LeaseTaken) for each in found) == 1
        for lease in pair:
            await lease.release()

    run(work())


def test_a_run_whose_lease_another_one_has_is_told() -> None:
    async def work() -> None:
        cluster, clock = FakeCluster(), Clock()
        lease = Lease(cluster, "one", QUICK, clock)
        await lease.take()
        left(cluster, START, run="two")
        await asyncio.wait_for(lease.lost.wait(), 5)
        with pytest.raises(LeaseLost, match="run two has it now"):
            lease.check()
        await lease.release()
        assert lease_of(cluster)["spec"]["holderIdentity"] == "two"

    run(work())


def test_a_label_that_somebody_adds_is_no_loss() -> None:
    async def work() -> None:
        cluster, clock = FakeCluster(), Clock()
        async with Lease(cluster, "one", QUICK, clock) as lease:
            version = cluster.edit("Lease", NAME, {"metadata": {"labels": {"a": "b"}}})["metadata"]["resourceVersion"]
            await cluster.until(lambda: lease_of(cluster)["metadata"]["resourceVersion"] != version or None, 5)
            lease.check()
            assert lease_of(cluster)["metadata"]["labels"] == {"a": "b"}

    run(work())


def test_a_lease_that_cannot_be_renewed_is_lost_before_it_ends() -> None:
    async def work() -> None:
        cluster, clock = FakeCluster(), Clock()
        lease = Lease(cluster, "one", QUICK, clock)
        await lease.take()
        cluster.before = lambda *_: ServerAnswer(0)
        clock.time += timedelta(seconds=24)
        lease.check()
        clock.time += timedelta(seconds=1)
        with pytest.raises(LeaseLost, match="could not be renewed in time"):
            lease.check()
        await lease.release()

    run(work())


@pytest.mark.parametrize("carried_out", [False, True])
def test_a_connection_that_breaks_while_the_lease_is_taken_or_given_back_leaves_no_doubt(carried_out: bool) -> None:
    async def work() -> None:
        cluster = FakeCluster()

        def lost(method: str, path: str, body: Object | None) -> ServerAnswer | None:
            if method == "GET":
                return None
            cluster.before = lambda *_: None
            if carried_out and body is not None:
                cluster.put(body)
            return ServerAnswer(0)

        for _ in range(2):  # created, and then taken over
            cluster.before = lost
            async with Lease(cluster, "one") as lease:
                lease.check()
                assert lease_of(cluster)["spec"]["holderIdentity"] == "one"
                cluster.before = lost
            assert lease_of(cluster)["spec"]["holderIdentity"] == ""

    run(work())


def test_a_lease_that_somebody_labels_is_given_back_and_that_of_another_run_is_not() -> None:
    async def work() -> None:
        cluster = FakeCluster()
        async with Lease(cluster, "one"):
            cluster.edit("Lease", NAME, {"metadata": {"labels": {"a": "b"}}})
        assert lease_of(cluster)["spec"]["holderIdentity"] == ""
        async with Lease(cluster, "one"):
            left(cluster, START, run="two")
        assert lease_of(cluster)["spec"]["holderIdentity"] == "two"

    run(work())


def test_what_the_server_refuses_is_said() -> None:
    async def work() -> None:
        cluster = FakeCluster()
        cluster.before = lambda *_: ServerAnswer(403, {"message": "leases is forbidden"})
        for asked in (Lease(cluster, "one").take(), live_run(cluster)):
            with pytest.raises(LeaseTaken, match="cannot be read: leases is forbidden"):
                await asked
        cluster.before = lambda *_: ServerAnswer(0)
        with pytest.raises(Unreachable):
            await Lease(cluster, "one").take()

    run(work())


def test_who_waits_for_the_lease_of_a_run_that_is_dead_or_slow_is_told() -> None:
    async def work() -> None:
        cluster, clock, said = FakeCluster(), Clock(), list[str]()
        lease = Lease(cluster, "dead", QUICK, clock)
        await lease.take()
        assert lease._renewal is not None
        lease._renewal.cancel()
        clock.time += timedelta(seconds=40)
        async with Lease(cluster, "next", QUICK, clock, said.append):
            assert lease_of(cluster)["spec"]["holderIdentity"] == "next"
        assert said == ["run dead did not release the Lease kube-system/kubestow-apply: waiting 0.012 s to see if it renews it"]
        async with Lease(cluster, "third", QUICK, clock, said.append):
            assert len(said) == 1, "the one before was given back"

    run(work())
