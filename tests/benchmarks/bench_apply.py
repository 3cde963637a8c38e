"""How long ``apply`` takes against the stand-in API server: ``python tests/benchmarks/bench_apply.py``.

200 nodes are closed and opened again, and 1,000 pending pods are bound as a Placement says, with every request answered after 7 ms. The
server is a process of its own, as the two would share one processor otherwise.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from kubestow.commands.apply.remaining_steps import judge_rest
from kubestow.live.api.connect import connect
from kubestow.live.api.live_cluster import LiveCluster
from kubestow.live.apply.fence import Fence
from kubestow.live.apply.journal import Journal, RunOrigin
from kubestow.live.apply.moving.work import RunOptions
from kubestow.live.apply.run import Execution
from kubestow.models.documents.placement import Placement
from kubestow.models.snapshot.snapshot import Snapshot, from_objects
from kubestow.solver.runtime.options import Options as Solving
from kubestow.solver.solve import place
from tests import objects
from tests.api_server import Behaviour, Server, SimulatedCluster

LATENCY, PODS, NODES = 0.007, 1000, 200


def items() -> list[dict[str, Any]]:
    """Return nodes with room for all pods."""
    nodes = [objects.node(f"n{i}", cpu="8") for i in range(NODES)]
    return nodes + [objects.pod(f"p{i}", cpu="500m", owner=f"ReplicaSet/set-{i % 20}") for i in range(PODS)]


def serve(pipe: Any, folder: str) -> None:
    """Serve a simulated cluster until the other end of the pipe closes. Send the kubeconfig and the objects first."""
    world = SimulatedCluster(Behaviour(latency=LATENCY, scheduler="off"))
    world.load(items(), templates_of_pods=True)
    with Server(world) as server:
        pipe.send((str(server.kubeconfig(Path(folder) / "config")), world.items()))
        pipe.recv()


async def closed(config: str, folder: str) -> tuple[float, float]:
    """Return the seconds for all nodes to be closed, and to be opened again."""
    async with connect(config) as api, Journal.open(f"{folder}/nodes.journal.jsonl", RunOrigin("r", "s", "here")) as journal:
        cluster = LiveCluster(api)
        await cluster.start()
        fence = Fence(api, cluster, journal.run, journal)
        began = time.monotonic()
        await fence.close()
        middle = time.monotonic()
        remaining = await fence.open()
        assert remaining == []
        await cluster.close()
        return middle - began, time.monotonic() - middle


async def bound(config: str, folder: str, placement: Placement, snapshot: Snapshot) -> tuple[float, float]:
    """Return the seconds for the whole run, and from the first to the last Binding."""
    path = Path(folder) / "pods.journal.jsonl"
    async with connect(config) as api, Journal.open(str(path), RunOrigin("r", "s", "here")) as journal:
        cluster = LiveCluster(api)
        await cluster.start()
        began = time.monotonic()
        outcome = await Execution(api, cluster, journal, placement, snapshot, judge_rest, RunOptions(timeout=120)).run()
        whole = time.monotonic() - began
        assert outcome.state == "done", outcome.message
        await cluster.close()
    lines = [line for line in path.read_text().splitlines() if "/binding" in line]
    times = [float(line.split('"time":"')[1][17:23]) + 60 * int(line.split('"time":"')[1][14:16]) for line in lines]
    return whole, max(times) - min(times)


def main() -> None:
    """Print a table."""
    with tempfile.TemporaryDirectory() as folder:
        ours, theirs = multiprocessing.Pipe()
        process = multiprocessing.get_context("spawn").Process(target=serve, args=(theirs, folder), daemon=True)
        process.start()
        config, result = ours.recv()
        snapshot = from_objects(result)
        placement = place(snapshot, Solving(engine="greedy", time_limit=60, causes=False))
        close, reopen = asyncio.run(closed(config, folder))
        print(f"{NODES} nodes closed: {close:.1f} s, opened: {reopen:.1f} s")
        whole, bindings = asyncio.run(bound(config, folder, placement, snapshot))
        print(f"{len(placement.assignments)} Bindings: {bindings:.1f} s, the whole run: {whole:.1f} s")
        ours.send("end")
        process.join()


if __name__ == "__main__":
    main()
