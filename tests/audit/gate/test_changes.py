"""The effects of applying manifests on workloads, and the changes that an API server would refuse."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from kubestow.audit.gate.changes import WorkloadChange, as_applied, changes
from kubestow.models.snapshot.snapshot import Snapshot, from_objects
from kubestow.models.workloads.merge import merge
from tests.objects import Object, node, pod

LABELS = {"app": "web"}


def workload(kind: str = "Deployment", *, replicas: int | None = 2, image: str = "web:1", cpu: str = "1", **spec: Any) -> Object:
    """A workload called shop/web."""
    template: Object = {
        "metadata": {"labels": LABELS},
        "spec": {"containers": [{"name": "c", "image": image, "resources": {"requests": {"cpu": cpu}}}]},
    }
    said: Object = {"selector": {"matchLabels": LABELS}, "template": template, **spec}
    if replicas is not None and kind != "DaemonSet":
        said["replicas"] = replicas
    if kind == "Job":
        template["spec"]["restartPolicy"] = "Never"
        said = {"template": template, **spec}
    if kind == "CronJob":
        template["spec"]["restartPolicy"] = "Never"
        said = {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": template}}}
    group = "batch/v1" if kind in ("Job", "CronJob") else "apps/v1"
    return {"apiVersion": group, "kind": kind, "metadata": {"name": "web", "namespace": "shop"}, "spec": said}


def found(there: list[Object], manifests: list[Object]) -> list[WorkloadChange]:
    cluster, brought = from_objects([node("n1"), *there]), from_objects(manifests, manifests=True)
    problems: list[str] = []
    merged = merge(cluster, brought, problems)
    assert problems == []
    return changes(cluster, as_applied(cluster, brought), merged)


@pytest.mark.parametrize(
    ("before", "after", "action"),
    [
        (None, workload(), "new"),
        (workload(), workload(), "unchanged"),
        (workload(), workload(replicas=5), "scaled"),
        (workload(), workload(replicas=None), "unchanged"),
        (workload(), workload(image="web:2"), "rolling update"),
        (workload(), workload(cpu="2", replicas=5), "rolling update"),
        (workload(), workload(cpu="1000m"), "unchanged"),
        (workload(), workload(cpu="2", strategy={"type": "Recreate"}), "recreated"),
        (workload("StatefulSet"), workload("StatefulSet", cpu="2"), "rolling update"),
        (workload("DaemonSet"), workload("DaemonSet", cpu="2"), "rolling update"),
        (workload("DaemonSet"), workload("DaemonSet"), "unchanged"),
        (workload("CronJob"), workload("CronJob", cpu="2"), "changed"),
        (workload("ReplicaSet"), workload("ReplicaSet", cpu="2"), "changed"),
    ],
)
def test_what_becomes_of_a_workload(before: Object | None, after: Object, action: str) -> None:
    (change,) = found([] if before is None else [before], [after])
    assert (change.action, change.refused) == (action, ())


def test_a_rollout_that_is_under_way_goes_on_though_the_manifest_brings_nothing_new() -> None:
    old: Object = {**workload("ReplicaSet", cpu="2"), "metadata": {"name": "web-1", "namespace": "shop"}}
    old["metadata"]["ownerReferences"] = [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "w", "controller": True}]
    running = pod("web-1-x", namespace="shop", labels=LABELS, cpu="2", node_name="n1", owner="ReplicaSet/web-1")
    (change,) = found([workload(), old, running], [workload()])
    assert change.action == "rolling update"
    same = copy.deepcopy(old)
    same["spec"]["template"] = workload()["spec"]["template"]
    (change,) = found([workload(), same, running], [workload()])
    assert change.action == "unchanged"


def test_replicas_that_a_manifest_leaves_open_are_those_of_the_cluster() -> None:
    cluster = from_objects([node("n1"), workload(replicas=7)])
    applied = as_applied(cluster, from_objects([workload(replicas=None)], manifests=True))
    assert applied.workloads["Deployment"][0].spec.replicas == 7
    stated = as_applied(cluster, from_objects([workload(replicas=1)], manifests=True))
    assert stated.workloads["Deployment"][0].spec.replicas == 1
    assert as_applied(Snapshot(), from_objects([workload(replicas=None)], manifests=True)).workloads["Deployment"][0].spec.replicas == 1


@pytest.mark.parametrize(
    ("before", "after", "refused"),
    [
        (workload("Job"), workload("Job", cpu="2"), "spec.template: the template of a Job cannot be changed: delete the Job first"),
        (
            {**workload(), "spec": {**workload()["spec"], "selector": {"matchLabels": {"old": "web"}}}},
            workload(),
            "spec.selector: cannot be changed: delete the Deployment first",
        ),
        (
            workload("StatefulSet"),
            workload("StatefulSet", podManagementPolicy="Parallel"),
            "spec.podManagementPolicy: cannot be changed from OrderedReady to Parallel: delete the StatefulSet first",
        ),
        (
            None,
            {**workload(), "spec": {**workload()["spec"], "selector": {"matchLabels": {"app": "shop"}}}},
            "spec.selector: app=shop does not select the labels of spec.template, expected one that does",
        ),
    ],
)
def test_what_no_api_server_takes(before: Object | None, after: Object, refused: str) -> None:
    (change,) = found([] if before is None else [before], [after])
    assert change.refused == (refused,)


def test_pods_of_manifests_are_new_or_there() -> None:
    there = pod("p", node_name="n1")
    assert [(c.ref, c.action) for c in found([there], [pod("p"), pod("q")])] == [("Pod default/p", "unchanged"), ("Pod default/q", "new")]
