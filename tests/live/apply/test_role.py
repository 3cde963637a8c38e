"""docs/apply-role.yaml has the rights that a run asks for, and no others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import pytest
from click.testing import CliRunner

from kubestow import cli
from tests.api_server import Behaviour, SimulatedCluster
from tests.api_server.judge import is_cordoned
from tests.live.roles import RIGHTS, Recording, allowed, optional
from tests.objects import Object, node, pod

MANIFEST: Final = Path(cli.__file__).parent / "docs/apply-role.yaml"
#: A node is read again where somebody else has changed it meanwhile, which depends on who is faster.
_IN_CONFLICTS: Final = {("", "nodes", "get", "")}
_CLASS: Final[Object] = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {"name": "late"},
    "provisioner": "stand.in/volumes",
    "volumeBindingMode": "WaitForFirstConsumer",
}
_CLAIM: Final[Object] = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "data", "namespace": "default"},
    "spec": {"storageClassName": "late", "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}


def _run(*arguments: str | Path) -> None:
    result = CliRunner().invoke(cli.main, list(map(str, arguments)))
    assert result.exit_code == 0, result.stderr


@pytest.mark.full
def test_the_roles_allow_what_is_asked_for_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A drain that moves a bare pod, too, and a pending pod that the scheduler has to bind."""
    world = SimulatedCluster(Behaviour(seed=1, scheduler="off"))
    waiting = pod("waiting", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}])
    world.load(
        [
            *(node(f"n{i}") for i in (1, 2)),
            pod("a-1", node_name="n1", owner="ReplicaSet/a"),
            pod("bare", node_name="n1"),
            _CLASS,
            _CLAIM,
            waiting,
        ],
        templates_of_pods=True,
    )
    snapshot, plan, placement = (tmp_path / f"{name}.json" for name in ("snapshot", "plan", "placement"))
    snapshot.write_text(json.dumps(world.snapshot()))
    _run("rebalance", snapshot, "--drain", "n1", "--also-move", "bare", "-q", "-o", plan)
    RIGHTS.clear()
    with Recording(world) as server:
        monkeypatch.setenv("KUBECONFIG", str(server.kubeconfig(tmp_path / "kubeconfig")))
        _run("apply", snapshot, "--result", plan, "--yes")
    # No scheduler until apply has cordoned the nodes: on a busy machine a slow one could still bind the pod before its step.
    served = SimulatedCluster(Behaviour(seed=1, scheduler="off"))
    served.when(lambda world: all(map(is_cordoned, world.all("Node"))), served.begin_scheduling)
    served.load([*(node(f"n{i}") for i in (1, 2)), _CLASS, _CLAIM, waiting])
    snapshot.write_text(json.dumps(served.snapshot()))
    _run("solve", snapshot, "-q", "-o", placement)
    with Recording(served) as server:
        monkeypatch.setenv("KUBECONFIG", str(server.kubeconfig(tmp_path / "kubeconfig")))
        _run("apply", snapshot, "--result", placement, "--yes")
    assert RIGHTS - allowed(MANIFEST) == set()
    assert allowed(MANIFEST) - RIGHTS - optional(allowed(MANIFEST)) - _IN_CONFLICTS == set()
