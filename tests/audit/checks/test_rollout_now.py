"""Rollouts that are stuck now."""

from __future__ import annotations

from typing import Any

import pytest

from kubestow.audit.checks import rollout_now
from kubestow.audit.view.view import ClusterView
from kubestow.models.documents.findings.audit import Finding
from kubestow.models.snapshot.snapshot import from_objects
from tests.checker.plan.plans import apart
from tests.objects import Object, node, pod


def objects(surge: int = 1, unavailable: int = 0, nodes: int = 2, running: int = 2, **new: Any) -> list[Object]:
    """A Deployment of as many replicas as old pods run, a pod a node, and one new pod that waits."""
    found: list[Object] = [node(f"n{i}") for i in range(nodes)]

    def template(label: str | None, spec: Object) -> Object:
        labels = {"app": "web"} | ({"pod-template-hash": label} if label else {})
        return {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}], "affinity": apart("web"), **spec}}

    rolling = {"rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}
    spec = {
        "replicas": running,
        "selector": {"matchLabels": {"app": "web"}},
        "strategy": rolling,
        "template": template(None, {**new, "hostNetwork": True}),
    }
    found.append({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "default"}, "spec": spec})
    owner = [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "web", "controller": True}]
    for label, own in (("aaa", {}), ("bbb", {**new, "hostNetwork": True})):
        metadata = {"name": f"web-{label}", "namespace": "default", "ownerReferences": owner}
        selector = {"matchLabels": {"app": "web", "pod-template-hash": label}}
        found.append(
            {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": metadata,
             "spec": {"replicas": 1, "selector": selector, "template": template(label, own)}}
        )  # fmt: skip
    for i in range(running):
        labels = {"app": "web", "pod-template-hash": "aaa"}
        found.append(pod(f"web-aaa-{i}", owner="ReplicaSet/web-aaa", node_name=f"n{i}", labels=labels, affinity=apart("web")))
    labels = {"app": "web", "pod-template-hash": "bbb"}
    found.append(pod("web-bbb-0", owner="ReplicaSet/web-bbb", labels=labels, affinity=apart("web"), hostNetwork=True, **new))
    return found


def look(things: list[Object]) -> list[Finding]:
    return list(rollout_now.check(ClusterView(from_objects(things))))


def test_new_pods_that_no_node_takes_and_old_ones_that_may_not_go() -> None:
    (finding,) = look(objects())
    assert (finding.code, finding.severity, finding.object) == ("KS506", "error", "Deployment default/web")
    assert "0 of 2 new pods placed, the next one is rejected by InterPodAffinity on 2 nodes" in finding.message


@pytest.mark.parametrize(
    "more",
    [
        {"unavailable": 1},  # an old pod goes next
        {"surge": 2},  # another new one comes next
        {"nodes": 3},  # a node takes it
        {"schedulingGates": [{"name": "example.com/later"}]},
    ],
)
def test_rollouts_that_go_on(more: Any) -> None:
    assert look(objects(**more)) == []


def test_pods_that_it_may_preempt_are_no_obstacle() -> None:
    things = objects(priority=10)
    assert len(look(things)) == 0
    assert len(look(objects(priority=10, preemptionPolicy="Never"))) == 1


def test_an_old_pod_that_is_not_ready_does_not_go_either() -> None:
    """The controller cleans up old pods only as far as the new ones that are not available leave enough."""
    things = objects()
    old = next(thing for thing in things if thing["metadata"]["name"] == "web-aaa-0")
    old["status"] = {"phase": "Running", "conditions": [{"type": "Ready", "status": "False"}]}
    assert len(look(things)) == 1


def test_paused_rollouts_are_meant_to_wait() -> None:
    things = objects()
    next(thing for thing in things if thing["kind"] == "Deployment")["spec"]["paused"] = True
    assert look(things) == []
