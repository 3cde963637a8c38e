"""PodDisruptionBudgets, by the evictions they allow for workloads of a stated size and for running pods."""

from __future__ import annotations

from typing import Any

import pytest

from kubestow.audit.checks import disruption_budgets
from kubestow.audit.view.view import ClusterView
from kubestow.models.snapshot.snapshot import from_objects
from tests.objects import Object, node, pod

NODES = [node("a"), node("b"), node("c")]


def workload(kind: str, replicas: int | None, name: str = "web") -> Object:
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec: Object = {"selector": {"matchLabels": {"app": name}}, "template": template}
    if replicas is not None:
        spec["replicas"] = replicas
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name, "namespace": "default"}, "spec": spec}


def budget(name: str = "web", app: str | None = "web", status: Object | None = None, **spec: Any) -> Object:
    if app is not None:
        spec["selector"] = {"matchLabels": {"app": app}} if app else {}
    found: Object = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "default"},
        "spec": spec,
    }
    return found if status is None else {**found, "status": status}


def replicas(ready: list[bool], owner: str = "StatefulSet/web") -> list[Object]:
    found = []
    for i, each in enumerate(ready):
        one = pod(f"web-{i}", labels={"app": "web"}, node_name="abc"[i % 3], owner=owner)
        one["status"]["conditions"] = [{"type": "Ready", "status": str(each)}]
        found.append(one)
    return found


def codes(objects: list[Object]) -> list[str]:
    return [finding.code for finding in disruption_budgets.check(ClusterView(from_objects(objects)))]


@pytest.mark.parametrize(
    ("size", "spec", "expected"),
    [
        (3, {"maxUnavailable": 0}, ["KS601"]),
        (3, {"maxUnavailable": "0%"}, ["KS601"]),
        (3, {"maxUnavailable": "1%"}, []),  # rounded up
        (3, {"minAvailable": 3}, ["KS601"]),
        (3, {"minAvailable": "67%"}, ["KS601"]),
        (3, {"minAvailable": "66%"}, []),
        (3, {"minAvailable": 2}, []),
        (1, {"minAvailable": 1}, ["KS603"]),
        (1, {"minAvailable": "50%"}, ["KS603"]),
        (1, {"maxUnavailable": 1}, []),  # says that it does not mind
        (2, {"maxUnavailable": 2}, ["KS607"]),
        (2, {"minAvailable": 0}, ["KS607"]),
        (0, {"minAvailable": 1}, []),
        (2, {}, ["KS608"]),
        (2, {"minAvailable": 1, "maxUnavailable": 1}, ["KS608"]),
    ],
)
def test_by_construction(size: int, spec: dict[str, Any], expected: list[str]) -> None:
    assert codes([workload("Deployment", size), budget(**spec)]) == expected


def test_a_budget_over_two_workloads_counts_both() -> None:
    both = [workload("Deployment", 1), workload("StatefulSet", 1)]
    assert codes([*both, budget(minAvailable=1)]) == []
    assert codes([*both, budget(minAvailable=2)]) == ["KS601"]


@pytest.mark.parametrize(("ready", "expected"), [([True, True, True], []), ([True, True, False], ["KS602"]), ([False] * 3, ["KS602"])])
def test_now(ready: list[bool], expected: list[str]) -> None:
    assert codes([*NODES, workload("StatefulSet", 3), *replicas(ready), budget(minAvailable=2)]) == expected


def test_pods_that_a_budget_lets_go_unready_are_not_stuck() -> None:
    objects = [*NODES, workload("StatefulSet", 3), *replicas([False] * 3)]
    assert codes([*objects, budget(minAvailable=2, unhealthyPodEvictionPolicy="AlwaysAllow")]) == []


def test_what_the_status_says_counts() -> None:
    objects = [*NODES, workload("StatefulSet", 3), *replicas([True] * 3)]
    assert codes([*objects, budget(minAvailable=2, status={"disruptionsAllowed": 0, "currentHealthy": 2, "desiredHealthy": 2})]) == [
        "KS602"
    ]


@pytest.mark.parametrize(("app", "expected"), [("web", []), ("", []), ("wbe", ["KS604"]), (None, ["KS604"])])
def test_selecting_nothing(app: str | None, expected: list[str]) -> None:
    assert codes([workload("Deployment", 3), budget(app=app, maxUnavailable=1)]) == expected


@pytest.mark.parametrize(("app", "expected"), [("main", []), ("other", ["KS604"])])
def test_budgets_of_pods_that_an_operator_makes_of_new_objects(app: str, expected: list[str]) -> None:
    metadata = {"name": "main", "namespace": "default"}
    operated: Object = {"apiVersion": "monitoring.coreos.com/v1", "kind": "Alertmanager", "metadata": metadata, "spec": {"replicas": 3}}
    view = ClusterView(from_objects([operated, workload("Deployment", 3), budget(app=app, maxUnavailable=1)]))
    assert [finding.code for finding in disruption_budgets.check(view)] == expected
    assert any("Alertmanager default/main creates" in note for note in view.not_checked) is (expected == [])


def test_a_pod_under_two_budgets() -> None:
    two = [budget(maxUnavailable=1), budget("all", app="", maxUnavailable=1)]
    [finding] = disruption_budgets.check(ClusterView(from_objects([*NODES, workload("StatefulSet", 3), *replicas([True] * 3), *two])))
    assert (finding.code, finding.object, len(finding.pods)) == ("KS605", "StatefulSet default/web", 3)
    assert codes([workload("Deployment", 3), *two]) == ["KS605"]  # pods to come


@pytest.mark.parametrize(("kind", "spec", "expected"), [
    ("DaemonSet", {"maxUnavailable": 1}, ["KS606"]),
    ("DaemonSet", {"minAvailable": "50%"}, ["KS606"]),
    ("DaemonSet", {"minAvailable": 1}, []),
])  # fmt: skip
def test_a_scale_that_nothing_states(kind: str, spec: dict[str, Any], expected: list[str]) -> None:
    assert codes([workload(kind, None), budget(**spec)]) == expected


def test_an_unknown_controller_may_have_a_scale() -> None:
    objects = [*NODES, *replicas([True] * 3, "Kafka/web")]
    assert codes([*objects, budget(maxUnavailable=1)]) == []
    assert codes([*objects, budget(maxUnavailable=1, status={"disruptionsAllowed": 0})]) == ["KS602"]
