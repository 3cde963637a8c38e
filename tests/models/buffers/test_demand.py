"""The number of chunks that a CapacityBuffer requests, and their pod template."""

from __future__ import annotations

from typing import Any

import pytest

from kubestow.models.buffers.chunks import LOWEST_PRIORITY, buffer_of, with_chunks
from kubestow.models.buffers.demand import MAX_CHUNKS, BufferDemand, demands
from kubestow.models.gangs.markers import marker
from kubestow.models.kube.objects import pod_key
from kubestow.models.snapshot.snapshot import InputError, from_objects, load
from kubestow.models.workloads.checks import held_by_buffers
from tests.buffers import buffer, deployment, nodes, scalable, template
from tests.objects import Object

READY = {"conditions": [{"type": "ReadyForProvisioning", "status": "True"}]}
UNREADY = {"conditions": [{"type": "ReadyForProvisioning", "status": "False"}], "replicas": 3}


def demand(*things: Object) -> BufferDemand:
    found = demands(from_objects([*nodes(1), *things]))
    assert len(found) == 1
    return found[0]


@pytest.mark.parametrize(
    ("asked", "chunks"),
    [
        ({"replicas": 3}, 3),
        ({"replicas": 0}, 0),
        ({"limits": {"cpu": "9"}}, 4),  # 2 CPU each
        ({"limits": {"cpu": "9", "memory": "3Gi"}}, 3),
        ({"limits": {"cpu": "1999m"}}, 0),
        ({"limits": {"cpu": "9", "nvidia.com/gpu": "1"}}, 4),  # no chunk asks for one
        ({"replicas": 3, "limits": {"cpu": "4"}}, 2),
        ({"replicas": 1, "limits": {"cpu": "4"}}, 1),
    ],
)
def test_chunks_of_a_pod_template(asked: dict[str, Any], chunks: int) -> None:
    assert demand(template("t"), buffer("b", "t", **asked)).chunks == chunks


@pytest.mark.parametrize(
    ("asked", "chunks"),
    [
        ({"percentage": 20}, 2),
        ({"percentage": 33}, 4),  # 3.3
        ({"percentage": 1}, 1),
        ({"percentage": 0}, 0),
        ({"percentage": 250}, 25),
        ({"percentage": 20, "replicas": 5}, 5),
        ({"percentage": 80, "replicas": 5}, 8),
        ({"percentage": 80, "limits": {"cpu": "3"}}, 3),
    ],
)
def test_chunks_of_a_workload_with_ten_replicas(asked: dict[str, Any], chunks: int) -> None:
    assert demand(deployment("web"), buffer("b", **scalable("web"), **asked)).chunks == chunks


def test_the_replicas_of_the_scale_subresource_count() -> None:
    requested = buffer("b", **scalable("web"), percentage=50)
    assert demand(deployment("web", replicas=10, status=4), requested).chunks == 2


@pytest.mark.parametrize(
    ("obj", "ref"),
    [
        ({"apiVersion": "batch/v1", "kind": "Job", "spec": {"parallelism": 4}}, scalable("w", "Job", "batch")),
        ({"apiVersion": "v1", "kind": "ReplicationController", "spec": {"replicas": 4}}, scalable("w", "ReplicationController", "")),
        ({"apiVersion": "v1", "kind": "ReplicationController", "spec": {"replicas": 4}}, scalable("w", "ReplicationController", "core")),
        ({"apiVersion": "apps/v1", "kind": "StatefulSet", "spec": {"replicas": 4}}, scalable("w", "StatefulSet")),
        ({"apiVersion": "apps/v1", "kind": "ReplicaSet", "spec": {"replicas": 4}}, scalable("w", "ReplicaSet")),
    ],
)
def test_workloads_of_each_kind(obj: Object, ref: Object) -> None:
    made = deployment("w")["spec"]
    selector = made["selector"]["matchLabels"] if obj["kind"] == "ReplicationController" else made["selector"]
    spec = {"template": made["template"], **({} if obj["kind"] == "Job" else {"selector": selector}), **obj["spec"]}
    if obj["kind"] == "Job":
        spec["template"]["spec"]["restartPolicy"] = "Never"
    workload = {**obj, "metadata": {"name": "w", "namespace": "default"}, "spec": spec}
    assert demand(workload, buffer("b", **ref, percentage=50)).chunks == 2


def test_what_the_autoscaler_wrote_counts() -> None:
    """Quotas, and the rounding of its version, are in it."""
    assert demand(template("t"), buffer("b", "t", 3, status={**READY, "replicas": 2})).chunks == 2
    managed = template("capacitybuffer-b-pod-template", cpu="3")
    found = demand(template("t"), managed, buffer("b", "t", 3, status={"podTemplateRef": {"name": "capacitybuffer-b-pod-template"}}))
    assert found.spec is not None
    assert found.spec.containers is not None
    assert found.spec.containers[0].resources is not None
    assert (found.spec.containers[0].resources.requests or {})["cpu"] == "3"


@pytest.mark.parametrize(
    ("things", "why", "foreign"),
    [
        ([buffer("b", "t", 3)], "there is no PodTemplate 'default/t'", False),
        ([buffer("b", **scalable("web"), replicas=1)], "Deployment 'default/web', which spec.scalableRef names, is not there", False),
        ([buffer("b", **scalable("w", "Rollout", "argoproj.io"), replicas=1)], "a kind that is not read", True),
        ([buffer("b", **scalable("web", "Deployment", "extensions"), replicas=1)], "a kind that is not read", True),
        ([template("t"), buffer("b", "t", 1, provisioningStrategy="buffer.gke.io/standby-capacity")], "is unknown", True),
        ([buffer("b", replicas=1)], "neither of podTemplateRef and scalableRef", False),
        ([template("t"), buffer("b", "t", 1, **scalable("web"))], "both of podTemplateRef and scalableRef", False),
        ([template("t"), buffer("b", "t", percentage=20)], "the number of chunks is unknown", False),
        ([template("t"), buffer("b", "t", limits={"nvidia.com/gpu": "1"})], "no resource that its pod template requests", False),
        ([template("t"), buffer("b", "t", 3, status=UNREADY)], "ReadyForProvisioning is False", False),
        ([template("t", priorityClassName="gone"), buffer("b", "t", 3)], "no PriorityClass", False),
        ([template("t"), buffer("b", "t", MAX_CHUNKS + 1)], f"expected at most {MAX_CHUNKS}", False),
    ],
)
def test_buffers_that_ask_for_nothing_are_told_with_the_reason(things: list[Object], why: str, foreign: bool) -> None:
    found = demand(*things)
    assert why in str(found.problem)
    assert (found.chunks, found.foreign) == (0, foreign)


@pytest.mark.parametrize("strategy", [None, "", "buffer.x-k8s.io/active-capacity"])
def test_the_strategy_of_cluster_autoscaler(strategy: str | None) -> None:
    assert demand(template("t"), buffer("b", "t", 3, provisioningStrategy=strategy)).chunks == 3


def test_a_kind_that_is_not_read_is_known_by_what_the_autoscaler_made_of_it() -> None:
    status = {"podTemplateRef": {"name": "t"}, "replicas": 2}
    ref = scalable("w", "Rollout", "argoproj.io")
    assert demand(template("t"), buffer("b", **ref, percentage=9, status=status)).chunks == 2


def test_chunks_are_pods_behind_all_others() -> None:
    annotated = template("t", labels={"app": "t", "scheduling.x-k8s.io/pod-group": "g"}, schedulingGates=[{"name": "example.com/later"}])
    snapshot = from_objects([*nodes(1), annotated, buffer("a", "t", 2), buffer("b", "t", 1)])
    edited, _ = with_chunks(snapshot)
    assert snapshot.pods == []
    found = [(pod_key(pod), buffer_of(pod), pod.spec.priority) for pod in edited.pods]
    assert found == [
        ("default/capacity-buffer-a-1", "default/a", LOWEST_PRIORITY - 1),
        ("default/capacity-buffer-a-2", "default/a", LOWEST_PRIORITY - 1),
        ("default/capacity-buffer-b-1", "default/b", LOWEST_PRIORITY - 2),
    ]
    assert all(marker(pod) is None and not pod.spec.schedulingGates for pod in edited.pods)
    assert edited.pods[0].metadata.labels == annotated["template"]["metadata"]["labels"]
    assert held_by_buffers(snapshot) == {("default", "t")}


def test_a_name_that_is_taken() -> None:
    from tests.objects import pod

    snapshot = from_objects([*nodes(1), template("t"), buffer("a", "t", 1), pod("capacity-buffer-a-1", node_name="n0")])
    assert [pod_key(each) for each in with_chunks(snapshot)[0].pods][1:] == ["default/capacity-buffer-a-1-chunk"]


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"podTemplateRef": {"name": "t"}, "replicas": -1}, "spec.replicas: got -1"),
        ({"podTemplateRef": {"name": "t"}, "percentage": -1, "replicas": 1}, "spec.percentage: got -1"),
        ({"podTemplateRef": {"name": "t"}, "limits": {"cpu": "x"}}, "spec.limits"),
        ({"podTemplateRef": {"name": "t"}}, "spec.replicas: missing"),
        ({"podTemplateRef": {"name": "t"}, "replicas": 1, **scalable("w")}, "spec.scalableRef: set together with podTemplateRef"),
    ],
)
def test_what_an_api_server_refuses(spec: Object, why: str) -> None:
    obj = buffer("b") | {"spec": spec}
    with pytest.raises(InputError, match=why):
        from_objects([obj], manifests=True)


def test_a_dump_may_be_of_an_older_definition() -> None:
    from_objects([buffer("b", "t")])


def test_the_pod_template_of_a_buffer_is_no_manifest(tmp_path: Any) -> None:
    """Of the report: no uid, no pods, and yet part of a snapshot."""
    import json

    from kubestow.commands.core.reading import Reading, settle

    path = tmp_path / "cb.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [*nodes(1), template("t"), buffer("b", "t", 3)]}))
    snapshot = load([str(path)])
    settle(snapshot, Reading())
    assert "1 CapacityBuffer asks for chunks of headroom (default/b 3), which hold no room against real pods" in snapshot.notes
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [*nodes(1), template("u"), buffer("b", "t", 3)]}))
    with pytest.raises(InputError, match="PodTemplate default/u"):
        settle(load([str(path)]), Reading())
    assert load([str(path)]).capacity_buffers.keys() == {"default/b"}


def test_what_is_not_known_of_a_buffer_is_an_omission() -> None:
    from kubestow.commands.core.reading import Reading, settle

    snapshot = from_objects([*nodes(1), buffer("b", "t", 3)])
    settle(snapshot, Reading())
    assert [text for text in snapshot.omissions if "CapacityBuffer default/b holds no headroom here" in text]


def test_chunks_with_shared_gpus_are_not_read() -> None:
    snapshot = from_objects([*nodes(1), template("t"), buffer("b", "t", 1)])
    snapshot.shared_gpus = "kai"
    assert demands(snapshot)[0].problem is None
    shared = template("t")
    shared["template"]["metadata"]["annotations"] = {"gpu-fraction": "0.5"}
    snapshot = from_objects([*nodes(1), shared, buffer("b", "t", 1)])
    assert demands(snapshot)[0].problem is None
    snapshot.shared_gpus = "kai"
    found = demands(snapshot)[0]
    assert found.problem == "its chunks request devices, which are not read in buffers while sharedGPUs is kai"
    assert found.foreign
