"""Held pods of custom workloads: their gangs are let go whole, on the nodes of their placement."""

from __future__ import annotations

from pathlib import Path

import pytest

from kubestow.live.gates.gates import ReleaseOptions
from kubestow.models.custom_workloads import table
from kubestow.models.execution.template_nodes import GATE
from tests.live.gates.stage import Stage
from tests.live.gates.test_gates import NODES, go
from tests.models.custom_workloads.objects import Object, custom, template
from tests.objects import pod

pytestmark = pytest.mark.skipif(not table.available(), reason="no CEL library on this platform")

_JOB = custom(
    "kubeflow.org/v1",
    "PyTorchJob",
    {"pytorchReplicaSpecs": {"Master": {"replicas": 1, "template": template()}, "Worker": {"replicas": 2, "template": template()}}},
    namespace="default",
)


def _held(role: str, index: int) -> Object:
    """Return a pod as the training operator makes it, behind the gate."""
    made = pod(f"a-{role}-{index}", owner="PyTorchJob/a", cpu="100m")
    made["metadata"]["ownerReferences"][0] |= {"apiVersion": "kubeflow.org/v1", "uid": "job"}
    made["metadata"]["labels"] = {
        "training.kubeflow.org/job-name": "a",
        "training.kubeflow.org/operator-name": "pytorchjob-controller",
        "training.kubeflow.org/replica-type": role,
        "training.kubeflow.org/replica-index": str(index),
    }
    made["spec"]["schedulingGates"] = [{"name": GATE}]
    return made


def test_a_gang_of_two_roles_is_let_go_when_all_its_pods_are_there(tmp_path: Path) -> None:
    stage = Stage(NODES, [_JOB], ["n3", "n1", "n2"], options=ReleaseOptions(timeout=0.3, pause=0.01))
    for each in (_held("master", 0), _held("worker", 1)):
        stage.world.create(each, "operator")
    outcome = go(stage, tmp_path)
    assert outcome.state == "stopped"
    assert any(
        "gang default/a is not all there: PyTorchJob default/a.master 1 of 1, PyTorchJob default/a.worker 1 of 2" in why
        for why in outcome.deviations
    )
    assert stage.held() == ["a-master-0", "a-worker-1"]
    stage.options = ReleaseOptions(timeout=60, pause=0.01)
    stage.world.create(_held("worker", 0), "operator")
    assert go(stage, tmp_path).state == "done"
    assert stage.pods() == {"a-master-0": "n3", "a-worker-0": "n1", "a-worker-1": "n2"}
