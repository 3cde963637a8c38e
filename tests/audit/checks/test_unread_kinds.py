"""Pod templates in objects of kinds that are not read: found wherever they are in the object, in manifests only."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from kubestow import cli
from kubestow.audit.run import AuditOptions, audit
from kubestow.models.snapshot.snapshot import from_objects
from tests.objects import Object, node

CONTAINERS = [{"name": "c", "image": "x", "resources": {"requests": {"cpu": "1"}}}]
TEMPLATE = {"spec": {"containers": CONTAINERS}}


def made(api_version: str, kind: str, spec: dict[str, Any], **metadata: Any) -> Object:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "a", "namespace": "ns1", **metadata}, "spec": spec}


#: Objects with pod templates, and where these are.
KINDS: list[tuple[Object, str]] = [
    (
        made(
            "jobset.example.com/v1alpha2",
            "JobSet",
            {"replicatedJobs": [{"name": "w", "template": {"spec": {"template": TEMPLATE}}}]},
        ),
        "spec.replicatedJobs[0].template.spec.template.spec",
    ),
    (
        made(
            "lws.example.com/v1",
            "LeaderWorkerSet",
            {"leaderWorkerTemplate": {"size": 3, "workerTemplate": TEMPLATE}},
        ),
        "spec.leaderWorkerTemplate.workerTemplate.spec",
    ),
    (
        made("kubeflow.example.com/v1", "PyTorchJob", {"pytorchReplicaSpecs": {"Master": {"template": TEMPLATE}}}),
        "spec.pytorchReplicaSpecs.Master.template.spec",
    ),
    (made("batch.example.com/v1alpha1", "Job", {"tasks": [{"name": "t", "template": TEMPLATE}]}), "spec.tasks[0].template.spec"),
    (made("rollouts.example.com/v1alpha1", "Rollout", {"replicas": 2, "template": TEMPLATE}), "spec.template.spec"),
    (
        made("ray.example.com/v1", "RayCluster", {"headGroupSpec": {"template": TEMPLATE}, "workerGroupSpecs": [{"template": TEMPLATE}]}),
        "spec.headGroupSpec.template.spec",
    ),
    (made("serving.example.com/v1", "Service", {"template": TEMPLATE}), "spec.template.spec"),
    (made("argoproj.io/v1alpha1", "Workflow", {"templates": [{"name": "m", "container": {"image": "x"}}]}), "spec.templates[0]"),
    (made("tekton.dev/v1", "Task", {"steps": [{"image": "x"}]}), "spec"),
    (made("apps.openshift.io/v1", "DeploymentConfig", {"template": {"spec": {"initContainers": CONTAINERS}}}), "spec.template.spec"),
    (made("example.com/v1", "Deployment", {"template": TEMPLATE}), "spec.template.spec"),
    (made("x.y.z/v9", "Never-Heard-Of", {"a": [[{"b": {"containers": [{"name": "no-image"}]}}]]}), "spec.a[0][0].b"),
]
#: Objects without.
NONE: list[Object] = [
    made("rollouts.example.com/v1alpha1", "Rollout", {"workloadRef": {"kind": "Deployment", "name": "web"}}),
    made("kyverno.io/v1", "ClusterPolicy", {"rules": [{"validate": {"pattern": {"spec": {"containers": [{"name": "*"}]}}}}]}),
    made("monitoring.coreos.com/v1", "ServiceMonitor", {"selector": {}}),
    made("x.y.z/v1", "Thing", {"containers": 3, "steps": [], "container": "x", "initContainers": ["a"]}),
    {**made("x.y.z/v1", "Thing", {}), "status": {"containers": CONTAINERS}},
    {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {"name": "a"},
        "revision": 1,
        "data": {"spec": {"template": TEMPLATE}},
    },
]


def found(*items: Object, manifests: bool = True) -> list[tuple[str, str | None]]:
    snapshot = from_objects([node("n1"), *items], manifests=manifests)
    return [(f.object, f.field) for f in audit(snapshot, AuditOptions()).findings if f.code == "KS809"]


@pytest.mark.parametrize(("obj", "field"), KINDS, ids=[obj["kind"] for obj, _ in KINDS])
def test_a_pod_template_of_a_kind_that_is_not_read_is_found(obj: Object, field: str) -> None:
    assert found(obj) == [(f"{obj['kind']} ns1/a", field)]


@pytest.mark.parametrize("obj", NONE, ids=[obj["kind"] for obj in NONE])
def test_objects_without_a_pod_template_are_left_alone(obj: Object) -> None:
    assert found(obj) == []


def test_lists_are_unfolded() -> None:
    items = [{**KINDS[0][0], "metadata": {"name": name, "namespace": "ns1"}} for name in ("a", "b")]
    without = [{key: value for key, value in item.items() if key not in ("kind", "apiVersion")} for item in items]
    refs = [("JobSet ns1/a", KINDS[0][1]), ("JobSet ns1/b", KINDS[0][1])]
    assert found({"apiVersion": "v1", "kind": "List", "items": items}) == refs
    assert found({"apiVersion": "jobset.example.com/v1alpha2", "kind": "JobSetList", "items": without}) == refs


def test_what_an_api_server_has_stored_has_pods_of_its_own() -> None:
    stored = made("rollouts.example.com/v1alpha1", "Rollout", {"template": TEMPLATE}, uid="u1")
    assert found(stored, manifests=False) == []
    assert found(stored) == [("Rollout ns1/a", "spec.template.spec")]
    assert found(KINDS[0][0], manifests=False) != []


def test_every_template_of_an_object_is_counted_once() -> None:
    two = made(
        "kubeflow.example.com/v1",
        "PyTorchJob",
        {"pytorchReplicaSpecs": {"Master": {"template": TEMPLATE}, "Worker": {"template": TEMPLATE}}},
    )
    (finding,) = [f for f in audit(from_objects([node("n1"), two], manifests=True), AuditOptions()).findings if f.code == "KS809"]
    assert finding.message == (
        "2 pod templates in the unsupported kind PyTorchJob (kubeflow.example.com/v1): "
        "spec.pytorchReplicaSpecs.Master.template.spec, spec.pytorchReplicaSpecs.Worker.template.spec"
    )


# --- the command --------------------------------------------------------------------------------------------------------


def check(*arguments: object) -> Result:
    return CliRunner().invoke(cli.main, ["check", *map(str, arguments), "-f", "json"])


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cluster.json").write_text(json.dumps(node("n1")), encoding="utf-8")
    (tmp_path / "m").mkdir()
    for i, (obj, _) in enumerate(KINDS[:5]):
        (tmp_path / "m" / f"{i}.json").write_text(json.dumps(obj), encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("cluster", [(), ("--cluster", "cluster.json")])
def test_check_names_each_of_them_and_exits_with_4(files: Path, cluster: tuple[str, ...]) -> None:
    result = check("m", *cluster)
    assert result.exit_code == 4
    faults = json.loads(result.stdout)["faults"]
    assert sorted(f["finding"]["object"] for f in faults) == sorted(f"{obj['kind']} ns1/a" for obj, _ in KINDS[:5])
    assert {f["finding"]["severity"] for f in faults} == {"error"}
    assert {f["position"]["file"] for f in faults} == {f"m/{i}.json" for i in range(5)}


def test_check_lets_them_through_if_asked_to(files: Path) -> None:
    result = check("m", "--allow-unknown-kinds", "--cluster", "cluster.json")
    assert (result.exit_code, json.loads(result.stdout)["faults"]) == (0, [])
    assert check("m", "--ignore", "KS809").exit_code == 0
    assert check("m", "--base", "m").exit_code == 0
