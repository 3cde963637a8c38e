"""The checker on hand-written clusters: for every rule a placement it accepts and one it rejects, bind orders, document faults."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
import pytest

from kubestow.checker.placement import Judge, rejecting_rules, verify
from kubestow.checker.violation import Violation
from kubestow.models.documents.placement import Assignment, Placement, SnapshotRef, Status, TierResult, Unplaced
from kubestow.models.documents.policy import Policy
from kubestow.models.kube import objects, storage_objects
from kubestow.models.kube.kinds import KINDS
from kubestow.models.snapshot.snapshot import Snapshot

ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"
Object = dict[str, Any]
Where = tuple[str, str] | tuple[str, str, int]  # pod, node, order


def node(name: str, labels: Object | None = None, allocatable: Object | None = None, **spec: Any) -> Object:
    offered = {"cpu": "4", "memory": "8Gi", "pods": "10"} if allocatable is None else allocatable
    named = {HOST: name, **(labels or {})}
    return {"kind": "Node", "metadata": {"name": name, "labels": named}, "spec": spec, "status": {"allocatable": offered}}


def pod(name: str, labels: Object | None = None, on: str | None = None, meta: Object | None = None, **spec: Any) -> Object:
    metadata = {"name": name, "namespace": "prod", "labels": labels or {}, **(meta or {})}
    return {"kind": "Pod", "metadata": metadata, "spec": spec | ({"nodeName": on} if on else {})}


def container(**requests: str) -> Object:
    return {"name": "app", "resources": {"requests": requests}}


def select(**labels: str) -> Object:
    return {"matchLabels": labels}


def affine(selector: Object | None, key: str = ZONE, **more: Any) -> Object:
    term = {"topologyKey": key, **({"labelSelector": selector} if selector is not None else {}), **more}
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def averse(selector: Object | None, key: str = ZONE, **more: Any) -> Object:
    return {"podAntiAffinity": affine(selector, key, **more)["podAffinity"]}


def spread(selector: Object | None, key: str = ZONE, skew: int = 1, **more: Any) -> Object:
    constraint = {"topologyKey": key, "maxSkew": skew, "whenUnsatisfiable": "DoNotSchedule", **more}
    return constraint | ({"labelSelector": selector} if selector is not None else {})


def claim(
    name: str, modes: tuple[str, ...] = ("ReadWriteOnce",), meta: Object | None = None, phase: str = "Pending", **spec: Any
) -> Object:
    full = {"accessModes": list(modes), "resources": {"requests": {"storage": "1Gi"}}, **spec}
    metadata = {"name": name, "namespace": "prod", **(meta or {})}
    return {"kind": "PersistentVolumeClaim", "metadata": metadata, "spec": full, "status": {"phase": phase}}


def volume(name: str, nodes: list[str] | None = None, labels: Object | None = None, storage: str = "1Gi", **spec: Any) -> Object:
    full = {"capacity": {"storage": storage}, "accessModes": ["ReadWriteOnce"], "storageClassName": "local", **spec}
    if nodes is not None:
        expression = {"key": HOST, "operator": "In", "values": nodes}
        full["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}
    metadata = {"name": name, "labels": labels or {}}
    return {"kind": "PersistentVolume", "metadata": metadata, "spec": full, "status": {"phase": "Available"}}


def storage_class(name: str, provisioner: str, mode: str = "WaitForFirstConsumer", **more: Any) -> Object:
    return {"kind": "StorageClass", "metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": mode, **more}


def mounts(*claims: str) -> list[Object]:
    return [{"name": f"v{i}", "persistentVolumeClaim": {"claimName": name}} for i, name in enumerate(claims)]


def snapshot_of(*items: Object) -> Snapshot:
    snapshot = Snapshot()
    for item in items:
        obj: Any = msgspec.convert(item, KINDS[item["kind"]].type)
        match obj:
            case objects.Node():
                snapshot.nodes.append(obj)
            case objects.Pod():
                snapshot.pods.append(obj)
            case objects.Namespace():
                snapshot.namespaces[item["metadata"]["name"]] = obj
            case storage_objects.PersistentVolume():
                snapshot.persistent_volumes[item["metadata"]["name"]] = obj
            case storage_objects.PersistentVolumeClaim():
                snapshot.persistent_volume_claims["prod/" + item["metadata"]["name"]] = obj
            case storage_objects.StorageClass():
                snapshot.storage_classes[item["metadata"]["name"]] = obj
            case storage_objects.CSINode():
                snapshot.csi_nodes[item["metadata"]["name"]] = obj
    return snapshot


def placement_of(
    snapshot: Snapshot, *where: Where, status: Status = "feasible", leave: frozenset[str] = frozenset(), **ref: Any
) -> Placement:
    """A document that is right in all but its assignments; the other pending pods are unplaced, those in ``leave`` not mentioned."""
    assignments = []
    for position, (name, target, *rest) in enumerate(where, 1):
        order = rest[0] if rest else position
        assignments.append(Assignment(f"prod/{name}", target, order))
    assigned = {entry.pod for entry in assignments}
    pods = {objects.pod_key(p): p for p in snapshot.pods}
    waiting = {key: p for key, p in pods.items() if not p.spec.nodeName or key in assigned}
    count = Counter(waiting[key].spec.priority or 0 for key in assigned if key in waiting)
    tiers = [
        TierResult("placed", count[p], len(waiting), p) for p in sorted({p.spec.priority or 0 for p in waiting.values()}, reverse=True)
    ]
    unplaced = [Unplaced(key, []) for key in waiting if key not in assigned and key not in leave]
    return Placement(SnapshotRef("", len(snapshot.nodes), len(pods), len(waiting), **ref), "test", status, tiers, assignments, unplaced)


def judged(items: list[Object], *where: Where, **ref: Any) -> list[tuple[str, str]]:
    """Pod and rule of every violation."""
    snapshot = snapshot_of(*items)
    return [(v.pod.removeprefix("prod/"), v.rule) for v in verify(snapshot, placement_of(snapshot, *where, **ref))]


def rules(items: list[Object], name: str, target: str) -> list[str]:
    snapshot = snapshot_of(*items)
    (asked,) = [p for p in snapshot.pods if p.metadata.name == name]
    return rejecting_rules(snapshot, asked, target)


# --- one pod, one rule ------------------------------------------------------------------------------------------------

TAINT = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}
EXPRESSION = {"key": "disk", "operator": "In", "values": ["ssd"]}
NODE_AFFINITY = {
    "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [EXPRESSION]}]}}
}
DURING_EXECUTION = {
    "nodeAffinity": {"requiredDuringSchedulingRequiredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [EXPRESSION]}]}}
}
PORT = {"name": "app", "ports": [{"hostPort": 80, "containerPort": 80}]}
WEB = pod("web", {"app": "web"}, on="n1")

STATIC: list[tuple[str, Object, Object, Object, list[Object]]] = [
    # rule, pod, node that rejects it, node that accepts it, other objects
    ("NodeUnschedulable", pod("p"), node("n1", unschedulable=True), node("n2"), []),
    ("TaintToleration", pod("p"), node("n1", taints=[TAINT]), node("n2", taints=[{**TAINT, "effect": "PreferNoSchedule"}]), []),
    ("NodeAffinity", pod("p", nodeSelector={"disk": "ssd"}), node("n1"), node("n2", {"disk": "ssd"}), []),
    ("NodeAffinity", pod("p", affinity=NODE_AFFINITY), node("n1", {"disk": "hdd"}), node("n2", {"disk": "ssd"}), []),
    ("NodeAffinity", pod("p", affinity=DURING_EXECUTION), node("n1", {"disk": "hdd"}), node("n2", {"disk": "ssd"}), []),
    ("NodePorts", pod("p", containers=[PORT]), node("n1"), node("n2"), [pod("b", on="n1", containers=[PORT])]),
    (
        "NodeResourcesFit",
        pod("p", containers=[container(cpu="3")]),
        node("n1"),
        node("n2"),
        [pod("b", on="n1", containers=[container(cpu="2")])],
    ),
    ("NodeResourcesFit", pod("p"), node("n1", allocatable={"cpu": "4", "pods": "1"}), node("n2"), [WEB]),
    (
        "NodeResourcesFit",
        pod("p", containers=[container(**{"example.com/gpu": "1"})]),
        node("n1"),
        node("n2", allocatable={"example.com/gpu": "1", "pods": "5"}),
        [],
    ),
    ("InterPodAffinity", pod("p", affinity=averse(select(app="web"), HOST)), node("n1"), node("n2"), [WEB]),
    ("InterPodAffinity", pod("p", {"app": "db"}), node("n1"), node("n2"), [pod("b", on="n1", affinity=averse(select(app="db"), HOST))]),
    ("InterPodAffinity", pod("p", affinity=affine(select(app="web"), HOST)), node("n2"), node("n1"), [WEB]),
    (
        "InterPodAffinity",
        pod("p", affinity=affine(select(app="web"), "rack")),
        node("n1"),
        node("n2", {"rack": "r"}),
        [pod("b", {"app": "web"}, on="n2")],
    ),
    (
        "PodTopologySpread",
        pod("p", {"app": "web"}, topologySpreadConstraints=[spread(select(app="web"), HOST)]),
        node("n1"),
        node("n2"),
        [WEB],
    ),
    ("PodTopologySpread", pod("p", topologySpreadConstraints=[spread(None, "rack")]), node("n1"), node("n2", {"rack": "r"}), []),
    ("VolumeBinding", pod("p", volumes=mounts("c")), node("n1"), node("n2"), [claim("c", volumeName="v"), volume("v", ["n2"])]),
    (
        "VolumeZone",
        pod("p", volumes=mounts("c")),
        node("n1", {ZONE: "a"}),
        node("n2", {ZONE: "b"}),
        [claim("c", volumeName="v"), volume("v", labels={ZONE: "b__c"})],
    ),
]


@pytest.mark.parametrize(("rule", "asked", "bad", "good", "others"), STATIC)
def test_one_rule(rule: str, asked: Object, bad: Object, good: Object, others: list[Object]) -> None:
    items = [asked, bad, good, *others]
    name = asked["metadata"]["name"]
    assert rules(items, name, bad["metadata"]["name"]) == [rule]
    assert rules(items, name, good["metadata"]["name"]) == []
    # spread is reported twice: at the moment of binding, and in the final state
    assert set(judged(items, (name, bad["metadata"]["name"]))) == {(name, rule)}
    assert judged(items, (name, good["metadata"]["name"])) == []


def test_every_broken_rule_is_told_with_objects_and_numbers() -> None:
    items = [
        node("n1", unschedulable=True),
        pod("web", {"app": "web"}, on="n1", containers=[container(cpu="3700m")]),
        pod("p", containers=[container(cpu="500m")], affinity=averse(select(app="web"), HOST)),
    ]
    snapshot = snapshot_of(*items)
    assert verify(snapshot, placement_of(snapshot, ("p", "n1"))) == [
        Violation("prod/p", "n1", "NodeUnschedulable", "the node is cordoned"),
        Violation("prod/p", "n1", "NodeResourcesFit", "cpu: requests 500m, 300m of 4 free"),
        Violation("prod/p", "n1", "InterPodAffinity", f"pod prod/web in {HOST}=n1 matches its anti-affinity term"),
    ]


def test_node_name_binds_a_mirror_pod_and_not_a_movable_one() -> None:
    mirror = pod("m", on="n1", meta={"annotations": {"kubernetes.io/config.mirror": "x"}})
    owner = {"ownerReferences": [{"kind": "ReplicaSet", "name": "rs", "controller": True}]}
    assert judged([node("n1"), node("n2"), mirror], ("m", "n2"), fromScratch=True) == [("m", "Placement"), ("m", "NodeName")]
    assert judged([node("n1"), node("n2"), pod("p", on="n1", meta=owner)], ("p", "n2"), fromScratch=True) == []


# --- what counts ------------------------------------------------------------------------------------------------------


def test_overcommitted_node_still_takes_a_pod_without_requests() -> None:
    items = [node("n1"), pod("b", on="n1", containers=[container(cpu="9")]), pod("p"), pod("q", containers=[container(memory="1")])]
    assert judged(items, ("p", "n1"), ("q", "n1")) == []
    assert judged([*items, pod("r", containers=[container(cpu="1m")])], ("r", "n1")) == [("r", "NodeResourcesFit")]


def test_ended_pods_and_pods_of_missing_nodes_are_invisible() -> None:
    ended = {**pod("e", {"app": "web"}, on="n1", containers=[container(cpu="4")]), "status": {"phase": "Succeeded"}}
    lost = pod("l", {"app": "web"}, on="gone")
    items = [node("n1", {ZONE: "a"}), ended, lost, pod("p", containers=[container(cpu="4")], affinity=averse(select(app="web")))]
    assert judged(items, ("p", "n1")) == []


def test_terminating_pod_holds_and_repels_but_is_not_spread() -> None:
    going = pod("g", {"app": "web"}, on="n1", meta={"deletionTimestamp": "2026-01-01T00:00:00Z"}, containers=[container(cpu="4")])
    items = [node("n1", {ZONE: "a"}), node("n2", {ZONE: "b"}), going]
    spread_out = pod("p", {"app": "web"}, topologySpreadConstraints=[spread(select(app="web"))])
    assert judged([*items, spread_out], ("p", "n1")) == []
    assert judged([*items, pod("p", affinity=averse(select(app="web")))], ("p", "n1")) == [("p", "InterPodAffinity")]
    assert judged([*items, pod("p", containers=[container(cpu="1")])], ("p", "n1")) == [("p", "NodeResourcesFit")]


def test_assigned_pods_fill_nodes_one_after_the_other() -> None:
    items = [node("n1"), *(pod(f"p{i}", containers=[container(cpu="1500m")]) for i in range(3))]
    assert judged(items, ("p0", "n1"), ("p1", "n1")) == []
    assert judged(items, ("p0", "n1"), ("p1", "n1"), ("p2", "n1")) == [("p2", "NodeResourcesFit")]


def test_overcommitted_pair_is_reported_at_the_later_pod() -> None:
    items = [node("n1"), *(pod(f"p{i}", containers=[PORT]) for i in range(2))]
    assert judged(items, ("p0", "n1", 2), ("p1", "n1", 1)) == [("p0", "NodePorts")]


def test_namespaces_of_terms() -> None:
    def items(**more: Any) -> list[Object]:
        other = pod("b", {"app": "web"}, on="n1", meta={"namespace": "dev"})
        space = {"kind": "Namespace", "metadata": {"name": "dev", "labels": {"env": "dev"}}}
        return [node("n1"), space, other, pod("p", affinity=averse(select(app="web"), HOST, **more))]

    assert rules(items(), "p", "n1") == []
    assert rules(items(namespaces=["dev"]), "p", "n1") == ["InterPodAffinity"]
    assert rules(items(namespaceSelector={}), "p", "n1") == ["InterPodAffinity"]
    assert rules(items(namespaceSelector=select(env="dev")), "p", "n1") == ["InterPodAffinity"]
    outside = {"matchExpressions": [{"key": "env", "operator": "NotIn", "values": ["dev"]}]}
    assert rules(items(namespaceSelector=outside), "p", "n1") == []
    assert rules(items(namespaceSelector=outside, namespaces=["dev"]), "p", "n1") == ["InterPodAffinity"]


def test_match_label_keys_join_the_selector() -> None:
    def items(version: str, **keys: Any) -> list[Object]:
        asked = pod("p", {"app": "web", "version": "2"}, affinity=averse(select(app="web"), HOST, **keys))
        return [node("n1"), pod("b", {"app": "web", "version": version}, on="n1"), asked]

    assert rules(items("1", matchLabelKeys=["version", "absent"]), "p", "n1") == []
    assert rules(items("2", matchLabelKeys=["version", "absent"]), "p", "n1") == ["InterPodAffinity"]
    assert rules(items("1", mismatchLabelKeys=["version"]), "p", "n1") == ["InterPodAffinity"]
    assert rules(items("2", mismatchLabelKeys=["version"]), "p", "n1") == []


def test_nil_selector_selects_nothing_and_an_empty_one_everything() -> None:
    items = [node("n1"), WEB]
    assert rules([*items, pod("p", affinity=averse(None, HOST))], "p", "n1") == []
    assert rules([*items, pod("p", affinity=averse({}, HOST))], "p", "n1") == ["InterPodAffinity"]


def test_daemon_namespaces_are_exempt_in_both_directions() -> None:
    agent = pod("b", {"app": "x"}, on="n1", meta={"namespace": "kube-system"}, affinity=averse({}, HOST, namespaceSelector={}))
    items = [node("n1"), agent, pod("p", affinity=averse({}, HOST, namespaceSelector={}))]
    assert judged(items, ("p", "n1")) == [("p", "InterPodAffinity")] * 2
    assert judged(items, ("p", "n1"), daemonNamespaces=["kube-system"]) == []
    wanted = [node("n1"), agent, pod("p", affinity=affine(select(app="x"), HOST, namespaceSelector={}))]
    assert judged(wanted, ("p", "n1"), daemonNamespaces=["kube-system"]) == []  # its affinity still sees them


# --- affinity and its orders ------------------------------------------------------------------------------------------

ZONES = [node("a1", {ZONE: "a"}), node("a2", {ZONE: "a"}), node("b1", {ZONE: "b"})]


def test_affinity_provider_binds_first() -> None:
    items = [*ZONES, pod("db", {"app": "db"}), pod("web", affinity=affine(select(app="db")))]
    assert judged(items, ("db", "a1"), ("web", "a2")) == []
    assert judged(items, ("web", "a2"), ("db", "a1")) == [("web", "InterPodAffinity")]
    assert judged(items, ("db", "a1"), ("web", "b1")) == [("web", "InterPodAffinity")]


def test_one_pod_has_to_match_all_terms_though_not_the_same_in_each_domain() -> None:
    both = {
        "podAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": ZONE, "labelSelector": select(app="db")}],
            "requiredDuringSchedulingRequiredDuringExecution": [{"topologyKey": HOST, "labelSelector": select(tier="hot")}],
        }
    }
    asked = pod("p", affinity=both)
    halves = [pod("x", {"app": "db"}, on="a1"), pod("y", {"tier": "hot"}, on="a1")]
    assert rules([*ZONES, *halves, asked], "p", "a1") == ["InterPodAffinity"]
    full = pod("z", {"app": "db", "tier": "hot"}, on="a1")
    assert rules([*ZONES, full, asked], "p", "a1") == []
    assert rules([*ZONES, full, asked], "p", "a2") == ["InterPodAffinity"]
    # zone a is met by a full match on a1, host b1's by none
    assert rules([*ZONES, full, asked], "p", "b1") == ["InterPodAffinity"]


def test_bootstrap_opens_one_domain_only() -> None:
    pods = [pod(f"p{i}", {"app": "web"}, affinity=affine(select(app="web"))) for i in range(2)]
    assert judged([*ZONES, *pods], ("p0", "a1"), ("p1", "a2")) == []
    assert judged([*ZONES, *pods], ("p0", "a1"), ("p1", "b1")) == [("p1", "InterPodAffinity")]


def test_bootstrap_needs_a_pod_that_matches_its_own_terms_and_a_node_with_the_keys() -> None:
    assert rules([*ZONES, pod("p", affinity=affine(select(app="web")))], "p", "a1") == ["InterPodAffinity"]
    own = pod("p", {"app": "web"}, affinity=affine(select(app="web")))
    assert rules([*ZONES, own], "p", "a1") == []
    assert rules([node("n1"), own], "p", "n1") == ["InterPodAffinity"]
    # a match on a node without the key does not end the bootstrap
    assert rules([*ZONES, node("n1"), WEB, own], "p", "a1") == []
    assert rules([*ZONES, pod("b", {"app": "web"}, on="b1"), own], "p", "a1") == ["InterPodAffinity"]


# --- spread and its orders --------------------------------------------------------------------------------------------


def test_emptier_domain_is_filled_first() -> None:
    pods = [pod(f"p{i}", {"app": "web"}, topologySpreadConstraints=[spread(select(app="web"))]) for i in range(2)]
    items = [*ZONES, pod("w", {"app": "web"}, on="a1"), *pods]
    assert judged(items, ("p0", "b1"), ("p1", "a2")) == []
    assert judged(items, ("p0", "a2"), ("p1", "b1")) == [("p0", "PodTopologySpread")]


def test_final_state_can_hold_where_no_order_does() -> None:
    nodes = [node("h1", {ZONE: "z1"}), node("h2", {ZONE: "z1"}), node("h3", {ZONE: "z2"})]
    constraints = [spread(select(app="web")), spread(select(app="web"), HOST)]
    there = [pod("b1", {"app": "web"}, on="h1"), pod("b2", {"app": "web"}, on="h1"), pod("b3", {"app": "web"}, on="h3")]
    pods = [pod(f"p{i}", {"app": "web"}, topologySpreadConstraints=constraints) for i in (2, 3)]
    items = [*nodes, *there, *pods]
    for order in ([("p2", "h2"), ("p3", "h3")], [("p3", "h3"), ("p2", "h2")]):
        assert judged(items, *order) == [(order[0][0], "PodTopologySpread")]


def test_final_state_is_judged_too() -> None:
    # x is no pod of the constraint's, yet its matching label tips the balance after p has bound
    items = [*ZONES, pod("p", {"app": "web"}, topologySpreadConstraints=[spread(select(app="web"))]), pod("x", {"app": "web"})]
    assert judged(items, ("p", "a1"), ("x", "b1")) == []
    assert judged(items, ("p", "a1"), ("x", "a2")) == [("p", "PodTopologySpread")]


def test_imbalance_elsewhere_is_no_fault() -> None:
    crowd = [pod(f"b{i}", {"app": "web"}, on="a1") for i in range(3)]
    items = [*ZONES, *crowd, pod("p", {"app": "web"}, topologySpreadConstraints=[spread(select(app="web"))])]
    assert judged(items, ("p", "b1")) == []


def test_min_domains_and_policies() -> None:
    def asked(**more: Any) -> list[Object]:
        items = [*ZONES, node("c1", {ZONE: "c", "pool": "x"}, taints=[TAINT]), *(pod(f"b{n}", {"app": "web"}, on=n) for n in ("a1", "b1"))]
        policies = {key: value for key, value in more.items() if key != "nodeSelector"}
        constraint = spread(select(app="web"), **policies)
        chosen = {"nodeSelector": more["nodeSelector"]} if "nodeSelector" in more else {}
        return [*items, pod("p", {"app": "web"}, topologySpreadConstraints=[constraint], **chosen)]

    assert rules(asked(), "p", "a1") == ["PodTopologySpread"]  # zone c is empty, though tainted
    assert rules(asked(nodeTaintsPolicy="Honor"), "p", "a1") == []
    assert rules(asked(nodeTaintsPolicy="Honor", minDomains=3), "p", "a1") == ["PodTopologySpread"]
    assert rules(asked(nodeSelector={"pool": "x"}), "p", "a1") == ["NodeAffinity"]  # only zone c is eligible: 0 + 1 - 0
    assert rules(asked(nodeSelector={"pool": "x"}, nodeAffinityPolicy="Ignore"), "p", "a1") == ["NodeAffinity", "PodTopologySpread"]


def test_empty_selector_counts_no_running_pod() -> None:
    crowd = [pod(f"b{i}", {"app": "web"}, on="a1") for i in range(3)]
    assert rules([*ZONES, *crowd, pod("p", topologySpreadConstraints=[spread({})])], "p", "a1") == []
    assert rules([*ZONES, *crowd, pod("p", topologySpreadConstraints=[spread(None)])], "p", "a1") == []


def test_schedule_anyway_only_costs() -> None:
    soft = spread(select(app="web")) | {"whenUnsatisfiable": "ScheduleAnyway"}
    crowd = [pod(f"b{i}", {"app": "web"}, on="a1") for i in range(3)]
    assert rules([*ZONES, *crowd, pod("p", {"app": "web"}, topologySpreadConstraints=[soft])], "p", "a1") == []


# --- volumes ----------------------------------------------------------------------------------------------------------

LOCAL = storage_class("local", "kubernetes.io/no-provisioner")
DISK = storage_class("disk", "disk.example.com")
NODES = [node("n1"), node("n2")]
ALL_FOUR = ["NodeVolumeLimits", "VolumeBinding", "VolumeRestrictions", "VolumeZone"]


def test_missing_claim_is_rejected_by_all_volume_rules() -> None:
    assert rules([*NODES, pod("p", volumes=mounts("c"))], "p", "n1") == ALL_FOUR


def test_ephemeral_claim_has_to_exist() -> None:
    items = [*NODES, DISK, pod("p", volumes=[{"name": "tmp", "ephemeral": {}}])]
    assert rules(items, "p", "n1") == ["NodeVolumeLimits", "VolumeBinding"]
    assert rules([*items, claim("p-tmp", storageClassName="disk")], "p", "n1") == []


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (claim("c", storageClassName="disk"), []),
        (claim("c"), ["VolumeBinding", "VolumeZone"]),
        (claim("c", storageClassName="absent"), ["VolumeBinding", "VolumeZone"]),
        (claim("c", storageClassName="now"), ["VolumeBinding", "VolumeZone"]),
        (claim("c", volumeName="gone"), ["VolumeBinding", "VolumeZone"]),
        (claim("c", storageClassName="disk", meta={"deletionTimestamp": "2026-01-01T00:00:00Z"}), ["VolumeBinding"]),
        (claim("c", phase="Lost", volumeName="v"), ["VolumeBinding"]),
        (claim("c", storageClassName="disk", meta={"annotations": {"volume.kubernetes.io/selected-node": "n2"}}), ["VolumeBinding"]),
        (claim("c", storageClassName="disk", meta={"annotations": {"volume.kubernetes.io/selected-node": "n1"}}), []),
    ],
)
def test_claims(wanted: Object, expected: list[str]) -> None:
    now = storage_class("now", "disk.example.com", "Immediate")
    assert rules([*NODES, DISK, now, volume("v"), wanted, pod("p", volumes=mounts("c"))], "p", "n1") == expected


def test_allowed_topologies() -> None:
    zonal = storage_class("zonal", "disk.example.com", allowedTopologies=[{"matchLabelExpressions": [{"key": ZONE, "values": ["b"]}]}])
    items = [*ZONES, zonal, claim("c", storageClassName="zonal"), pod("p", volumes=mounts("c"))]
    assert rules(items, "p", "a1") == ["VolumeBinding"]
    assert rules(items, "p", "b1") == []
    # an available volume in reach needs no provisioning
    static = volume("v", ["a1"], storageClassName="zonal")
    assert rules([*items, static], "p", "a1") == []


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, []),
        ({"storage": "512Mi"}, ["VolumeBinding"]),
        ({"accessModes": ["ReadWriteMany"]}, ["VolumeBinding"]),
        ({"storageClassName": "other"}, ["VolumeBinding"]),
        ({"volumeMode": "Block"}, ["VolumeBinding"]),
        ({"volumeAttributesClassName": "gold"}, ["VolumeBinding"]),
        ({"labels": {"tier": "cold"}}, ["VolumeBinding"]),
        ({"nodes": ["n2"]}, ["VolumeBinding"]),
        ({"claimRef": {"namespace": "prod", "name": "c"}}, []),
        ({"claimRef": {"namespace": "prod", "name": "d"}}, ["VolumeBinding"]),
    ],
)
def test_static_volume_has_to_fit(change: Object, expected: list[str]) -> None:
    fitting: Object = {"labels": {"tier": "hot"}, "nodes": ["n1"]}
    static = volume("v", **(fitting | change))
    wanted = claim("c", storageClassName="local", selector=select(tier="hot"))
    assert rules([*NODES, LOCAL, static, wanted, pod("p", volumes=mounts("c"))], "p", "n1") == expected


@pytest.mark.parametrize("names", ["ab", "ba"])
def test_static_volumes_are_consumed_once_smallest_first(names: str) -> None:
    big = claim("big", storageClassName="local", resources={"requests": {"storage": "5Gi"}})
    small = claim("small", storageClassName="local")
    items = [*NODES, LOCAL, big, small, pod("p", volumes=mounts("big")), pod("q", volumes=mounts("small"))]
    volumes = [volume(names[0], ["n1"], storage="9Gi"), volume(names[1], ["n1"], storage="2Gi")]
    assert judged([*items, *volumes], ("q", "n1"), ("p", "n1")) == []
    assert judged([*items, volumes[0]], ("q", "n1"), ("p", "n1")) == [("p", "VolumeBinding")]


def test_claims_of_one_pod_take_their_volumes_smallest_request_first() -> None:
    big = claim("big", ("ReadWriteMany",), storageClassName="local", resources={"requests": {"storage": "5Gi"}})
    small = claim("small", storageClassName="local")
    items = [*NODES, LOCAL, big, small, pod("p", volumes=mounts("big", "small"))]
    tight = volume("a", storage="5Gi", accessModes=["ReadWriteOnce", "ReadWriteMany"])
    assert rules([*items, tight], "p", "n1") == ["VolumeBinding"]
    # the small claim takes the tight volume, though the large one could have used it better: so does the scheduler
    assert rules([*items, tight, volume("b", storage="9Gi")], "p", "n1") == ["VolumeBinding"]
    assert rules([*items, tight, volume("b", storage="2Gi")], "p", "n1") == []


def test_volume_reserved_for_a_claim_is_the_only_one_for_it() -> None:
    reserved = volume("r", ["n2"], claimRef={"namespace": "prod", "name": "c"})
    items = [*NODES, LOCAL, claim("c", storageClassName="local"), volume("v"), pod("p", volumes=mounts("c"))]
    assert rules(items, "p", "n1") == []
    assert rules([*items, reserved], "p", "n1") == ["VolumeBinding"]
    assert rules([*items, reserved], "p", "n2") == []


def test_chosen_volume_holds_later_pods_of_the_claim() -> None:
    shared = claim("c", ("ReadWriteMany",), storageClassName="local")
    static = [volume("a", ["n1"], accessModes=["ReadWriteMany"]), volume("b", ["n2"], accessModes=["ReadWriteMany"])]
    items = [*NODES, LOCAL, shared, *static, pod("p", volumes=mounts("c")), pod("q", volumes=mounts("c"))]
    assert judged(items, ("p", "n1"), ("q", "n1")) == []
    assert judged(items, ("p", "n1"), ("q", "n2")) == [("q", "VolumeBinding")]


@pytest.mark.parametrize(("mode", "expected"), [("ReadWriteOnce", [("q", "VolumeBinding")]), ("ReadWriteMany", [])])
def test_unbound_claim_of_one_node_is_shared_on_one_node(mode: str, expected: list[tuple[str, str]]) -> None:
    items = [*NODES, DISK, claim("c", (mode,), storageClassName="disk"), *(pod(n, volumes=mounts("c")) for n in "pq")]
    assert judged(items, ("p", "n1"), ("q", "n1")) == []
    assert judged(items, ("p", "n1"), ("q", "n2")) == expected


def test_read_write_once_pod_admits_one_pod() -> None:
    once = claim("c", ("ReadWriteOncePod",), storageClassName="disk")
    items = [*NODES, DISK, once, *(pod(n, volumes=mounts("c")) for n in "pq")]
    assert judged(items, ("p", "n1")) == []
    assert judged(items, ("p", "n1"), ("q", "n1")) == [("q", "VolumeRestrictions")]
    assert judged([*NODES, DISK, once, pod("b", on="n2", volumes=mounts("c")), items[-1]], ("q", "n1")) == [("q", "VolumeRestrictions")]


def test_zone_labels_of_volumes() -> None:
    beta = "failure-domain.beta.kubernetes.io/zone"

    def items(labels: Object) -> list[Object]:
        return [*ZONES, node("n1"), claim("c", volumeName="v"), volume("v", labels=labels), pod("p", volumes=mounts("c"))]

    assert rules(items({beta: "a"}), "p", "a1") == []
    assert rules(items({beta: "a"}), "p", "b1") == ["VolumeZone"]
    assert rules(items({ZONE: "a"}), "p", "n1") == []  # a node without any zone or region label passes
    assert rules(items({"topology.kubernetes.io/region": "r"}), "p", "a1") == ["VolumeZone"]


def test_volume_limits_count_distinct_handles() -> None:
    limits = {
        "kind": "CSINode",
        "metadata": {"name": "n1"},
        "spec": {"drivers": [{"name": "disk.example.com", "allocatable": {"count": 2}}]},
    }
    csi = {"driver": "disk.example.com", "volumeHandle": "h"}
    shared = [claim(f"s{i}", volumeName=f"v{i}") for i in range(2)] + [volume(f"v{i}", csi=csi) for i in range(2)]
    fresh = [claim(f"c{i}", storageClassName="disk") for i in range(2)]
    items = [*NODES, DISK, limits, *shared, *fresh, pod("b", on="n1", volumes=mounts("s0"))]
    pods = [pod("p", volumes=mounts("s1")), pod("q", volumes=mounts("c0")), pod("r", volumes=mounts("c1"))]
    assert judged([*items, *pods], ("p", "n1"), ("q", "n1"), ("r", "n2")) == []
    assert judged([*items, *pods], ("p", "n1"), ("q", "n1"), ("r", "n1")) == [("r", "NodeVolumeLimits")]


def test_volume_that_a_claim_takes_counts_for_running_pods_of_the_claim_too() -> None:
    limits = {
        "kind": "CSINode",
        "metadata": {"name": "n2"},
        "spec": {"drivers": [{"name": "disk.example.com", "allocatable": {"count": 0}}]},
    }
    csi = {"driver": "disk.example.com", "volumeHandle": "h"}
    shared = [claim("c", ("ReadWriteMany",), storageClassName="local"), volume("v", accessModes=["ReadWriteMany"], csi=csi)]
    items = [*NODES, LOCAL, limits, *shared, *(pod(n, volumes=mounts("c")) for n in "pq")]
    assert judged(items, ("p", "n1"), ("q", "n2")) == [("q", "NodeVolumeLimits")]
    # attached to n2 already, through the running pod
    assert judged([*items, pod("b", on="n2", volumes=mounts("c"))], ("p", "n1"), ("q", "n2")) == []


# --- the document -----------------------------------------------------------------------------------------------------


def faults(snapshot: Snapshot, placement: Placement) -> list[str]:
    found = verify(snapshot, placement)
    assert {violation.rule for violation in found} <= {"Placement"}
    return [violation.why for violation in found]


def plain() -> Snapshot:
    return snapshot_of(node("n1"), pod("p"), pod("q", priority=7))


def test_sound_document() -> None:
    assert faults(plain(), placement_of(plain(), ("q", "n1"), ("p", "n1"))) == []
    assert faults(plain(), placement_of(plain(), ("q", "n1"))) == []


def test_snapshot_of_another_hash() -> None:
    snapshot, placement = plain(), placement_of(plain())
    snapshot.sha256 = "aa"
    assert faults(snapshot, placement) == []
    placement.snapshot.sha256 = "bb"
    assert faults(snapshot, placement) == ["the document is of snapshot bb, this is aa"]


def test_unknown_pod_node_and_double_mention() -> None:
    placement = placement_of(plain(), ("p", "n1"), ("q", "n9"))
    placement.assignments.append(Assignment("prod/zz", "n1", 3))
    placement.unplaced.append(Unplaced("prod/p", []))
    assert faults(plain(), placement) == [
        "the snapshot has no such pod",
        "the pod is mentioned more than once",
        "the snapshot has no such node",
    ]


def test_pending_pod_left_out() -> None:
    placement = placement_of(plain(), ("p", "n1"), leave=frozenset({"prod/q"}))
    assert faults(plain(), placement) == ["the pending pod is neither assigned nor listed as unplaced"]


GONE = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
GATED: Object = {"schedulingGates": [{"name": "g"}]}


def owned(kind: str) -> Object:
    return {"ownerReferences": [{"kind": kind, "name": "o", "controller": True}]}


@pytest.mark.parametrize(
    ("asked", "ref", "why"),
    [
        (pod("p"), {}, None),
        ({**pod("p"), "status": {"phase": "Failed"}}, {}, "it has ended"),
        (pod("p", meta=GONE), {}, "it is terminating"),
        (pod("p", **GATED), {}, "it is gated"),
        (pod("p", **GATED), {"includeGated": True}, None),
        (pod("p", on="n1", meta=owned("ReplicaSet")), {}, "it is bound to node n1"),
        (pod("p", on="n1", meta=owned("ReplicaSet")), {"fromScratch": True}, None),
        (pod("p", on="n1", meta=owned("Job")), {"fromScratch": True}, None),
        (pod("p", on="n1"), {"fromScratch": True}, "it is bound and has no controller"),
        (pod("p", on="n1", meta=owned("DaemonSet")), {"fromScratch": True}, "it is bound and belongs to a DaemonSet"),
        (pod("p", on="n1", meta=owned("Node")), {"fromScratch": True}, "it is a mirror pod"),
        (pod("p", on="n9", meta=owned("Job")), {"fromScratch": True}, "it is bound to node n9, which the snapshot lacks"),
        (
            pod("p", on="n1", meta=owned("Job") | {"annotations": {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}}),
            {"fromScratch": True},
            "it is bound and annotated as not safe to evict",
        ),
    ],
)
def test_only_pending_pods_are_placed(asked: Object, ref: Object, why: str | None) -> None:
    snapshot = snapshot_of(node("n1"), asked)
    found = [v.why for v in verify(snapshot, placement_of(snapshot, ("p", "n1"), **ref)) if v.rule == "Placement"]
    assert found == ([f"the pod is not to be placed: {why}"] if why else [])
    # the other way round: the document has to speak of it exactly when it is pending
    silent = placement_of(snapshot, leave=frozenset({"prod/p"}), **ref)
    silent.objective = [TierResult("placed", 0, 0, 0)]
    assert faults(snapshot, silent) == ([] if why else ["the pending pod is neither assigned nor listed as unplaced"])


def test_gated_pod_may_be_listed_as_unplaced_and_no_other_that_is_not_pending() -> None:
    snapshot = snapshot_of(node("n1"), pod("p"), pod("g", **GATED), pod("b", on="n1"))
    placement = placement_of(snapshot, ("p", "n1"), leave=frozenset({"prod/g"}))
    placement.unplaced.append(Unplaced("prod/g", []))
    assert faults(snapshot, placement) == []
    placement.unplaced.append(Unplaced("prod/b", []))
    assert faults(snapshot, placement) == ["the pod is not to be placed: it is bound to node n1"]


def test_order_numbers() -> None:
    snapshot = plain()
    assert faults(snapshot, placement_of(snapshot, ("p", "n1", 0), ("q", "n1", 1))) == ["order 0 is below 1"]
    shared = ["order 4 is shared with prod/p, and they are not of one gang"]
    assert faults(snapshot, placement_of(snapshot, ("p", "n1", 4), ("q", "n1", 4))) == shared


@pytest.mark.parametrize(
    ("tiers", "why"),
    [
        ([("placed", 1, 1, 7), ("placed", 1, 1, 0)], []),
        ([("placed", 1, 1, 7), ("placed", 1, 1, 0), ("soft", 0, -1, None)], ["tier soft: the bound -1 is below the value 0"]),
        (
            [("placed", 1, 1, 7), ("placed", 1, 1, 0), ("soft", 5, 5, None)],
            ["tier soft: the value is 5, the placement is worth 0 (no preference met)"],
        ),
        ([("placed", 1, 1, 7)], ["there are pending pods of priority 0 and no tier placed of that priority"]),
        ([("placed", 1, 1, 7), ("placed", 0, 1, 0)], ["tier placed of priority 0: the value is 0, 1 such pods are assigned"]),
        ([("placed", 1, 1, 7), ("placed", 1, 1, 0), ("placed", 1, 1, 0)], ["tier placed of priority 0 is given twice"]),
        ([("placed", 1, 1, 7), ("placed", 1, 1, 0), ("placed", 2, 2, None)], ["tier placed: no priority is given"]),
    ],
)
def test_tiers(tiers: list[tuple[str, int, int, int | None]], why: list[str]) -> None:
    snapshot = plain()
    placement = placement_of(snapshot, ("p", "n1"), ("q", "n1"))
    placement.objective = [TierResult(*tier) for tier in tiers]
    assert faults(snapshot, placement) == why


def test_status_has_to_fit() -> None:
    snapshot = plain()
    assert faults(snapshot, placement_of(snapshot, ("p", "n1"), status="optimal")) == [
        "the status is optimal, and tier placed has value 0 and bound 2"
    ]
    assert faults(snapshot, placement_of(snapshot, ("p", "n1"), status="infeasible")) == [
        "the status is infeasible, and 1 pods are assigned"
    ]
    assert faults(snapshot, placement_of(snapshot, status="infeasible")) == []


@pytest.mark.parametrize(
    ("policy", "tier", "why"),
    [
        (None, TierResult("strategy", 0, 5), []),
        (Policy(priceLabel="price"), TierResult("strategy", 0, 5), []),
        (
            Policy(strategy="pack"),
            TierResult("strategy", -1, 0),
            ["the status is optimal, and tier strategy has value -1 and bound 0"],
        ),
        (None, TierResult("soft", 0, 7), ["the status is optimal, and tier soft has value 0 and bound 7"]),
    ],
)
def test_only_a_tie_break_that_nobody_asked_for_may_stay_open(policy: Policy | None, tier: TierResult, why: list[str]) -> None:
    snapshot = plain()
    placement = placement_of(snapshot, ("p", "n1"), ("q", "n1"), status="optimal")
    placement.policy = policy
    placement.objective = [TierResult("placed", 1, 1, 7), TierResult("placed", 1, 1, 0), tier]
    assert faults(snapshot, placement) == why


def test_from_scratch_frees_what_the_bound_pods_held() -> None:
    held = [container(cpu="3")]
    snapshot = snapshot_of(node("n1"), node("n2"), *(pod(n, on="n1", meta=owned("Job"), containers=held) for n in "pq"))
    placement = placement_of(snapshot, ("p", "n1"), ("q", "n2"), fromScratch=True)
    assert faults(snapshot, placement) == []
    crowded = placement_of(snapshot, ("p", "n1"), ("q", "n1"), fromScratch=True)
    assert [(v.pod, v.rule) for v in verify(snapshot, crowded)] == [("prod/q", "NodeResourcesFit")]


def test_from_scratch_pod_that_stays_unplaced_holds_nothing() -> None:
    held = [container(cpu="3")]
    snapshot = snapshot_of(node("n1"), pod("b", on="n1", meta=owned("Job"), containers=held), pod("p", containers=held))
    placement = placement_of(snapshot, ("p", "n1"), fromScratch=True)
    placement.unplaced.append(Unplaced("prod/b", []))
    assert faults(snapshot, placement) == []


def test_judge_answers_many_questions_about_one_state() -> None:
    snapshot = snapshot_of(*ZONES, pod("db", {"app": "db"}), pod("web", affinity=affine(select(app="db"))))
    db, web = snapshot.pods
    judge = Judge(snapshot, [db, web])
    assert [rule for rule, _ in judge.faults(web, "a1")] == ["InterPodAffinity"]
    assert judge.bind([(db, "a2")]) == [[]]
    assert judge.faults(web, "a1") == []
