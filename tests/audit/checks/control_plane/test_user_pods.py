"""Pods of users on nodes of the control plane."""

from __future__ import annotations

import pytest

from tests.audit.control_planes import codes, found, member, plane
from tests.objects import Object, pod

WORKER = member("w-0", role=None, host="h1")


def user_pods(*things: Object) -> list[str]:
    return [finding.object for finding in found([*plane(["h0"]), *things]) if finding.code == "KS912"]


def test_a_pod_beside_the_api_server() -> None:
    pods = [pod(f"web-{i}", owner="ReplicaSet/web", node_name=at) for i, at in enumerate(("cp-0", "w-0"))]
    (finding,) = (f for f in found([*plane(["h0"]), WORKER, *pods]) if f.code == "KS912")
    assert (finding.object, finding.severity, finding.pods, finding.nodes) == (
        "ReplicaSet default/web", "warning", ["default/web-0"], ["cp-0"],
    )  # fmt: skip
    assert finding.message == "1 of its 2 pods run on cp-0"


@pytest.mark.parametrize(
    "other",
    [
        pod("x", node_name="w-0"),
        pod("x", node_name="cp-0", namespace="kube-system"),
        pod("x", node_name="cp-0", namespace="openshift-monitoring"),
        pod("x", node_name="cp-0", owner="DaemonSet/x"),
        pod("x", node_name="cp-0", priorityClassName="system-cluster-critical", priority=2000000000),
    ],
)
def test_who_belongs_there_or_is_elsewhere(other: Object) -> None:
    assert user_pods(WORKER, other) == []


def test_without_workers_they_have_to_be_there() -> None:
    assert user_pods(pod("x", node_name="cp-0")) == []
    both = member("cp-0", host="h0", node_role__kubernetes__io="")
    both["metadata"]["labels"]["node-role.kubernetes.io/worker"] = ""
    assert "KS912" not in codes([both, *plane(["h0"])[1:], WORKER, pod("x", node_name="cp-0")])
