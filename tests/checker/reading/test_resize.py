"""Resources held by a bound pod during an in-place resize, by version and feature gates: checker and solver agree."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kubestow.checker.reading import resources
from kubestow.models.kube import objects
from kubestow.models.kube.feature_gates import FeatureGates
from kubestow.models.kube.pod_requests import pod_request

Status = dict[str, Any]
_LEVEL = "InPlacePodLevelResourcesVerticalScaling"


def container(name: str, cpu: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "resources": {"requests": {"cpu": cpu}}, **more}


def told(name: str, *, allocated: str | None = None, actual: str | None = None) -> Status:
    found: Status = {"name": name}
    if allocated is not None:
        found["allocatedResources"] = {"cpu": allocated}
    if actual is not None:
        found["resources"] = {"requests": {"cpu": actual}}
    return found


def held(version: str, spec: dict[str, Any], status: Status, *gates: tuple[str, bool], bound: bool = True) -> int:
    """mCPU that the pod holds, by both readings."""
    found = msgspec.convert(
        {"metadata": {"name": "p"}, "spec": {**spec, **({"nodeName": "n"} if bound else {})}, "status": status}, objects.Pod
    )
    of = FeatureGates(version, gates)
    request = pod_request(found, of)
    assert resources.pod_requests(found, of, bound=bound) == request
    return request.get("cpu", 0)


TWO = {"containers": [container("c1", "2"), container("c2", "1")]}
MOVING: Status = {"containerStatuses": [told("c1", allocated="1", actual="1"), told("c2", allocated="2", actual="2")]}
INFEASIBLE = {"conditions": [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]}
DEFERRED = {"conditions": [{"type": "PodResizePending", "status": "True", "reason": "Deferred"}]}


@pytest.mark.parametrize(("version", "amount"), [("1.34", 4000), ("1.35", 4000), ("1.36", 4000), ("1.37", 3000)])
def test_a_sum_of_maxima_became_a_maximum_of_sums(version: str, amount: int) -> None:
    assert held(version, TWO, MOVING) == held(version, TWO, MOVING | DEFERRED) == amount
    assert held(version, TWO, MOVING | INFEASIBLE) == 3000
    assert held(version, TWO, MOVING, bound=False) == 3000


def test_without_its_gate_no_status_counts() -> None:
    assert held("1.34", TWO, MOVING | INFEASIBLE, ("InPlacePodVerticalScaling", False)) == 3000


@pytest.mark.parametrize(("version", "amount"), [("1.36", 2000), ("1.37", 5000)])
def test_a_status_with_allocated_resources_alone_counts_since_137(version: str, amount: int) -> None:
    assert held(version, {"containers": [container("c", "2")]}, {"containerStatuses": [told("c", allocated="5")]}) == amount


@pytest.mark.parametrize(("version", "amount"), [("1.36", 3000), ("1.37", 9000)])
def test_ordinary_init_containers_count_by_status_since_137(version: str, amount: int) -> None:
    spec = {"containers": [container("c", "1")], "initContainers": [container("i", "3")]}
    assert held(version, spec, {"initContainerStatuses": [told("i", actual="9")]}) == amount


def test_a_sidecar_counts_by_status_in_all_versions() -> None:
    spec = {"containers": [container("c", "1")], "initContainers": [container("s", "1", restartPolicy="Always")]}
    for version in ("1.34", "1.36", "1.37"):
        assert held(version, spec, {"initContainerStatuses": [told("s", actual="4")]}) == 5000


def test_the_first_condition_decides_whether_a_resize_is_infeasible() -> None:
    both = {"conditions": [*DEFERRED["conditions"], *INFEASIBLE["conditions"]]}
    for version in ("1.36", "1.37"):
        assert held(version, {"containers": [container("c", "2")]}, {"containerStatuses": [told("c", actual="1")]} | both) == 2000


WHOLE = {"containers": [container("c", "1")], "resources": {"requests": {"cpu": "2"}}, "overhead": {"cpu": "500m"}}


@pytest.mark.parametrize(
    ("version", "status", "amount"),
    [
        ("1.34", {"resources": {"requests": {"cpu": "3"}}}, 2500),
        ("1.35", {"resources": {"requests": {"cpu": "3"}}}, 2500),  # its gate is off
        ("1.36", {"resources": {"requests": {"cpu": "3"}}}, 3500),
        ("1.36", {"resources": {"requests": {"cpu": "1"}}, "allocatedResources": {"cpu": "4"}}, 4500),
        ("1.36", {"allocatedResources": {"cpu": "4"}}, 2500),
        ("1.36", {"resources": {"requests": {"cpu": "1"}}} | INFEASIBLE, 1500),
        ("1.36", {"resources": {"requests": {"memory": "1Gi"}}} | INFEASIBLE, 500),
        ("1.37", {"resources": {"requests": {"cpu": "3"}}}, 3000),  # the status has the overhead in it
        ("1.37", {"allocatedResources": {"cpu": "4"}}, 4000),
        ("1.37", {"resources": {"requests": {"cpu": "1"}}} | INFEASIBLE, 1000),
    ],
)
def test_requests_of_the_pod_as_a_whole(version: str, status: Status, amount: int) -> None:
    assert held(version, WHOLE, status) == amount


def test_gates_of_resources_of_the_pod_as_a_whole() -> None:
    status = {"resources": {"requests": {"cpu": "3"}}}
    assert held("1.35", WHOLE, status, (_LEVEL, True)) == 3500
    assert held("1.36", WHOLE, status, (_LEVEL, False)) == 2500
    assert held("1.36", WHOLE, status, ("PodLevelResources", False)) == 1500


def test_since_137_the_status_of_a_pod_stands_for_the_sums_of_its_containers() -> None:
    status = {"resources": {"requests": {"cpu": "4"}}, "allocatedResources": {"cpu": "5"}}
    spec = {"containers": [container("c", "1")]}
    assert held("1.37", spec, status) == 5000
    assert held("1.37", spec, {"allocatedResources": {"cpu": "5"}}) == 1000
    assert held("1.36", spec, status) == 1000
