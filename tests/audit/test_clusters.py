"""Clusters as in the field: healthy parts have no findings, and every defect is reported once and correctly."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from kubestow.audit.run import AuditOptions, audit
from kubestow.models.documents.findings.audit import Finding
from kubestow.models.snapshot.snapshot import from_objects
from tests.audit.clusters import (
    NODES,
    apart,
    budget,
    changed,
    container,
    drained,
    kubeadm,
    pod_of,
    replica_set,
    runs,
    service,
    spread,
    volume,
    workload,
)
from tests.audit.control_planes import HOSTNAME, ROLE, ZONE
from tests.objects import Object, node, pod

BASE = kubeadm()
Told = list[tuple[str, str, str]]


def found(*things: Object) -> list[Finding]:
    return audit(from_objects(things), AuditOptions()).findings


def told(*things: Object) -> Told:
    return [(f.severity, f.code, f.object) for f in found(*things)]


def terminating(thing: Object) -> Object:
    return {**thing, "metadata": {**thing["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}}


def taken(names: Iterable[str] = ("data",)) -> list[Object]:
    return [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in names]


def mid_rollout() -> list[Object]:
    old = runs("Deployment", "web", NODES[:2], replicas=3)
    return [*old, replica_set("web", "def", 2), *(pod_of("Deployment", "web", i, NODES[i], hash="def") for i in (3, 4))]


def claims() -> list[Object]:
    spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": "fast", "resources": {"requests": {"storage": "1Gi"}}}
    made = [{"metadata": {"name": "data"}, "spec": spec}]
    cls = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "fast"}, "provisioner": "x.csi"}
    pods = [pod_of("StatefulSet", "db", i, NODES[i], volumes=taken([f"data-db-{i}"]), affinity=apart("db")) for i in range(3)]
    volumes = [each for i in range(3) for each in volume(f"data-db-{i}", f"z{i}")]
    return [workload("StatefulSet", "db", 3, affinity=apart("db"), of={"volumeClaimTemplates": made}), cls, *pods, *volumes]


def over(kind: str = "Complete") -> Object:
    """A hook of a chart that has run."""
    job = workload("Job", "hook", 1, containers=[container(resources=None)], nodeSelector={"disk": "gone"})
    return {**job, "status": {"succeeded": 1, "conditions": [{"type": kind, "status": "True"}]}}


EKS = [node(f"ip-{i}", labels={ZONE: f"eu-{i}", "topology.kubernetes.io/region": "eu"}) for i in range(3)]
FARGATE = node(
    "fargate", labels=EKS[0]["metadata"]["labels"] | {HOSTNAME: "fargate"},
    taints=[{"key": "eks.amazonaws.com/compute-type", "value": "fargate", "effect": "NoSchedule"}],
)  # fmt: skip
CORE: Object = {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "podAffinityTerm": {
    "topologyKey": HOSTNAME, "labelSelector": {"matchLabels": {"app": "coredns"}}}}]}}  # fmt: skip
HOST: Object = {"hostNetwork": True, "containers": [container(ports=[{"containerPort": 8080}])]}

HEALTHY: dict[str, list[Object]] = {
    "kubeadm": BASE,
    "spread over zones": [
        *BASE, *runs("Deployment", "web", NODES[:3], topologySpreadConstraints=spread("web", matchLabelKeys=["pod-template-hash"])),
        budget("web", maxUnavailable=1),
    ],
    "of an operator": [*BASE, *runs("Deployment", "web", NODES[:2], owner=("Console", "cluster")), service("web", {"app": "web"})],
    "of an operator, at 0": [*BASE, *runs("Deployment", "web", [], owner=("Revision", "x")), service("web", {"app": "web"})],
    "stateful, of an operator": [*BASE, *runs("StatefulSet", "web", NODES[:2], owner=("Prometheus", "k8s")), budget("web", minAvailable=1)],
    "pods of an operator": [*BASE, *(pod_of("Kafka", "web", i, NODES[i]) for i in range(3)), budget("web", maxUnavailable=1)],
    "old revisions of an operator": [
        *BASE, workload("ReplicaSet", "web", 0, owner=("Rollout", "web"), containers=[container(resources=None)]),
    ],
    "a finished hook": [*BASE, over(), pod_of("Job", "hook", 0, "w0", phase="Succeeded", nodeSelector={"disk": "gone"})],
    "a failed hook": [*BASE, over("Failed")],
    "middle of a rollout": [*BASE, *mid_rollout(), budget("web", minAvailable=2), service("web", {"app": "web"})],
    "stateful, with volumes": [
        *BASE, *claims(), service("db-0", {"statefulset.kubernetes.io/pod-name": "db-0"}), budget("db", maxUnavailable=1),
    ],
    "stateful, one pod being deleted": [
        *BASE,
        *(terminating(o) if o["metadata"]["name"] == "db-0" else o for o in runs("StatefulSet", "db", NODES[:3], affinity=apart("db"))),
    ],
    "claims of another namespace captured": [
        *BASE, *volume("other", "z0"), *runs("StatefulSet", "web", ["w0"], namespace="kube-system", volumes=taken()),
    ],
    "one on each node, one node cordoned": [*drained(BASE, "w0"), *runs("StatefulSet", "db", NODES, affinity=apart("db"))],
    "built-in priority classes": [
        *BASE, {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "low"}, "value": 1},
        *runs("Deployment", "web", NODES[:2], priorityClassName="system-cluster-critical"),
    ],
    "coredns": [*BASE, *runs("Deployment", "coredns", NODES[:2], namespace="kube-system", affinity=CORE, tolerations=[{"key": ROLE}])],
    "services without a selector": [
        *BASE, service("kubernetes", None), service("out", None, type="ExternalName", externalName="example.com"),
    ],
    "scaled to zero": [*BASE, *runs("Deployment", "web", []), service("web", {"app": "web"}), budget("web", minAvailable=1)],
    "host network with room": [*BASE, *runs("Deployment", "web", NODES[:3], **HOST)],
    "managed": [*EKS, *runs("Deployment", "web", [f"ip-{i}" for i in range(3)])],
    "Fargate": [*EKS, FARGATE, *runs("Deployment", "web", ["ip-1", "fargate"], schedulerName="fargate-scheduler")],
    "paused": [*BASE, *runs("Deployment", "web", NODES[:3], of={"paused": True})],
}  # fmt: skip


@pytest.mark.parametrize("name", HEALTHY)
def test_nothing_is_wrong_with_what_is_healthy(name: str) -> None:
    assert [(f.code, f.object, f.message) for f in found(*HEALTHY[name])] == []


def test_a_deployment_of_an_operator_is_looked_at_as_any_other() -> None:
    """Its rollouts as well: that the snapshot lacks it would not be true."""
    result = audit(from_objects(HEALTHY["of an operator"]), AuditOptions())
    assert result.notChecked == []
    hungry = runs("Deployment", "web", [], replicas=2, owner=("Console", "cluster"), nodeSelector={"disk": "ssd"})
    assert told(*BASE, *hungry) == [("error", "KS211", "Deployment default/web")]


def test_a_run_that_is_to_come_may_wait_for_nodes_that_are_to_come() -> None:
    """Between the runs of a CronJob an autoscaler may have taken its nodes away."""
    assert told(*BASE, workload("CronJob", "night", 1, nodeSelector={"pool": "gpu"})) == [("warning", "KS211", "CronJob default/night")]


@pytest.mark.parametrize("key", ["karpenter.sh/disrupted", "ToBeDeletedByClusterAutoscaler", "node.kubernetes.io/disk-pressure"])
def test_a_taint_of_a_node_s_state_is_one_note_of_the_node(key: str) -> None:
    nodes = changed(BASE, "w0", taints=[{"key": key, "effect": "NoSchedule"}])
    (finding,) = found(*nodes, *runs("Deployment", "web", NODES[:2]), *runs("StatefulSet", "db", NODES[:2]))
    assert (finding.severity, finding.code, finding.object) == ("info", "KS102", "Node w0")
    assert sorted(finding.pods) == ["default/db-0", "default/web-abc-0"]
    assert "not tolerated by 2 pods" in finding.message


def test_waiting_for_a_cordoned_node_is_not_for_ever() -> None:
    tight = runs("StatefulSet", "db", [*NODES[1:], None], affinity=apart("db"))
    (finding,) = found(*drained(BASE, "w0"), *tight)
    assert (finding.severity, finding.code) == ("warning", "KS219")
    assert finding.message.endswith("are in 5: at most 5 can run, 6 once nodes are uncordoned or healthy")
    assert told(*BASE, *runs("StatefulSet", "db", [*NODES, None], affinity=apart("db"))) == [("error", "KS219", "StatefulSet default/db")]
    # The pod on the cordoned node runs on: with it all six can run.
    assert told(*drained(BASE, "w0"), *runs("StatefulSet", "db", [*NODES[:5], None], affinity=apart("db"))) == []
    ports = runs("StatefulSet", "web", [*NODES[1:], None], **HOST)
    assert told(*drained(BASE, "w0"), *ports) == [("warning", "KS220", "StatefulSet default/web")]


def test_a_cordoned_zone_blocks_nothing_that_runs() -> None:
    """Its pods still count, so that the zone holds nobody down as long as they are there."""
    constraint: Object = {"topologySpreadConstraints": spread("db")}
    (finding,) = found(*drained(BASE, "w0", "w3"), *runs("StatefulSet", "db", NODES, **constraint))
    assert (finding.severity, finding.code) == ("info", "KS402")
    assert "z0 (3 nodes, 2 pods that count) can take none of its pods" in finding.message
    assert finding.message.endswith("all 6 run now, but if all 6 were placed again, at most 2 could run")
    assert told(*drained(BASE, "w0", "w3"), *runs("StatefulSet", "db", ["w0", "w1", None], **constraint)) == []
    waits = runs("StatefulSet", "db", ["w1", "w2", None], **constraint)
    assert told(*drained(BASE, "w0", "w3"), *waits) == [("warning", "KS402", "StatefulSet default/db")]
    taint = {"key": "team", "value": "a", "effect": "NoSchedule"}
    for_good = changed(changed(BASE, "w0", taints=[taint]), "w3", taints=[taint])
    assert told(*for_good, *waits) == [("error", "KS402", "StatefulSet default/db")]


def test_missing_domains_with_pods_that_stayed() -> None:
    """Four of six run although by minDomains no more than one would be let into each zone."""
    hard = spread("db", minDomains=4)
    (finding, *_) = found(*BASE, *runs("StatefulSet", "db", [*NODES[:4], None], topologySpreadConstraints=hard))
    assert (finding.severity, finding.code) == ("error", "KS401")
    assert finding.message.endswith("of 5 replicas at most 4 can run")


def test_constraints_by_revision_count_the_pods_of_this_one() -> None:
    """Nodes of the control plane are domains of the hostname that take nobody, so that each worker takes one; by matchLabelKeys of this
    revision."""
    rule: Object = {"topologySpreadConstraints": spread("web", HOSTNAME, matchLabelKeys=["pod-template-hash"])}
    (finding,) = found(*BASE, *runs("Deployment", "web", [*NODES, None, None], **rule))
    assert (finding.severity, finding.code) == ("error", "KS402")
    assert "of 8 replicas at most 6 can run" in finding.message


def test_lost_labels_are_told_once_for_each_workload() -> None:
    linux: Object = {"nodeSelector": {"kubernetes.io/os": "linux"}}

    def daemon(i: int) -> Object:
        own = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [NODES[i]]}]}
        affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [own]}}}
        return pod_of("DaemonSet", "agent", i, NODES[i], affinity=affinity, **linux)

    things = [
        *BASE, workload("DaemonSet", "agent", 0, **linux), *(daemon(i) for i in range(6)),
        *runs("Deployment", "web", NODES[:3], **linux), *runs("Deployment", "new", [], replicas=1, **linux),
    ]  # fmt: skip
    assert told(*things) == [
        ("error", "KS211", "Deployment default/new"),
        ("warning", "KS101", "DaemonSet default/agent"),
        ("warning", "KS101", "Deployment default/web"),
    ]
    assert found(*things)[1].message.endswith("where 6 of 6 pods run")


def test_a_node_that_states_nothing_is_one_finding() -> None:
    silent = node("w9", labels={ZONE: "z0"})
    silent["status"] = {"allocatable": {}}
    things = [*BASE, {**silent, "metadata": {**silent["metadata"], "labels": BASE[0]["metadata"]["labels"] | {HOSTNAME: "w9"}}}]
    codes = [f.code for f in found(*things, pod("p", node_name="w9"))]
    assert "KS805" in codes
    assert "KS105" not in codes
    silent["status"] = {"capacity": {"cpu": "4", "memory": "8Gi", "pods": "110"}}  # from which the API server derives the allocatable
    assert "KS805" not in [f.code for f in found(silent, pod("p", node_name="w9"))]


def test_manifests_alone_leave_objects_to_the_cluster() -> None:
    mine = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "mine"}, "value": 1}
    spec: Any = {"priorityClassName": "theirs", "volumes": taken()}
    result = audit(from_objects([mine, *volume("other", "z0"), workload("Deployment", "web", 1, **spec)]), AuditOptions())
    assert result.findings == []
    assert sum("the snapshot is not of a cluster" in note for note in result.notChecked) == 2


def test_a_namespace_with_pods_is_there() -> None:
    term = {"topologyKey": HOSTNAME, "namespaces": ["apps"], "labelSelector": {"matchLabels": {"app": "b"}}}
    near: Object = {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": term}]}}
    follower = runs("Deployment", "a", NODES[:2], affinity=near)
    assert told(*BASE, *follower, *runs("Deployment", "b", NODES[:2], namespace="apps")) == []
    assert told(*BASE, *follower) == [("warning", "KS205", "Deployment default/a")]


def test_requests_that_nobody_misses_now() -> None:
    """A workload scaled to zero uses no node, and a LimitRange sets the requests that a template lacks."""
    bare: Object = {"containers": [container(resources=None)]}
    assert told(*BASE, *runs("Deployment", "web", [], **bare)) == [("info", "KS801", "Deployment default/web")]
    limits = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "l", "namespace": "default"}, "spec": {"limits": [
        {"type": "Container", "defaultRequest": {"cpu": "100m", "memory": "64Mi"}}]}}  # fmt: skip
    waits = runs("Deployment", "web", [], replicas=1, **bare)
    assert told(*BASE, limits, *waits) == []
    assert told(*BASE, *waits) == [("warning", "KS801", "Deployment default/web")]


def test_a_budget_above_the_replicas_keeps_no_more_than_there_are() -> None:
    (finding,) = found(*BASE, *runs("Deployment", "web", NODES[:3]), budget("web", minAvailable=4))
    assert finding.message == "minAvailable 4 keeps 3 of 3 replicas of Deployment default/web"
    (finding,) = found(*BASE, *runs("Deployment", "web", NODES[:2], replicas=3), budget("web", minAvailable=2))
    assert finding.code == "KS602"
    assert finding.message.endswith("2 of the 2 running pods that it selects are ready, and 3 are wanted")
