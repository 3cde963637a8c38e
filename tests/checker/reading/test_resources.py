"""The checker's account of requests, capacities and host ports."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubestow.checker.reading import resources
from kubestow.checker.rules.node_ports import rule as ports_rule
from kubestow.checker.rules.node_resources_fit import rule as fit
from kubestow.models.kube import objects, quantity
from kubestow.models.kube.feature_gates import DEFAULT as GATES
from kubestow.models.kube.feature_gates import FeatureGates


def container(name: str = "app", *, sidecar: bool = False, limits: dict[str, str] | None = None, **requests: str) -> dict[str, Any]:
    found: dict[str, Any] = {"name": name, "resources": {"requests": requests, **({"limits": limits} if limits else {})}}
    return found | ({"restartPolicy": "Always"} if sidecar else {})


def pod(*containers: dict[str, Any], status: dict[str, Any] | None = None, **spec: Any) -> objects.Pod:
    plain = {"metadata": {"name": "p"}, "spec": {"containers": list(containers), **spec}, "status": status}
    return msgspec.convert(plain, objects.Pod)


def requests(asked: objects.Pod, *, bound: bool = False, gates: FeatureGates = GATES) -> dict[str, int]:
    return resources.pod_requests(asked, gates, bound=bound)


def test_init_containers_and_sidecars() -> None:
    init = [container("a", cpu="3"), container("s", sidecar=True, cpu="500m"), container("b", cpu="4")]
    assert requests(pod(container(cpu="1"), container("x", cpu="1"), initContainers=init)) == {"cpu": 4500}
    assert requests(pod(container(cpu="5"), initContainers=init)) == {"cpu": 5500}
    assert requests(pod(container(cpu="1"), initContainers=init[:1])) == {"cpu": 3000}


def test_rounding() -> None:
    assert requests(pod(*(container(f"c{i}", cpu="100n") for i in range(3)))) == {"cpu": 3}
    assert requests(pod(*(container(f"c{i}", memory="300m") for i in range(4)))) == {"memory": 2}
    once = pod(*(container(f"c{i}", cpu="100n") for i in range(3)), resources={"limits": {"cpu": "1"}})
    assert requests(once) == {"cpu": 1}


def test_limits_stand_in_for_requests() -> None:
    assert requests(pod(container(cpu="1", limits={"cpu": "2", "memory": "5"}))) == {"cpu": 1000, "memory": 5}


def test_pod_level_requests_win_for_what_they_name() -> None:
    level = {"requests": {"cpu": "1", "ephemeral-storage": "7", "hugepages-2Mi": "2Mi"}}
    spec = pod(container(cpu="2", memory="5"), resources=level, overhead={"cpu": "250m"})
    assert requests(spec) == {"cpu": 1250, "memory": 5, "hugepages-2Mi": 2 << 20}
    assert requests(pod(container(cpu="2"), resources={"limits": {"cpu": "4", "memory": "9"}})) == {"cpu": 2000, "memory": 9}


@pytest.mark.parametrize(
    ("name", "counted"),
    [
        ("cpu", True),
        ("ephemeral-storage", True),
        ("hugepages-1Gi", True),
        ("attachable-volumes-x", True),
        ("example.com/gpu", True),
        ("kubernetes.io/batch", True),
        ("gpu", False),
        ("pods", False),
        ("requests.example.com/gpu", False),
    ],
)
def test_names_that_count(name: str, counted: bool) -> None:
    assert requests(pod({"name": "app", "resources": {"requests": {name: "1"}}})) == (
        {name: 1000 if name == "cpu" else 1} if counted else {}
    )


def test_zero_amounts_are_no_requests() -> None:
    assert requests(pod(container(cpu="0", memory="0"))) == {}


def test_amounts_beyond_64_bits() -> None:
    with pytest.raises(quantity.QuantityError):
        requests(pod(container(memory="8Ei"), container("b", memory="1")))


@pytest.mark.parametrize(
    ("allocated", "actual", "reason", "held"),
    [
        (None, None, None, 2000),
        ("3", None, None, 2000),  # without resources a container status has no effect
        ("1", "4", None, 4000),
        ("1", "1", "Deferred", 2000),
        ("1", "1", "Infeasible", 1000),
        (None, None, "Infeasible", 2000),
    ],
)
def test_bound_pod_holds_what_its_status_says(allocated: str | None, actual: str | None, reason: str | None, held: int) -> None:
    status: dict[str, Any] = {"name": "app"}
    if allocated:
        status["allocatedResources"] = {"cpu": allocated}
    if actual:
        status["resources"] = {"requests": {"cpu": actual}}
    conditions = [{"type": "PodResizePending", "status": "True", "reason": reason}] if reason else []
    asked = pod(container(cpu="2"), status={"containerStatuses": [status], "conditions": conditions})
    assert requests(asked, bound=True) == {"cpu": held}
    assert requests(asked, bound=False) == {"cpu": 2000}


def test_sidecar_status_counts_and_an_ordinary_init_status_does_not() -> None:
    statuses = [{"name": name, "resources": {"requests": {"cpu": "8"}}} for name in ("s", "i")]
    init = [container("s", sidecar=True, cpu="1"), container("i", cpu="2")]
    asked = pod(container(cpu="1"), initContainers=init, status={"initContainerStatuses": statuses})
    assert requests(asked, bound=True) == {"cpu": 10000}
    assert requests(pod(container(cpu="1"), initContainers=init[1:], status={"initContainerStatuses": statuses}), bound=True) == {
        "cpu": 2000
    }


def capacity(**status: dict[str, str]) -> dict[str, int]:
    return resources.node_capacity(msgspec.convert({"metadata": {"name": "n"}, "status": status}, objects.Node))


def test_allocatable_limits_and_falls_back_to_capacity() -> None:
    assert capacity(allocatable={"cpu": "1500m", "pods": "3"}, capacity={"cpu": "2"}) == {"cpu": 1500, "pods": 3}
    assert capacity(capacity={"cpu": "2", "memory": "1Ki"}) == {"cpu": 2000, "memory": 1024}
    assert capacity(allocatable={}, capacity={"cpu": "2"}) == {}
    assert resources.node_capacity(objects.Node(objects.ObjectMeta(name="n"))) == {}


def test_only_what_is_requested_is_checked() -> None:
    room = {"cpu": 1000, "memory": 10, "pods": 2}
    assert fit.fit_faults({}, 1, {"cpu": 5000}, room) == []
    assert fit.fit_faults({"memory": 10}, 1, {"cpu": 5000}, room) == []
    assert fit.fit_faults({"memory": 11}, 1, {}, room) == ["memory: requests 11, 10 of 10 free"]
    assert fit.fit_faults({"cpu": 300, "x/y": 1}, 2, {"cpu": 750}, room) == [
        "pods: 2 of 2 taken",
        "cpu: requests 300m, 250m of 1 free",
        "x/y: requests 1, 0 of 0 free",
    ]


AMOUNT = st.integers(0, 4000)


@given(st.lists(AMOUNT, min_size=1, max_size=3), st.lists(st.tuples(AMOUNT, st.booleans()), max_size=4))
def test_requests_cover_every_moment_of_a_pod(apps: list[int], init: list[tuple[int, bool]]) -> None:
    """The effective request is the peak over the pod's life: each start of an init container, then all that keeps running."""
    spec = pod(
        *(container(f"a{i}", cpu=f"{m}m") for i, m in enumerate(apps)),
        initContainers=[container(f"i{i}", sidecar=sidecar, cpu=f"{m}m") for i, (m, sidecar) in enumerate(init)],
    )
    running, moments = 0, []
    for amount, sidecar in init:
        moments.append(running + amount)
        running += amount if sidecar else 0
    moments.append(running + sum(apps))
    assert requests(spec).get("cpu", 0) == max(moments)


def ports(**port: Any) -> list[ports_rule.Port]:
    return ports_rule.host_ports(pod({"name": "app", "ports": [port]}))


def test_host_ports() -> None:
    assert ports(containerPort=80) == []
    assert ports(containerPort=80, hostPort=8080) == [("TCP", 8080, "0.0.0.0")]
    listed = [{"containerPort": 53, "protocol": "UDP", "hostIP": "10.0.0.1"}]
    assert ports_rule.host_ports(pod({"name": "app", "ports": listed}, hostNetwork=True)) == [("UDP", 53, "10.0.0.1")]
    init = [{"name": "i", "ports": [{"hostPort": 1}]}, {"name": "s", "restartPolicy": "Always", "ports": [{"hostPort": 2}]}]
    assert ports_rule.host_ports(pod(initContainers=init)) == [("TCP", 2, "0.0.0.0")]


@pytest.mark.parametrize(
    ("wanted", "taken", "clash"),
    [
        (("TCP", 80, "0.0.0.0"), ("TCP", 80, "10.0.0.1"), True),
        (("TCP", 80, "10.0.0.1"), ("TCP", 80, "0.0.0.0"), True),
        (("TCP", 80, "10.0.0.1"), ("TCP", 80, "10.0.0.1"), True),
        (("TCP", 80, "10.0.0.1"), ("TCP", 80, "10.0.0.2"), False),
        (("TCP", 80, "::"), ("TCP", 80, "10.0.0.2"), False),
        (("TCP", 80, "0.0.0.0"), ("UDP", 80, "0.0.0.0"), False),
        (("TCP", 80, "0.0.0.0"), ("TCP", 81, "0.0.0.0"), False),
    ],
)
def test_port_clashes(wanted: ports_rule.Port, taken: ports_rule.Port, clash: bool) -> None:
    assert ports_rule.clashing_port([wanted], [taken]) == (wanted if clash else None)
