"""Manifests of custom workloads with the nodes of a placement: the templates are at the paths of the table of kinds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from kubestow import cli
from kubestow.models.custom_workloads import table
from tests.models.custom_workloads.objects import Object, custom, job_set, lws, template
from tests.objects import node

pytestmark = [pytest.mark.full, pytest.mark.skipif(not table.available(), reason="no CEL library on this platform")]
GATE = {"name": "kubestow.dev/placement"}


def solved(tmp_path: Path, *objects: Object, gates: bool = False) -> tuple[list[Any], str]:
    """Return the objects with nodes, and standard error."""
    cluster, manifest = tmp_path / "cluster.json", tmp_path / "w.yaml"
    cluster.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [node(f"n{i}") for i in range(2)]}))
    manifest.write_text("---\n".join(yaml.safe_dump(each) for each in objects))
    more = ["--gates"] if gates else []
    result = CliRunner().invoke(cli.main, ["solve", str(cluster), "-w", str(manifest), "-f", "manifests", *more])
    assert result.exit_code == 0, result.output
    return list(yaml.safe_load_all(result.stdout)), result.stdout + result.stderr


def nodes(spec: Any) -> list[str]:
    terms = spec["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    return [name for term in terms for name in term["preference"]["matchFields"][0]["values"]]


def test_each_role_gets_its_nodes_and_gate(tmp_path: Path) -> None:
    (found,), _ = solved(tmp_path, job_set(("leader", 1, 1), ("workers", 2, 2)), gates=True)
    specs = [job["template"]["spec"]["template"]["spec"] for job in found["spec"]["replicatedJobs"]]
    assert [spec["schedulingGates"] for spec in specs] == [[GATE], [GATE]]
    assert len(nodes(specs[0])) == 1
    assert set(nodes(specs[1])) <= {"n0", "n1"}
    assert found["metadata"]["annotations"]["kubestow.dev/preferred-nodes"] == str(sum(len(nodes(spec)) for spec in specs))


def test_roles_with_one_template_share_its_nodes(tmp_path: Path) -> None:
    (found,), _ = solved(tmp_path, lws(2, 2))
    assert set(nodes(found["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"])) == {"n0", "n1"}


def test_objects_inside_another_one(tmp_path: Path) -> None:
    inner = custom("kubeflow.org/v1", "PyTorchJob", {"pytorchReplicaSpecs": {"Worker": {"replicas": 2, "template": template()}}}, name="b")
    (found,), _ = solved(tmp_path, custom("workload.codeflare.dev/v1beta2", "AppWrapper", {"components": [{"template": inner}]}))
    assert nodes(found["spec"]["components"][0]["template"]["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"])


def test_templates_of_other_objects_stay_as_they_are(tmp_path: Path) -> None:
    job = custom("trainer.kubeflow.org/v1alpha1", "TrainJob", {"runtimeRef": {"name": "torch-distributed"}, "trainer": {"numNodes": 2}})
    (found,), said = solved(tmp_path, job)
    assert found == job
    assert "TrainJob default/a is left as it is: the object has no pod template of its own" in said
