"""Redaction of custom workloads: the pods read from them are the same, and nothing else of them is left."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from kubestow.live.capture_kinds import listed
from kubestow.live.redact import Keeper
from kubestow.models.custom_workloads import table
from kubestow.models.snapshot.snapshot import Snapshot, from_objects
from tests.models.custom_workloads.objects import Object, custom, job_set, lws, template

pytestmark = pytest.mark.skipif(not table.available(), reason="no CEL library on this platform")

_SECRET = "hunter2/secret"


def _talkative(annotations: Object | None = None) -> Object:
    """Return a pod template with more than placement reads."""
    found = template(annotations={"note": _SECRET, **(annotations or {})}, labels={"app": "x"}, nodeSelector={"pool": "a"})
    found["spec"]["containers"][0] |= {"env": [{"name": "TOKEN", "value": _SECRET}], "command": [_SECRET], "image": _SECRET}
    return found


def _with_templates(value: Any, made: Object) -> Any:
    """Return plain data with this pod template in place of each one."""
    if isinstance(value, dict):
        holds = isinstance(value.get("spec"), dict) and "containers" in value["spec"]
        return made if holds else {key: _with_templates(below, made) for key, below in value.items()}
    return [_with_templates(below, made) for below in value] if isinstance(value, list) else value


def _redacted(obj: Object) -> Object:
    row = f"{obj['kind'].lower()}s {obj['apiVersion']} true {obj['kind']}"
    resource = next(iter(listed(row)))
    keeper = Keeper(resource.kind, resource.api_version)
    page = {"kind": f"{obj['kind']}List", "apiVersion": obj["apiVersion"], "items": [obj]}
    found, _ = keeper.page(json.dumps(page).encode())
    assert keeper.problems == []
    result: Object = json.loads(found[0])
    return result


def _read(obj: Object) -> tuple[Any, list[str]]:
    snapshot: Snapshot = from_objects([obj])
    sets = msgspec.to_builtins(snapshot.workloads)
    for each in (each for found in sets.values() for each in found):
        for container in each["spec"]["template"]["spec"]["containers"]:
            container.pop("image", None)
        each["spec"]["template"].get("metadata", {}).pop("annotations", None)
    return sets, snapshot.omissions


_RAY = {
    "headGroupSpec": {"template": template(), "rayStartParams": {"password": _SECRET}},
    "workerGroupSpecs": [{"groupName": "w", "replicas": 2, "minReplicas": 1, "maxReplicas": 9, "numOfHosts": 2, "template": template()}],
}
_SPARK = {
    "arguments": [_SECRET],
    "image": _SECRET,
    "driver": {"coreRequest": "1", "memory": "1g"},
    "executor": {"instances": 2, "coreRequest": "500m", "memory": "2g"},
}
_MODEL = {"predictor": {"minReplicas": 2, "model": {"storageUri": f"s3://{_SECRET}", "resources": {"requests": {"cpu": "3"}}}}}


@pytest.mark.parametrize(
    "obj",
    [
        job_set(("workers", 2, 3), ("driver", 1, 1)),
        lws(2, 3, subGroupPolicy={"subGroupSize": 1}),
        custom("kubeflow.org/v1", "PyTorchJob", {"pytorchReplicaSpecs": {"Worker": {"replicas": 3, "template": template()}}}),
        custom("ray.io/v1", "RayCluster", _RAY),
        custom("ray.io/v1", "RayJob", {"rayClusterSpec": _RAY, "entrypoint": _SECRET, "runtimeEnvYAML": _SECRET}),
        custom("batch.volcano.sh/v1alpha1", "Job", {"minAvailable": 2, "tasks": [{"name": "t", "replicas": 3, "template": template()}]}),
        custom("sparkoperator.k8s.io/v1beta2", "SparkApplication", _SPARK),
        custom("serving.kserve.io/v1beta1", "InferenceService", _MODEL),
    ],
    ids=lambda obj: str(obj["kind"]),
)
def test_what_is_kept_reads_as_the_object_and_has_no_secrets(obj: Object) -> None:
    stored = _with_templates(obj, _talkative())
    stored["metadata"] = {**stored["metadata"], "namespace": "default", "uid": "u", "annotations": {"note": _SECRET}}
    found = _redacted(stored)
    assert _read(found) == _read(stored)
    assert "hunter2" not in json.dumps(found)


def test_annotations_that_the_table_reads_are_kept() -> None:
    scale = {"autoscaling.knative.dev/min-scale": "3"}
    service = custom("serving.knative.dev/v1", "Service", {"template": _talkative(scale)}, namespace="default", uid="u")
    found = _redacted(service)
    assert found["spec"]["template"]["metadata"]["annotations"] == scale
    assert _read(found) == _read(service)
