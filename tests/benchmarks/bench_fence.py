"""Three ways to keep others off the room that a run makes, side by side on the stand-in with a scheduler that competes, and the time that
closing and opening all nodes takes: ``python tests/benchmarks/bench_fence.py [--nodes 50] [--rounds 2]``.

A ring of full nodes with one free place each hands its pods on, node by node, in waves of a fifth of the ring. Ten pods wait that fit
nowhere unless a node has two free places, which moves make. Small pods arrive all the time; they fit on spare nodes, and into the free
places as well.

The skew is that of six pods of others in a cluster with six empty nodes: the most on one node less the fewest. They come while a wave
runs, and the scheduler binds each before the next node is open. The second figure is that of the same cluster without a run.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from kubestow.live.api.answers import Api, Object
from kubestow.live.api.connect import connect
from kubestow.live.api.live_cluster import LiveCluster
from kubestow.live.apply.fence import Fence, FenceTerms, Pauses
from kubestow.live.apply.journal import Journal, JournaledApi, RunOrigin
from tests.api_server import Behaviour, Server, SimulatedCluster
from tests.objects import node, pod

PODS = "/api/v1/namespaces/default/pods"
BEHAVIOUR = Behaviour(scheduler="slow", scheduling=0.02, recreate=0.01, start=0.02, stop=0.15, taint=0.02, latency=0.007)
GATE = "kubestow.dev/placement"
#: Seconds: a gated pod that is released has to be bound by then; between the small pods that arrive.
_PLACED, _ARRIVE = 2.0, 0.2
_TRIES = 3
_SMALL = 500


@dataclass(frozen=True)
class Move:
    """A pod of a workload is to go from a node to the next one."""

    workload: str
    name: str
    uid: str
    target: str


@dataclass
class Measured:
    """Result of one method. Seconds are those of the run."""

    moves: int = 0
    elsewhere: int = 0
    on_our_room: int = 0
    extra_evictions: int = 0
    seconds: float = 0.0
    requests: int = 0
    waits: list[float] = field(default_factory=list)
    skew: str = ""

    def cells(self) -> list[str]:
        """Return the row of the table, counts for 100 moves."""
        counts = (self.elsewhere, self.on_our_room, self.extra_evictions, self.requests)
        elsewhere, foreign, extra, requests = (f"{100 * count / self.moves:.0f}" for count in counts)
        mean, longest = (sum(self.waits) / len(self.waits), max(self.waits)) if self.waits else (0.0, 0.0)
        return [elsewhere, foreign, extra, requests, f"{100 * self.seconds / self.moves:.1f}", f"{mean:.2f} / {longest:.2f}", self.skew]


class Silent:
    """A journal that keeps nothing."""

    async def fact(self, what: str, **fields: Any) -> None:
        """Forget it."""


@dataclass
class Stage:
    """Inputs of a method."""

    api: Api
    cluster: LiveCluster
    world: SimulatedCluster
    ring: int
    moves: list[list[Move]]

    async def evict(self, name: str, uid: str) -> None:
        """Evict this very pod."""
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}, "deleteOptions": {"preconditions": {"uid": uid}}}
        answer = await self.api.send("POST", f"{PODS}/{name}/eviction", body)
        assert answer.ok, answer

    async def replaced(self, workload: str, known: set[str]) -> Object:
        """Return the pod that is created for another one."""

        def new() -> Object | None:
            return next((each for each in self.cluster.pods_of(workload) if each["metadata"]["uid"] not in known), None)

        found = await self.cluster.until(new, 10)
        assert found is not None
        return found

    async def carried(self, wave: list[Move], carry: Callable[[Move, set[str]], Awaitable[bool]]) -> int:
        """Carry a wave out until its pods are gone, and return the number of misplaced replacements."""
        known = set(self.cluster.objects("Pod"))
        found = await asyncio.gather(*(carry(move, known) for move in wave))
        await self.cluster.until(lambda: None if any(self.cluster.pod(move.uid) for move in wave) else True, 10)
        return list(found).count(False)

    async def bind(self, found: Object, target: str) -> bool:
        """Bind a pod, and return whether it is on this node now."""
        metadata = {"name": found["metadata"]["name"], "uid": found["metadata"]["uid"]}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": {"kind": "Node", "name": target}}
        if self.full(target):
            return False
        answer = await self.api.send("POST", f"{PODS}/{metadata['name']}/binding", body)
        return answer.ok or self.at(metadata["uid"]) == target

    def at(self, uid: str) -> str | None:
        """Return where a pod is."""
        result = self.cluster.pod(uid)
        return result["spec"].get("nodeName") if result is not None else None

    def full(self, target: str) -> bool:
        """Return whether a node has no place left."""
        return sum(map(_cpu, self.cluster.pods_on(target))) > 3000


def _cpu(obj: Object) -> int:
    return int(obj["spec"]["containers"][0]["resources"]["requests"]["cpu"].removesuffix("m"))


def objects_of(ring: int) -> list[Object]:
    """Return the cluster: the ring, spare nodes for a third of the moves' time, workloads and pods that wait."""
    objects = [node(f"n{i:03}", cpu="4000m") for i in range(ring)]
    objects += [node(f"spare{i}", cpu="1900m") for i in range(ring // 2)]
    for i in range(ring):
        template = {"metadata": {"labels": {"app": f"w{i}"}}, "spec": pod("x", cpu="1000m")["spec"]}
        spec = {"replicas": 3, "selector": {"matchLabels": {"app": f"w{i}"}}, "template": template}
        metadata = {"name": f"w{i}", "namespace": "default", "uid": f"ReplicaSet-w{i}"}
        objects.append({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": metadata, "spec": spec})
        objects += [
            pod(f"w{i}-{k}", cpu="1000m", node_name=f"n{i:03}", owner=f"ReplicaSet/w{i}", labels={"app": f"w{i}"}) for k in range(3)
        ]
    return [*objects, *(pod(f"big-{k}", cpu="2000m") for k in range(10))]


def moves_of(world: SimulatedCluster, ring: int, rounds: int) -> list[list[Move]]:
    """Return the waves: each fifth node hands a pod on to the next one."""
    waves = []
    for k in range(rounds):
        for offset in range(5):
            names = [(i, f"w{i}-{k}", f"n{(i + 1) % ring:03}") for i in range(offset, ring, 5)]
            pods = [(i, name, world.get("Pod", f"default/{name}"), target) for i, name, target in names]
            waves.append([Move(f"ReplicaSet-w{i}", name, each["metadata"]["uid"], target) for i, name, each, target in pods if each])
    return waves


# --- the ways ---------------------------------------------------------------------------------------------------------


async def closed(stage: Stage) -> int:
    """Close all nodes and bind; between waves open for those that wait. Return the number of misplaced pods."""
    nodes = {move.target for wave in stage.moves for move in wave}
    planned = {move.uid for wave in stage.moves for move in wave}
    fence = Fence(stage.api, stage.cluster, "bench", Silent(), FenceTerms(frozenset(), nodes, planned, stage.cluster.snapshot(), nodes))
    fence.pauses = Pauses(settle=0.1, patience=5, again=0.1)

    async def carry(move: Move, known: set[str]) -> bool:
        await stage.evict(move.name, move.uid)
        return await stage.bind(await stage.replaced(move.workload, known), move.target)

    elsewhere = 0
    try:
        for wave in stage.moves:
            await fence.close()
            await stage.cluster.refresh()
            elsewhere += await stage.carried(wave, carry)
            await fence.between_waves()
    finally:
        assert await fence.open() == []
    return elsewhere


async def watched(stage: Stage) -> int:
    """Close nothing, bind as soon as the replacement is there, and evict it again where the scheduler was faster."""

    async def carry(move: Move, known: set[str]) -> bool:
        name, uid = move.name, move.uid
        for _ in range(1 + _TRIES):
            await stage.evict(name, uid)
            found = await stage.replaced(move.workload, known)
            if await stage.bind(found, move.target):
                return True
            name, uid = found["metadata"]["name"], found["metadata"]["uid"]
            known.add(uid)
            if await stage.cluster.until(lambda uid=uid: stage.at(uid), 1) in (None, move.target) or stage.full(move.target):  # type: ignore[misc]
                break
        return stage.at(uid) == move.target

    return sum([await stage.carried(wave, carry) for wave in stage.moves])


async def gated(stage: Stage) -> int:
    """Let replacements come with a gate, as a MutatingAdmissionPolicy would do it, and release each to its node alone."""
    for i in range(stage.ring):
        stage.world.patch("ReplicaSet", f"default/w{i}", {"spec": {"template": {"spec": {"schedulingGates": [{"name": GATE}]}}}})

    async def carry(move: Move, known: set[str]) -> bool:
        await stage.evict(move.name, move.uid)
        found = await stage.replaced(move.workload, known)
        fields = [{"key": "metadata.name", "operator": "In", "values": [move.target]}]
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchFields": fields}]}}
        body: Object = {"spec": {"schedulingGates": None, "affinity": {"nodeAffinity": required}}}
        answer = await stage.api.send("PATCH", f"{PODS}/{found['metadata']['name']}", body)
        assert answer.ok, answer
        return await stage.cluster.until(lambda: stage.at(found["metadata"]["uid"]), _PLACED) == move.target

    return sum([await stage.carried(wave, carry) for wave in stage.moves])


Way = Callable[[Stage], Awaitable[int]]
WAYS: dict[str, Way] = {
    "all nodes closed, bound by apply": closed,
    "nothing closed, watch and roll back": watched,
    "replacements gated": gated,
}


# --- measuring --------------------------------------------------------------------------------------------------------


async def _arrive(world: SimulatedCluster, number: int) -> None:
    for k in range(number):
        await asyncio.sleep(_ARRIVE)
        world.create(pod(f"small-{k}", cpu=f"{_SMALL}m"))


async def _run(way: Way, world: SimulatedCluster, server: Server, ring: int, rounds: int) -> Measured:
    with tempfile.TemporaryDirectory() as folder:
        path = server.kubeconfig(Path(folder) / "config")
        async with connect(str(path)) as api:
            cluster = LiveCluster(api)
            await cluster.start()
            stage = Stage(api, cluster, world, ring, moves_of(world, ring, rounds))
            before, began, sent = len(world.evicted()), time.monotonic(), world.requests
            arriving = asyncio.create_task(_arrive(world, 3 * (ring // 2)))
            elsewhere = await way(stage)
            found = Measured(sum(map(len, stage.moves)), elsewhere, seconds=time.monotonic() - began, requests=world.requests - sent)
            arriving.cancel()
            found.on_our_room = on_our_room(world, ring)
            found.extra_evictions = len(world.evicted()) - before - found.moves
            await asyncio.sleep(0.5)
            found.waits = list(waits(world))
            await cluster.close()
    return found


def on_our_room(world: SimulatedCluster, ring: int) -> int:
    """Return the number of foreign pods on nodes of the ring that had no room for them before the run."""
    free = {f"n{i:03}": 1000 for i in range(ring)}
    found = 0
    for entry in world.bound():
        name = entry.key.partition("/")[2]
        if entry.node in free and name.startswith(("big-", "small-")):
            free[entry.node] -= 2000 if name.startswith("big-") else _SMALL
            found += free[entry.node] < 0
    return found


def waits(world: SimulatedCluster) -> Iterator[float]:
    """Yield the waiting time of each small pod."""
    created = {entry.key: entry.time for entry in world.log if (entry.verb, entry.kind) == ("create", "Pod") and "/small-" in entry.key}
    bound = {entry.key: entry.time for entry in world.bound()}
    for key, start in created.items():
        yield bound.get(key, world.core.clock.now) - start


def measure(way: Way, ring: int, rounds: int) -> Measured:
    """Return the result of a method in a world of its own."""
    world = SimulatedCluster(BEHAVIOUR)
    world.load(objects_of(ring))
    with Server(world) as server:
        return asyncio.run(_run(way, world, server, ring, rounds))


# --- skew -------------------------------------------------------------------------------------------------------------

#: Pods of others that come at once, and equal nodes that are empty.
_CROWD = 6
#: A scheduler that is quicker than requests, as on a small real cluster.
_QUICK = Behaviour(scheduler="at once", recreate=0.01, start=0.02, stop=0.15, taint=0.02, latency=0.007)


def _crowd(world: SimulatedCluster) -> None:
    for k in range(_CROWD):
        world.create(pod(f"small-{k}", cpu=f"{_SMALL}m"))


def _skew(world: SimulatedCluster) -> int:
    counts = dict.fromkeys((each["metadata"]["name"] for each in world.all("Node")), 0)
    for key, name in world.where().items():
        counts[name] += "/small-" in key
    return max(counts.values()) - min(counts.values())


def skew_of(way: Way | None) -> int:
    """Return the skew of pods that come as soon as all nodes are closed, or at once by a way that closes none; None: there is no run."""
    world = SimulatedCluster(_QUICK)
    world.load([each for each in objects_of(2 * _CROWD) if not each["metadata"]["name"].startswith("big-")])

    async def work(server: Server, folder: Path) -> None:
        async with connect(str(server.kubeconfig(folder / "config"))) as api:
            cluster = LiveCluster(api)
            await cluster.start()
            stage = Stage(api, cluster, world, 2 * _CROWD, moves_of(world, 2 * _CROWD, 1)[:1])
            closes = way is closed
            world.when(lambda now: not closes or len(now.cordoned()) == len(now.all("Node")), lambda: _crowd(world))
            if way is not None:
                await way(stage)
            else:
                world.patch("Node", "spare0", {"metadata": {"labels": {"begin": "now"}}})
            await asyncio.sleep(1)
            await cluster.close()

    with Server(world) as server, tempfile.TemporaryDirectory() as folder:
        asyncio.run(work(server, Path(folder)))
    return _skew(world)


def close_and_open(count: int, latency: float) -> tuple[float, float]:
    """Return the seconds that closing and opening ``count`` nodes takes, with a journal on disk."""
    world = SimulatedCluster(Behaviour(scheduler="slow", latency=latency))
    world.load([*(node(f"n{i:03}") for i in range(count)), pod("waits", cpu="100")])

    async def work(server: Server, folder: Path) -> tuple[float, float]:
        async with connect(str(server.kubeconfig(folder / "config"))) as api:
            cluster = LiveCluster(api)
            await cluster.start()
            async with Journal.open(str(folder / "journal.jsonl"), RunOrigin("document", "snapshot", server.url)) as journal:
                fence = Fence(JournaledApi(api, journal), cluster, journal.run, journal)
                began = time.monotonic()
                await fence.close()
                half = time.monotonic()
                assert len(world.cordoned()) == count
                assert await fence.open() == []
                end = time.monotonic()
                assert world.cordoned() == []
            await cluster.close()
        return half - began, end - half

    with Server(world) as server, tempfile.TemporaryDirectory() as folder:
        return asyncio.run(work(server, Path(folder)))


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=50, help="nodes of the ring, a multiple of 5")
    parser.add_argument("--rounds", type=int, default=2, help="pods that each of them hands on, at most 3")
    chosen = parser.parse_args()
    print(
        "| 100 moves | elsewhere | foreign pods on our room | extra evictions | requests | seconds | foreign pods wait, mean / most (s) "
        "| skew of foreign pods / without a run |"
    )
    print("|---|---:|---:|---:|---:|---:|---:|---:|")
    alone = skew_of(None)
    for name, way in WAYS.items():
        measurement = measure(way, chosen.nodes, chosen.rounds)
        measurement.skew = f"{skew_of(way)} / {alone}"
        print("| " + " | ".join([name, *measurement.cells()]) + " |", flush=True)
    print("\n| nodes | latency | closed in | opened in |\n|---:|---:|---:|---:|")
    for count, latency in ((200, 0.005), (200, 0.01), (1000, 0.01)):
        shut, opened = close_and_open(count, latency)
        print(f"| {count} | {1000 * latency:g} ms | {shut:.2f} s | {opened:.2f} s |", flush=True)


if __name__ == "__main__":
    main()
