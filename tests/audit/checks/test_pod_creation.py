"""Workloads whose pods are not created."""

from __future__ import annotations

from typing import Any

from kubestow.audit.checks import pod_creation
from kubestow.audit.view.view import ClusterView
from kubestow.models.documents.findings.audit import Finding
from kubestow.models.snapshot.snapshot import from_objects
from tests.audit.checks.unsatisfiable.test_check import deployment
from tests.objects import Object, node, pod

FAILURE = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate"}


def found(*things: Object) -> list[Finding]:
    return list(pod_creation.check(ClusterView(from_objects([node("n0"), *things]))))


def web(wanted: int, **status: Any) -> Object:
    return {**deployment("web", wanted), **({"status": status} if status else {})}


def replica(name: str, **more: Any) -> Object:
    return pod(name, owner="ReplicaSet/web-5d8f", labels={"app": "web", "pod-template-hash": "5d8f"}, **more)


def replica_set(**status: Any) -> Object:
    made = {**deployment("web-5d8f", 2, app="web"), "kind": "ReplicaSet", "status": status}
    made["metadata"]["ownerReferences"] = [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "web", "controller": True}]
    return made


def test_a_failure_that_the_status_tells_of() -> None:
    (finding,) = found(web(2, replicas=1, conditions=[FAILURE]), replica("web-1", node_name="n0"))
    assert (finding.code, finding.severity) == ("KS521", "error")
    assert finding.message == "has 1 of 2 pods, and creating more fails (ReplicaFailure: FailedCreate)"
    (finding,) = found(web(2, replicas=1), replica_set(replicas=1, conditions=[FAILURE]), replica("web-1", node_name="n0"))
    assert (finding.object, finding.severity) == ("Deployment default/web", "error")


def test_pods_that_are_missing_for_no_reason_that_is_known() -> None:
    (finding,) = found(web(2, replicas=1), replica("web-1", node_name="n0"))
    assert (finding.code, finding.severity) == ("KS521", "warning")
    (finding,) = found(web(1, conditions=[]))
    assert finding.message.startswith("has 0 of 1 pods")


def test_what_is_no_sign_of_it() -> None:
    assert found(web(2)) == []  # a manifest
    assert found(web(2, replicas=2), replica("web-1", node_name="n0")) == []  # the snapshot lacks pods
    assert found(web(1, replicas=1, conditions=[FAILURE]), replica("web-1")) == []  # mended meanwhile
    leaving = replica("web-2", node_name="n0")
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert found(web(2, replicas=1), replica("web-1", node_name="n0"), leaving) == []
    paused = web(2, replicas=1)
    paused["spec"]["paused"] = True
    assert found(paused, replica("web-1", node_name="n0")) == []


def account(name: str, namespace: str = "default") -> Object:
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": namespace}}


def test_service_accounts_are_judged_where_they_were_captured() -> None:
    named = deployment("web", 1, {"serviceAccountName": "web"})
    (finding,) = found(named, account("default"))
    assert (finding.code, finding.message) == ("KS227", "there is no ServiceAccount default/web")
    assert found(named, account("default"), account("web")) == []
    assert found(named) == found(named, account("other")) == found(named, account("default", "else")) == []
    assert found(deployment("web", 1), account("default")) == []


def test_a_name_of_an_account_makes_no_other_revision() -> None:
    from kubestow.models.workloads.template import template_hash
    from kubestow.models.workloads.view import view

    plain, named = (from_objects([deployment("web", 1, spec)]).workloads["Deployment"][0] for spec in ({}, {"serviceAccountName": "web"}))
    first, second = view(plain), view(named)
    assert first is not None
    assert second is not None
    assert template_hash(first.template) == template_hash(second.template)


def test_what_refuses_one_more_pod_is_named() -> None:
    quota: Object = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "team", "namespace": "default"},
        "spec": {"hard": {"pods": "1"}},
    }
    running = replica("web-1", node_name="n0")
    (finding,) = found(web(2, replicas=1), running, quota)
    assert (finding.code, finding.severity) == ("KS521", "error")
    assert "one more cannot be created: exceeded quota: team" in finding.message
    (finding,) = found(web(2, replicas=1, conditions=[FAILURE]), running, quota)
    assert finding.message.startswith("has 1 of 2 pods, and creating more fails (ReplicaFailure: FailedCreate; exceeded quota: team")
    quota["spec"]["hard"] = {"pods": "2"}
    (finding,) = found(web(2, replicas=1), running, quota)
    assert (finding.severity, "does not show why" in finding.message) == ("warning", True)
