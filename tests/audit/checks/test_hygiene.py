"""Requests, labels and allocatable of nodes, priority classes."""

from __future__ import annotations

from typing import Any

import pytest

from kubestow.audit.checks import hygiene
from kubestow.audit.view.view import ClusterView
from kubestow.models.documents.findings.audit import Finding
from kubestow.models.snapshot.snapshot import from_objects
from tests.objects import Object, node, pod

HOST, ZONE, REGION = "kubernetes.io/hostname", "topology.kubernetes.io/zone", "topology.kubernetes.io/region"


def found(*objects: Object) -> list[Finding]:
    return list(hygiene.check(ClusterView(from_objects(list(objects)))))


def codes(*objects: Object) -> list[str]:
    return [finding.code for finding in found(*objects)]


def asking(asked: Object | None, **more: Any) -> Object:
    one = pod("web-0", owner=more.pop("owner", "StatefulSet/web"), **more)
    one["spec"]["containers"][0]["resources"] = asked or {}
    return one


@pytest.mark.parametrize(
    ("resources", "message"),
    [
        ({"requests": {"cpu": "1", "memory": "1Gi"}}, None),
        ({"limits": {"cpu": "1", "memory": "1Gi"}}, None),  # requests default to limits
        ({"requests": {"cpu": "0", "memory": "0"}}, None),  # said on purpose
        ({"requests": {"cpu": "1"}}, "c requests no memory"),
        ({"requests": {"nvidia.com/gpu": "1"}}, "c requests no cpu and no memory"),
        (None, "c requests no cpu and no memory"),
    ],
)
def test_requests(resources: Object | None, message: str | None) -> None:
    findings = found(asking(resources))
    assert [f.message for f in findings] == ([] if message is None else [message])
    assert all((f.code, f.severity, f.object) == ("KS801", "warning", "StatefulSet default/web") for f in findings)


def test_pod_level_requests_and_sidecars() -> None:
    assert codes(asking(None, resources={"requests": {"cpu": "1", "memory": "1Gi"}})) == []
    first = {"name": "init", "image": "i"}
    full = {"requests": {"cpu": "1", "memory": "1Gi"}}
    assert codes(asking(full, initContainers=[first])) == []  # over before the others begin
    assert codes(asking(full, initContainers=[{**first, "restartPolicy": "Always"}])) == ["KS801"]


def test_what_admission_filled_in_counts() -> None:
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"replicas": 1, "serviceName": "web", "selector": {"matchLabels": {"app": "web"}}, "template": template}
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "web", "namespace": "default"}, "spec": spec}
    assert codes(owner) == ["KS801"]
    assert codes(owner, asking({"requests": {"cpu": "1", "memory": "1Gi"}})) == []


def test_daemons_weigh_less() -> None:
    assert [f.severity for f in found(asking(None, owner="DaemonSet/web"))] == ["info"]


def test_best_effort_and_urgent() -> None:
    assert codes(asking(None, priority=5)) == ["KS801", "KS802"]
    assert codes(asking({"requests": {"cpu": "1"}}, priority=5)) == ["KS801"]


def without_hostname(name: str) -> Object:
    one = node(name)
    one["metadata"]["labels"].pop(HOST)
    return one


def test_nodes_without_a_label_that_others_have() -> None:
    [finding] = found(node("a", labels={ZONE: "z"}), node("b"), node("c"))
    assert (finding.code, finding.severity, finding.nodes) == ("KS803", "warning", ["b", "c"])
    assert codes(without_hostname("a"), node("b")) == ["KS803"]
    assert [f.severity for f in found(node("a", labels={REGION: "r"}), node("b"))] == ["info"]


def test_a_label_that_no_node_has_is_missed_where_a_rule_asks_for_it() -> None:
    assert codes(node("a"), node("b")) == []
    term = {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "x"}}}
    affinity = {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": term}]}}
    assert codes(node("a"), node("b"), pod("p", affinity=affinity)) == ["KS803"]


def test_deprecated_labels() -> None:
    beta = "failure-domain.beta.kubernetes.io/zone"
    assert codes(node("a", labels={ZONE: "z", beta: "z"})) == []
    assert codes(node("a", labels={ZONE: "z", beta: "y"})) == ["KS806"]
    [finding] = found(node("a", labels={ZONE: "z", beta: "z"}), node("b", labels={beta: "z"}))
    assert (finding.code, finding.nodes) == ("KS803", ["b"])
    assert "deprecated" in finding.message


def test_hostnames_and_zones_that_are_not_unique() -> None:
    assert [(f.code, f.nodes) for f in found(node("a"), node("b", labels={HOST: "a"}))] == [("KS804", ["a", "b"])]
    assert codes(*(node(n, labels={ZONE: "1", REGION: n}) for n in ("a", "b"))) == ["KS808"]
    assert codes(*(node(n, labels={ZONE: "1", REGION: "r"}) for n in ("a", "b"))) == []


@pytest.mark.parametrize(("status", "expected"), [({}, ["KS805"]), ({"allocatable": {"cpu": "1", "memory": "1Gi"}}, ["KS805"])])
def test_allocatable(status: Object, expected: list[str]) -> None:
    one = node("a")
    one["status"] = status
    assert codes(one) == expected


def test_default_priorities() -> None:
    def cls(name: str, value: int, default: bool) -> Object:
        meta = {"name": name}
        return {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": meta, "value": value, "globalDefault": default}

    assert codes(cls("a", 5, True), cls("b", 1, False)) == []
    [finding] = found(cls("a", 5, True), cls("b", 1, True))
    assert (finding.code, finding.object) == ("KS807", "PriorityClass b")


@pytest.mark.parametrize(("resources", "message"), [
    ({"requests": {"cpu": "1", "memory": "128m"}}, "containers[0].resources.requests.memory 128m is in thousandths of a byte"),
    ({"requests": {"cpu": "1", "memory": "8000m"}}, "containers[0].resources.requests.memory 8000m is in thousandths of a byte"),
    ({"requests": {"cpu": "1", "memory": "1024"}}, "containers[0].resources.requests.memory 1024 is in bytes"),
    ({"requests": {"cpu": "1", "memory": "1Mi"}}, None),
    ({"requests": {"cpu": "1", "memory": "0"}}, None),
])  # fmt: skip
def test_memory_in_units_that_nobody_means(resources: Object, message: str | None) -> None:
    assert [(f.code, f.message) for f in found(asking(resources))] == ([] if message is None else [("KS810", message)])
