"""Defaulting against what the API server does (pkg/apis/core/v1/defaults.go); requests.py turns the result into numbers."""

from __future__ import annotations

import copy
from fractions import Fraction
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubestow.models.kube import defaults, kinds, quantity
from kubestow.models.kube import objects as kube_objects
from kubestow.models.snapshot.snapshot import Snapshot, from_objects

Object = dict[str, Any]


def spec(**fields: Any) -> kube_objects.PodSpec:
    found = msgspec.convert({"containers": [{"name": "c"}], **fields}, kube_objects.PodSpec)
    defaults.pod_spec(found)
    return found


def container(name: str, requests: Object | None = None, limits: Object | None = None, **fields: Any) -> Object:
    resources = {"requests": requests, "limits": limits}
    return {"name": name, "resources": {k: v for k, v in resources.items() if v is not None}, **fields}


def requested(found: kube_objects.Container) -> dict[str, Any] | None:
    return found.resources.requests if found.resources else None


def one(kind: str, **fields: Any) -> Any:
    """A single object as it comes out of a snapshot."""
    groups = {"StorageClass": "storage.k8s.io/v1", "PriorityClass": "scheduling.k8s.io/v1", "Job": "batch/v1", "CronJob": "batch/v1"}
    version = groups.get(kind) or ("v1" if "" in kinds.KINDS[kind].groups else "apps/v1")
    snapshot = from_objects([{"apiVersion": version, "kind": kind, "metadata": {"name": "x"}, **fields}])
    for collection in (vars(snapshot) | snapshot.workloads).values():
        if isinstance(collection, list) and collection:
            return collection[0]
        if isinstance(collection, dict) and "x" in str(list(collection)):
            return next(iter(collection.values()))
    raise AssertionError(f"no {kind} in {snapshot}")


# --- pods -------------------------------------------------------------------------------------------------------------


def test_limits_become_requests_where_requests_lack_the_resource() -> None:
    found = spec(
        containers=[container("a", limits={"cpu": "2", "memory": "1Gi"}, requests={"cpu": "1"}), container("b")],
        initContainers=[container("i", limits={"cpu": "3"})],
    )
    assert found.containers is not None
    assert found.initContainers is not None
    assert requested(found.containers[0]) == {"cpu": "1", "memory": "1Gi"}
    assert requested(found.containers[1]) is None
    assert requested(found.initContainers[0]) == {"cpu": "3"}


def test_resource_lists_round_up_to_thousandths() -> None:
    found = spec(containers=[container("a", requests={"cpu": "100n", "memory": "1.0005"})], overhead={"cpu": "1u", "memory": "2Mi"})
    assert found.containers is not None
    assert requested(found.containers[0]) == {"cpu": "1m", "memory": "1001m"}
    assert found.overhead == {"cpu": "1m", "memory": "2Mi"}


def test_quantities_without_finer_digits_stay_as_written() -> None:
    asked = {"cpu": "0.5", "memory": "1.5Gi", "example.com/gpu": 2, "ephemeral-storage": "1e3"}
    found = spec(containers=[container("a", requests=dict(asked))])
    assert found.containers is not None
    assert requested(found.containers[0]) == asked


def pod_level(requests: Object | None, limits: Object | None, *containers: Object, **fields: Any) -> Object:
    resources = {k: v for k, v in (("requests", requests), ("limits", limits)) if v is not None}
    found = spec(containers=list(containers), resources=resources, **fields)
    assert found.resources is not None
    return found.resources.requests or {}


def test_pod_level_requests_default_to_what_the_containers_ask() -> None:
    got = pod_level(None, {"cpu": "4", "memory": "4Gi"}, container("a", {"cpu": "250m"}), container("b", {"cpu": "1"}))
    assert got == {"cpu": "1250m", "memory": "4Gi"}  # no container asks for memory: the limit


def test_pod_level_requests_count_sidecars_and_init_containers() -> None:
    init = [container("i", {"cpu": "3"}), container("s", {"cpu": "1"}, restartPolicy="Always"), container("j", {"cpu": "2500m"})]
    assert pod_level(None, {"cpu": "9"}, container("a", {"cpu": "1"}), initContainers=init) == {"cpu": "3500m"}
    assert pod_level(None, {"cpu": "9"}, container("a", {"cpu": "3"}), initContainers=init) == {"cpu": "4"}


def test_pod_level_aggregate_is_exact_before_it_is_rounded() -> None:
    parts = [container(n, {"cpu": "100n"}) for n in "abc"]
    assert pod_level(None, {"cpu": "1"}, *parts) == {"cpu": "1m"}


def test_pod_level_aggregate_also_names_resources_without_a_pod_level_limit() -> None:
    assert pod_level(None, {"cpu": "1"}, container("a", {"memory": "1Mi"})) == {"cpu": "1", "memory": str(2**20)}


def test_pod_level_requests_stay_when_given_and_without_limits() -> None:
    assert pod_level({"cpu": "1"}, {"cpu": "4"}, container("a", {"cpu": "3"})) == {"cpu": "1"}
    assert pod_level({"cpu": "1"}, None, container("a", {"cpu": "3", "memory": "1Gi"})) == {"cpu": "1"}
    assert pod_level({}, {}, container("a", {"cpu": "3"})) == {}


def test_pod_level_huge_pages_default_to_the_limit() -> None:
    pages = {"hugepages-2Mi": "8Mi", "cpu": "1"}
    assert pod_level(None, {"hugepages-2Mi": "64Mi", "cpu": "2"}, container("a", limits=pages)) == {"hugepages-2Mi": "64Mi", "cpu": "1"}
    # Only containers name them: their sum becomes the pod's limit, and that its request.
    got = pod_level({"cpu": "1"}, None, container("a", limits=pages), container("b", limits=pages))
    assert quantity.units(got["hugepages-2Mi"]) == 16 * 2**20
    # A pod-level request for them keeps the limit away.
    assert pod_level({"hugepages-2Mi": "8Mi"}, None, container("a", limits=pages)) == {"hugepages-2Mi": "8Mi"}


def test_host_network_makes_container_ports_host_ports() -> None:
    ports = [{"containerPort": 80}, {"containerPort": 81, "hostPort": 81, "protocol": "UDP"}, {"containerPort": 82, "hostPort": 0}]
    for host_network, want in ((True, [80, 81, 82]), (False, [None, 81, 0])):
        found = spec(
            hostNetwork=host_network,
            containers=[{"name": "a", "ports": copy.deepcopy(ports)}],
            initContainers=[{"name": "i", "ports": copy.deepcopy(ports)}],
        )
        for group in (found.containers, found.initContainers):
            assert group is not None
            assert [p.hostPort for p in group[0].ports or ()] == want
            assert [p.protocol for p in group[0].ports or ()] == ["TCP", "UDP", "TCP"]


def test_tolerations_and_spread_constraints() -> None:
    constraint = {"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"}
    found = spec(
        tolerations=[{"key": "a"}, {"key": "b", "operator": "Exists"}, {"operator": ""}],
        topologySpreadConstraints=[constraint, constraint | {"nodeAffinityPolicy": "Ignore", "nodeTaintsPolicy": "Honor"}],
    )
    assert [t.operator for t in found.tolerations or ()] == ["Equal", "Exists", "Equal"]
    policies = [(c.nodeAffinityPolicy, c.nodeTaintsPolicy) for c in found.topologySpreadConstraints or ()]
    assert policies == [("Honor", "Ignore"), ("Ignore", "Honor")]


RESOURCES = st.dictionaries(
    st.sampled_from(["cpu", "memory", "hugepages-2Mi", "example.com/gpu"]),
    st.one_of(st.integers(0, 2**40), st.sampled_from(["100n", "1.5", "3m", "7u", "1Gi", "1.0001k"])),
)
REQUIREMENTS = st.fixed_dictionaries({}, optional={"requests": RESOURCES, "limits": RESOURCES})
CONTAINERS = st.lists(
    st.fixed_dictionaries({"name": st.just("c"), "resources": REQUIREMENTS}, optional={"restartPolicy": st.just("Always")}), max_size=3
)


@given(containers=CONTAINERS, init=CONTAINERS, resources=st.none() | REQUIREMENTS, overhead=RESOURCES, host=st.booleans())
def test_defaulting_twice_changes_nothing(
    containers: list[Object], init: list[Object], resources: Object, overhead: Object, host: bool
) -> None:
    once = spec(containers=containers, initContainers=init, resources=resources, overhead=overhead, hostNetwork=host)
    twice = copy.deepcopy(once)
    defaults.pod_spec(twice)
    assert twice == once


@given(containers=CONTAINERS, init=CONTAINERS)
def test_aggregate_is_the_peak_over_time(containers: list[Object], init: list[Object]) -> None:
    """Plays the start-up: ordinary init containers run one at a time, sidecars stay, then all app containers run."""
    found = msgspec.convert({"containers": containers, "initContainers": init}, kube_objects.PodSpec)

    def own(item: kube_objects.Container, name: str) -> Fraction:
        requested = (item.resources.requests if item.resources else None) or {}
        return quantity.parse(requested.get(name, 0))

    got = defaults.aggregate(found, lambda r: r.requests)
    for name in ("cpu", "memory", "hugepages-2Mi", "example.com/gpu"):
        running, peak = Fraction(0), Fraction(0)
        for item in found.initContainers or ():
            peak = max(peak, running + own(item, name))
            if item.restartPolicy == "Always":
                running += own(item, name)
        peak = max(peak, running + sum((own(c, name) for c in found.containers or ()), Fraction(0)))
        assert got.get(name, Fraction(0)) == peak


# --- priorities -------------------------------------------------------------------------------------------------------


def priority_class(name: str, value: int, *, default: bool = False) -> Object:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
        "globalDefault": default,
    }


def priority_of(classes: list[Object], **fields: Any) -> int | None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}], **fields}}
    return from_objects([pod, *classes]).pods[0].spec.priority


@pytest.mark.parametrize(
    ("fields", "want"),
    [
        ({"priorityClassName": "high"}, 1000),
        ({"priorityClassName": "high", "priority": 7}, 7),
        ({"priority": -5}, -5),
        ({"priorityClassName": "system-cluster-critical"}, 2_000_000_000),
        ({"priorityClassName": "system-node-critical"}, 2_000_001_000),
        ({}, 10),
        ({"priorityClassName": ""}, 10),
    ],
)
def test_priority(fields: Object, want: int) -> None:
    classes = [priority_class("high", 1000), priority_class("b", 20, default=True), priority_class("a", 10, default=True)]
    assert priority_of(classes, **fields) == want


def test_priority_is_zero_without_a_global_default() -> None:
    assert priority_of([priority_class("high", 1000)]) == 0


# --- other kinds ------------------------------------------------------------------------------------------------------


def test_node_allocatable_falls_back_to_capacity_only_when_absent() -> None:
    capacity = {"cpu": "4", "memory": "1.0001"}
    node = one("Node", status={"capacity": capacity})
    assert node.status.allocatable == {"cpu": "4", "memory": "1001m"}
    assert one("Node", status={"capacity": capacity, "allocatable": {}}).status.allocatable == {}
    assert one("Node", status={"capacity": capacity, "allocatable": None}).status.allocatable == {"cpu": "4", "memory": "1001m"}
    assert one("Node").status is None


def test_namespaces_carry_their_name_as_a_label() -> None:
    assert one("Namespace").metadata.labels == {"kubernetes.io/metadata.name": "x"}


def test_volumes_and_claims() -> None:
    assert one("PersistentVolume", spec={"capacity": {"storage": "1Gi"}}).spec.volumeMode == "Filesystem"
    assert one("PersistentVolume", spec={"volumeMode": "Block"}).spec.volumeMode == "Block"
    claim = one("PersistentVolumeClaim", spec={"resources": {"requests": {"storage": "1.0001"}}})
    assert claim.spec.volumeMode == "Filesystem"
    assert claim.spec.resources.requests == {"storage": "1001m"}
    assert one("StorageClass").volumeBindingMode == "Immediate"
    assert one("StorageClass", volumeBindingMode="WaitForFirstConsumer").volumeBindingMode == "WaitForFirstConsumer"


def test_the_beta_annotation_names_the_class() -> None:
    metadata = {"name": "x", "annotations": {"volume.beta.kubernetes.io/storage-class": "old"}}
    assert one("PersistentVolumeClaim", metadata=metadata, spec={"storageClassName": "new"}).spec.storageClassName == "old"
    assert one("PersistentVolume", metadata=metadata, spec={}).spec.storageClassName == "old"


def storage_class(name: str, *, default: bool, created: str | None = None) -> Object:
    metadata: Object = {"name": name, "annotations": {"storageclass.kubernetes.io/is-default-class": "true" if default else "false"}}
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": metadata | ({"creationTimestamp": created} if created else {}),
        "provisioner": "p",
    }


def classes_of(*objects: Object) -> dict[str, str | None]:
    claims = {
        "plain": {},
        "bound": {"volumeName": "pv"},
        "none": {"storageClassName": ""},
        "named": {"storageClassName": "other"},
    }
    items = [{"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": n}, "spec": s} for n, s in claims.items()]
    snapshot: Snapshot = from_objects([*items, *objects])
    return {key.split("/")[1]: c.spec.storageClassName if c.spec else None for key, c in snapshot.persistent_volume_claims.items()}


def test_unbound_claims_without_a_class_get_the_default_one() -> None:
    want = {"plain": "std", "bound": None, "none": "", "named": "other"}
    assert classes_of(storage_class("other", default=False), storage_class("std", default=True)) == want


def test_without_a_default_class_claims_stay_without() -> None:
    assert classes_of(storage_class("std", default=False))["plain"] is None


def test_of_several_default_classes_the_newest_wins_then_the_name() -> None:
    old, new = "2024-01-01T00:00:00Z", "2025-01-01T00:00:00Z"
    picked = classes_of(storage_class("b", default=True, created=old), storage_class("c", default=True, created=new))
    assert picked["plain"] == "c"
    picked = classes_of(storage_class("z", default=True, created=new), storage_class("c", default=True, created=new))
    assert picked["plain"] == "c"


TEMPLATE: Object = {
    "metadata": {"labels": {"a": "b"}},
    "spec": {"hostNetwork": True, "containers": [{"name": "c", "ports": [{"containerPort": 80}], "resources": {"limits": {"cpu": "1"}}}]},
}


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        *((kind, {"spec": {"template": TEMPLATE}}) for kind in kinds.WORKLOADS if kind not in ("CronJob", "PodTemplate")),
        ("CronJob", {"spec": {"jobTemplate": {"spec": {"template": TEMPLATE}}}}),
        ("PodTemplate", {"template": TEMPLATE}),
    ],
)  # fmt: skip
def test_pod_templates_are_defaulted_like_pods(kind: str, fields: Object) -> None:
    template = kinds.pod_template(one(kind, **fields))
    assert template is not None
    assert template[1].spec is not None
    found = (template[1].spec.containers or [])[0]
    assert requested(found) == {"cpu": "1"}
    assert [(p.hostPort, p.protocol) for p in found.ports or ()] == [(80, "TCP")]


def test_workloads_have_one_replica_unless_told() -> None:
    for kind in ("Deployment", "ReplicaSet", "StatefulSet", "ReplicationController"):
        assert one(kind, spec={"template": TEMPLATE}).spec.replicas == 1
        assert one(kind, spec={"template": TEMPLATE, "replicas": 0}).spec.replicas == 0
    assert one("ReplicationController", spec={"template": TEMPLATE}).spec.selector == {"a": "b"}


@pytest.mark.parametrize(
    ("given_spec", "want"),
    [({}, (1, 1)), ({"completions": 5}, (5, 1)), ({"parallelism": 3}, (None, 3)), ({"completions": 2, "parallelism": 0}, (2, 0))],
)
def test_jobs(given_spec: Object, want: tuple[int | None, int]) -> None:
    job = one("Job", spec={"template": TEMPLATE, **given_spec})
    assert (job.spec.completions, job.spec.parallelism) == want
    cron = one("CronJob", spec={"jobTemplate": {"spec": {"template": TEMPLATE, **given_spec}}})
    assert (cron.spec.jobTemplate.spec.completions, cron.spec.jobTemplate.spec.parallelism) == want


def test_unreadable_quantities_are_left_alone_past_validation() -> None:
    pod = {
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {"containers": [container("c", {"cpu": "x"})], "resources": {"limits": {"cpu": "1"}}},
    }
    found = from_objects([pod], validate=False).pods[0].spec
    assert found.containers is not None
    assert requested(found.containers[0]) == {"cpu": "x"}


@pytest.mark.parametrize(
    ("own", "named", "policy"),
    [
        ({}, {"preemptionPolicy": "Never"}, "Never"),
        ({"preemptionPolicy": "PreemptLowerPriority"}, {"preemptionPolicy": "Never"}, "PreemptLowerPriority"),
        ({"priority": 7}, {"preemptionPolicy": "Never"}, None),  # stored: an API server has filled in both
        ({}, {}, None),
    ],
)
def test_preemption_policy_comes_from_the_class(own: dict[str, Any], named: dict[str, Any], policy: str | None) -> None:
    a_class = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 7, **named}
    waits: dict[str, Any] = {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "default"},
        "spec": {"containers": [{"name": "c"}], "priorityClassName": "high", **own},
    }  # fmt: skip
    assert from_objects([a_class, waits]).pods[0].spec.preemptionPolicy == policy
    del waits["spec"]["priorityClassName"]
    assert from_objects([{**a_class, "globalDefault": True}, waits]).pods[0].spec.preemptionPolicy == policy
