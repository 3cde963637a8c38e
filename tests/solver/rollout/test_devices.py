"""Rollouts of pods with claims of devices: those of an old pod come free when it goes, and the new ones' are named."""

from __future__ import annotations

from kubestow.models.snapshot.snapshot import from_objects
from kubestow.solver.rollout.simulate import roll_out
from kubestow.solver.runtime.options import Options
from tests.objects import Object, node, pod
from tests.solver.devices.test_shortage import device, device_class, gpus, published

CLAIMS = [{"name": "gpus", "resourceClaimTemplateName": "two"}]
SPEC = {"devices": {"requests": [gpus(2)]}}


def owner(kind: str, name: str, api: str = "apps/v1") -> list[Object]:
    return [{"apiVersion": api, "kind": kind, "name": name, "uid": f"uid-{name}", "controller": True}]


def workload(kind: str, name: str, image: str, **metadata: object) -> Object:
    container = {"name": "c", "image": image, "resources": {"claims": [{"name": "gpus"}]}}
    template = {"metadata": {"labels": {"app": "app"}}, "spec": {"containers": [container], "resourceClaims": CLAIMS}}
    spec: Object = {"replicas": 2, "selector": {"matchLabels": {"app": "app"}}, "template": template}
    if kind == "Deployment":
        spec["strategy"] = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}", **metadata},
        "spec": spec,
    }


def running(i: int, first: int) -> list[Object]:
    """An old pod with two devices of n1."""
    made = pod(f"old-{i}", node_name="n1", owner="ReplicaSet/app-old", labels={"app": "app"}, resourceClaims=CLAIMS)
    made["metadata"] |= {"uid": f"uid-old-{i}", "ownerReferences": owner("ReplicaSet", "app-old")}
    ready = [{"type": "Ready", "status": "True"}]
    made["status"] |= {"conditions": ready, "resourceClaimStatuses": [{"name": "gpus", "resourceClaimName": f"c{i}"}]}
    results = [{"request": "gpu", "driver": "d.example.com", "pool": "n1", "device": f"g{first + k}"} for k in (0, 1)]
    at = {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]}
    claim = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": f"c{i}", "namespace": "default", "ownerReferences": owner("Pod", f"old-{i}", "v1")},
        "spec": SPEC,
        "status": {"allocation": {"devices": {"results": results}, "nodeSelector": at}},
    }
    return [made, claim]


def test_each_new_pod_gets_what_the_old_one_that_went_before_had() -> None:
    """The node has devices for two pods, and no more."""
    template = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": {"name": "two", "namespace": "default"}}
    deployment = workload("Deployment", "app", "new")
    old = workload("ReplicaSet", "app-old", "old", ownerReferences=owner("Deployment", "app"))
    slices = published("n1", *(device(f"g{i}") for i in range(4)))
    things = [node("n1"), device_class("gpu"), slices, {**template, "spec": {"spec": SPEC}}, deployment, old]
    result = roll_out(from_objects([*things, *running(0, 2), *running(1, 0)]), "app", None, Options(time_limit=20.0))
    assert result.rollout is not None
    assert result.rollout.complete
    got = [[each.device for each in entry.devices] for wave in result.rollout.waves for entry in wave.create]
    assert sorted(got) == [["g0", "g1"], ["g2", "g3"]]
    assert [entry.devices for entry in result.assignments] == [entry.devices for wave in result.rollout.waves for entry in wave.create]
