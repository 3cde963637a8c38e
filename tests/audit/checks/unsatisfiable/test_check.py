"""Rules that are reported as unsatisfiable are: compared with every state that the pods of tiny clusters can be bound into."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kubestow.audit.checks import selectors, topology_spread
from kubestow.audit.checks.unsatisfiable import check
from kubestow.audit.view.view import ClusterView
from kubestow.models.cluster.cluster import Cluster
from kubestow.models.cluster.compile import compile_cluster
from kubestow.models.documents.findings.audit import Finding
from kubestow.models.kube.objects import pod_key
from kubestow.models.snapshot.scope import select
from kubestow.models.snapshot.snapshot import Snapshot, from_objects, load
from tests import tiny
from tests.objects import Object, node, pod
from tests.solver.rules.test_agreement import reachable
from tests.tiers import sampled, seeds

INSTANCES = Path(__file__).resolve().parents[4] / "instances" / "audit"
OWN = [code.code for code in check.CODES]
#: Those that say that no pod at all can be placed.
NONE = {"KS203", "KS211", "KS212", "KS213", "KS214", "KS215", "KS217", "KS218", "KS405"}
#: Those that say how many can.
MOST = {"KS219", "KS220", "KS401", "KS402", "KS403", "KS404"}


def found(objects: list[Object]) -> list[Finding]:
    return list(check.check(ClusterView(from_objects(objects))))


def codes(objects: list[Object]) -> list[str]:
    return [finding.code for finding in found(objects)]


def deployment(name: str, replicas: int, spec: Object | None = None, **labels: str) -> Object:
    labels = labels or {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}], **(spec or {})}}
    return {
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": "default"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template},
    }  # fmt: skip


def affinity(kind: str, app: str, key: str = "zone", **more: Any) -> Object:
    return {
        kind: {
            "requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}, **more}]
        }
    }


def together(*parts: Object) -> Object:
    return {"affinity": {key: value for part in parts for key, value in part.items()}}


def zoned(*zones: str, **more: Any) -> list[Object]:
    return [node(f"n{i}", labels={"zone": zone}, **more) for i, zone in enumerate(zones)]


# --- every state of tiny clusters -------------------------------------------------------------------------------------


def placed(cluster: Cluster, names: set[str]) -> int:
    """The most pods of these that any reachable state has."""
    width = cluster.n_nodes
    of = [sum(pod_key(cluster.snapshot.pods[i]) in names for i in cls.pods) for cls in cluster.classes]
    best = 0
    for state in reachable(cluster):
        best = max(best, sum(min(sum(state[g * width : (g + 1) * width]), most) for g, most in enumerate(of)))
    return best


def claims(snapshot: Snapshot) -> Iterator[tuple[Finding, set[str], int]]:
    """Return the findings with their pending pods, and the largest number of these that can be placed according to the finding."""
    view = ClusterView(snapshot)
    for finding in (*selectors.check(view), *check.check(view), *topology_spread.check(view)):
        subject = next((s for s in view.subjects if s.name == finding.object), None)
        if subject is None:
            continue  # a claim
        waiting = {key for key, i in zip(view.keys(subject.pods), subject.pods, strict=True) if not snapshot.pods[i].spec.nodeName}
        said = re.search(r"at most (\d+) can (run|be placed)", finding.message)
        if finding.code in NONE and finding.severity != "warning" and not (finding.code == "KS203" and finding.severity != "error"):
            yield finding, waiting, 0
        elif finding.code in MOST and said is not None:
            running = len(subject.pods) - len(waiting)
            yield finding, waiting, int(said[1]) - (running if said[2] == "run" else 0)
        else:
            assert finding.code not in MOST or finding.severity != "error"


def unsound(seeds: range, kind: str, make: Any = tiny.snapshot) -> tuple[list[str], set[str]]:
    wrong, seen = [], set()
    for seed in seeds:
        snapshot = from_objects(make(seed, kind))
        cluster = compile_cluster(snapshot, select(snapshot))
        for finding, waiting, most in claims(snapshot):
            seen.add(finding.code)
            if waiting and placed(cluster, waiting) > most:
                wrong.append(f"{kind} {seed}: {finding.code} {finding.object}: {finding.message}")
    return wrong, seen


@pytest.mark.parametrize("kind", sampled(tiny.ALL, every=4))
@seeds(70, 120)
def test_no_state_has_what_is_said_never_to_be(seeds: range, kind: str) -> None:
    wrong, seen = unsound(seeds, kind)
    assert wrong == []
    assert seen or seeds.start or kind == "spread"


def half_run(seed: int, kind: str) -> list[Object]:
    """Make many identical pods, some already running, and cordon a node."""
    rng = random.Random(f"half-{seed}")
    things = tiny.snapshot(seed, kind)
    nodes = [thing for thing in things if thing["kind"] == "Node"]
    rng.choice(nodes)["spec"]["unschedulable"] = True
    made = rng.choice([thing for thing in things if thing["kind"] == "Pod"])
    made = {**made, "spec": {key: value for key, value in made["spec"].items() if key != "nodeName"}}
    pods = []
    for i in range(4):
        metadata = {**{key: value for key, value in made["metadata"].items() if key != "deletionTimestamp"}, "name": f"web-{i}"}
        bound = {"nodeName": rng.choice(nodes)["metadata"]["name"]} if rng.random() < 0.4 else {}
        pods.append(
            {**made, "metadata": metadata, "spec": {**made["spec"], **bound}, "status": {"phase": "Running" if bound else "Pending"}}
        )
    return [*(thing for thing in things if thing["kind"] != "Pod"), *pods]


@pytest.mark.full
@pytest.mark.parametrize("kind", tiny.ALL)
@seeds(50, 150)
def test_what_runs_already_is_counted_with_what_can(seeds: range, kind: str) -> None:
    wrong, seen = unsound(seeds, kind, half_run)
    assert wrong == []
    assert seen or seeds.start or kind == "volumes"


@pytest.mark.full
@pytest.mark.parametrize("kind", ["mutual", "ring", "woven"])
def test_no_state_has_what_is_said_never_to_be_where_pods_want_each_other(kind: str) -> None:
    wrong, seen = unsound(range(120), kind, tiny.mutual)
    assert wrong == []
    assert seen


@pytest.mark.slow
@pytest.mark.parametrize("kind", tiny.ALL)
def test_no_state_has_what_is_said_never_to_be_long(kind: str) -> None:
    assert unsound(range(120, 4000), kind)[0] == []


# --- instances ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", OWN)
def test_instances_have_the_one_finding_they_are_about(code: str) -> None:
    triggers, fixed = sorted(INSTANCES.glob(f"{code}-*.yaml"), key=lambda path: len(path.name))
    assert [f.code for f in check.check(ClusterView(load([str(triggers)])))] == [code]
    assert list(check.check(ClusterView(load([str(fixed)])))) == []


# --- nodes --------------------------------------------------------------------------------------------------------------


def node_affinity(*terms: list[Object]) -> Object:
    selector = {"nodeSelectorTerms": [{"matchExpressions": term} if term else {} for term in terms]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": selector}}}


def expression(key: str, operator: str, *values: str) -> Object:
    return {"key": key, "operator": operator, **({"values": list(values)} if values else {})}


@pytest.mark.parametrize(
    "term",
    [
        [expression("zone", "In", "a"), expression("zone", "NotIn", "a")],
        [expression("zone", "In", "a"), expression("zone", "In", "b")],
        [expression("zone", "Exists"), expression("zone", "DoesNotExist")],
        [expression("zone", "DoesNotExist"), expression("zone", "In", "a")],
        [expression("size", "Gt", "3"), expression("size", "Lt", "4")],
        [expression("size", "Gt", "3"), expression("size", "In", "1", "2", "3", "big")],
        [expression("size", "Lt", "0")],
        [],
    ],
)
def test_contradictions(term: list[Object]) -> None:
    for objects in ([deployment("web", 1, node_affinity(term))], [*zoned("a"), deployment("web", 1, node_affinity(term))]):
        assert codes(objects) == ["KS212"]


@pytest.mark.parametrize(
    "term",
    [
        [expression("zone", "In", "a", "b"), expression("zone", "NotIn", "a")],
        [expression("zone", "NotIn", "a"), expression("zone", "DoesNotExist")],
        [expression("size", "Gt", "3"), expression("size", "Lt", "5")],
        [expression("size", "Gt", "3"), expression("size", "NotIn", "4", "5")],
        [expression("size", "Lt", "1")],
    ],
)
def test_no_contradictions(term: list[Object]) -> None:
    assert codes([deployment("web", 1, node_affinity(term))]) == []


def test_one_alternative_of_several_that_never_holds_is_a_warning() -> None:
    dead = [expression("zone", "In", "a"), expression("zone", "In", "b")]
    (finding,) = found([*zoned("a"), deployment("web", 1, node_affinity(dead, [expression("zone", "In", "a")]))])
    assert (finding.code, finding.severity) == ("KS212", "warning")
    assert finding.field is not None
    assert finding.field.endswith("nodeSelectorTerms[0]")


def test_gravity_follows_what_runs_and_what_is_wanted() -> None:
    selector = {"nodeSelector": {"disk": "ssd"}}
    (finding,) = found([*zoned("a"), deployment("web", 0, selector)])
    assert finding.severity == "info"
    owner = {"kind": "ReplicaSet", "apiVersion": "apps/v1", "name": "web-1", "uid": "u", "controller": True}
    running = pod("web-1-x", labels={"app": "web", "pod-template-hash": "1"}, node_name="n0")
    running["metadata"]["ownerReferences"] = [owner]
    (finding,) = found([*zoned("a"), deployment("web", 1, selector), running])
    assert finding.severity == "warning"
    (finding,) = found([*zoned("a"), deployment("web", 2, selector), running])
    assert finding.severity == "error"


def test_a_job_that_is_over_is_not_judged() -> None:
    job: Object = {
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "load", "namespace": "default"},
        "spec": {"template": {"spec": {"containers": [{"name": "c"}], "nodeSelector": {"disk": "ssd"}}}},
    }  # fmt: skip
    assert found([*zoned("a"), job])[0].severity == "error"
    over = {**job, "status": {"conditions": [{"type": "Complete", "status": "True"}]}}
    assert found([*zoned("a"), over]) == []
    assert found([*zoned("a"), {**job, "status": {"succeeded": 1}, "spec": {**job["spec"], "completions": 1}}]) == []
    stopped = {**job, "spec": {**job["spec"], "suspend": True}}
    assert [f.severity for f in found([*zoned("a"), stopped])] == ["info"]


def test_a_cordon_is_for_a_time_and_a_taint_is_not() -> None:
    (finding,) = found([node("n0", unschedulable=True), deployment("web", 1)])
    assert (finding.code, finding.severity) == ("KS213", "warning")
    (finding,) = found([node("n0", unschedulable=True, taints=[{"key": "x", "effect": "NoSchedule"}]), deployment("web", 1)])
    assert (finding.code, finding.severity) == ("KS213", "error")
    assert "x:NoSchedule" in finding.message
    assert codes([node("n0", taints=[{"key": "x", "effect": "PreferNoSchedule"}]), deployment("web", 1)]) == []


def test_requests_that_fit_one_by_one_but_on_no_node_together() -> None:
    ask = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "3", "memory": "3Gi"}}}]}
    (finding,) = found([node("a", cpu="4", memory="2Gi"), node("b", cpu="2", memory="4Gi"), deployment("web", 1, ask)])
    assert finding.code == "KS214"
    assert "together" in finding.message
    gpu = {"containers": [{"name": "c", "resources": {"requests": {"example.com/gpu": "1"}}}]}
    assert "which no node has" in found([node("a"), deployment("web", 1, gpu)])[0].message


def test_a_node_that_is_named() -> None:
    (finding,) = found([*zoned("a"), deployment("web", 1, {"nodeName": "n9"})])
    assert (finding.code, finding.severity, finding.rule) == ("KS222", "error", "NodeName")
    assert codes([*zoned("a"), deployment("web", 1, {"nodeName": "n0"})]) == []
    assert codes([*zoned("a"), pod("lost", node_name="n9")]) == []  # it was bound once: KS114


def test_a_daemon_set_may_run_nowhere() -> None:
    daemons = {**deployment("agent", 1, {"nodeSelector": {"disk": "ssd"}}), "kind": "DaemonSet"}
    assert [(f.code, f.severity) for f in found([*zoned("a"), daemons])] == [("KS211", "info")]
    tainted = node("n0", taints=[{"key": "x", "effect": "NoSchedule"}])
    assert codes([tainted, {**deployment("agent", 1), "kind": "DaemonSet"}]) == []


# --- affinity -----------------------------------------------------------------------------------------------------------


def test_the_first_of_its_kind_needs_no_other() -> None:
    assert codes([*zoned("a", "b"), deployment("web", 3, together(affinity("podAffinity", "web")))]) == []


def test_targets_of_another_namespace_are_none() -> None:
    cache = deployment("cache", 1)
    cache["metadata"]["namespace"] = "other"
    web = together(affinity("podAffinity", "cache"))
    assert codes([*zoned("a"), cache, deployment("web", 1, web)]) == ["KS217"]
    everywhere = together(affinity("podAffinity", "cache", namespaceSelector={}))
    assert codes([*zoned("a"), cache, deployment("web", 1, everywhere)]) == []


def test_labels_that_controllers_add_are_not_missed() -> None:
    term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"statefulset.kubernetes.io/pod-name": "db-0", "app": "db"}}}
    web = {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}
    assert codes([*zoned("a"), {**deployment("db", 1), "kind": "StatefulSet"}, deployment("web", 1, web)]) == []


def test_affinity_out_of_reach_for_now() -> None:
    objects = [*zoned("a", "b"), pod("cache-0", labels={"app": "cache"}, node_name="n0")]
    web = {"nodeSelector": {"zone": "b"}, **together(affinity("podAffinity", "cache"))}
    (finding,) = found([*objects, deployment("web", 1, web)])
    assert (finding.code, finding.severity, finding.nodes) == ("KS218", "warning", ["n0"])


def test_mutual_refusal_is_a_contradiction() -> None:
    follows = together(affinity("podAffinity", "cache"))
    shy = together(affinity("podAntiAffinity", "web"))
    (finding,) = found([*zoned("a", "b"), deployment("cache", 1, shy), deployment("web", 1, follows)])
    assert (finding.code, finding.object) == ("KS221", "Deployment default/web")
    assert "Deployment default/cache" in finding.message


def test_a_narrower_anti_affinity_is_no_contradiction() -> None:
    rules = together(affinity("podAffinity", "cache", "zone"), affinity("podAntiAffinity", "cache", tiny.HOST))
    assert codes([*zoned("a", "a"), deployment("cache", 1), deployment("web", 1, rules)]) == []
    wide = together(affinity("podAffinity", "cache", tiny.HOST), affinity("podAntiAffinity", "cache", "zone"))
    assert codes([*zoned("a", "a"), deployment("cache", 1), deployment("web", 1, wide)]) == ["KS221"]


def test_one_replica_may_follow_and_refuse_its_own_kind() -> None:
    rules = together(affinity("podAffinity", "web"), affinity("podAntiAffinity", "web"))
    assert codes([*zoned("a", "b"), deployment("web", 1, rules)]) == []
    assert codes([*zoned("a", "b"), deployment("web", 2, rules)]) == ["KS221"]


def test_nodes_without_the_key_take_any_number() -> None:
    rules = together(affinity("podAntiAffinity", "web"))
    assert codes([*zoned("a", "b"), deployment("web", 3, rules)]) == ["KS219"]
    assert codes([*zoned("a", "b"), node("n9"), deployment("web", 3, rules)]) == []


def test_exempt_namespaces_have_no_hard_anti_affinity() -> None:
    snapshot = from_objects([*zoned("a"), deployment("web", 3, together(affinity("podAntiAffinity", "web")))])
    assert [f.code for f in check.check(ClusterView(snapshot))] == ["KS219"]
    assert list(check.check(ClusterView(snapshot, exempt=("default",)))) == []


# --- references to missing objects ----------------------------------------------------------------------------------------


def test_kinds_that_the_snapshot_has_none_of_are_not_judged() -> None:
    spec = {"priorityClassName": "high", "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]}
    view = ClusterView(from_objects([*zoned("a"), deployment("web", 1, spec)]))
    assert list(check.check(view)) == []
    assert [note for note in view.not_checked if "PriorityClasses" in note or "PersistentVolumeClaims" in note] == view.not_checked
    assert len(view.not_checked) == 2


def test_system_classes_are_there() -> None:
    classes = [{"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 5}]
    assert codes([*zoned("a"), *classes, deployment("web", 1, {"priorityClassName": "system-node-critical"})]) == []


def test_without_nodes_it_says_so() -> None:
    view = ClusterView(from_objects([deployment("web", 3, {"nodeSelector": {"disk": "ssd"}})]))
    assert list(check.check(view)) == []
    assert any("no nodes" in note for note in view.not_checked)


def test_a_bad_annotation_stops_nothing() -> None:
    broken = pod("odd", node_name="n0")
    broken["metadata"]["annotations"] = {"cri-resource-manager.intel.com/affinity": "{"}
    assert codes([*zoned("a"), broken, deployment("web", 1, {"nodeSelector": {"disk": "ssd"}})]) == ["KS211"]
