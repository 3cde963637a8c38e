"""Remedies: the expected first answers on small cases, and on random ones each answer judged by applying it."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from kubestow.models.documents.placement import Remedy
from kubestow.models.gangs.gangs import GANG, MIN_MEMBER, REQUIRED_TOPOLOGY
from kubestow.models.kube.objects import pod_key
from kubestow.models.snapshot import snapshot as snapshots
from kubestow.models.snapshot.scope import select
from kubestow.models.workloads.ownership import PodOwners
from kubestow.solver.explain.conflict.placement_question import PlacementQuestion
from kubestow.solver.explain.remedy.apply import applied, without_pods
from kubestow.solver.explain.remedy.search import find_remedies, search_remedies
from kubestow.solver.explain.remedy.smallest_working import least
from kubestow.solver.explain.remedy.victims import candidates
from tests import tiny
from tests.objects import node, pod
from tests.solver.explain.questions import within
from tests.tiers import in_slow, sampled

ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"
PREEMPTED = "; kube-scheduler preempts such pods by itself"
Object = dict[str, Any]


def unit(objects: list[Object], needed: int | None = None) -> PlacementQuestion:
    snapshot = snapshots.from_objects(objects)
    pending = tuple(select(snapshot).pending)
    return PlacementQuestion(snapshot, pending, len(pending) if needed is None else needed)


def ask(given: PlacementQuestion, *rules: str, limit: int = 20) -> list[Remedy]:
    """Return all remedies, each checked: when it is applied, the pods can be placed."""
    assert given.feasible(within(20)) is False
    remedies = find_remedies(given, rules, within(60), limit=limit)
    for way in remedies:
        assert applied(given, way).feasible(within(20)) is True, way
        assert way.change == "lowerRequest" or not {"least", "most"} & way.arguments.keys(), way
    return remedies


def zoned(name: str, zone: str, **fields: Any) -> Object:
    return node(name, labels={ZONE: zone}, **fields)


def spread(skew: int, key: str = ZONE, app: str = "web") -> Object:
    return {
        "maxSkew": skew,
        "topologyKey": key,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": app}},
    }


def anti(app: str, key: str = HOST, kind: str = "podAntiAffinity") -> Object:
    term = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def webs(count: int, **fields: Any) -> list[Object]:
    fields = {"namespace": "prod", "labels": {"app": "web"}, "owner": "StatefulSet/web", **fields}
    return [pod(f"web-{i}", **fields) for i in range(count)]


def messages(remedies: list[Remedy]) -> list[str]:
    return [way.message for way in remedies]


# --- rules of pods ------------------------------------------------------------------------------------------------------


def test_skew_is_raised_by_as_little_as_works() -> None:
    objects = [zoned("a", "a", cpu="8"), zoned("b", "b", cpu="100m", pods="0")]
    for count in (2, 3):
        found = ask(unit([*objects, *webs(count, spread=[spread(1)])]), "PodTopologySpread")
        skews = [way for way in found if way.change == "raiseMaxSkew"]
        assert messages(skews) == [f"raise maxSkew over {ZONE} of prod/web from 1 to {count}"]
        assert (found[0] == skews[0]) == (count == 2)  # by 1 is the cheapest of all, by more is dearer than a node
        changed = applied(unit([*objects, *webs(count, spread=[spread(1)])]), _with(skews[0], to=str(count - 1)))
        assert changed.feasible(within(20)) is False


def _with(way: Remedy, **arguments: str) -> Remedy:
    return Remedy(way.change, way.message, {**way.arguments, **arguments})


def test_a_spread_over_a_key_that_nodes_lack_is_made_soft() -> None:
    found = ask(unit([node("a"), *webs(1, spread=[spread(1)])]), "PodTopologySpread")
    assert messages(found)[-1] == f"make the spread of prod/web over {ZONE} ScheduleAnyway"
    assert "raiseMaxSkew" not in {way.change for way in found}


def test_anti_affinity_of_the_whole_workload_is_made_preferred() -> None:
    running = [pod("db-0", namespace="prod", labels={"app": "db"}, owner="StatefulSet/db", affinity=anti("db"), node_name="a")]
    waiting = [pod("db-1", namespace="prod", labels={"app": "db"}, owner="StatefulSet/db", affinity=anti("db"))]
    given = unit([node("a"), *running, *waiting])
    found = ask(given, "InterPodAffinity")
    assert messages(found) == ["add 1 node like a", f"make the anti-affinity of prod/db over {HOST} (app=db) preferred"]
    changed = applied(given, found[1])
    for member in changed.snapshot.pods:
        assert member.spec.affinity is not None
        assert member.spec.affinity.podAntiAffinity is not None
        assert not member.spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution
        assert member.spec.affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution
    assert all(member.spec.affinity != changed.snapshot.pods[0].spec.affinity for member in given.snapshot.pods)


def test_anti_affinity_of_others_that_run_is_found() -> None:
    running = pod("loner", labels={"app": "x"}, owner="ReplicaSet/loner", affinity=anti("web", ZONE), namespace="prod", node_name="a")
    objects = [zoned("a", "a"), running, *webs(1)]
    found = ask(unit(objects), "InterPodAffinity")
    assert f"make the anti-affinity of prod/loner over {ZONE} (app=web) preferred" in messages(found)


def test_affinity_is_made_preferred() -> None:
    found = ask(unit([node("a"), *webs(1, affinity=anti("cache", kind="podAffinity"))]), "InterPodAffinity")
    assert messages(found) == [f"make the affinity of prod/web over {HOST} (app=cache) preferred"]


def test_node_rules_are_dropped_one_by_one() -> None:
    wanted = {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": "gpu", "operator": "In", "values": ["a100"]}]}]
            }
        }
    }
    fine = node("a", labels={"disk": "ssd"})
    assert messages(ask(unit([fine, *webs(1, selector={"disk": "hdd"})]), "NodeAffinity")) == [
        "drop disk=hdd from the nodeSelector of prod/web"
    ]
    assert messages(ask(unit([fine, *webs(1, affinity=wanted)]), "NodeAffinity")) == [
        "label a with gpu=a100",
        "drop gpu In [a100] from the required node affinity of prod/web",
    ]
    both = ask(unit([fine, *webs(1, affinity=wanted, selector={"disk": "hdd"})]), "NodeAffinity")
    assert [way.change for way in both] == ["combination"] * 2
    assert both[0].message == "label a with gpu=a100; and drop disk=hdd from the nodeSelector of prod/web"
    assert both[1].message == (
        "drop disk=hdd from the nodeSelector of prod/web; and drop gpu In [a100] from the required node affinity of prod/web"
    )


def test_a_taint_is_tolerated() -> None:
    tainted = node("a", taints=[{"key": "dedicated", "value": "db", "effect": "NoSchedule"}])
    found = ask(unit([tainted, *webs(2)]), "TaintToleration")
    assert messages(found) == ["let prod/web tolerate the taint dedicated=db:NoSchedule"]


def test_a_node_is_uncordoned() -> None:
    found = ask(unit([node("a", unschedulable=True), *webs(2)]), "NodeUnschedulable")
    assert messages(found) == ["uncordon a"]


def test_a_host_port_is_given_up() -> None:
    container = {"name": "c", "image": "i", "ports": [{"containerPort": 80, "hostPort": 8080}]}
    found = ask(unit([node("a"), *webs(2, containers=[container])]), "NodePorts")
    assert messages(found) == [
        "add 1 node like a",
        "run 1 replica of prod/web instead of 2",
        "give up host port 8080/TCP of prod/web",
    ]


def test_what_several_owners_have_in_common_is_relaxed_together() -> None:
    tainted = node("a", taints=[{"key": "dedicated", "effect": "NoExecute"}])
    others = [pod("api-0", namespace="prod", labels={"app": "api"}, owner="StatefulSet/api")]
    found = ask(unit([tainted, *webs(1), *others]), "TaintToleration")
    assert messages(found) == ["let prod/web tolerate the taint dedicated:NoExecute; the same of prod/api"]


# --- nodes, pods, gangs ---------------------------------------------------------------------------------------------------


def test_the_fewest_nodes_of_the_smallest_shape() -> None:
    objects = [zoned("large", "a", cpu="4"), zoned("small", "b", cpu="2"), zoned("tiny", "b", cpu="500m")]
    full = [pod(f"f-{n}", cpu=cpu, node_name=n) for n, cpu in (("large", "4"), ("small", "2"), ("tiny", "500m"))]
    found = ask(unit([*objects, *full, *webs(4, cpu="1")]), "NodeResourcesFit")
    assert messages(found)[0] == "add 1 node like large"
    assert found[0].options == ["--add-nodes", "1:large"]
    found = ask(unit([*objects, *full, *webs(2, cpu="1")]), "NodeResourcesFit")
    assert messages(found)[0] == "add 1 node like small"
    given = unit([*objects, *full, *webs(6, cpu="1")])
    found = ask(given, "NodeResourcesFit")
    assert messages(found)[0] == "add 2 nodes like large"
    assert applied(given, _with(found[0], count="1")).feasible(within(20)) is False


def test_a_node_is_added_to_the_domain_that_lacks_room() -> None:
    objects = [zoned("a1", "a"), zoned("a2", "a"), zoned("b1", "b", cpu="1"), pod("full", cpu="1", node_name="b1")]
    found = ask(unit([*objects, *webs(2, cpu="1", spread=[spread(1)])]), "NodeResourcesFit", "PodTopologySpread")
    assert messages(found)[1] == f"add 1 node like b1 ({ZONE}=b)"


def test_the_lowest_priority_is_evicted_first_then_the_fewest_pods() -> None:
    low = [pod(f"low-{i}", namespace="batch", cpu="1", priority=1, node_name="a") for i in range(4)]
    big = [pod("big", namespace="batch", cpu="3", priority=5, node_name="b"), pod("peer", cpu="1", priority=10, node_name="b")]
    daemon = pod("daemon", cpu="4", priority=0, node_name="c", owner="DaemonSet/daemon")
    given = unit([node("a"), node("b"), node("c"), *low, *big, daemon, *webs(2, cpu="1500m", priority=10)])
    found = ask(given, "NodeResourcesFit")
    evicted = next(way for way in found if way.change == "evict")
    assert evicted.message.startswith("evict 3 pods of lower priority: batch/low-")
    big[0]["spec"]["priority"] = 1
    evicted = next(
        way
        for way in ask(unit([node("a"), node("b"), node("c"), *low, *big, daemon, *webs(2, cpu="1500m", priority=10)]), "NodeResourcesFit")
        if way.change == "evict"
    )
    assert evicted.message == "evict 1 pod of lower priority: batch/big on b"
    assert evicted.arguments == {"pods": "batch/big"}


def test_a_budget_that_forbids_the_eviction_is_named_beside_one_that_works() -> None:
    """As the field's report on preemption and budgets: the lowest priority is guarded, the highest is not."""
    running = [
        pod(name, priority=p, node_name=at, labels={"app": name}) for name, p, at in (("low", 0, "a"), ("high", 9, "a"), ("mid", 5, "b"))
    ]
    guards = [
        {
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": name, "namespace": "default"},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": name}}},
        }
        for name in ("low", "mid")
    ]  # fmt: skip
    found = ask(unit([node("a", pods="2"), node("b", pods="1"), *running, *guards, *webs(1, priority=10)]), "NodeResourcesFit")
    evictions = [way.message for way in found if way.change == "evict"]
    assert evictions == [
        "evict 1 pod of lower priority: default/low on a, against PodDisruptionBudget default/low (allows 0)",
        f"evict 1 pod of lower priority: default/high on a{PREEMPTED}",
    ]


def test_a_running_gang_is_evicted_whole_or_not_at_all() -> None:
    gangs = [pod(f"{name}-{i}", cpu="2", priority=1, node_name=at) for name in ("lo-a", "lo-b") for i, at in enumerate(("a", "b"))]
    for member in gangs:
        member["metadata"]["annotations"] = {GANG: member["metadata"]["name"][:4]}
    found = ask(unit([node("a"), node("b"), *gangs, *webs(2, cpu="2", priority=10)]), "NodeResourcesFit")
    evicted = next(way for way in found if way.change == "evict")
    assert evicted.arguments["pods"] in ("default/lo-a-0,default/lo-a-1", "default/lo-b-0,default/lo-b-1")
    assert evicted.message.endswith(" as a whole)")


def test_daemon_set_pods_keep_the_node_that_they_are_made_for() -> None:
    field = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [field]}}}
    full = pod("full", cpu="4", node_name="a", priority=5)
    for owner, dropped in (("DaemonSet/agent", False), ("ReplicaSet/agent", True)):
        found = ask(unit([node("a"), node("b"), full, pod("agent-1", owner=owner, affinity=affinity)]), "NodeAffinity", "NodeResourcesFit")
        assert any(way.change == "dropNodeAffinity" for way in found) == dropped, owner


def test_where_nothing_else_works_a_pod_is_moved_that_has_a_place_elsewhere() -> None:
    field = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [field]}}}
    agent = pod("agent-1", cpu="1", owner="DaemonSet/agent", affinity=affinity)
    web = pod("web-1", cpu="4", node_name="a", owner="ReplicaSet/web")
    found = ask(unit([node("a"), node("b"), web, agent]), "NodeAffinity", "NodeResourcesFit")
    assert messages(found) == ["move default/web-1 from a to b (kubestow rebalance --goal admit)"]
    bare = pod("web-1", cpu="4", node_name="a")
    for objects in ([node("a"), node("b", cpu="3"), web, agent], [node("a"), node("b"), bare, agent]):
        assert ask(unit(objects), "NodeAffinity", "NodeResourcesFit") == [], "no place elsewhere, or nothing would make it again"


def test_a_pod_that_others_need_is_not_moved() -> None:
    """A plan would refuse to: the pod that stays would lose what its affinity asks for."""
    field = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [field]}}}
    agent = pod("agent-1", cpu="1", owner="DaemonSet/agent", affinity=affinity)
    web = pod("web-1", cpu="3900m", node_name="a", owner="ReplicaSet/web", labels={"app": "web"})
    near = {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": "web"}}}
    needs = pod("near", node_name="a", affinity={"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [near]}})
    assert ask(unit([node("a"), node("b"), web, needs, agent]), "NodeAffinity", "NodeResourcesFit") == []


def test_pods_that_repel_or_skew_are_evicted_too() -> None:
    repelling = pod("r", cpu="1", priority=0, node_name="a", affinity=anti("web"), namespace="prod")
    found = ask(unit([node("a"), repelling, *webs(1, priority=5)]), "InterPodAffinity")
    assert f"evict 1 pod of lower priority: prod/r on a{PREEMPTED}" in messages(found)
    objects = [zoned("a", "a"), zoned("b", "b", pods="0"), pod("w", namespace="prod", labels={"app": "web"}, priority=0, node_name="a")]
    found = ask(unit([*objects, *webs(1, priority=5, spread=[spread(1)])]), "PodTopologySpread")
    assert f"evict 1 pod of lower priority: prod/w on a{PREEMPTED}" in messages(found)


def test_overcommitted_nodes_lose_no_more_than_newcomers_need() -> None:
    """Their running pods may stay as long as no pod comes."""
    over = [pod(f"o-{i}", cpu="3", priority=0, node_name="a") for i in range(3)]
    fit = [pod("x", cpu="4", priority=0, node_name="b")]
    found = ask(unit([node("a"), node("b"), *over, *fit, *webs(1, cpu="2", priority=5)]), "NodeResourcesFit")
    assert f"evict 1 pod of lower priority: default/x on b{PREEMPTED}" in messages(found)


def test_replicas_are_reduced_to_the_most_that_fit() -> None:
    gang = {GANG: "train"}
    workers = [_annotated(p, gang) for p in webs(8, cpu="1")]
    driver = [_annotated(pod("driver-0", namespace="prod", cpu="2", owner="Job/driver"), gang)]
    bound = pod("web-9", namespace="prod", cpu="1", labels={"app": "web"}, owner="StatefulSet/web", node_name="a")
    workload = {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "web", "namespace": "prod"},
        "spec": {"replicas": 9, "selector": {"matchLabels": {"app": "web"}}, "template": {"metadata": {"labels": {"app": "web"}}}},
    }
    given = unit([node("a", cpu="4"), node("b", cpu="4"), workload, bound, *workers, *driver])
    found = ask(given, "NodeResourcesFit")
    reduced = [way for way in found if way.change == "reduceReplicas"]
    assert messages(reduced) == ["run 6 replicas of prod/web instead of 9"]
    assert reduced[0].options == ["--replicas", "StatefulSet/prod/web=6"]
    changed = applied(given, reduced[0])
    assert sorted(p.metadata.name or "" for p in changed.snapshot.pods) == ["driver-0", *(f"web-{i}" for i in (0, 1, 2, 3, 4, 9))]
    assert applied(given, _with(reduced[0], to="7")).feasible(within(20)) is False
    lowered = [way for way in found if way.change == "lowerMinMember"]
    assert messages(lowered) == ["lower min-member of gang prod/train from 9 to 7 (of 9 pods)"]  # without the driver


def _annotated(given: Object, annotations: dict[str, str]) -> Object:
    return {**given, "metadata": {**given["metadata"], "annotations": annotations}}


def test_a_minimum_is_lowered_instead() -> None:
    workers = [_annotated(p, {GANG: "train", MIN_MEMBER: "5"}) for p in webs(6, cpu="1")]
    given = unit([node("a", cpu="4"), *workers], needed=5)
    found = ask(given, "GangScheduling")
    assert [way.change for way in found] == ["addNodes", "lowerMinMember"]
    assert found[1].message == "lower min-member of gang prod/train from 5 to 4 (of 6 pods)"


def test_a_required_topology_is_made_preferred() -> None:
    workers = [_annotated(p, {GANG: "train", REQUIRED_TOPOLOGY: ZONE}) for p in webs(6, cpu="1")]
    given = unit([zoned("n1", "a", cpu="4"), zoned("n2", "b", cpu="4"), *workers])
    found = ask(given, "GangScheduling", "NodeResourcesFit")
    assert messages(found) == [
        f"add 1 node like n1 ({ZONE}=a)",
        "run 4 replicas of prod/web instead of 6",
        "request at most 666m CPU instead of 1 in prod/web",
        f"make the topology {ZONE} of gang prod/train preferred",
    ]


def test_only_what_touches_the_cause_is_tried() -> None:
    given = unit([node("a", taints=[{"key": "k", "effect": "NoSchedule"}]), *webs(1)])
    assert find_remedies(given, ["NodeResourcesFit"], within(20)) == []
    assert len(find_remedies(given, [], within(20))) == 1


def test_no_more_than_asked_for_and_nothing_without_time() -> None:
    given = unit([node("a", cpu="4"), *webs(8, cpu="1", priority=1)])
    assert len(ask(given, limit=1)) == 1
    assert find_remedies(given, [], within(1e-9)) == []


def test_kinds_of_which_not_all_were_tried_are_named() -> None:
    def untried(running: int, seconds: float) -> list[str]:
        full = [
            node("a", cpu="4"),
            node("b", cpu="4"),
            *(pod(f"l{i}", cpu="50m", node_name="a", owner="ReplicaSet/l") for i in range(running)),
        ]
        given = unit([*full, *webs(1, cpu="4", selector={HOST: "a"})])
        return search_remedies(given, ["NodeResourcesFit"], within(seconds)).untried

    assert untried(4, 60) == []
    assert untried(22, 60) == ["moves of running pods"]  # only the first 20 are tried
    assert untried(4, 1e-9) == ["more nodes", "fewer pods and smaller requests", "moves of running pods"]


def test_a_deterministic_run_says_the_same_twice() -> None:
    given = unit([node("a", cpu="4"), *(pod(f"l{i}", cpu="1", node_name="a") for i in range(4)), *webs(3, cpu="1", priority=1)])
    first, second = (find_remedies(given, [], within(20, deterministic=True)) for _ in range(2))
    assert first == second
    assert len(first) >= 2


def test_an_unknown_change_is_refused() -> None:
    with pytest.raises(ValueError, match="no remedy"):
        applied(unit([node("a"), *webs(1)]), Remedy("pray", ""))


@pytest.mark.parametrize("start", [None, 1, 7, 40, 90])
@pytest.mark.parametrize("answer", [1, 2, 8, 39, 64])
def test_the_least_number_is_found_with_few_questions(answer: int, start: int | None) -> None:
    queried: list[int] = []

    def works(k: int) -> bool:
        queried.append(k)
        return k >= answer

    assert least(works, 1, 64, start) == (answer, True)
    assert len(queried) == len(set(queried)) <= 14
    assert least(lambda _: False, 1, 64, start) is None
    assert least(lambda k: True if k >= answer else None, 1, 64, start) == (answer, answer == 1)


def test_a_replica_set_stands_for_its_deployment() -> None:
    hashed = {"app": "web", "pod-template-hash": "5d9c"}
    kept = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": "api-x",
            "namespace": "prod",
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "api", "uid": "u", "controller": True}],
        },
        "spec": {"selector": {"matchLabels": {"app": "api"}}, "template": {"metadata": {"labels": {"app": "api"}}}},
    }
    pods = [
        pod("w", namespace="prod", owner="ReplicaSet/web-5d9c", labels=hashed),
        pod("a", namespace="prod", owner="ReplicaSet/api-x"),
        pod("r", namespace="prod", owner="ReplicaSet/lone"),
        pod("bare-1"),
        pod("bare-2"),
    ]
    owners = PodOwners(snapshots.from_objects([kept, *pods]))
    groups = owners.group(range(5))
    assert groups == {
        "Deployment prod/web": [0],
        "Deployment prod/api": [1],
        "ReplicaSet prod/lone": [2],
        "Pod default/bare-1,default/bare-2": [3, 4],
    }
    assert [owners.members(owner) for owner in groups] == list(groups.values())


# --- random instances -------------------------------------------------------------------------------------------------------


def _fewest(given: PlacementQuestion, limit: int) -> int | None:
    """Brute force over sets of running pods of lower priority, smallest first."""
    listed = candidates(given)
    for k in range(1, min(limit, len(listed)) + 1):
        for gone in itertools.combinations(listed, k):
            if without_pods(given, list(gone)).feasible(within(20)):
                return k
    return None


@pytest.mark.parametrize("kind", sampled(tiny.KINDS, every=12))
@pytest.mark.parametrize("units", [5, in_slow(12)])
def test_every_way_out_of_a_random_unit_works_and_is_the_least(kind: str, units: int) -> None:
    changes: dict[str, int] = {}
    tried = 0
    for seed in range(400):
        objects = tiny.snapshot(seed, kind, nodes=3, pods=4)
        for item in objects:  # priorities that make running pods candidates
            if item["kind"] == "Pod":
                item["spec"]["priority"] = 0 if item["spec"].get("nodeName") else 10
        given = unit(objects)
        if not given.pods or given.feasible(within(20)) is not False:
            continue
        tried += 1
        if tried > units:
            break
        found = find_remedies(given, [], within(60), limit=30)
        where = f"{kind} seed {seed}"
        evicted = None
        for way in found:
            changes[way.change] = changes.get(way.change, 0) + 1
            assert applied(given, way).feasible(within(20)) is True, (where, way)
            proved = not {"least", "most"} & way.arguments.keys()
            json.dumps(way.arguments)
            if way.change == "evict":
                evicted = way.arguments["pods"].count(",") + 1 if proved else -1
            elif way.change == "raiseMaxSkew" and proved:
                less = int(way.arguments["to"]) - 1
                changed = applied(given, _with(way, to=str(less)))
                assert less == json.loads(way.arguments["constraint"])["maxSkew"] or not changed.feasible(within(20))
            elif way.change == "addNodes" and proved and way.arguments["count"] != "1":
                assert not applied(given, _with(way, count=str(int(way.arguments["count"]) - 1))).feasible(within(20)), (where, way)
            elif way.change == "lowerMinMember" or way.change == "reduceReplicas":
                more = int(way.arguments["to"]) + 1
                assert more == int(way.arguments["from"]) or not applied(given, _with(way, to=str(more))).feasible(within(20)), (where, way)
        if evicted != -1:
            assert evicted == _fewest(given, 3), (where, [pod_key(given.snapshot.pods[i]) for i in candidates(given)])
    assert tried >= 5, f"{kind}: {tried} infeasible units"
    assert changes or (units, kind) == (5, "volumes")  # there the first ones have no way out


def test_find_remedies_leave_the_snapshot_alone() -> None:
    given = unit([zoned("a", "a"), *webs(2, spread=[spread(1)], selector={"x": "y"}), *webs(0)])
    before = replace(given.snapshot, pods=list(given.snapshot.pods), nodes=list(given.snapshot.nodes))
    text = msgspec.json.encode((before.pods, before.nodes))
    ask(given)
    assert msgspec.json.encode((given.snapshot.pods, given.snapshot.nodes)) == text
