"""Minimal causes: a planted reason is found and named, the named facts suffice, and each of these is needed."""

from __future__ import annotations

import copy
import threading
import time
from collections.abc import Collection
from typing import Any

import pytest
from ortools.sat.python import cp_model

from kubestow.models.documents.placement import Cause, Fact
from kubestow.models.snapshot import snapshot as snapshots
from kubestow.solver import rules
from kubestow.solver.explain.conflict.fact_model import FactEncoding
from kubestow.solver.explain.conflict.minimal_conflict import FactGroup, Reduction, minimal_cause
from kubestow.solver.explain.conflict.placement_question import PlacementQuestion
from kubestow.solver.explain.conflict.subset_check import SubsetCheck
from kubestow.solver.rules.placement_model import build_model
from tests import numa_clusters, tiny
from tests.objects import node, pod
from tests.solver.explain.questions import within
from tests.tiers import sampled, seeds

Object = dict[str, Any]
HOST = "kubernetes.io/hostname"
TAINT = [{"key": "dedicated", "value": "x", "effect": "NoSchedule"}]


def unit(objects: list[Object], needed: int | None = None) -> PlacementQuestion:
    """All pods without a node."""
    snapshot = snapshots.from_objects(copy.deepcopy(objects))
    snapshot.gates = tiny.GATES
    pods = tuple(i for i, p in enumerate(snapshot.pods) if not p.spec.nodeName)
    return PlacementQuestion(snapshot, pods, len(pods) if needed is None else needed)


def cause(objects: list[Object], needed: int | None = None) -> Cause:
    found = minimal_cause(unit(objects, needed), within(20))
    assert found is not None
    assert found.minimal
    assert found.proved
    return found


def only(cause: Cause, rule: str) -> Fact:
    facts = [fact for fact in cause.facts if fact.rule == rule]
    assert len(facts) == 1, cause.facts
    return facts[0]


def names(cause: Cause) -> list[str]:
    return [fact.rule for fact in cause.facts]


def near(kind: str, key: str, app: str) -> Object:
    term = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def even(key: str, app: str, skew: int = 1, **more: Any) -> list[Object]:
    selector = {"matchLabels": {"app": app}}
    return [{"maxSkew": skew, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector, **more}]


def in_gang(obj: Object, **annotations: str) -> Object:
    obj["metadata"]["annotations"] = {"kubestow.dev/gang": "train", **annotations}
    return obj


def on_port(obj: Object, port: int) -> Object:
    obj["spec"]["containers"][0]["ports"] = [{"containerPort": port, "hostPort": port, "protocol": "TCP"}]
    return obj


# --- planted causes -------------------------------------------------------------------------------------------------------


def test_a_unit_that_can_be_placed_has_none() -> None:
    assert minimal_cause(unit([node("a"), pod("p"), pod("q")]), within(20)) is None
    assert minimal_cause(unit([node("a", cpu="1"), pod("p", cpu="1"), pod("q", cpu="1")], needed=1), within(20)) is None


def test_capacity_of_all_nodes() -> None:
    found = cause([node("a", cpu="2"), node("b", cpu="2"), *(pod(f"p{i}", cpu="1500m", owner="Job/train") for i in range(3))])
    fact = only(found, "NodeResourcesFit")
    assert names(found) == ["NodeResourcesFit"]
    assert (fact.resource, fact.domain, fact.object) == ("cpu", None, "Node a, b")
    assert fact.message == "the 2 nodes have 4 CPU free, the 3 pods of default/train ask for 4500m CPU"
    assert found.pods == ["default/p0", "default/p1", "default/p2"]


def test_capacity_that_is_there_but_in_pieces() -> None:
    found = cause([node("a", cpu="2"), node("b", cpu="2"), node("c", cpu="2"), pod("p", cpu="3")])
    assert (
        only(found, "NodeResourcesFit").message == "the 3 nodes have 6 CPU free, default/p asks for 3 CPU, and no node has more than 2 CPU"
    )
    found = cause(
        [node("a", cpu="2"), node("b", cpu="2"), node("c", cpu="2"), *(pod(f"p{i}", cpu="1200m", owner="Job/j") for i in range(4))]
    )
    assert only(found, "NodeResourcesFit").message.endswith("ask for 4800m CPU, and no more than 3 fit whole")


def test_pod_slots() -> None:
    found = cause([node("a", pods="2"), pod("r", node_name="a"), pod("p"), pod("q")])
    assert (only(found, "NodeResourcesFit").resource, names(found)) == ("pods", ["NodeResourcesFit"])


def test_capacity_of_the_nodes_that_a_selector_leaves() -> None:
    nodes = [node(f"n{i}", cpu="4", labels={"zone": f"z{i % 2}"}) for i in range(6)]
    busy = [pod(f"r{i}", cpu="3", node_name=f"n{i}") for i in (1, 3, 5)]
    wanting = [pod(f"p{i}", cpu="2", owner="Deployment/web", selector={"zone": "z1"}) for i in range(2)]
    found = cause([*nodes, *busy, *wanting, pod("free", cpu="1")])
    assert names(found) == ["NodeAffinity", "NodeResourcesFit"]
    assert found.facts[0].message == "nodeSelector zone=z1 leaves 3 of 6 nodes for the 2 pods of default/web"
    assert found.facts[0].object == "Deployment default/web"
    assert (found.facts[1].domain, found.facts[1].resource) == ("zone=z1", "cpu")
    assert found.facts[1].message.startswith("the 3 nodes of zone=z1 have 3 CPU free, the 2 pods of default/web ask for 4 CPU")


@pytest.mark.parametrize("kind", ["gang", "affinity"])
def test_every_rack_too_small_for_what_must_share_one(kind: str) -> None:
    nodes = [node(f"n{i}", cpu="2", labels={"rack": f"r{i // 2}"}) for i in range(6)]
    pods = [pod(f"p{i}", cpu="1", labels={"app": "a"}, owner="Job/a", affinity=near("podAffinity", "rack", "a")) for i in range(5)]
    if kind == "gang":
        pods = [in_gang(pod(f"p{i}", cpu="1", owner="Job/a"), **{"kubestow.dev/required-topology": "rack"}) for i in range(5)]
    found = cause([*nodes, *pods])
    assert {fact.rule for fact in found.facts} == {"NodeResourcesFit", "GangScheduling" if kind == "gang" else "InterPodAffinity"}
    assert {fact.domain for fact in found.facts if fact.resource == "cpu"} == {"rack=r0", "rack=r1", "rack=r2"}


def test_taints_and_cordons() -> None:
    found = cause([node("a", taints=TAINT), node("b", unschedulable=True), node("c", cpu="1"), pod("p", cpu="2")])
    assert names(found) == ["NodeResourcesFit", "NodeUnschedulable", "TaintToleration"]
    assert only(found, "NodeResourcesFit").object == "Node c"
    assert "dedicated=x:NoSchedule" in only(found, "TaintToleration").message


def test_a_node_selector_that_nothing_satisfies_is_all_that_is_said() -> None:
    found = cause([node("a", taints=TAINT), node("b", cpu="1"), pod("p", cpu="2", selector={"disk": "ssd"})])
    assert names(found) == ["NodeAffinity"]
    assert "nodeSelector disk=ssd leaves 0 of 2 nodes" in found.facts[0].message


def test_anti_affinity_among_the_pods() -> None:
    pods = [pod(f"p{i}", labels={"app": "db"}, owner="StatefulSet/db", affinity=near("podAntiAffinity", HOST, "db")) for i in range(4)]
    found = cause([*(node(f"n{i}") for i in range(3)), *pods])
    assert names(found) == ["InterPodAffinity"]
    assert found.facts[0].object == "StatefulSet default/db"
    assert found.facts[0].message.endswith(f"over {HOST} against pods app=db: one per node, 3 nodes for 4 pods")


def test_anti_affinity_of_and_against_running_pods() -> None:
    here = pod("r", labels={"app": "db"}, node_name="a", affinity=near("podAntiAffinity", HOST, "web"))
    there = pod("s", labels={"app": "loud"}, node_name="b")
    mine = pod("p", labels={"app": "web"}, affinity=near("podAntiAffinity", HOST, "loud"))
    found = cause([node("a"), node("b"), here, there, mine])
    assert names(found) == ["InterPodAffinity", "InterPodAffinity"]
    texts = [fact.message for fact in found.facts]
    assert any("running pods have anti-affinity" in text and "app=web" in text for text in texts)
    assert any(text.startswith("anti-affinity of default/p") and "app=loud" in text for text in texts)


def test_affinity_to_pods_that_are_elsewhere_or_nowhere() -> None:
    found = cause([node("a"), pod("p", affinity=near("podAffinity", HOST, "db"))])
    assert names(found) == ["InterPodAffinity"]
    assert found.facts[0].message.endswith("to pods app=db: none runs, and none is among these pods")
    zones = [node("a", labels={"zone": "z1"}), node("b", labels={"zone": "z2"})]
    server = pod("server", labels={"app": "s"}, owner="Job/s", selector={"zone": "z1"})
    client = pod("client", owner="Job/c", selector={"zone": "z2"}, affinity=near("podAffinity", "zone", "s"))
    assert names(cause([*zones, server, client])) == ["InterPodAffinity", "NodeAffinity", "NodeAffinity"]


def test_max_skew_with_a_domain_that_takes_nobody() -> None:
    nodes = [node(f"n{i}", labels={"zone": f"z{i // 2}"}, taints=TAINT if i > 3 else []) for i in range(6)]
    pods = [pod(f"p{i}", labels={"app": "a"}, owner="Deployment/a", spread=even("zone", "a")) for i in range(3)]
    found = cause([*nodes, *pods])
    assert names(found) == ["PodTopologySpread", "TaintToleration"]
    assert found.facts[0].domain == "zone=z2"
    assert found.facts[0].message == (
        "maxSkew 1 over zone: zone=z2 holds 0 matching pods and none of its nodes takes one (TaintToleration), "
        "so no other domain may hold more than 1"
    )


def test_max_skew_with_a_full_domain() -> None:
    nodes = [node(f"n{i}", cpu="4", labels={"zone": f"z{i}"}) for i in range(3)]
    pods = [pod(f"p{i}", cpu="1", labels={"app": "a"}, owner="Deployment/a", spread=even("zone", "a")) for i in range(6)]
    found = cause([*nodes, pod("r", cpu="3", node_name="n1"), *pods])
    assert names(found) == ["NodeResourcesFit", "PodTopologySpread"]
    assert [fact.domain for fact in found.facts] == ["zone=z1", "zone=z1"]
    assert "takes at most 1 more (NodeResourcesFit), so no other domain may hold more than 2" in found.facts[1].message


def test_too_few_domains_for_min_domains() -> None:
    pods = [pod(f"p{i}", labels={"app": "a"}, owner="Deployment/a", spread=even("zone", "a", minDomains=2)) for i in range(2)]
    found = cause([node("a", labels={"zone": "z"}), *pods])
    assert names(found) == ["PodTopologySpread"]
    assert "1 of minDomains 2 exist, so none may hold more than 1" in found.facts[0].message


def test_ports() -> None:
    pods = [on_port(pod(f"p{i}", owner="Deployment/web"), 80) for i in range(2)]
    found = cause([node("a"), node("b"), on_port(pod("r", node_name="a"), 80), *pods])
    assert names(found) == ["NodePorts"]
    assert "host port 80/TCP is taken on 1 of 2 nodes and goes to one pod per node" in found.facts[0].message


def claims(mode: str, zone: str | None = None) -> list[Object]:
    affinity = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]}]}
    volume: Object = {
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "pv"},
        "spec": {"capacity": {"storage": "1Gi"}, "accessModes": [mode], "claimRef": {"namespace": "default", "name": "data"}},
        "status": {"phase": "Bound"},
    }  # fmt: skip
    if zone is not None:
        volume["spec"]["nodeAffinity"] = {"required": affinity}
    spec = {"accessModes": [mode], "volumeName": "pv", "resources": {"requests": {"storage": "1Gi"}}}
    claim = {
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data", "namespace": "default"},
        "spec": spec, "status": {"phase": "Bound"},
    }  # fmt: skip
    return [volume, claim]


def mounting(name: str, **more: Any) -> Object:
    return pod(name, volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}], **more)


def test_a_missing_object_comes_before_lack_of_room() -> None:
    asking: dict[str, Any] = {"resourceClaims": [{"name": "gpus", "resourceClaimName": "gone"}]}
    for objects, rule in (([mounting("p", cpu="9")], "VolumeBinding"), ([pod("p", cpu="9", **asking)], "DynamicResources")):
        found = cause([node("a"), *objects])
        assert names(found) == [rule]
        assert "does not exist" in found.facts[0].message


def test_volumes() -> None:
    zones = [node("a", labels={"zone": "z1"}), node("b", labels={"zone": "z2"})]
    found = cause([*zones, *claims("ReadWriteMany", "z2"), mounting("p", selector={"zone": "z1"})])
    assert names(found) == ["NodeAffinity", "VolumeBinding"]
    assert found.facts[1].object == "PersistentVolumeClaim default/data"
    assert found.facts[1].message == "PersistentVolume pv (claim default/data) can be used only where zone=z2: that leaves 1 of 2 nodes (b)"
    found = cause([*zones, *claims("ReadWriteOncePod"), mounting("p", owner="Job/j"), mounting("q", owner="Job/j")])
    assert names(found) == ["VolumeRestrictions"]
    assert found.facts[0].message == "claim default/data is ReadWriteOncePod and mounted by the 2 pods of default/j"


@pytest.mark.full
@seeds(20, 60)
def test_numa(seeds: range) -> None:
    found = [c for seed in seeds if (c := minimal_cause(unit(numa_clusters.cluster(seed)), within(20))) is not None]
    aligned = [fact for c in found for fact in c.facts if fact.rule == "NodeResourceTopologyMatch"]
    assert aligned
    assert all("align NUMA zones (" in fact.message and fact.object.startswith("Node n") for fact in aligned)


def test_more_pods_asked_for_than_there_are_and_no_nodes() -> None:
    assert cause([node("a"), pod("p", owner="Job/j")], needed=2).facts == [
        Fact("GangScheduling", "Job default/j", "at least 2 pods must be placed, but there are only 1")
    ]
    assert only(cause([pod("p")]), "NodeResourcesFit").message == "the input has no nodes"


def test_two_runs_by_deterministic_time_say_the_same() -> None:
    objects = [node(f"n{i}", labels={"zone": f"z{i // 2}"}, cpu="2") for i in range(8)]
    objects += [pod(f"p{i}", cpu="1500m", labels={"app": "a"}, owner="Job/a", spread=even("zone", "a")) for i in range(9)]
    first, second = (minimal_cause(unit(objects), within(5, seed=3, deterministic=True)) for _ in range(2))
    assert first is not None
    assert first == second


def test_stopped_nothing_is_claimed() -> None:
    stop = threading.Event()
    impossible_pod = unit([node("a", cpu="1"), pod("p", cpu="2")])
    assert minimal_cause(impossible_pod, within(20, stop)) is not None
    stop.set()
    assert minimal_cause(impossible_pod, within(20, stop)) is None


@pytest.mark.full
@pytest.mark.alone
def test_a_thousand_nodes() -> None:
    objects: list[Object] = []
    for i in range(1000):
        objects += [node(f"n{i}", cpu="32", labels={"zone": f"z{i % 3}"}), pod(f"r{i}", cpu=f"{2000 + i * 29}m", node_name=f"n{i}")]
    made = unit([*objects, pod("p", cpu="31")])
    start = time.monotonic()
    made.cluster()
    compiled = time.monotonic()
    found = minimal_cause(made, within(20))
    assert found is not None
    assert names(found) == ["NodeResourcesFit"]
    assert time.monotonic() - compiled < max(3.0, 10 * (compiled - start))


# --- any cause ------------------------------------------------------------------------------------------------------------


def reduced(placement_question: PlacementQuestion) -> tuple[SubsetCheck, Reduction, list[FactGroup] | None]:
    cluster = placement_question.cluster()
    question = SubsetCheck(FactEncoding(cluster, rules.build(cluster), placement_question.needed), within(60, workers=1))
    reduction = Reduction(question, 60.0)
    return question, reduction, reduction.run()


def impossible(placement_question: PlacementQuestion) -> bool:
    """By the ordinary model."""
    cluster = placement_question.cluster()
    encoding = build_model(cluster, rules.build(cluster))
    encoding.model.add(sum(encoding.fits) - encoding.sum(list(encoding.unplaced.values())) >= placement_question.needed)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    status = solver.solve(encoding.model)
    assert status in (cp_model.OPTIMAL, cp_model.FEASIBLE, cp_model.INFEASIBLE)
    return status == cp_model.INFEASIBLE


def check(placement_question: PlacementQuestion, where: str) -> bool:
    """Assert that there is a cause iff the unit is impossible, that its facts are enough, and that each is needed."""
    question, reduction, found = reduced(placement_question)
    assert (found is not None) == impossible(placement_question), where
    if found is None:
        return False
    assert reduction.exact, where

    def verdict(groups: list[FactGroup]) -> bool | None:
        return question.impossible([tag for group in groups for tag in group.tags], 10.0)

    assert found, where
    assert verdict(found) is True, where
    for i in range(len(found)):
        assert verdict(found[:i] + found[i + 1 :]) is False, f"{where} without {found[i]}"
    return True


@pytest.mark.parametrize("kind", sampled(tiny.ALL, every=4))
@seeds(15, 45)
def test_facts_are_enough_and_each_is_needed(seeds: range, kind: str) -> None:
    blamed = sum(check(unit(tiny.snapshot(seed, kind, pods=5)), f"{kind} seed {seed}") for seed in seeds)
    assert blamed


@pytest.mark.full
@pytest.mark.parametrize("key", ["rack", "zone"])
def test_facts_of_gangs_are_enough_and_each_is_needed(key: str) -> None:
    blamed = 0
    for seed in range(40):
        objects = tiny.snapshot(seed, "affinity" if seed % 2 else "resources", pods=5)
        for obj in objects:
            if obj["kind"] == "Pod" and not obj["spec"].get("nodeName"):
                obj["metadata"]["annotations"] = {"kubestow.dev/gang": "default/g", "kubestow.dev/required-topology": key}
        blamed += check(unit(objects), f"{key} seed {seed}")
    assert blamed >= 5


@pytest.mark.full
@seeds(10, 25)
def test_numa_facts_are_enough_and_each_is_needed(seeds: range) -> None:
    assert sum(check(unit(numa_clusters.cluster(seed)), f"seed {seed}") for seed in seeds) >= 1


VOLUMES = {"VolumeBinding", "VolumeRestrictions", "VolumeZone", "NodeVolumeLimits"}


def stripped(objects: list[Object], kept: Collection[str], resources: Collection[str | None]) -> list[Object]:
    """The objects without what the rules that are not kept look at; of resources only some stay scarce."""
    found = copy.deepcopy(objects)
    for obj in found:
        spec = obj.get("spec", {})
        if obj["kind"] == "Node":
            if "TaintToleration" not in kept:
                spec.pop("taints", None)
            if "NodeUnschedulable" not in kept:
                spec.pop("unschedulable", None)
            if "NodeDeclaredFeatures" not in kept:
                obj["status"]["declaredFeatures"] = list(tiny.FEATURES)
            amounts = obj["status"]["allocatable"]
            plain = ("cpu", "pods", *(("example.com/gpu",) if "DynamicResources" not in kept or "example.com/gpu" in amounts else ()))
            amounts |= {r: "1000" for r in plain if r not in resources}
            amounts |= {} if "memory" in resources else {"memory": "1000Gi"}
        elif obj["kind"] == "Pod":
            affinity = spec.get("affinity", {})
            if "InterPodAffinity" not in kept:
                affinity.pop("podAffinity", None)
                affinity.pop("podAntiAffinity", None)
            if "NodeAffinity" not in kept:
                affinity.pop("nodeAffinity", None)
                spec.pop("nodeSelector", None)
            if "PodTopologySpread" not in kept:
                spec.pop("topologySpreadConstraints", None)
            if "NodePorts" not in kept:
                spec["containers"][0].pop("ports", None)
            if VOLUMES.isdisjoint(kept):
                spec.pop("volumes", None)
            if "PodOS" not in kept:
                spec.pop("os", None)
            if "DynamicResources" not in kept:
                spec.pop("resourceClaims", None)
                for amounts in spec["containers"][0]["resources"].values():
                    amounts.pop("deviceclass.resource.kubernetes.io/gpu", None)
    return found


@pytest.mark.parametrize("kind", sampled(tiny.ALL, every=4))
@seeds(15, 45, start=100)
def test_the_snapshot_with_the_rules_of_the_cause_alone_is_impossible_still(seeds: range, kind: str) -> None:
    """Check by edits of the objects, without the fact model, that the named rules and resources suffice.

    Without one of these the pods can be placed, unless another fact of the remaining rules would have
    sufficed as well.
    """
    freed = tried = 0
    for seed in seeds:
        objects = tiny.snapshot(seed, kind, pods=5)
        found = minimal_cause(unit(objects), within(20))
        # Which nodes a spread constraint counts depends on what other rules say of them: those cannot be taken away on their own.
        if found is None or "PodTopologySpread" in names(found):
            continue
        kept, scarce = set(names(found)), {fact.resource for fact in found.facts}
        assert impossible(unit(stripped(objects, kept, scarce))), f"{kind} seed {seed}"
        for rule in sorted(kept):
            remainder = stripped(
                objects, kept - {rule} - (VOLUMES if rule in VOLUMES else set()), set() if rule == "NodeResourcesFit" else scarce
            )
            tried += 1
            freed += not impossible(unit(remainder))
    assert freed >= 0.9 * tried
    assert tried
