"""Autoscalers, deschedulers and similar controllers are recognised if they run, and only then."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from aiohttp import web

from kubestow.live.api.connect import connect
from kubestow.live.api.live_cluster import LiveCluster
from kubestow.live.api.other_controllers import OtherController, find
from tests.live.api.server import Object, Server, kubeconfig, once, serving
from tests.objects import node, pod


def found(tmp_path: Path, *objects: Object, updated: str | None = None) -> list[OtherController]:
    server = Server()
    for obj in (node("n1"), *objects):
        server.put(obj)
    if updated is not None:
        annotations = {"cluster-autoscaler.kubernetes.io/last-updated": updated}
        server.faults += once("GET", "cluster-autoscaler-status", lambda: web.json_response({"metadata": {"annotations": annotations}}))

    async def run() -> list[OtherController]:
        async with serving(server), connect(kubeconfig(tmp_path / "config", server.url)) as connection:
            cluster = LiveCluster(connection)
            try:
                await cluster.start()
                return await find(connection, cluster)
            finally:
                await cluster.close()

    return asyncio.run(run())


def workload(kind: str, name: str, image: str = "registry.example/app:1", *, labels: dict[str, str] | None = None, **spec: Any) -> Object:
    template: Object = {"template": {"spec": {"containers": [{"name": "c", "image": image}]}}}
    if kind == "CronJob":
        template = {"jobTemplate": {"spec": template}}
    version = "batch/v1" if kind == "CronJob" else "apps/v1"
    metadata = {"name": name, "namespace": "ops", "labels": labels or {}, "uid": f"uid-{name}"}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": {**template, **spec}}


def test_workloads_are_recognised_by_name_label_and_image(tmp_path: Path) -> None:
    expected = {
        "cluster-autoscaler": [
            workload("Deployment", "cluster-autoscaler"),
            workload("Deployment", "ca-1", "registry.k8s.io/autoscaling/cluster-autoscaler:v1.36.0@sha256:0123"),
            workload("Deployment", "ca-2", labels={"app.kubernetes.io/name": "aws-cluster-autoscaler"}),
        ],
        "Karpenter": [
            workload("Deployment", "k-1", "public.ecr.aws/karpenter/controller:1.8.1"),
            workload("Deployment", "k-2", labels={"app.kubernetes.io/name": "karpenter"}, replicas=2),
        ],
        "descheduler": [
            workload("CronJob", "tidy", "localhost:5000/descheduler/descheduler:v0.35.0"),
            workload("StatefulSet", "my-descheduler"),
        ],
        "Vertical Pod Autoscaler": [workload("Deployment", "updates", "registry.k8s.io/autoscaling/vpa-updater:1.5")],
        "kured": [workload("DaemonSet", "kured")],
        "CAST AI": [workload("Deployment", "castai-evictor")],
    }
    others = found(tmp_path, *(obj for objects in expected.values() for obj in objects))
    wanted = {(name, f"{obj['kind']} ops/{obj['metadata']['name']}") for name, objects in expected.items() for obj in objects}
    assert {(each.name, each.where) for each in others} == wanted
    assert [each.role for each in others] == ["autoscaler"] * 6 + ["descheduler"] * 2 + ["drainer", "rightsizer"]
    assert str(others[-2]) == "kured runs (DaemonSet ops/kured): it closes and drains nodes"


def test_what_does_not_run_or_is_something_else_is_not_named(tmp_path: Path) -> None:
    idle = (
        workload("Deployment", "cluster-autoscaler", replicas=0),
        workload("CronJob", "descheduler", suspend=True),
        {**workload("DaemonSet", "kured"), "status": {"desiredNumberScheduled": 0}},
        pod("done", labels={"app": "descheduler"}) | {"status": {"phase": "Succeeded"}},
    )
    different = (
        workload("Deployment", "cluster-autoscaler-exporter"),
        workload("Deployment", "cluster-proportional-autoscaler", "registry.k8s.io/cpa/cluster-proportional-autoscaler:1"),
        workload("Deployment", "web", labels={"note": "not-the-descheduler"}),
    )
    assert found(tmp_path, *idle, *different) == []


def test_pods_count_once_with_what_made_them_and_by_themselves_where_nothing_known_did(tmp_path: Path) -> None:
    deployment = workload("Deployment", "karpenter")
    owned = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "karpenter", "uid": "uid-karpenter", "controller": True}
    replica_set = workload("ReplicaSet", "karpenter-5d")
    replica_set["metadata"]["ownerReferences"] = [owned]
    child = pod("karpenter-5d-x", labels={"app": "karpenter"}, namespace="ops")
    child["metadata"]["ownerReferences"] = [{**owned, "kind": "ReplicaSet", "name": "karpenter-5d", "uid": "uid-karpenter-5d"}]
    static = pod("cluster-autoscaler-n1", labels={"k8s-app": "cluster-autoscaler"}, namespace="kube-system")
    assert [each.where for each in found(tmp_path, deployment, replica_set, child, static)] == [
        "Deployment ops/karpenter",
        "Pod kube-system/cluster-autoscaler-n1",
    ]


def test_what_a_provider_runs_out_of_sight_is_found_by_its_traces(tmp_path: Path) -> None:
    now = datetime.now(UTC)
    made = node("n2", labels={"karpenter.sh/nodepool": "default"})
    names = [each.name for each in found(tmp_path, made, updated=f"{now:%Y-%m-%d %H:%M:%S}.123 +0000 UTC")]
    assert names == ["Karpenter", "cluster-autoscaler"]
    assert found(tmp_path, updated=f"{now - timedelta(days=1):%Y-%m-%d %H:%M:%S} +0000 UTC") == []
    assert found(tmp_path, updated="yesterday") == []
