"""Changed container requests: matches, limits, resized pods, and warnings."""

from __future__ import annotations

from typing import Any

import msgspec

from kubestow.models.documents.placement import ContainerRequests, Edits
from kubestow.models.edits.edits import apply, describe
from kubestow.models.kube import objects as kube_objects
from kubestow.models.kube.feature_gates import DEFAULT
from kubestow.models.kube.pod_requests import pod_request
from kubestow.models.snapshot.snapshot import Snapshot, from_objects
from tests.models.workloads.test_workloads import workload
from tests.objects import node, pod

Object = dict[str, Any]


def container_requests(workload: str, container: str = "c", **requests: str) -> ContainerRequests:
    return ContainerRequests(workload, container, requests)


def edited(objects: list[Object], *given: ContainerRequests, manifests: list[Object] | None = None, **edits: Any) -> Snapshot:
    snapshot = from_objects(objects)
    brought = None if manifests is None else from_objects(manifests, manifests=True)
    before = msgspec.json.encode((snapshot.pods, snapshot.workloads, brought and brought.workloads))
    found = apply(snapshot, brought, Edits(requests=list(given), **edits)).snapshot
    assert msgspec.json.encode((snapshot.pods, snapshot.workloads, brought and brought.workloads)) == before, "the input is not changed"
    return found


def cpu(snapshot: Snapshot) -> dict[str, int]:
    return {kube_objects.pod_key(each): pod_request(each, DEFAULT)["cpu"] for each in snapshot.pods}


CLUSTER = [
    node("n1"),
    pod("web-1", owner="ReplicaSet/web", cpu="1", node_name="n1"),
    pod("web-2", owner="ReplicaSet/web", cpu="1"),
    pod("alone", cpu="1", node_name="n1"),
]


def test_all_pods_of_a_workload_get_them() -> None:
    found = edited(CLUSTER, container_requests("ReplicaSet default/web", cpu="300m"))
    assert cpu(found) == {"default/web-1": 300, "default/web-2": 300, "default/alone": 1000}
    assert found.warnings == []


def test_a_pod_stands_for_its_workload_and_the_largest_amount_counts() -> None:
    found = edited(
        CLUSTER,
        container_requests("Pod default/web-1", cpu="0.5"),
        container_requests("Pod default/web-2", cpu="200m"),
        container_requests("Pod default/alone", cpu="2"),
    )
    assert cpu(found) == {"default/web-1": 500, "default/web-2": 500, "default/alone": 2000}


def test_the_last_recommendation_for_a_workload_counts() -> None:
    found = edited(
        CLUSTER,
        container_requests("ReplicaSet default/web", cpu="300m", memory="1"),
        container_requests("ReplicaSet default/web", cpu="200m"),
    )
    assert cpu(found)["default/web-1"] == 200
    assert pod_request(found.pods[0], DEFAULT)["memory"] == 1


def test_templates_of_the_cluster_and_of_manifests_get_them() -> None:
    web, new = workload("Deployment", "web", replicas=2), workload("Deployment", "new", replicas=1)
    given = (container_requests("Deployment default/web", cpu="50m"), container_requests("Deployment default/new", cpu="70m"))
    found = edited([node("n1"), web], *given, manifests=[new], replicas=["web=2"])
    assert sorted(cpu(found).values()) == [50, 50, 70]


def test_pods_of_jobs_belong_to_their_cron_job() -> None:
    job = workload("Job", "nightly-1")
    job["metadata"]["ownerReferences"] = [{"apiVersion": "batch/v1", "kind": "CronJob", "name": "nightly", "uid": "u", "controller": True}]
    found = edited([node("n1"), job, pod("p", owner="Job/nightly-1", cpu="1")], container_requests("CronJob default/nightly", cpu="20m"))
    assert cpu(found)["default/p"] == 20


def test_limits_below_are_raised_and_said() -> None:
    low = pod("web-1", owner="ReplicaSet/web", cpu="1")
    low["spec"]["containers"][0]["resources"]["limits"] = {"cpu": "1", "memory": "1Gi"}
    found = edited([node("n1"), low], container_requests("ReplicaSet default/web", cpu="2", memory="1Mi"))
    assert found.pods[0].spec.containers is not None
    resources = found.pods[0].spec.containers[0].resources
    assert resources is not None
    assert resources.limits == {"cpu": "2", "memory": "1Gi"}
    assert found.warnings == ["--requests: limits were raised to recommended requests: ReplicaSet default/web: c"]


def test_what_a_pod_was_resized_to_counts_no_more() -> None:
    resized = pod("web-1", owner="ReplicaSet/web", cpu="1", node_name="n1")
    resized["status"] = {
        "phase": "Running",
        "containerStatuses": [{"name": "c", "allocatedResources": {"cpu": "4"}, "resources": {"requests": {"cpu": "4"}}}],
    }
    assert cpu(from_objects([node("n1"), resized])) == {"default/web-1": 4000}
    assert cpu(edited([node("n1"), resized], container_requests("ReplicaSet default/web", cpu="1"))) == {"default/web-1": 1000}


def test_pod_level_requests_stay_and_are_said() -> None:
    whole = pod("web-1", owner="ReplicaSet/web", cpu="1")
    whole["spec"]["resources"] = {"requests": {"cpu": "2"}}
    found = edited([node("n1"), whole], container_requests("ReplicaSet default/web", cpu="100m"))
    assert found.warnings == [
        "--requests: pod-level requests stay as they are, recommendations apply to containers only: ReplicaSet default/web"
    ]
    assert cpu(found) == {"default/web-1": 2000}


def test_what_is_not_there_is_said() -> None:
    given = [
        container_requests("Deployment default/gone", cpu="1"),
        container_requests("Pod default/gone", cpu="1"),
        container_requests("ReplicaSet default/web", "sidecar", cpu="1"),
        container_requests("A b/c", cpu="1"),
    ]
    found = edited(CLUSTER, *given)
    assert found.warnings == [
        "--requests: recommended for containers that the snapshot lacks: Deployment default/gone: container c, "
        "Pod default/gone: container c, ReplicaSet default/web: container sidecar and 1 more"
    ]
    assert cpu(found)["default/web-1"] == 1000


def test_what_recommends_nothing_is_said() -> None:
    found = edited(CLUSTER, container_requests("ReplicaSet default/web"))
    assert found.warnings == ["--requests: without a recommendation, requests stay as they are: ReplicaSet default/web: container c"]


def test_equal_parts_are_changed_once_and_shared_again() -> None:
    found = edited(
        CLUSTER[:1] + [pod(f"web-{i}", owner="ReplicaSet/web", cpu="1") for i in range(9)],
        container_requests("ReplicaSet default/web", cpu="2"),
    )
    assert len({id(each.spec.containers[0]) for each in found.pods if each.spec.containers}) <= len({id(each.spec) for each in found.pods})


def test_in_words() -> None:
    assert describe(Edits(requests=[container_requests("A b/c"), container_requests("A b/c", "d"), container_requests("A b/d")])) == [
        "with other requests of 2 workloads"
    ]
