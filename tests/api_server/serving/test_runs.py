"""Tests of whole runs over HTTP: equal seeds give equal results, and a snapshot can be served by hand."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.api_server import Behaviour, Server, SimulatedCluster
from tests.api_server.client import Client
from tests.objects import node, pod

_ROOT = Path(__file__).parents[3]


def _emptied(seed: int) -> dict[str, str]:
    """Drain a node request by request, and return the new nodes of its pods."""
    world = SimulatedCluster(Behaviour(seed=seed, latency=0.001, scheduler="random", scheduling=0.002))
    world.load([*(node(f"n{i}") for i in range(4)), *(pod(f"web-{i}", node_name="n0", owner="ReplicaSet/web") for i in range(6))])
    with Server(world) as server:
        client = Client(server)
        assert client.patch("/api/v1/nodes/n0", {"spec": {"unschedulable": True}})[0] == 200
        for i in range(6):
            assert client.evict(f"web-{i}")[0] == 201
    world.settle()
    return world.where()


def test_the_same_seed_gives_the_same_world() -> None:
    first = _emptied(1)
    assert len(first) == 6
    assert "n0" not in first.values()
    assert _emptied(1) == first
    assert _emptied(2) != first


@pytest.mark.full
def test_a_snapshot_is_served_until_it_is_interrupted(tmp_path: Path) -> None:
    snapshot, config = tmp_path / "snapshot.json", tmp_path / "config"
    snapshot.write_text(json.dumps({"kind": "List", "items": [node("n1"), pod("p")]}), encoding="utf-8")
    command = [sys.executable, "-m", "tests.api_server", str(snapshot), "--kubeconfig", str(config)]
    with subprocess.Popen(command, cwd=_ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("serving http://127.0.0.1:")
        where = yaml.safe_load(config.read_text(encoding="utf-8"))["clusters"][0]["cluster"]["server"]
        fetched = subprocess.run(
            [sys.executable, "-c", f"import urllib.request as u; print(u.urlopen('{where}/api/v1/pods', timeout=10).read().decode())"],
            capture_output=True, text=True, timeout=30, check=True,
        )  # fmt: skip
        process.send_signal(signal.SIGINT)
        try:
            assert process.wait(timeout=30) == 0
        finally:
            process.kill()  # leaving the block would wait for it indefinitely
    assert json.loads(fetched.stdout)["items"][0]["spec"]["nodeName"] == "n1"
