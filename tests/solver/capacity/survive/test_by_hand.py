"""Small clusters, a rule each, whose failures have a known outcome."""

from __future__ import annotations

from typing import Any

import pytest

from kubestow.models.documents.survival import Survival
from kubestow.models.snapshot.snapshot import from_objects
from kubestow.solver.capacity.survive.options import SurviveOptions
from kubestow.solver.capacity.survive.survive import survive
from kubestow.solver.runtime.options import Options
from tests.objects import Object, node, pod

ZONE = "topology.kubernetes.io/zone"
WEB = {"app": "web"}
OWN = {"labelSelector": {"matchLabels": WEB}}


def zones(*names: str, **fields: Any) -> list[Object]:
    """A node n0, n1, ... in each of these zones."""
    return [node(f"n{i}", labels={ZONE: name, **fields.pop("labels", {})}, **fields) for i, name in enumerate(names)]


def web(*homes: str, **fields: Any) -> list[Object]:
    return [pod(f"web-{i}", node_name=home, owner="ReplicaSet/web", labels=WEB, **fields) for i, home in enumerate(homes)]


def answer(*objects: Object, fail: str = "zone", at_once: int = 1, priority: int | None = None, preemption: bool = False) -> Survival:
    request = SurviveOptions(fail, at_once, priority, preemption)
    return survive(from_objects(list(objects)), request, Options(time_limit=20, workers=1))


def pending(*objects: Object, **options: Any) -> dict[str, list[str]]:
    """The pods that stay pending, by failure; of one that is equal to another only how many, as texts."""
    found = answer(*objects, **options)
    assert not found.scenarios.open
    assert found.certified == (not found.counterexamples)
    pending_by_failure = {
        "+".join(each.failed): sorted(name.removeprefix("default/") for name in each.pending) for each in found.counterexamples
    }
    equal = [("+".join(other), each.pending) for each in found.outcomes if each.outcome == "pending" for other in each.alike]
    return pending_by_failure | {failed: ["?"] * number for failed, number in equal}


def numbers(*objects: Object, **options: Any) -> dict[str, int]:
    """Return the number of pods that stay pending, by failure."""
    return {failed: len(pods) for failed, pods in pending(*objects, **options).items()}


def spread(**fields: Any) -> list[Object]:
    return [{"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", **OWN, **fields}]


def test_room_is_enough_for_one_node_and_not_for_two() -> None:
    objects = [*zones("a", "b", "c"), *web("n0", "n1", "n2", cpu="2")]
    assert not pending(*objects, fail="node")
    assert numbers(*objects, fail="node", at_once=2) == {"n0+n1": 1, "n0+n2": 1, "n1+n2": 1}


def test_spread_over_zones_goes_on_with_the_zones_that_are_left() -> None:
    assert not pending(*zones("a", "b", "c"), *web("n0", "n1", "n2", spread=spread()))


def test_spread_over_a_least_number_of_zones_is_stuck_when_one_is_gone() -> None:
    assert numbers(*zones("a", "b", "c"), *web("n0", "n1", "n2", spread=spread(minDomains=3))) == {"a": 1, "b": 1, "c": 1}


def test_spread_keeps_pods_out_of_the_fuller_zone() -> None:
    """Zone b takes one pod of a's two; the other would have to go to c, which is full."""
    objects = [
        *zones("a", "b", "c"),
        *web("n0", "n0", "n1", "n2", spread=spread()),
        pod("full", node_name="n2", cpu="3900m", owner="Job/j"),
    ]
    assert len(pending(*objects)["a"]) == 1


def test_anti_affinity_by_zone_has_no_third_zone() -> None:
    anti = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": ZONE, **OWN}]}}
    assert pending(*zones("a", "b", "c"), *web("n0", "n1", affinity=anti)) == {}
    assert numbers(*zones("a", "b"), *web("n0", "n1", affinity=anti)) == {"a": 1, "b": 1}


def test_affinity_goes_where_what_it_follows_goes() -> None:
    near = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": ZONE, **OWN}]}}
    follower = pod("follower", node_name="n0", owner="ReplicaSet/f", affinity=near)
    assert not pending(*zones("a", "b"), *web("n0"), follower)
    full = pod("full", node_name="n1", cpu="3", owner="ReplicaSet/g")
    assert pending(*zones("a", "b"), *web("n0", cpu="3"), full, follower) == {"a": ["follower", "web-0"], "b": ["full"]}


def claim(name: str, zone: str) -> list[Object]:
    terms = [{"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}]
    spec = {
        "accessModes": ["ReadWriteOnce"], "storageClassName": "s", "capacity": {"storage": "1Gi"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": terms}}, "claimRef": {"namespace": "default", "name": name},
    }  # fmt: skip
    asks = {"requests": {"storage": "1Gi"}}
    claimed = {"accessModes": ["ReadWriteOnce"], "storageClassName": "s", "volumeName": f"pv-{name}", "resources": asks}
    return [
        {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": f"pv-{name}"}, "spec": spec, "status": {"phase": "Bound"}},
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name, "namespace": "default"}, "spec": claimed,
         "status": {"phase": "Bound"}},
    ]  # fmt: skip


def test_a_volume_in_a_zone_holds_its_pod_there() -> None:
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
    objects = [*zones("a", "a", "b"), *claim("data", "a"), pod("db-0", node_name="n0", owner="StatefulSet/db", volumes=volumes)]
    assert pending(*objects) == {"a": ["db-0"]}
    assert not pending(*objects, fail="node")


def test_taints_keep_pods_away() -> None:
    taints = [{"key": "dedicated", "value": "x", "effect": "NoSchedule"}]
    objects = [node("n0"), node("n1", taints=taints)]
    assert pending(*objects, *web("n0"), fail="node") == {"n0": ["web-0"]}
    tolerant = web("n0", tolerations=[{"key": "dedicated", "operator": "Exists"}])
    assert not pending(*objects, *tolerant, fail="node")


def test_a_cordoned_node_takes_nothing() -> None:
    assert pending(node("n0"), node("n1", unschedulable=True), *web("n0"), fail="node") == {"n0": ["web-0"]}


def test_a_selector_that_only_one_node_has() -> None:
    selector = {"kubernetes.io/hostname": "n0"}
    assert pending(node("n0"), node("n1"), *web("n0", selector=selector), fail="node") == {"n0": ["web-0"]}


def test_host_ports_take_a_node_each() -> None:
    ported = web("n0", "n1")
    for each in ported:
        each["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 80}]
    assert numbers(node("n0"), node("n1"), *ported, fail="node") == {"n0": 1, "n1": 1}
    assert not pending(node("n0"), node("n1"), node("n2"), *ported, fail="node")


def test_places_of_pods_run_out() -> None:
    assert pending(node("n0"), node("n1", pods="1"), *web("n0", "n1"), fail="node") == {"n0": ["web-0"]}


def test_only_pods_of_a_priority_have_to_come_back() -> None:
    objects = [node("n0"), node("n1"), *web("n0", cpu="3", priority=0), *web("n1", cpu="3", priority=0)]
    objects[-1]["metadata"]["name"] = "high"
    objects[-1]["spec"]["priority"] = 100
    assert numbers(*objects, fail="node") == {"n0": 1, "n1": 1}
    assert pending(*objects, fail="node", priority=100) == {"n1": ["high"]}
    assert not pending(*objects, fail="node", priority=101)


def test_preemption_makes_room_for_what_has_to_come_back() -> None:
    objects = [node("n0"), node("n1"), *web("n0", cpu="3", priority=0), pod("high", node_name="n1", owner="Job/h", cpu="3", priority=100)]
    found = answer(*objects, fail="node", priority=100, preemption=True)
    assert found.certified
    (scenario,) = [each for each in found.outcomes if each.failed == ["n1"]]
    assert scenario.preempted == ["default/web-0"]
    equal = [node("n0"), node("n1"), *web("n0", cpu="3", priority=100), objects[-1]]
    assert not answer(*equal, fail="node", priority=100, preemption=True).certified


def test_bare_pods_and_those_of_the_node_do_not_come_back() -> None:
    mirror = pod("static-n0", node_name="n0", cpu="3")
    mirror["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "x"}
    objects = [pod("bare", node_name="n0", cpu="3"), pod("daemon", node_name="n0", owner="DaemonSet/d", cpu="1m"), mirror]
    found = answer(node("n0", cpu="8"), node("n1", cpu="1"), *objects, fail="node")
    assert found.certified
    assert {each.by for each in found.outcomes} == {"nothing"}


def test_pods_that_are_over_or_ending_do_not_come_back() -> None:
    over, ending = pod("over", node_name="n0", owner="Job/j", cpu="3"), pod("ending", node_name="n0", owner="ReplicaSet/r", cpu="3")
    over["status"]["phase"] = "Succeeded"
    ending["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert not pending(node("n0"), node("n1", cpu="1"), over, ending, fail="node")


def test_what_is_pending_already_is_left_out_with_a_note() -> None:
    found = answer(node("n0"), node("n1"), pod("waits", cpu="9", owner="ReplicaSet/r"), *web("n0"), fail="node")
    assert found.certified
    (note,) = found.notes
    assert "left out: default/waits" in note


def test_any_label_can_name_what_fails_and_nodes_without_it_do_not() -> None:
    racks = [node("n0", labels={"rack": "r1"}), node("n1", labels={"rack": "r2"}), node("n2", cpu="1")]
    objects = [*racks, *web("n0", "n2", cpu="1")]
    found = answer(*objects, fail="rack")
    assert found.certified
    assert sorted(name for each in found.outcomes for name in each.failed + [n for a in each.alike for n in a]) == ["r1", "r2"]


@pytest.mark.parametrize("at_once", [1, 2, 3])
def test_every_combination_is_counted(at_once: int) -> None:
    found = answer(*zones("a", "b", "c", "d"), *web("n0", "n1", "n1"), at_once=at_once)
    assert found.scenarios.all == [4, 6, 4][at_once - 1]
    assert sum(1 + len(each.alike) for each in found.outcomes) == found.scenarios.all
