"""Claims for devices of pods that are to be created: as the controller of claims makes them of templates."""

from __future__ import annotations

from typing import Any

import pytest

from kubestow.models.edits import nodes
from kubestow.models.kube import objects
from kubestow.models.snapshot.snapshot import InputError, Snapshot, from_objects
from kubestow.models.workloads.expand import expand, top_up
from tests.objects import node

Object = dict[str, Any]
REQUESTS = {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}


def template(name: str = "one-gpu", selector: str | None = None) -> Object:
    exactly: Object = {"deviceClassName": "gpu"}
    if selector is not None:
        exactly["selectors"] = [{"cel": {"expression": selector}}]
    spec = {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}, "metadata": {"labels": {"a": "b"}}}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": {"name": name}, "spec": spec}


def workload(kind: str, replicas: int = 2, claim: str = "one-gpu") -> Object:
    pod = {"containers": [{"name": "c", "image": "i"}], "resourceClaims": [{"name": "gpus", "resourceClaimTemplateName": claim}]}
    spec = {
        "replicas": replicas,
        "selector": {"matchLabels": {"app": "w"}},
        "template": {"metadata": {"labels": {"app": "w"}}, "spec": pod},
    }
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "w"}, "spec": spec}


def expanded(cluster: list[Object], *manifests: Object) -> Snapshot:
    return expand(from_objects(cluster), from_objects(manifests, manifests=True)).snapshot


@pytest.mark.parametrize("kind", ["StatefulSet", "Deployment"])
@pytest.mark.parametrize("given", ["cluster", "manifests"])
def test_every_new_pod_gets_a_claim_of_its_own_from_the_template(kind: str, given: str) -> None:
    cluster, manifests = [node("n1")], [workload(kind)]
    (cluster if given == "cluster" else manifests).append(template())
    found = expanded(cluster, *manifests)
    assert len(found.pods) == 2
    for pod in found.pods:
        assert pod.status is not None
        (status,) = pod.status.resourceClaimStatuses or []
        assert (status.name, status.resourceClaimName) == ("gpus", f"{pod.metadata.name}-gpus")
        claim = found.resource_claims[f"default/{pod.metadata.name}-gpus"]
        (owner,) = claim.metadata.ownerReferences or []
        assert (owner.kind, owner.name, owner.uid, owner.controller) == ("Pod", pod.metadata.name, pod.metadata.uid, True)
        assert claim.metadata.labels == {"a": "b"}
        assert claim.spec is not None
        assert claim.spec.devices is not None
        assert (claim.spec.devices.requests or [])[0].name == "gpu"
    assert len(found.resource_claims) == 2


def test_a_claim_of_another_name_is_made_where_the_name_is_taken() -> None:
    existing = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "w-0-gpus"},
        "spec": {"devices": REQUESTS},
    }
    found = expanded([node("n1"), existing, template()], workload("StatefulSet", 1))
    assert sorted(found.resource_claims) == ["default/w-0-gpus", "default/w-0-gpus-2"]


def test_more_replicas_get_claims_and_pods_of_the_snapshot_do_not() -> None:
    waiting = {"kind": "Pod", "metadata": {"name": "p"}, "spec": workload("StatefulSet")["spec"]["template"]["spec"]}
    cluster = from_objects([node("n1"), template(), workload("StatefulSet", 1), waiting])
    found, _ = top_up(cluster, "StatefulSet", "default", "w", 2)
    assert sorted(found.resource_claims) == ["default/w-0-gpus", "default/w-1-gpus"]
    assert found.pods[0].status is None or not found.pods[0].status.resourceClaimStatuses
    assert cluster.resource_claims == {}


def test_a_template_that_is_nowhere_is_a_line_for_workloads_and_pods() -> None:
    alone = {"kind": "Pod", "metadata": {"name": "p"}, "spec": workload("StatefulSet")["spec"]["template"]["spec"]}
    with pytest.raises(InputError) as caught:
        expanded([node("n1")], workload("StatefulSet"), alone)
    assert len(caught.value.problems) == 2
    for problem in caught.value.problems:
        assert "spec.resourceClaims[0].resourceClaimTemplateName: no ResourceClaimTemplate 'default/one-gpu' in the input" in problem


@pytest.mark.parametrize(
    ("selector", "message"),
    [
        ("device.foo == 1", "undefined field 'foo'"),
        ("1 + 1", "must evaluate to bool or the unknown type, not int"),
        ('device.attributes["d"].includes("a")', "undeclared reference to 'includes'"),  # stored ones may
    ],
)
def test_selectors_that_do_not_compile_are_a_line_for_manifests_only(selector: str, message: str) -> None:
    from_objects([template(selector=selector)])
    with pytest.raises(InputError) as caught:
        expanded([node("n1")], template(selector=selector))
    (problem,) = caught.value.problems
    assert problem.startswith(
        "objects[0]: ResourceClaimTemplate default/one-gpu: spec.spec.devices.requests[0].exactly.selectors[0].cel.expression:"
    )
    assert message in problem


def piece(name: str, on: str, pool: str) -> Object:
    spec = {"driver": "d", "nodeName": on, "pool": {"name": pool, "generation": 1, "resourceSliceCount": 1}, "devices": [{"name": "gpu-0"}]}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": name}, "spec": spec}


def test_nodes_come_with_the_slices_of_their_likeness_and_go_with_their_own() -> None:
    found = from_objects([node("n1"), node("n2"), piece("n1-d-x", "n1", "n1"), piece("two", "n2", "pool")])
    nodes.add(found, found.copy(), found.nodes[0], 1)
    nodes.add(found, found.copy(), found.nodes[1], 1)
    slices = {name: (s.spec.nodeName, s.spec.pool.name) for name, s in found.resource_slices.items()}
    assert slices["n1-added-1-d-x"] == ("n1-added-1", "n1-added-1")
    assert slices["two-n2-added-1"] == ("n2-added-1", "pool-n2-added-1")
    nodes.remove(found, ["n1"])
    assert sorted(found.resource_slices) == ["n1-added-1-d-x", "two", "two-n2-added-1"]


def test_a_pod_that_waits_anew_without_its_node_has_a_claim_that_is_free_again() -> None:
    owner = [{"kind": "ReplicaSet", "name": "r", "controller": True, "apiVersion": "apps/v1"}]
    pod = workload("Deployment")["spec"]["template"]["spec"] | {"nodeName": "n1"}
    running = {
        "kind": "Pod",
        "metadata": {"name": "p", "uid": "u", "ownerReferences": owner},
        "spec": pod,
        "status": {"phase": "Running", "resourceClaimStatuses": [{"name": "gpus", "resourceClaimName": "p-gpus"}]},
    }
    results = [{"request": "gpu", "driver": "d", "pool": "shared", "device": "gpu-0"}]
    claim = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {
            "name": "p-gpus",
            "ownerReferences": [{"kind": "Pod", "name": "p", "uid": "u", "controller": True, "apiVersion": "v1"}],
        },
        "spec": {"devices": REQUESTS},
        "status": {"allocation": {"devices": {"results": results}}},
    }
    found = from_objects([node("n1"), node("n2"), running, claim])
    nodes.remove(found, ["n1"])
    (waiting,) = found.pods
    assert waiting.spec.nodeName is None
    assert waiting.status == objects.PodStatus(resourceClaimStatuses=[objects.PodResourceClaimStatus("gpus", "p-gpus")])
    assert found.resource_claims["default/p-gpus"].status is None
