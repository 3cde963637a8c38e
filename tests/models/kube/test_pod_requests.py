"""Hand-computed requests; the formula is that of k8s.io/component-helpers/resource."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kubestow.models.kube import objects, pod_requests
from kubestow.models.kube.feature_gates import DEFAULT as GATES
from kubestow.models.kube.feature_gates import FeatureGates
from kubestow.models.kube.quantity import QuantityError
from kubestow.models.snapshot.snapshot import from_objects

Object = dict[str, Any]
MIB = 2**20


def container(name: str, others: Object | None = None, *, always: bool = False, **requested: str | int) -> Object:
    found: Object = {"name": name, "resources": {"requests": {**requested, **(others or {})}}}
    return found | ({"restartPolicy": "Always"} if always else {})


def pod_amounts(spec: Object, status: Object | None = None, gates: FeatureGates = GATES) -> dict[str, int]:
    pod: Object = {"kind": "Pod", "metadata": {"name": "p"}, "spec": spec}
    return pod_requests.pod_request(msgspec.convert(pod | ({"status": status} if status else {}), objects.Pod), gates)


def test_containers_add_up() -> None:
    spec = {"containers": [container("a", cpu="250m", memory="64Mi"), container("b", cpu="1", memory="1Mi")]}
    assert pod_amounts(spec) == {"cpu": 1250, "memory": 65 * MIB}


def test_the_largest_init_container_counts_if_larger_than_the_sum() -> None:
    spec = {"containers": [container("a", cpu=1, memory="10Mi")], "initContainers": [container("i", cpu=3), container("j", memory="5Mi")]}
    assert pod_amounts(spec) == {"cpu": 3000, "memory": 10 * MIB}


def test_init_containers_run_beside_the_sidecars_started_before_them() -> None:
    spec = {
        "containers": [container("app", cpu=1)],
        "initContainers": [
            container("early", cpu="3500m"),  # alone
            container("s1", always=True, cpu=1),
            container("middle", cpu=2),  # with s1: 3
            container("s2", always=True, cpu="500m"),
            container("late", cpu=2),  # with s1 and s2: 3.5
        ],
    }
    assert pod_amounts(spec) == {"cpu": 3500}
    spec["initContainers"][4] = container("late", cpu="2001m")
    assert pod_amounts(spec) == {"cpu": 3501}
    spec["containers"] = [container("app", cpu=3)]  # with both sidecars: 4.5
    assert pod_amounts(spec) == {"cpu": 4500}


def test_overhead_comes_on_top_of_either() -> None:
    overhead = {"cpu": "10m", "memory": "1Mi", "example.com/gpu": 1}
    spec = {"containers": [container("a", cpu="1")], "initContainers": [container("i", cpu="2")], "overhead": overhead}
    assert pod_amounts(spec) == {"cpu": 2010, "memory": MIB, "example.com/gpu": 1}


def test_pod_level_requests_override_what_they_name_even_downwards() -> None:
    spec = {
        "containers": [container("a", cpu="2", memory="64Mi")],
        "initContainers": [container("i", cpu="5")],
        "resources": {"requests": {"cpu": "1", "example.com/gpu": "7"}},
        "overhead": {"cpu": "100m"},
    }
    assert pod_amounts(spec) == {"cpu": 1100, "memory": 64 * MIB}  # extended resources do not exist at pod level


def test_cpu_rounds_up_per_container_and_the_rest_once_per_pod() -> None:
    three = [container(n, cpu="100n", memory="100n") for n in "abc"]
    assert pod_amounts({"containers": three}) == {"cpu": 3, "memory": 1}
    gpus = [container(n, {"example.com/gpu": "300m"}) for n in "abcd"]
    assert pod_amounts({"containers": gpus}) == {"example.com/gpu": 2}


def test_pod_level_limits_round_once_in_total() -> None:
    pods = []
    for name, resources in (("with", {"limits": {"cpu": "1"}}), ("without", None)):
        spec: Object = {"containers": [container(n, cpu="100n") for n in "abc"]}
        spec |= {"resources": resources} if resources else {}
        pods.append({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})
    snapshot = from_objects(pods)
    assert [pod_requests.pod_request(p, GATES) for p in snapshot.pods] == [{"cpu": 1}, {"cpu": 3}]


def test_zero_and_unknown_resources_are_left_out() -> None:
    others = {"gpus": 2, "requests.cpu": 1, "requests.example.com/x": 1, "hugepages-2Mi": "4Mi"}
    spec = {"containers": [container("a", others, cpu="0", memory=0)]}
    assert pod_amounts(spec) == {"hugepages-2Mi": 4 * MIB}
    assert pod_amounts({"containers": [{"name": "a"}]}) == {}


def test_a_resized_bound_pod_holds_the_larger_of_spec_and_status() -> None:
    spec = {"nodeName": "n", "containers": [container("a", cpu="1", memory="8Mi"), container("b", cpu="1")]}
    holding = {"name": "a", "allocatedResources": {"cpu": "2"}, "resources": {"requests": {"memory": "4Mi"}}}
    status: Object = {"containerStatuses": [holding]}
    assert pod_amounts(spec, status) == {"cpu": 3000, "memory": 8 * MIB}
    pending = {k: v for k, v in spec.items() if k != "nodeName"}
    assert pod_amounts(pending, status) == {"cpu": 2000, "memory": 8 * MIB}


def test_an_infeasible_resize_counts_what_is_held_only() -> None:
    spec = {"nodeName": "n", "containers": [container("a", cpu="9")]}
    holding: Object = {"containerStatuses": [{"name": "a", "allocatedResources": {"cpu": "2"}, "resources": {}}]}
    assert pod_amounts(spec, holding) == {"cpu": 9000}
    infeasible = {"conditions": [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]}
    assert pod_amounts(spec, holding | infeasible) == {"cpu": 2000}


def test_beyond_64_bits_is_an_error() -> None:
    with pytest.raises(QuantityError):
        pod_amounts({"containers": [container(n, memory="4Ei") for n in "ab"]})


def test_allocatable_counts_cpu_in_thousandths_and_pods() -> None:
    resources = {"cpu": "3.5", "memory": "1Ki", "pods": "110", "ephemeral-storage": "1k", "example.com/gpu": 4, "weird": 5}
    want = {"cpu": 3500, "memory": 1024, "pods": 110, "ephemeral-storage": 1000, "example.com/gpu": 4}
    assert pod_requests.allocatable({k: v for k, v in resources.items() if isinstance(v, str | int)}) == want
    assert pod_requests.allocatable(None) == {}
