"""A cluster that is followed through errors, lost connections, dropped watches and forgotten versions is the cluster."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from kubestow.live.api.connect import connect
from kubestow.live.api.connection import ConnectionLimits
from kubestow.live.api.live_cluster import LiveCluster
from tests.api_server import Behaviour, Faults, Server, SimulatedCluster
from tests.objects import node, pod
from tests.tiers import sampled

LIMITS = ConnectionLimits(pause=0.002)


def states(world: SimulatedCluster, cluster: LiveCluster) -> Iterator[tuple[dict[str, str], dict[str, str]]]:
    """Yield the existing and the known objects, one kind at a time."""
    for kind in ("Pod", "Node", "Service", "ReplicaSet"):
        theirs, ours = world.all(kind), cluster.objects(kind).values()
        yield tuple({each["metadata"]["uid"]: each["metadata"]["resourceVersion"] for each in found} for found in (theirs, ours))  # type: ignore[misc]


def same(world: SimulatedCluster, cluster: LiveCluster) -> bool | None:
    return all(theirs == ours for theirs, ours in states(world, cluster)) or None


def change(world: SimulatedCluster, chance: random.Random, turn: int) -> None:
    """Do something to the cluster, as another actor does."""
    pods = [each for each in world.all("Pod") if not each["metadata"].get("deletionTimestamp")]
    what = chance.choice(("create", "label", "delete", "recreate", "node", "service"))
    if what == "create" or not pods:
        world.create(pod(f"new-{turn}"))
        return
    key = "default/" + chance.choice(pods)["metadata"]["name"]
    if what == "label":
        world.patch("Pod", key, {"metadata": {"labels": {"turn": str(turn)}}})
    elif what == "delete":
        world.delete("Pod", key, grace=0)
    elif what == "recreate":
        world.delete("Pod", key, grace=0)
        if world.get("Pod", key) is None:
            world.create(pod(key.partition("/")[2], cpu="200m"))
    elif what == "node":
        world.patch("Node", f"n{turn % 4}", {"metadata": {"labels": {"turn": str(turn)}}})
    else:
        world.create({"apiVersion": "v1", "kind": "Service", "metadata": {"name": f"s-{turn}"}, "spec": {}})


@pytest.mark.parametrize("seed", sampled(range(16), every=8))
def test_whatever_goes_wrong_the_state_is_the_cluster_s_in_the_end_and_after_every_refresh(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    faults = Faults(
        error_before=0.1, lost_before=0.05, lost_after=0.05, watch_events=chance.choice((0, 1, 5, 20)), gone=chance.choice((0, 0.5))
    )
    gone_as = chance.choice(("event", "status"))
    behaviour = Behaviour(seed=seed, latency=0.001, history=chance.choice((1, 20, 10_000)), gone_as=gone_as, faults=faults)  # type: ignore[arg-type]
    world = SimulatedCluster(behaviour)
    world.load([*(node(f"n{i}") for i in range(4)), *(pod(f"web-{i}", owner="ReplicaSet/web") for i in range(12))])

    async def follow(path: str) -> None:
        async with connect(path, limits=LIMITS) as connection:
            cluster = LiveCluster(connection)
            seen: set[str] = set()
            try:
                await cluster.start()
                for turn in range(40):
                    change(world, chance, turn)
                    seen |= {uid for theirs, _ in states(world, cluster) for uid in theirs}
                    if turn % 10 == 9:
                        before = {uid: int(version) for theirs, _ in states(world, cluster) for uid, version in theirs.items()}
                        await cluster.refresh()
                        known = {uid: int(version) for _, ours in states(world, cluster) for uid, version in ours.items()}
                        assert known.keys().isdisjoint(seen - before.keys())
                        there = {uid for theirs, _ in states(world, cluster) for uid in theirs}
                        assert all(known.get(uid, version) >= version for uid, version in before.items())
                        assert (before.keys() & there) <= known.keys()
                    await asyncio.sleep(0.003)
                assert await cluster.until(lambda: same(world, cluster), 30)
            finally:
                await cluster.close()

    with Server(world) as server:
        asyncio.run(asyncio.wait_for(follow(str(server.kubeconfig(tmp_path / "config"))), 120))
