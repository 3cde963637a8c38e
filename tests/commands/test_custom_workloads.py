"""Custom workloads that stand in the cluster: what the commands say of their running pods."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from kubestow import cli
from kubestow.models.custom_workloads import table
from tests.models.custom_workloads.objects import Object
from tests.models.workloads.gangs.test_running_gangs import clone_set, torch_job
from tests.objects import node, pod

pytestmark = [pytest.mark.full, pytest.mark.skipif(not table.available(), reason="no CEL library on this platform")]


def made(name: str, on: str, owner: str, api_version: str) -> Object:
    found = pod(name, node_name=on, owner=owner, cpu="1")
    found["metadata"]["ownerReferences"][0]["apiVersion"] = api_version
    return found


@pytest.fixture
def cluster(tmp_path: Path) -> str:
    """Two pods of a CloneSet on n0, two of a PyTorchJob on n1, and n2, which is empty."""
    clones = [made(f"c-{i}", "n0", "CloneSet/a", "apps.kruise.io/v1alpha1") for i in range(2)]
    workers = [made(f"a-worker-{i}", "n1", "PyTorchJob/a", "kubeflow.org/v1") for i in range(2)]
    nodes = [node(f"n{i}", cpu="4") for i in range(3)]
    stored = [{**each, "metadata": {**each["metadata"], "uid": each["kind"]}} for each in (clone_set(2), torch_job(2))]
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [*nodes, *clones, *workers, *stored]}))
    return str(path)


def document(code: int, *arguments: str) -> Any:
    result = CliRunner().invoke(cli.main, [*arguments, "-q", "-f", "json"])
    assert result.exit_code == code, result.output
    return json.loads(result.stdout)


def test_rebalance_moves_pods_that_are_replaced_and_no_gangs(cluster: str) -> None:
    plan = document(0, "rebalance", cluster, "--drain", "n0")
    assert sorted(move["pod"] for move in plan["moves"]) == ["default/c-0", "default/c-1"]
    assert plan["excluded"] == [{"reason": "gang", "pods": ["default/a-worker-0", "default/a-worker-1"]}]


def test_upgrade_names_the_gang(cluster: str) -> None:
    found = document(3, "upgrade", cluster, "--pool", "kubernetes.io/hostname=n1")
    assert {(each["node"], each["kind"]) for each in found["blocked"]} == {("n1", "notEvictable")}
    assert "gang" in found["blocked"][0]["message"]
    assert document(0, "upgrade", cluster, "--pool", "kubernetes.io/hostname=n0")["blocked"] == []


def test_survive_places_the_pods_again(cluster: str) -> None:
    found = document(0, "survive", cluster, "--fail", "node")
    assert found["certified"]
    assert not found["exposed"]
