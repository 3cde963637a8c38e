"""Manifests become the pods that their controllers would make: names, labels, owners, numbers, gangs, claims, bad input."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubestow.models.cluster.compile import compile_cluster
from kubestow.models.cluster.default_spread import DefaultSpread
from kubestow.models.documents.policy import DEFAULT
from kubestow.models.gangs.gangs import GANG, MIN_MEMBER, REQUIRED_TOPOLOGY, find
from kubestow.models.kube import objects
from kubestow.models.kube.pod_spec import ANYWHERE
from kubestow.models.snapshot import scope
from kubestow.models.snapshot.snapshot import InputError, Snapshot, from_objects, load
from kubestow.models.workloads.expand import Expansion, expand, owned, revision_pods
from kubestow.models.workloads.template import ALPHABET
from tests.objects import node, pod

Object = dict[str, Any]
SAFE = f"[{ALPHABET}]"
DATA = next((p / "shared/data" for p in Path(__file__).resolve().parents if (p / "shared/data/workloads").is_dir()), None)
NODES = [node("n1"), node("n2"), node("n3")]


def template(labels: Object | None = None, annotations: Object | None = None, **spec: Any) -> Object:
    metadata: Object = {"labels": {"app": "web"} if labels is None else labels}
    if annotations:
        metadata["annotations"] = annotations
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "100m"}}}
    return {"metadata": metadata, "spec": {"containers": [container], **spec}}


def workload(kind: str, name: str = "web", *, of: Object | None = None, annotations: Object | None = None, **spec: Any) -> Object:
    api = {"Job": "batch/v1", "CronJob": "batch/v1", "ReplicationController": "v1", "PodTemplate": "v1"}.get(kind, "apps/v1")
    found: Object = {"apiVersion": api, "kind": kind, "metadata": {"name": name}}
    if annotations:
        found["metadata"]["annotations"] = annotations
    of = template() if of is None else of
    if kind == "PodTemplate":
        return {**found, "template": of}
    if kind == "CronJob":
        return {**found, "spec": {"schedule": "@daily", "jobTemplate": {"spec": {"template": of, **spec}}}}
    if kind != "Job":
        labels = of["metadata"]["labels"]
        spec = {"selector": labels if kind == "ReplicationController" else {"matchLabels": labels}, **spec}
    return {**found, "spec": {"template": of, **spec}}


def grown(manifests: list[Object], cluster: list[Object] | None = None, **options: Any) -> Expansion:
    return expand(from_objects([*NODES, *(cluster or [])]), from_objects(manifests, manifests=True), **options)


def added(expansion: Expansion, cluster: list[Object] | None = None) -> list[objects.Pod]:
    before = {f"{o['metadata']['namespace']}/{o['metadata']['name']}" for o in cluster or () if o["kind"] == "Pod"}
    return [p for p in expansion.snapshot.pods if objects.pod_key(p) not in before]


def names(pods: list[objects.Pod]) -> list[str]:
    return [p.metadata.name or "" for p in pods]


def owner(found: objects.Pod) -> objects.OwnerReference:
    controller = objects.controller_of(found)
    assert controller is not None
    return controller


def annotation(found: objects.Pod, key: str) -> str | None:
    return (found.metadata.annotations or {}).get(key)


def problems(manifests: list[Object], cluster: list[Object] | None = None, **options: Any) -> list[str]:
    with pytest.raises(InputError) as error:
        grown(manifests, cluster, **options)
    assert all("\n" not in line for line in error.value.problems)
    return error.value.problems


# --- kinds ------------------------------------------------------------------------------------------------------------


def test_deployment() -> None:
    expansion = grown([workload("Deployment", replicas=3)])
    pods = added(expansion)
    assert expansion.workloads == ["Deployment default/web"]
    assert len(pods) == 3
    assert len({*names(pods)}) == 3
    (found,) = expansion.snapshot.workloads["ReplicaSet"]
    label = found.metadata.labels["pod-template-hash"]
    assert re.fullmatch(f"{SAFE}+", label)
    assert found.metadata.name == f"web-{label}"
    assert owner_of(found) == ("Deployment", "web")
    assert found.spec.selector.matchLabels == {"app": "web", "pod-template-hash": label}
    for each in pods:
        assert re.fullmatch(f"web-{label}-{SAFE}{{5}}", each.metadata.name or "")
        assert (owner(each).kind, owner(each).name) == ("ReplicaSet", found.metadata.name)
        assert each.metadata.labels == {"app": "web", "pod-template-hash": label}
        assert each.metadata.namespace == "default"
        assert each.spec.nodeName is None
        assert each.status is not None
        assert each.status.phase == "Pending"
        assert each.spec.priority == 0
        assert {t.key for t in each.spec.tolerations or ()} == {"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"}


def owner_of(obj: Any) -> tuple[str, str]:
    (reference,) = obj.metadata.ownerReferences
    assert reference.controller
    return reference.kind, reference.name


def test_default_spread_reads_the_new_replica_set() -> None:
    expansion = grown([workload("Deployment", replicas=2)])
    found = DefaultSpread(expansion.snapshot, DEFAULT).of(expansion.snapshot.pods[0])
    assert found
    assert {e.key for e in (found[0][0].labelSelector or objects.LabelSelector()).matchExpressions or ()} == {"app", "pod-template-hash"}


@pytest.mark.parametrize("kind", ["ReplicaSet", "ReplicationController"])
def test_replica_set_and_replication_controller(kind: str) -> None:
    pods = added(grown([workload(kind, replicas=2)]))
    assert len(pods) == 2
    for each in pods:
        assert re.fullmatch(f"web-{SAFE}{{5}}", each.metadata.name or "")
        assert (owner(each).kind, owner(each).name) == (kind, "web")
        assert each.metadata.labels == {"app": "web"}


def test_replicas_default_to_one() -> None:
    assert len(added(grown([workload("Deployment"), workload("StatefulSet", "db"), workload("ReplicationController", "rc")]))) == 3


def test_stateful_set_ordinals() -> None:
    pods = added(grown([workload("StatefulSet", replicas=3, ordinals={"start": 5})]))
    assert names(pods) == ["web-5", "web-6", "web-7"]
    labels = pods[0].metadata.labels or {}
    assert labels["statefulset.kubernetes.io/pod-name"] == "web-5"
    assert labels["apps.kubernetes.io/pod-index"] == "5"
    assert re.fullmatch(f"web-{SAFE}+", labels["controller-revision-hash"])


@pytest.mark.parametrize(
    ("spec", "status", "count"),
    [
        ({}, None, 1),
        ({"parallelism": 3}, None, 3),
        ({"parallelism": 3, "completions": 2}, None, 2),
        ({"parallelism": 2, "completions": 5}, None, 2),
        ({"parallelism": 3, "completions": 5}, {"succeeded": 4}, 1),
        ({"parallelism": 3}, {"succeeded": 1}, 0),
        ({"parallelism": 3, "completions": 5}, {"conditions": [{"type": "Complete", "status": "True"}]}, 0),
        ({"parallelism": 3, "completions": 5}, {"conditions": [{"type": "Complete", "status": "False"}]}, 3),
        ({"parallelism": 0, "completions": 5}, None, 0),
        ({"parallelism": 2, "suspend": True}, None, 0),
    ],
)
def test_job_counts(spec: Object, status: Object | None, count: int) -> None:
    job = workload("Job", **spec)
    in_cluster = [{**job, "status": status}] if status else []
    assert len(added(grown([job], in_cluster))) == count


def test_job_names_and_labels() -> None:
    (each,) = added(grown([workload("Job")]))
    assert re.fullmatch(f"web-{SAFE}{{5}}", each.metadata.name or "")
    assert (each.metadata.labels or {})["batch.kubernetes.io/job-name"] == "web"
    assert (each.metadata.labels or {})["job-name"] == "web"
    assert (owner(each).kind, owner(each).name) == ("Job", "web")


def test_indexed_job_takes_the_indices_that_are_left() -> None:
    job = workload("Job", parallelism=3, completions=6, completionMode="Indexed")
    running = pod("web-1-aaaaa", owner="Job/web", labels={"batch.kubernetes.io/job-completion-index": "1"}, node_name="n1")
    cluster = [{**job, "status": {"succeeded": 2, "completedIndexes": "0,3"}}, running]
    pods = added(grown([job], cluster), cluster)
    assert [re.fullmatch(rf"web-(\d)-{SAFE}{{5}}", name)[1] for name in names(pods)] == ["2", "4"]  # type: ignore[index]
    assert [(p.metadata.labels or {})["batch.kubernetes.io/job-completion-index"] for p in pods] == ["2", "4"]


def test_a_suspended_job_runs_only_if_kueue_is_to_start_it() -> None:
    job = workload("Job", parallelism=2, suspend=True)
    expansion = grown([job])
    assert not expansion.snapshot.pods
    assert any("is suspended" in warning for warning in expansion.snapshot.warnings)
    job["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "team"}
    assert len(added(grown([job]))) == 2


def test_cron_job_is_one_run() -> None:
    expansion = grown([workload("CronJob", parallelism=2)])
    pods = added(expansion)
    (job,) = expansion.snapshot.workloads["Job"]
    assert re.fullmatch(r"web-\d{8}", job.metadata.name)
    assert owner_of(job) == ("CronJob", "web")
    assert len(pods) == 2
    assert all(re.fullmatch(rf"{job.metadata.name}-{SAFE}{{5}}", name) for name in names(pods))
    suspended = workload("CronJob")
    suspended["spec"]["suspend"] = True
    assert not added(grown([suspended]))


def test_pod_template_stands_for_replicas_that_it_states() -> None:
    (one,) = added(grown([workload("PodTemplate")]))
    assert re.fullmatch(f"web-{SAFE}{{5}}", one.metadata.name or "")
    assert one.metadata.ownerReferences is None
    assert annotation(one, GANG) is None
    expansion = grown([workload("PodTemplate", annotations={"kubestow.dev/replicas": "4"})])
    assert len(added(expansion)) == 4
    assert annotation(expansion.snapshot.pods[0], GANG) == "web"


def test_bare_pods_are_admitted_like_others() -> None:
    manifest = pod("solo")
    del manifest["metadata"]["namespace"]
    expansion = grown([manifest])
    (each,) = added(expansion)
    assert expansion.workloads == ["Pod default/solo"]
    assert each.spec.priority == 0
    assert annotation(each, GANG) is None


# --- DaemonSets -------------------------------------------------------------------------------------------------------


def daemons(of: Object, cluster: list[Object]) -> dict[str, objects.Pod]:
    expansion = expand(from_objects(cluster), from_objects([workload("DaemonSet", of=of)], manifests=True))
    before = {o["metadata"]["name"] for o in cluster}
    found = [p for p in expansion.snapshot.pods if p.metadata.name not in before]
    by_node: dict[str, objects.Pod] = {}
    for each in found:
        assert each.spec.affinity is not None
        assert each.spec.affinity.nodeAffinity is not None
        required = each.spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution
        assert required is not None
        (term,) = required.nodeSelectorTerms or []
        (field,) = term.matchFields or []
        assert (field.key, field.operator, term.matchExpressions) == ("metadata.name", "In", None)
        by_node[(field.values or [""])[0]] = each
    assert len(by_node) == len(found)
    return by_node


def test_daemon_set_runs_on_every_eligible_node() -> None:
    cluster = [
        node("plain"),
        node("cordoned", unschedulable=True, taints=[{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]),
        node("tainted", taints=[{"key": "a", "effect": "NoSchedule"}]),
        node("soft", taints=[{"key": "a", "effect": "PreferNoSchedule"}]),
        node("down", taints=[{"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}]),
        node("network", taints=[{"key": "node.kubernetes.io/network-unavailable", "effect": "NoSchedule"}]),
        node("full", cpu="0"),
    ]
    assert set(daemons(template(), cluster)) == {"plain", "cordoned", "soft", "down", "full"}
    assert "network" in daemons(template(hostNetwork=True), cluster)
    assert "tainted" in daemons(template(tolerations=[{"operator": "Exists"}]), cluster)


def test_daemon_set_follows_selector_and_affinity() -> None:
    cluster = [
        node("a", labels={"disk": "ssd", "zone": "1"}),
        node("b", labels={"disk": "ssd", "zone": "2"}),
        node("c", labels={"zone": "1"}),
    ]
    terms = [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["1"]}]}]
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    assert set(daemons(template(nodeSelector={"disk": "ssd"}), cluster)) == {"a", "b"}
    assert set(daemons(template(affinity=affinity), cluster)) == {"a", "c"}
    assert set(daemons(template(nodeSelector={"disk": "ssd"}, affinity=affinity), cluster)) == {"a"}


def test_daemon_set_names_tolerations_and_nodes_that_have_a_pod() -> None:
    cluster = [*NODES, pod("web-xxxxx", owner="DaemonSet/web", node_name="n2")]
    found = daemons(template(), cluster)
    assert set(found) == {"n1", "n3"}
    assert all(re.fullmatch(f"web-{SAFE}{{5}}", name) for name in names(list(found.values())))
    keys = [(t.key or "", t.effect or "") for t in found["n1"].spec.tolerations or ()]
    assert len(keys) == len(set(keys))
    assert ("node.kubernetes.io/unschedulable", "NoSchedule") in keys


# --- topping up -------------------------------------------------------------------------------------------------------


def replica_set(name: str, of: Object, label: str, deployment: str = "web") -> Object:
    labels = {**of["metadata"]["labels"], "pod-template-hash": label}
    metadata = {
        "name": name,
        "namespace": "default",
        "labels": labels,
        "ownerReferences": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": deployment, "uid": "u", "controller": True}],
    }
    inner = {**of, "metadata": {**of["metadata"], "labels": labels}}
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": metadata,
        "spec": {"selector": {"matchLabels": labels}, "template": inner},
    }


def test_a_deployment_is_topped_up_in_the_replica_set_of_its_template() -> None:
    running = pod("web-abc-1", owner="ReplicaSet/web-abc", labels={"app": "web", "pod-template-hash": "abc"}, node_name="n1")
    other = template()
    other["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "2"
    same = template(schedulerName="default-scheduler")
    same["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "0.1"
    cluster = [
        replica_set("web-old", other, "old"),
        replica_set("web-abc", same, "abc"),
        running,
        workload("Deployment", of=same, replicas=1),
    ]
    expansion = grown([workload("Deployment", replicas=3)], cluster)
    pods = [p for p in expansion.snapshot.pods if p.metadata.name != "web-abc-1"]
    assert len(pods) == 2
    assert {owner(p).name for p in pods} == {"web-abc"}
    assert {(p.metadata.labels or {})["pod-template-hash"] for p in pods} == {"abc"}
    assert len(expansion.snapshot.workloads["ReplicaSet"]) == 2
    assert len(expansion.snapshot.workloads["Deployment"]) == 1
    assert expansion.snapshot.workloads["Deployment"][0].spec.replicas == 3


def test_another_template_makes_another_replica_set_and_says_so() -> None:
    running = pod("web-abc-1", owner="ReplicaSet/web-abc", labels={"app": "web", "pod-template-hash": "abc"}, node_name="n1")
    old = template(nodeSelector={"disk": "ssd"})
    cluster = [replica_set("web-abc", old, "abc"), running, workload("Deployment", of=old, replicas=1)]
    expansion = grown([workload("Deployment", replicas=2)], cluster)
    assert len(expansion.snapshot.pods) == 2
    assert owner(expansion.snapshot.pods[1]).name != "web-abc"
    assert any("another template" in warning for warning in expansion.snapshot.warnings)


def test_without_the_replica_sets_pods_are_known_by_their_names() -> None:
    running = pod("web-abc-1", owner="ReplicaSet/web-abc", labels={"app": "web", "pod-template-hash": "abc"}, node_name="n1")
    stranger = pod("web-two-abc-1", owner="ReplicaSet/web-two-abc", labels={"app": "web", "pod-template-hash": "abc"}, node_name="n1")
    expansion = grown([workload("Deployment", replicas=2)], [running, stranger])
    new = [p for p in expansion.snapshot.pods if not p.spec.nodeName]
    assert len(new) == 1
    assert owner(new[0]).name == "web-abc"


def test_which_pods_count() -> None:
    manifest = workload("ReplicaSet", replicas=5)
    gone = pod("gone", owner="ReplicaSet/web", node_name="n1")
    gone["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    done = pod("done", owner="ReplicaSet/web", node_name="n1")
    done["status"]["phase"] = "Succeeded"
    cluster = [
        pod("running", owner="ReplicaSet/web", node_name="n1"),
        pod("waiting", owner="ReplicaSet/web"),
        pod("orphan", labels={"app": "web"}),
        pod("other", namespace="elsewhere", owner="ReplicaSet/web"),
        pod("foreign", owner="ReplicaSet/api", labels={"app": "web"}),
        gone,
        done,
    ]
    snapshot = from_objects([*NODES, *cluster, manifest])
    assert [snapshot.pods[i].metadata.name for i in owned(snapshot, "ReplicaSet", "default", "web")] == ["running", "waiting", "orphan"]
    expansion = expand(snapshot, from_objects([manifest], manifests=True))
    assert len(expansion.snapshot.pods) == len(cluster) + 2
    members = {p.metadata.name for p in expansion.snapshot.pods if annotation(p, GANG) == "web"}
    assert {"running", "waiting", "orphan"} < members
    assert not members & {"other", "foreign", "gone", "done"}
    assert annotation(snapshot.pods[0], GANG) is None, "the cluster's own objects are not changed"
    (gang,) = find(expansion.snapshot, scope.select(expansion.snapshot))
    assert (len(gang.pods), len(gang.bound), gang.needed) == (4, 1, 4)


def test_more_than_wanted_is_pointed_out() -> None:
    cluster = [pod(f"p{i}", owner="ReplicaSet/web", node_name="n1") for i in range(3)]
    expansion = grown([workload("ReplicaSet", replicas=1)], cluster)
    assert len(expansion.snapshot.pods) == 3
    assert "ReplicaSet default/web: has 3 pods and wants 1: no pods are made or removed" in expansion.snapshot.warnings


def test_stateful_set_fills_its_gaps() -> None:
    leaving = pod("web-3", owner="StatefulSet/web", node_name="n1")
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    failed = pod("web-2", owner="StatefulSet/web", node_name="n1")
    failed["status"]["phase"] = "Failed"
    cluster = [pod("web-1", owner="StatefulSet/web", node_name="n1"), leaving, failed]
    expansion = grown([workload("StatefulSet", replicas=4)], cluster)
    assert sorted(names(expansion.snapshot.pods)) == ["web-0", "web-1", "web-2", "web-3"]
    assert {p.metadata.name for p in expansion.snapshot.pods if not p.spec.nodeName} == {"web-0", "web-2"}
    assert any("cannot make its pod web-3" in warning for warning in expansion.snapshot.warnings)


def test_a_running_cron_job_counts() -> None:
    job = workload("Job", "web-28000000")
    job["metadata"]["ownerReferences"] = [{"kind": "CronJob", "name": "web", "controller": True}]
    cluster = [job, pod("web-28000000-aaaaa", owner="Job/web-28000000", node_name="n1")]
    assert len(grown([workload("CronJob")], cluster).snapshot.pods) == 1
    assert len(grown([workload("CronJob", parallelism=2)], cluster).snapshot.pods) == 2
    assert len(grown([workload("CronJob", parallelism=2)], cluster[1:]).snapshot.pods) == 2, "by the Job's name"


def test_manifests_of_what_controllers_made_are_not_made_again() -> None:
    manifests = [workload("Deployment", replicas=2), replica_set("web-abc", template(), "abc")]
    expansion = grown(manifests)
    assert expansion.workloads == ["Deployment default/web"]
    assert {owner(p).name for p in expansion.snapshot.pods} == {"web-abc"}
    assert len(expansion.snapshot.pods) == 2


def test_a_pod_that_is_there_is_not_made_again() -> None:
    cluster = [pod("solo", node_name="n1")]
    manifest = pod("solo")
    manifest["metadata"]["annotations"] = {GANG: "pair"}
    expansion = grown([manifest], cluster)
    (each,) = expansion.snapshot.pods
    assert each.spec.nodeName == "n1"
    assert annotation(each, GANG) == "pair"


def test_new_names_are_free() -> None:
    first = names(added(grown([workload("ReplicaSet", replicas=3)])))
    existing = [pod(name) for name in first[:2]]
    second = names(added(grown([workload("ReplicaSet", replicas=3)], existing), existing))
    assert not {*first[:2]} & {*second}
    assert len({*second}) == 3


# --- gangs ------------------------------------------------------------------------------------------------------------


def test_gang_names() -> None:
    manifests = [
        workload("Deployment", replicas=2),
        workload("StatefulSet", replicas=2),
        workload("ReplicaSet", "joined", replicas=2, annotations={GANG: "team"}),
        workload("Job", "told", parallelism=2, of=template(annotations={GANG: "team"}), annotations={GANG: "other"}),
        workload("PodTemplate", "single", annotations={MIN_MEMBER: "1"}),
        workload("ReplicaSet", "alone"),
        workload("ReplicaSet", "none", replicas=2, of=template(annotations={GANG: ""})),
        workload("ReplicaSet", "volcano", replicas=2, of=template(annotations={"scheduling.k8s.io/group-name": "v"})),
    ]
    found: dict[str, set[str | None]] = {}
    for each in added(grown(manifests)):
        found.setdefault(re.sub(f"(-{SAFE}+)?-{SAFE}{{5}}$|-[01]$", "", each.metadata.name or ""), set()).add(annotation(each, GANG))
    assert found == {
        "web": {"web-deployment", "web-statefulset"},
        "joined": {"team"},
        "told": {"team"},
        "single": {"single"},
        "alone": {None},
        "none": {""},
        "volcano": {None},
    }


def test_gang_annotations_come_from_template_then_workload() -> None:
    manifests = [workload("ReplicaSet", replicas=3, annotations={MIN_MEMBER: "2", REQUIRED_TOPOLOGY: "zone"})]
    assert {(annotation(p, MIN_MEMBER), annotation(p, REQUIRED_TOPOLOGY)) for p in added(grown(manifests))} == {("2", "zone")}
    manifests[0]["spec"]["template"]["metadata"]["annotations"] = {MIN_MEMBER: "3", "other": "dropped"}
    (found,) = {tuple(sorted((p.metadata.annotations or {}).items())) for p in added(grown(manifests))}
    assert found == ((GANG, "web"), (MIN_MEMBER, "3"), (REQUIRED_TOPOLOGY, "zone"))
    assert {annotation(p, MIN_MEMBER) for p in added(grown(manifests, partial=True))} == {"1"}


def test_partial_reaches_pods_that_wait_already() -> None:
    cluster = [pod("web-a", owner="ReplicaSet/web")]
    expansion = grown([workload("ReplicaSet", replicas=3)], cluster, partial=True)
    assert [annotation(p, MIN_MEMBER) for p in expansion.snapshot.pods] == ["1", "1", "1"]


def test_partial_reaches_bare_pods_of_a_gang_only() -> None:
    joined = pod("joined")
    joined["metadata"]["annotations"] = {GANG: "pair"}
    volcano = pod("volcano")
    volcano["metadata"]["annotations"] = {"scheduling.k8s.io/group-name": "v"}
    pods = added(grown([joined, volcano, pod("solo")], partial=True))
    assert [annotation(p, MIN_MEMBER) for p in pods] == ["1", "1", None]
    assert [annotation(p, MIN_MEMBER) for p in added(grown([joined]))] == [None]


# --- priorities and other objects -------------------------------------------------------------------------------------


def klass(name: str, value: int, **fields: Any) -> Object:
    return {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value, **fields}


def test_priorities() -> None:
    manifests = [workload("Deployment", of=template(priorityClassName="high")), pod("solo", priorityClassName="high")]
    assert {p.spec.priority for p in added(grown(manifests, [klass("high", 7)]))} == {7}
    assert {p.spec.priority for p in added(grown([*manifests, klass("high", 8)]))} == {8}
    assert {p.spec.priority for p in added(grown([workload("Deployment"), pod("solo")], [klass("low", -5, globalDefault=True)]))} == {-5}
    assert problems(manifests) == [
        "objects[0]: Deployment default/web: spec.template.spec.priorityClassName: "
        "no PriorityClass 'high' in the input, expected it or spec.template.spec.priority",
        "objects[1]: Pod default/solo: spec.priorityClassName: no PriorityClass 'high' in the input, expected it or spec.priority",
    ]


def test_other_objects_are_merged_and_the_manifest_wins() -> None:
    def service(selector: Object) -> Object:
        return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": {"selector": selector}}

    expansion = grown([service({"app": "new"}), klass("a", 1)], [service({"app": "old"})])
    (found,) = expansion.snapshot.services
    assert found.spec is not None
    assert found.spec.selector == {"app": "new"}
    assert expansion.snapshot.warnings == [
        "objects[0]: Service default/web: spec.selector differ from the snapshot's; the manifest's apply"
    ]
    assert set(expansion.snapshot.priority_classes) == {"a"}
    assert not grown([service({"app": "old"})], [service({"app": "old"})]).snapshot.warnings


def test_pod_groups_of_several_kinds_may_share_a_name() -> None:
    def group(api: str, minimum: int) -> Object:
        return {"apiVersion": f"{api}/v1", "kind": "PodGroup", "metadata": {"name": "g"}, "spec": {"minMember": minimum}}

    volcano, plugins = group("scheduling.volcano.sh", 2), group("scheduling.x-k8s.io", 3)
    found = grown([plugins, group("scheduling.volcano.sh", 4)], [volcano]).snapshot.pod_groups
    assert {(g.group, g.spec.minMember) for g in found if g.spec} == {("scheduling.volcano.sh", 4), ("scheduling.x-k8s.io", 3)}


def test_nodes_may_be_added_but_not_changed() -> None:
    expansion = grown([node("n4"), node("n1")])
    assert [n.metadata.name for n in expansion.snapshot.nodes] == ["n1", "n2", "n3", "n4"]
    assert problems([node("n1", cpu="64")]) == ["objects[0]: Node n1: already in the snapshot with other content, expected each node once"]


def test_a_bound_claim_keeps_its_volume() -> None:
    bound = {"accessModes": ["ReadWriteOnce"], "storageClassName": "s", "volumeName": "v", "resources": {"requests": {"storage": "1Gi"}}}
    claim: Object = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c"}, "spec": bound}
    manifest = {**claim, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}
    expansion = grown([manifest], [claim])
    found = expansion.snapshot.persistent_volume_claims["default/c"].spec
    assert found is not None
    assert (found.volumeName, found.storageClassName) == ("v", "s")
    assert not expansion.snapshot.warnings
    assert not expansion.unmodelled


# --- claims -----------------------------------------------------------------------------------------------------------


def storage(name: str, mode: str, *, default: bool = False, provisioner: str = "csi.example.org") -> Object:
    annotations = {"storageclass.kubernetes.io/is-default-class": "true"} if default else {}
    metadata = {"name": name, "annotations": annotations}
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": metadata,
        "provisioner": provisioner,
        "volumeBindingMode": mode,
    }


def stateful(**claim: Any) -> Object:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, **claim}
    of = template(volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}, {"name": "tmp", "emptyDir": {}}])
    return workload("StatefulSet", "db", of=of, replicas=2, volumeClaimTemplates=[{"metadata": {"name": "data"}, "spec": spec}])


def classes(expansion: Expansion) -> dict[str, str | None]:
    found = expansion.snapshot.persistent_volume_claims
    return {key: claim.spec.storageClassName for key, claim in found.items() if claim.spec is not None}


def test_stateful_sets_make_their_claims() -> None:
    expansion = grown([stateful()], [storage("std", "WaitForFirstConsumer", default=True)])
    assert classes(expansion) == {"default/data-db-0": "std", "default/data-db-1": "std"}
    assert not expansion.unmodelled
    volumes = {v.name: v for v in expansion.snapshot.pods[1].spec.volumes or ()}
    assert set(volumes) == {"data", "tmp"}
    assert volumes["data"].persistentVolumeClaim is not None
    assert volumes["data"].persistentVolumeClaim.claimName == "data-db-1"


def test_claims_that_are_there_are_taken() -> None:
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data-db-0"}, "spec": {"volumeName": "v"}}
    found = grown([stateful()], [storage("std", "WaitForFirstConsumer", default=True), claim]).snapshot.persistent_volume_claims
    assert set(found) == {"default/data-db-0", "default/data-db-1"}
    spec = found["default/data-db-0"].spec
    assert spec is not None
    assert spec.volumeName == "v"


@pytest.mark.parametrize(
    ("named", "cluster", "chosen", "effect"),
    [
        (None, [], ANYWHERE, "storage classes are not in the input"),
        ("fast", [], ANYWHERE, "its storage class 'fast' is not in the input"),
        ("fast", [storage("fast", "Immediate")], f"{ANYWHERE}-fast", "binds it before its pod is placed"),
        (None, [storage("fast", "WaitForFirstConsumer")], None, "names no storage class and there is no default"),
    ],
)
def test_what_is_supposed_of_claims_is_said(named: str | None, cluster: list[Object], chosen: str | None, effect: str) -> None:
    manifest = stateful(**({"storageClassName": named} if named else {}))
    expansion = grown([manifest], cluster)
    assert classes(expansion) == {"default/data-db-0": chosen, "default/data-db-1": chosen}
    assert [(u.pod, u.field) for u in expansion.unmodelled] == [
        ("default/db-0", "claim default/data-db-0"),
        ("default/db-1", "claim default/data-db-1"),
    ]
    assert all(effect in u.effect for u in expansion.unmodelled)
    (warning,) = expansion.snapshot.warnings
    assert warning.startswith("claims default/data-db-0, default/data-db-1: ")
    assert effect in warning
    binding = compile_cluster(expansion.snapshot, scope.select(expansion.snapshot))
    assert len(binding.classes)
    if chosen is not None:
        assert expansion.snapshot.storage_classes[chosen].volumeBindingMode == "WaitForFirstConsumer"


def test_claims_in_neither_input_and_of_ephemeral_volumes() -> None:
    ephemeral = {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {"storageClassName": "std"}}}}
    of = template(volumes=[{"name": "shared", "persistentVolumeClaim": {"claimName": "shared"}}, ephemeral])
    expansion = grown([workload("Deployment", of=of)], [storage("std", "WaitForFirstConsumer")])
    name = expansion.snapshot.pods[0].metadata.name
    assert classes(expansion) == {"default/shared": ANYWHERE, f"default/{name}-scratch": "std"}
    assert [u.field for u in expansion.unmodelled] == ["claim default/shared"]


def test_claims_of_the_manifests_get_the_default_class() -> None:
    claim: Object = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c"}, "spec": {}}
    assert classes(grown([claim], [storage("std", "WaitForFirstConsumer", default=True)])) == {"default/c": "std"}


# --- bad input and odd input ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "ReplicationController"])
def test_selectors_must_select_the_template(kind: str) -> None:
    other = {"app": "other"}
    manifest = workload(kind, selector=other if kind == "ReplicationController" else {"matchLabels": other})
    assert problems([manifest]) == [
        f"objects[0]: {kind} default/web: spec.selector: app=other does not select the labels of spec.template, expected one that does"
    ]


def test_a_template_without_labels_gets_those_of_the_selector() -> None:
    manifest = workload("Deployment", of=template(labels={}), selector={"matchLabels": {"app": "web"}})
    expansion = grown([manifest])
    assert (expansion.snapshot.pods[0].metadata.labels or {})["app"] == "web"
    assert any("has no labels" in warning for warning in expansion.snapshot.warnings)


@pytest.mark.parametrize(
    ("manifest", "message"),
    [
        (workload("Deployment", selector=None), "spec.selector: missing or empty, expected one that selects the template's labels"),
        (workload("Deployment", selector={}), "spec.selector: missing or empty, expected one that selects the template's labels"),
        (workload("Deployment", template=None), "spec.template.spec: missing, expected a pod template"),
        (
            workload("PodTemplate", annotations={"kubestow.dev/replicas": "-1"}),
            "metadata.annotations[kubestow.dev/replicas]: got '-1', expected a whole number of at least 0",
        ),
        (
            workload("StatefulSet", volumeClaimTemplates=[{"spec": {}}]),
            "spec.volumeClaimTemplates[0].metadata.name: missing, expected text",
        ),
    ],
)
def test_bad_manifests(manifest: Object, message: str) -> None:
    assert problems([manifest]) == [f"objects[0]: {manifest['kind']} default/web: {message}"]


@pytest.mark.parametrize(
    ("manifest", "field"),
    [
        (workload("StatefulSet", ordinals={"start": -1}), "spec.ordinals.start"),
        (workload("Job", parallelism=2, completionMode="Indexed"), "spec.completions"),
        (workload("Deployment", of=template(containers=[])), "spec.template.spec.containers"),
    ],
)
def test_templates_are_checked_as_pods_are(manifest: Object, field: str) -> None:
    with pytest.raises(InputError) as error:
        from_objects([manifest], manifests=True)
    assert field in str(error.value)


def test_too_many_pods_are_refused() -> None:
    assert problems([workload("Deployment", replicas=2**31 - 1)]) == [
        "Deployment default/web: the workloads ask for more than 1,000,000 pods, expected fewer"
    ]


def test_selectors_that_select_nobody_are_pointed_out() -> None:
    anti = {"labelSelector": {"matchLabels": {"app": "wrong"}}, "topologyKey": "kubernetes.io/hostname"}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [anti]}}
    spread = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "wrong"}}}
    manifest = workload("Deployment", of=template(affinity=affinity, topologySpreadConstraints=[spread]), replicas=2)
    assert grown([manifest]).snapshot.warnings == [
        "Deployment default/web: spec.template.spec.affinity.podAntiAffinity."
        "requiredDuringSchedulingIgnoredDuringExecution[0].labelSelector: "
        "app=wrong selects no pod of the input, its own included: it has no effect",
        "Deployment default/web: spec.template.spec.topologySpreadConstraints[0].labelSelector: "
        "app=wrong selects no pod of the input, its own included: it has no effect",
    ]
    assert not grown([manifest], [pod("p", labels={"app": "wrong"})]).snapshot.warnings
    elsewhere = [pod("p", namespace="far", labels={"app": "wrong"})]
    assert len(grown([manifest], elsewhere).snapshot.warnings) == 2
    anti["namespaceSelector"] = {}
    assert len(grown([manifest], elsewhere).snapshot.warnings) == 1


# --- revisions, properties, published workloads -----------------------------------------------------------------------


def test_revision_pods_are_new_whatever_the_template() -> None:
    snapshot = grown([workload("Deployment", replicas=2)]).snapshot
    before = msgspec.json.encode(snapshot.pods)
    (deployment,) = snapshot.workloads["Deployment"]
    pods, found = revision_pods(snapshot, deployment, 3)
    assert msgspec.json.encode(snapshot.pods) == before
    assert len(snapshot.workloads["ReplicaSet"]) == 1
    assert found.metadata.name not in {rs.metadata.name for rs in snapshot.workloads["ReplicaSet"]}
    label = (found.metadata.labels or {})["pod-template-hash"]
    assert all(p.metadata.labels == {"app": "web", "pod-template-hash": label} for p in pods)
    assert {owner(p).name for p in pods} == {found.metadata.name}
    assert len({*names(pods), *names(snapshot.pods)}) == 5
    assert all(p.spec.priority == 0 for p in pods)
    assert len(owned(snapshot, "Deployment", "default", "web")) == 2


def test_revision_pods_refuse_what_an_api_server_would() -> None:
    deployment = from_objects([workload("Deployment", of=template(priorityClassName="high"))], manifests=True).workloads["Deployment"][0]
    with pytest.raises(InputError, match=r"Deployment default/web: .*no PriorityClass 'high'"):
        revision_pods(Snapshot(), deployment, 1)


KINDS = ("Deployment", "ReplicaSet", "ReplicationController", "StatefulSet", "Job", "CronJob", "PodTemplate")


def sized(kind: str, name: str, count: int) -> Object:
    if kind == "PodTemplate":
        return workload(kind, name, of=template({"app": name}), annotations={"kubestow.dev/replicas": str(count)})
    sizes: Object = {"parallelism": count, "completions": count} if kind in ("Job", "CronJob") else {"replicas": count}
    return workload(kind, name, of=template({"app": name}), **sizes)


@given(st.lists(st.tuples(st.sampled_from(KINDS), st.integers(0, 4)), max_size=6), st.integers(0, 3))
@settings(max_examples=60, deadline=None)
def test_every_workload_gets_its_pods_once(wanted: list[tuple[str, int]], running: int) -> None:
    manifests = [sized(kind, f"w{i}", count) for i, (kind, count) in enumerate(wanted)]
    cluster = [pod(f"old-{i}", owner="ReplicaSet/w0", labels={"app": "w0"}, node_name="n1") for i in range(running)]
    there = running if wanted and wanted[0][0] == "ReplicaSet" else 0
    expansion = grown(manifests, cluster)
    snapshot = expansion.snapshot
    assert len(snapshot.pods) == running + sum(count for _, count in wanted) - min(there, wanted[0][1] if wanted else 0)
    assert len({objects.pod_key(p) for p in snapshot.pods}) == len(snapshot.pods)
    for i, (kind, count) in enumerate(wanted):
        assert len(owned(snapshot, kind, "default", f"w{i}")) == (max(count, there) if i == 0 else count)
    again = grown(manifests, cluster)
    assert msgspec.json.encode(again.snapshot.pods) == msgspec.json.encode(snapshot.pods)
    assert again.snapshot.sha256 == snapshot.sha256
    twice = expand(snapshot, from_objects(manifests, manifests=True))
    assert msgspec.json.encode(twice.snapshot.pods) == msgspec.json.encode(snapshot.pods), "all is there: nothing is added"


def test_the_hash_is_of_both_inputs() -> None:
    manifests = from_objects([workload("Deployment")], manifests=True)
    one, two = from_objects(NODES), from_objects(NODES[:2])
    hashes = {one.sha256, manifests.sha256, expand(one, manifests).snapshot.sha256, expand(two, manifests).snapshot.sha256}
    assert len(hashes) == 4


PODS = {
    "argocd-ha": 14,
    "cockroachdb": 3,
    "karpenter-spread-hostname-zone": 50,
    "kube-thanos-all": 20,
    "kwok-descheduler-case": 2,
    "kwok-tsc-deployment": 4,
    "metrics-server-ha": 2,
    "train-ticket": 64,
    "zookeeper": 3,
}


@pytest.mark.skipif(DATA is None, reason="published workloads are not there")
@pytest.mark.parametrize("cluster", ["openshift-aws", "openshift-vsphere"])
@pytest.mark.parametrize("name", PODS)
def test_published_workloads_on_published_clusters(name: str, cluster: str) -> None:
    assert DATA is not None
    snapshot = load([str(DATA / f"clusters/{cluster}.json")])
    manifests = load([str(DATA / f"workloads/{name}.yaml")], manifests=True)
    expansion = expand(snapshot, manifests)
    found = expansion.snapshot.pods
    assert found[: len(snapshot.pods)] == snapshot.pods
    assert len(found) - len(snapshot.pods) == PODS[name]
    new = range(len(snapshot.pods), len(found))
    assert set(new) <= set(scope.select(expansion.snapshot).pending)
    keys = set(expansion.snapshot.persistent_volume_claims)
    for i in new:
        claims = [v.persistentVolumeClaim.claimName for v in found[i].spec.volumes or () if v.persistentVolumeClaim is not None]
        assert {f"{found[i].metadata.namespace}/{claim}" for claim in claims} <= keys
    misses = [warning for warning in expansion.snapshot.warnings if "its own included" in warning]
    assert bool(misses) == (name in ("zookeeper", "kwok-descheduler-case"))
