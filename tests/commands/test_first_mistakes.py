"""Natural mistakes end in a line that says what was probably meant, never in an answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.commands.test_bad_input import refusals, write
from tests.objects import Object, node, pod

#: The commands that read a snapshot, with what else they need.
READING = [("solve",), ("explain",), ("rebalance", "--goal", "repair"), ("audit",)]
MANIFESTS = [("solve",), ("explain",)]

SPREAD: Object = {
    "maxSkew": 1,
    "topologyKey": "zone",
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": {"matchLabels": {"app": "web"}},
}


def deployment(name: str = "web", **spec: Any) -> Object:
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "app", "image": "app"}], **spec}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": name}}, "template": template},
    }


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    return write(tmp_path / "cluster.json", node("a", cpu="4"), node("b", cpu="4"))


# --- duplicate keys ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", READING, ids=lambda command: command[0])
def test_a_key_given_twice_is_refused_in_snapshots(command: tuple[str, ...], tmp_path: Path) -> None:
    text = json.dumps({"kind": "List", "items": [node("a"), pod("p", namespace="prod", cpu="1")]})
    file = tmp_path / "s.json"
    file.write_text(text.replace('"cpu": "1"', '"cpu": "1", "cpu": "2"'))
    (line,) = refusals(tmp_path, file, command=command)
    assert line == f"{file}: Pod prod/p: spec.containers[0].resources.requests.cpu: duplicate key, expected each key once"


def test_a_key_given_twice_is_refused_in_manifests_and_results(cluster: Path, tmp_path: Path) -> None:
    text = json.dumps(deployment())
    manifest = tmp_path / "web.json"
    manifest.write_text(text.replace('"replicas": 2', '"replicas": 2, "replicas": 3'))
    (line,) = refusals(tmp_path, cluster, command=("solve", "-w", str(manifest)))
    assert line == f"{manifest}: Deployment default/web: spec.replicas: duplicate key, expected each key once"
    result = tmp_path / "result.json"
    result.write_text('{"apiVersion": "kubestow.dev/v1alpha1", "kind": "Placement", "status": "optimal", "status": "feasible"}')
    (line,) = refusals(tmp_path, cluster, command=("verify", "--result", str(result)))
    assert line == f"{result}: status: duplicate key, expected each key once"
