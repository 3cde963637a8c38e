"""Running pods of custom workloads, read from a cluster without manifests: their owners, gangs, and evictions."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kubestow.audit.view.view import ClusterView
from kubestow.checker.capacity.failures import comes_back
from kubestow.models.custom_workloads import table
from kubestow.models.disruption.evictable import exclusions
from kubestow.models.kube import objects
from kubestow.models.snapshot.scope import is_replicated
from kubestow.models.snapshot.snapshot import Snapshot, from_objects
from kubestow.models.workloads.gangs.running_gangs import disturbed
from kubestow.models.workloads.ownership import PodOwners, pods_of_sets
from tests.models.custom_workloads.objects import NODES, Object, custom, grown, job_set, lws, template
from tests.objects import pod

pytestmark = pytest.mark.skipif(not table.available(), reason="no CEL library on this platform")


def torch_job(workers: int) -> Object:
    return custom("kubeflow.org/v1", "PyTorchJob", {"pytorchReplicaSpecs": {"Worker": {"replicas": workers, "template": template()}}})


def clone_set(replicas: int) -> Object:
    return custom("apps.kruise.io/v1alpha1", "CloneSet", {"replicas": replicas, "template": template()})


def running(manifest: Object, *, with_object: bool = True) -> Snapshot:
    """Return a cluster in which all pods of an object run, but for the object itself if it is not captured."""
    pods: list[Any] = [msgspec.to_builtins(each) for each in grown(manifest).pods]
    for each in pods:
        each |= {"apiVersion": "v1", "kind": "Pod", "status": {"phase": "Running"}}
        each["metadata"] = {key: value for key, value in each["metadata"].items() if key != "annotations"}
        each["spec"] |= {"nodeName": "n1"}
    return from_objects([*NODES, *pods, *([manifest] if with_object else [])])


def names(snapshot: Snapshot) -> dict[str, int]:
    return {name: len(pods) for name, pods in disturbed(snapshot)}


def test_running_pods_belong_to_their_object() -> None:
    snapshot = running(job_set(("leader", 1, 1), ("workers", 2, 3)))
    owners = PodOwners(snapshot)
    assert [owners.of(each) for each in snapshot.pods] == ["JobSet default/a.leader", *["JobSet default/a.workers"] * 6]
    view = ClusterView(snapshot)
    assert {subject.name: (len(subject.pods), subject.wanted) for subject in view.subjects} == {
        "JobSet default/a.leader": (1, 1),
        "JobSet default/a.workers": (6, 6),
    }
    assert pods_of_sets(snapshot) == set(range(7))


@pytest.mark.parametrize(
    ("manifest", "with_object", "expected"),
    [
        (job_set(("leader", 1, 1), ("workers", 1, 3)), True, {"default/a": 4}),
        (lws(2, 3), True, {"default/a-0": 3, "default/a-1": 3}),
        (torch_job(3), True, {"default/a": 3}),
        (torch_job(3), False, {"default/a": 3}),
        (torch_job(1), True, {}),
        (clone_set(3), True, {}),
    ],
)
def test_gangs_that_an_eviction_disturbs(manifest: Object, with_object: bool, expected: dict[str, int]) -> None:
    snapshot = running(manifest, with_object=with_object)
    assert names(snapshot) == expected
    refused = exclusions(snapshot)
    assert refused == {i: "gang" for _, pods in disturbed(snapshot) for i in pods}
    assert all(is_replicated(each) and comes_back(each, None) for each in snapshot.pods)


def test_pods_with_a_gang_of_their_own_are_in_no_other() -> None:
    snapshot = running(torch_job(3))
    snapshot.pods[0].metadata.annotations = {"kubestow.dev/gang": ""}
    assert names(snapshot) == {"default/a": 2}


@pytest.mark.parametrize(
    ("api_version", "kind", "replaced"),
    [
        ("kubeflow.org/v1", "MPIJob", True),
        ("sparkoperator.k8s.io/v1beta2", "SparkApplication", False),
        ("x.example.com/v1", "Thing", False),
    ],
)
def test_the_table_says_who_recreates_pods(api_version: str, kind: str, replaced: bool) -> None:
    made = pod("p", node_name="n1", owner=f"{kind}/a")
    made["metadata"]["ownerReferences"][0]["apiVersion"] = api_version
    snapshot = from_objects([*NODES, made])
    assert is_replicated(snapshot.pods[0]) is comes_back(snapshot.pods[0], None) is replaced
    assert exclusions(snapshot) == ({} if replaced else {0: "owner"})


def test_a_users_kind_says_so_too() -> None:
    owner = objects.OwnerReference("Thing", "a", "x.example.com/v1")
    own = table.KindEntry(kind="Thing", group="x.example.com", versions=["v1"], evicted="pod")
    with table.extended([own]):
        assert table.recreating(owner) == "pod"
    assert table.recreating(owner) == ""


def test_the_outermost_object_owns_the_pods() -> None:
    inner = job_set(("node", 1, 3))
    snapshot = running(inner)
    inner["metadata"]["ownerReferences"] = [
        {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "name": "a", "uid": "u", "controller": True}
    ]
    trainer = {"trainer": {"numNodes": 3}, "runtimeRef": {"name": "torch-distributed"}}
    outer = custom("trainer.kubeflow.org/v1alpha1", "TrainJob", trainer, uid="u")
    pods = [{**msgspec.to_builtins(each), "apiVersion": "v1", "kind": "Pod"} for each in snapshot.pods]
    both = from_objects([*NODES, *pods, inner, outer])
    assert {PodOwners(both).of(each) for each in both.pods} == {"TrainJob default/a"}
    assert names(both) == {"default/a": 3}


def test_the_objects_inside_a_stored_one_are_in_the_cluster_already() -> None:
    inner = torch_job(2)
    outer = custom("workload.codeflare.dev/v1beta2", "AppWrapper", {"components": [{"template": inner}]}, uid="u")
    stored = {**inner, "metadata": {"name": "a", "uid": "v"}}
    assert [each.metadata.uid for each in from_objects([*NODES, outer, stored]).workloads["PyTorchJob"]] == ["v"]
