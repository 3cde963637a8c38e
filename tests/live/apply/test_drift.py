"""Every kind of drift: found, and harmless exactly for documents that do not depend on it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from kubestow.live.apply.drift import Document
from tests.live.apply.drift_cluster import (
    ZONE,
    DriftCluster,
    apart,
    budget,
    claim,
    deployment,
    move,
    named,
    namespace,
    placement,
    plan,
    replica_set,
    running,
    stateful_set,
    uid,
    verdict,
    volume,
)
from tests.objects import node, pod

SPREAD = [
    {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "even"}}}
]  # fmt: skip
FOREIGN = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {
                "topologyKey": "kubernetes.io/hostname",
                "labelSelector": {"matchLabels": {"noisy": "yes"}},
                "namespaceSelector": {"matchLabels": {"tenant": "rival"}},
            }
        ]
    }
}
GANG = {"kubestow.dev/gang": "g", "kubestow.dev/min-member": "2"}


def cluster() -> DriftCluster:
    """Zones a (n1, n2), b (n3, n4), c (n5). Pods that plans move are on n1 and go to n2; ``api`` goes from n3 to n4."""
    zones = {"n1": "a", "n2": "a", "n3": "b", "n4": "b", "n5": "c"}
    items = [node(name, labels={ZONE: zone, "disk": "ssd"}) for name, zone in zones.items()]
    items += [
        running("web-1", "n1", "ReplicaSet/web", selector={"disk": "ssd"}, affinity=apart(loud="yes")),
        running("web-2", "n5", "ReplicaSet/web", selector={"disk": "ssd"}, affinity=apart(loud="yes")),
        running("api-1", "n3", "ReplicaSet/api"),
        running("db-0", "n1", "StatefulSet/db", volumes=[{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}]),
        running("even-1", "n1", "ReplicaSet/even", spread=SPREAD, cpu="100m"),
        running("even-2", "n3", "ReplicaSet/even", spread=SPREAD, cpu="100m"),
        running("even-3", "n5", "ReplicaSet/even", spread=SPREAD, cpu="100m"),
        running("shy-1", "n1", "ReplicaSet/shy", affinity=FOREIGN, cpu="100m", priorityClassName="high", priority=10),
        running("filler", "n2", "ReplicaSet/filler", cpu="500m"),
        {**pod("noise", namespace="other", node_name="n2", labels={"noisy": "yes"}, cpu="100m", owner="ReplicaSet/noise")},
        pod("g-1"), pod("g-2"),
        replica_set("web", 2, "web"), deployment("web", 2), replica_set("api", 1), replica_set("even", 3), stateful_set("db", 1),
        budget("web", 1, minAvailable=1), claim("data", "pv-1"), volume("pv-1", "data", "n1,n2"), volume("pv-2", "other", "n4"),
        namespace("default"), namespace("other", tenant="friend"),
        named("PriorityClass", "high", "scheduling.k8s.io/v1", value=10), named("PriorityClass", "low", "scheduling.k8s.io/v1", value=1),
        named("StorageClass", "local", "storage.k8s.io/v1", provisioner="example.com/local", volumeBindingMode="WaitForFirstConsumer"),
    ]  # fmt: skip
    world = DriftCluster(items)
    for name in ("g-1", "g-2"):
        world.pod(name)["metadata"]["annotations"] = GANG
    return world


WEB = plan(move("web-1", "n1", "n2"))
API = plan(move("api-1", "n3", "n4"))
DB = plan(move("db-0", "n1", "n2"))
EVEN = plan(move("even-1", "n1", "n2"))
SHY = plan(move("shy-1", "n1", "n2"))
TEAM = placement(("g-1", "n2"), ("g-2", "n4"), gang="default/g")


class Case(NamedTuple):
    """``fault``: a part of why the run of ``depends`` ends, empty where nothing depends on such drift; ``said``: what is found."""

    change: Callable[[DriftCluster], Any]
    depends: Document
    fault: str
    said: str


def _resize(world: DriftCluster) -> None:
    filler = world.pod("filler")
    filler["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "3500m"
    held = {"cpu": "3500m", "memory": "128Mi"}
    filler["status"]["containerStatuses"] = [{"name": "c", "allocatedResources": held, "resources": {"requests": held}}]


def _taint(world: DriftCluster, key: str, effect: str) -> None:
    world.node("n2")["spec"]["taints"] = [{"key": key, "effect": effect, "timeAdded": "2026-11-01T10:00:00Z"}]


def _spec(kind: str, name: str, **fields: Any) -> Callable[[DriftCluster], None]:
    return lambda world: world.get(kind, name)["spec"].update(fields)


def _metadata(kind: str, name: str, field: str, **fields: Any) -> Callable[[DriftCluster], None]:
    return lambda world: world.get(kind, name)["metadata"].setdefault(field, {}).update(fields)


def _moved(world: DriftCluster) -> None:
    world.again("Pod", "default/web-1")["metadata"]["uid"] = uid("Pod", "default/web-1")
    world.pod("web-1")["spec"]["nodeName"] = "n4"


def _tightened(world: DriftCluster) -> None:
    world.get("PodDisruptionBudget", "default/web")["spec"]["minAvailable"] = 2
    world.get("PodDisruptionBudget", "default/web")["status"] = {"disruptionsAllowed": 0, "currentHealthy": 2, "desiredHealthy": 2}


def _used_up(world: DriftCluster) -> None:
    world.get("PodDisruptionBudget", "default/web")["status"]["disruptionsAllowed"] = 0


def _zone_filled(world: DriftCluster) -> None:
    """Zone a is fuller than b: one more there is one too many once even-1 has left."""
    world.add(running("even-4", "n2", "ReplicaSet/even", spread=SPREAD, cpu="100m"))
    world.add(running("even-5", "n2", "ReplicaSet/even", spread=SPREAD, cpu="100m"))
    world.get("ReplicaSet", "default/even")["spec"]["replicas"] = 5


def _quota(world: DriftCluster) -> None:
    scope = {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}]}
    quota = named("ResourceQuota", "q", spec={"hard": {"pods": "0"}, "scopeSelector": scope})
    quota["metadata"]["namespace"] = "default"
    world.add(quota)


def _scaled_down(world: DriftCluster) -> None:
    world.get("Deployment", "default/web")["spec"]["replicas"] = 1
    world.get("ReplicaSet", "default/web")["spec"]["replicas"] = 1


def _rollout(world: DriftCluster) -> None:
    world.add(replica_set("web-new", 1, "web"))
    world.get("Deployment", "default/web")["spec"]["template"]["spec"]["containers"][0]["image"] = "i:2"


def _template(world: DriftCluster) -> None:
    world.get("StatefulSet", "default/db")["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "2"


CASES = {
    "node gone": Case(lambda w: w.remove("Node", "n4"), API, "no such node", "Node n4 is gone"),
    "node recreated with other labels": Case(
        lambda w: w.again("Node", "n2")["metadata"]["labels"].pop("disk"), WEB, "NodeAffinity", "Node n2 was deleted and made again"
    ),
    "node cordoned": Case(_spec("Node", "n2", unschedulable=True), WEB, "NodeUnschedulable", "Node n2 is cordoned"),
    "node tainted": Case(lambda w: _taint(w, "team", "NoSchedule"), WEB, "TaintToleration", "Node n2: taint team:NoSchedule is new"),
    "node label changed": Case(_metadata("Node", "n2", "labels", disk="hdd"), WEB, "NodeAffinity", "Node n2: label disk=hdd, was disk=ssd"),
    "allocatable shrunk": Case(
        lambda w: w.node("n2")["status"]["allocatable"].update(cpu="900m"),
        WEB,
        "NodeResourcesFit",
        "Node n2: allocatable.cpu is 900m, was 4",
    ),
    "node not Ready": Case(
        lambda w: _taint(w, "node.kubernetes.io/not-ready", "NoExecute"), WEB, "TaintToleration", "Node n2 is not Ready"
    ),
    "node new in a new zone": Case(lambda w: w.add(node("n9", labels={ZONE: "d"})), EVEN, "", "Node n9 is new"),
    "pod gone": Case(lambda w: w.remove("Pod", "default/web-1"), WEB, "web-1 of a coming step is gone", "Pod default/web-1 is gone"),
    "pod recreated": Case(
        lambda w: w.again("Pod", "default/web-1"), WEB, "deleted and made again", "Pod default/web-1 was deleted and made again"
    ),
    "pod moved": Case(_moved, WEB, "is on node n4, it should be on node n1", "Pod default/web-1 is on node n4, it was on node n1"),
    "pod terminating": Case(
        lambda w: w.pod("web-1")["metadata"].update(deletionTimestamp="2026-11-01T10:00:00Z"),
        WEB,
        "being deleted",
        "web-1 is being deleted",
    ),
    "pod ended": Case(lambda w: w.pod("web-1")["status"].update(phase="Failed"), WEB, "has ended", "Pod default/web-1 has ended"),
    "pod resized": Case(_resize, WEB, "NodeResourcesFit", "Pod default/filler: requests.cpu is 3500m, was 500m"),
    "pod labels changed": Case(_metadata("Pod", "default/filler", "labels", loud="yes"), WEB, "InterPodAffinity", "label loud=yes is new"),
    "budget tightened": Case(_tightened, WEB, "PodDisruptionBudget", "PodDisruptionBudget default/web: spec.minAvailable is 2, was 1"),
    "budget new": Case(
        lambda w: w.add(budget("even", 0, minAvailable=3)), EVEN, "PodDisruptionBudget", "PodDisruptionBudget default/even is new"
    ),
    "disruptions used up": Case(_used_up, WEB, "PodDisruptionBudget", "PodDisruptionBudget default/web allows 0 disruptions now, 1 before"),
    "target filled": Case(
        lambda w: w.add(running("big", "n2", "ReplicaSet/big", cpu="3")), WEB, "NodeResourcesFit", "Pod default/big is new on node n2"
    ),
    "zone filled": Case(_zone_filled, EVEN, "PodTopologySpread", "Pod default/even-4 is new on node n2"),
    "claim bound elsewhere": Case(
        _spec("PersistentVolumeClaim", "default/data", volumeName="pv-2"), DB, "Volume", "spec.volumeName is pv-2, was pv-1"
    ),
    "claim deleted": Case(
        lambda w: w.remove("PersistentVolumeClaim", "default/data"), DB, "Volume", "PersistentVolumeClaim default/data is gone"
    ),
    "volume moved": Case(lambda w: w.add(volume("pv-1", "data", "n1")), DB, "Volume", "PersistentVolume pv-1: spec.nodeAffinity"),
    "namespace label changed": Case(
        _metadata("Namespace", "other", "labels", tenant="rival"), SHY, "InterPodAffinity", "Namespace other: label tenant=rival"
    ),
    "priority class gone": Case(lambda w: w.remove("PriorityClass", "high"), SHY, "no PriorityClass high", "PriorityClass high is gone"),
    "quota new": Case(_quota, SHY, "replacement would be refused: quota q", "ResourceQuota default/q is new"),
    "workload scaled down": Case(_scaled_down, WEB, "scaled down to 1 and has 2 pods", "Deployment default/web: replicas is 1, was 2"),
    "rollout begun": Case(
        _rollout, WEB, "a rollout of Deployment default/web is under way", "ReplicaSet default/web-new is new: a rollout"
    ),
    "template changed": Case(_template, DB, "another template", "StatefulSet default/db: template.containers.c.requests.cpu is 2, was 1"),
    "gang member gone": Case(lambda w: w.remove("Pod", "default/g-2"), TEAM, "g-2 of a coming step is gone", "Pod default/g-2 is gone"),
    "pending pod appeared": Case(lambda w: w.add(pod("late")), WEB, "", "Pod default/late is new"),
}


@pytest.mark.parametrize("name", CASES)
def test_drift_that_the_document_depends_on_ends_the_run(name: str) -> None:
    case = CASES[name]
    before, now = cluster(), cluster()
    case.change(now)
    found = verdict(before, now, case.depends)
    if not case.fault:
        assert not found.faults
        assert any(case.said in drift.message for drift in found.harmless)
        return
    assert any(case.fault in fault for fault in found.faults), found
    assert not found.harmless
    assert found.passing == (name == "disruptions used up")


@pytest.mark.parametrize("name", CASES)
def test_drift_that_the_document_does_not_depend_on_is_said(name: str) -> None:
    case = CASES[name]
    before, now = cluster(), cluster()
    case.change(now)
    found = verdict(before, now, WEB if case.depends is API else API)
    assert not found.faults
    assert any(case.said in drift.message for drift in found.harmless), [drift.message for drift in found.harmless]


@pytest.mark.parametrize("document", [WEB, API, DB, EVEN, SHY, TEAM])
def test_nothing_differs_between_a_dump_and_a_redacted_capture_of_one_cluster(document: Document) -> None:
    assert verdict(cluster(), cluster(), document).harmless == []
