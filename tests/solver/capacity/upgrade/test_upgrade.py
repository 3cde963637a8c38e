"""Waves of node-pool upgrades: limits, where pods go, what blocks, and the surge that helps."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from kubestow.checker.capacity.upgrade import check_upgrade
from kubestow.models.documents.capacity import from_builtins, to_builtins
from kubestow.models.documents.upgrade import Upgrade
from kubestow.models.snapshot.snapshot import InputError, from_objects
from kubestow.solver.capacity.upgrade.packing import NodePacking
from kubestow.solver.capacity.upgrade.pool import UpgradeOptions, read_pool, resolved
from kubestow.solver.capacity.upgrade.state import PoolState
from kubestow.solver.capacity.upgrade.upgrade import upgrade
from kubestow.solver.runtime.options import Options, Progress
from kubestow.solver.runtime.run_context import RunContext
from tests.objects import node, pod
from tests.plans.tiny import HOST, ZONE

Object = dict[str, Any]


def web(i: int, at: str, **spec: Any) -> Object:
    return pod(f"web-{i}", node_name=at, owner="ReplicaSet/web", labels={"app": "web"}, **{"cpu": "2", **spec})


def nodes(number: int, **more: Any) -> list[Object]:
    return [node(f"n{i}", labels={"pool": "p", ZONE: f"z{i % 2}"}, **more) for i in range(number)]


def budget(name: str = "web", **spec: Any) -> Object:
    spec["selector"] = {"matchLabels": {"app": "web"}}
    return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": name, "namespace": "default"}, "spec": spec}


def find(objects: list[Object], surge: str = "1", unavailable: str = "0", **more: Any) -> Upgrade:
    """The upgrade of the pool, its waves replayed."""
    snapshot = from_objects(objects)
    found = upgrade(snapshot, UpgradeOptions("pool=p", unavailable, surge, options=Options(deterministic=True), **more))
    assert not check_upgrade(snapshot, found).violations
    assert from_builtins(to_builtins(found), "Upgrade") == found
    return found


def drained(upgraded: Upgrade) -> list[list[str]]:
    return [wave.drain for wave in upgraded.waves]


def test_one_node_after_the_other_surges_and_pods_go_to_the_node_that_stands_in() -> None:
    found = find([*nodes(3), *(web(i, f"n{i}") for i in range(3))])
    assert found.complete
    assert drained(found) == [["n0"], ["n1"], ["n2"]]
    assert [[new.name for new in wave.surge] for wave in found.waves] == [["n0-new"], ["n1-new"], ["n2-new"]]
    assert [(move.pod, move.source, move.to) for wave in found.waves for move in wave.moves] == [
        (f"default/web-{i}", f"n{i}", f"n{i}-new") for i in range(3)
    ]


def test_surge_and_unavailable_nodes_are_upgraded_together() -> None:
    found = find(nodes(5), surge="2", unavailable="1")
    assert drained(found) == [["n0", "n1", "n2"], ["n3", "n4"]]
    assert [(len(wave.surge), len(wave.joined)) for wave in found.waves] == [(2, 1), (2, 0)]


def test_percentages_are_rounded_like_those_of_a_deployment() -> None:
    assert resolved("10%", "10%", 15) == (1, 2)
    assert resolved("10%", "0", 5) == (1, 0)
    assert resolved("0", "300%", 4) == (0, 4)


def test_domains_are_upgraded_one_after_the_other() -> None:
    found = find(nodes(5), surge="2", by=ZONE)
    assert drained(found) == [["n0", "n2"], ["n4"], ["n1", "n3"]]
    assert [wave.domain for wave in found.waves] == [f"{ZONE}=z0", f"{ZONE}=z0", f"{ZONE}=z1"]


def test_a_budget_lets_its_pods_go_one_by_one() -> None:
    found = find([*nodes(2), web(0, "n0", cpu="1"), web(1, "n0", cpu="1"), web(2, "n0", cpu="1"), budget(maxUnavailable=1)])
    assert [(move.step, move.wave) for move in found.waves[0].moves] == [(1, 1), (2, 2), (3, 3)]
    found = find([*nodes(2), web(0, "n0", cpu="1"), web(1, "n0", cpu="1"), web(2, "n0", cpu="1"), budget(maxUnavailable=2)])
    assert [move.wave for move in found.waves[0].moves] == [1, 1, 2]


def test_without_a_surge_the_node_goes_first_whose_pods_find_room() -> None:
    objects = [*nodes(2), node("outside", cpu="1500m"), web(0, "n0", cpu="3"), web(1, "n1", cpu="1400m")]
    found = find(objects, surge="0", unavailable="1")
    assert found.complete
    assert drained(found) == [["n1"], ["n0"]]
    assert [len(wave.joined) for wave in found.waves] == [1, 1]


def test_a_full_pool_is_blocked_without_a_surge_and_the_smallest_that_helps_is_named() -> None:
    found = find([*nodes(3), *(web(i, f"n{i}", cpu="3") for i in range(3))], surge="0", unavailable="1")
    assert (found.complete, found.proved, found.waves) == (False, True, [])
    assert {(each.node, each.kind) for each in found.blocked} == {(f"n{i}", "room") for i in range(3)}
    assert "requests 3 CPU, 128Mi memory" in found.blocked[0].message
    assert (found.smallestSurge, found.smallestProved) == (1, True)


def test_smaller_new_nodes_need_a_larger_surge() -> None:
    to = {"status": {"allocatable": {"cpu": "2"}}}
    found = find([*nodes(3), web(0, "n0"), web(1, "n0")], to=to)
    assert found.complete
    assert sum(len(wave.moves) for wave in found.waves) == 2  # the empty nodes go first, and their new ones take the pods
    found = find([*nodes(2), web(0, "n0"), web(1, "n0"), web(2, "n1", cpu="1"), web(3, "n1", cpu="1")], to=to)
    assert (found.complete, found.proved) == (False, True)
    assert (found.smallestSurge, found.smallestProved) == (None, True)


def test_new_labels_and_taints_decide_who_may_go_there() -> None:
    objects = [*nodes(2), web(0, "n0", selector={"pool": "p"}), web(1, "n1", tolerations=[{"key": "v2", "operator": "Exists"}])]
    found = find(objects, to={"metadata": {"labels": {"pool": "q"}}, "spec": {"taints": [{"key": "v2", "effect": "NoSchedule"}]}})
    assert (found.complete, found.proved) == (False, True)
    (blocker,) = found.blocked
    assert (blocker.node, blocker.kind, blocker.pods) == ("n0", "rule", ["default/web-0"])
    assert "NodeAffinity" in blocker.message
    assert "TaintToleration" in blocker.message
    assert drained(found) == [["n1"]]


def test_a_budget_that_is_only_not_met_now_is_no_proof() -> None:
    unready = web(1, "n1")
    unready["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
    found = find([*nodes(2), web(0, "n0"), unready, web(2, "n0"), budget(minAvailable=2)])
    assert [(each.kind, each.object, each.proved) for each in found.blocked] == [
        ("PodDisruptionBudget", "PodDisruptionBudget default/web", False)
    ]
    assert "2 of its pods are healthy, 2 needed" in found.blocked[0].message
    assert (found.proved, found.smallestProved) == (False, False)


def test_anti_affinity_between_nodes_holds_on_the_way() -> None:
    term = {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": "web"}}}
    rule = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    pods = [web(i, f"n{i}", cpu="1", affinity=rule) for i in range(3)]
    assert find([*nodes(3), *pods]).complete
    found = find([*nodes(3), *pods], surge="0", unavailable="1")
    assert (found.complete, found.proved, found.smallestSurge, found.smallestProved) == (False, True, 1, True)
    assert {each.kind for each in found.blocked} == {"rule"}
    assert "InterPodAffinity" in found.blocked[0].message


def test_spread_over_hostnames_counts_the_nodes_that_are_there() -> None:
    skew = {"maxSkew": 1, "topologyKey": HOST, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "web"}}}
    pods = [web(i, f"n{i % 3}", cpu="500m", spread=[skew]) for i in range(6)]
    assert find([*nodes(3), *pods[:3]]).complete
    assert find([*nodes(3), *pods[:3]], surge="3").complete
    found = find([*nodes(3), *pods])  # the drained node counts as long as it is there, and has no pod in the end
    assert (found.complete, found.proved) == (False, True)
    assert "PodTopologySpread" in found.blocked[0].message


def test_daemon_sets_and_static_pods_neither_move_nor_block() -> None:
    static = pod("proxy-n0", node_name="n0")
    static["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "x"}
    going = web(1, "n0")
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    over = pod("done", node_name="n0", owner="Job/done")
    over["status"]["phase"] = "Succeeded"
    found = find([*nodes(1), pod("agent-1", node_name="n0", owner="DaemonSet/agent"), static, going, over])
    assert found.complete
    assert found.waves[0].moves == []


def test_notes_say_what_goes_and_what_waits() -> None:
    scratch = web(0, "n0", volumes=[{"name": "scratch", "emptyDir": {}}])
    found = find([*nodes(1), scratch, pod("waits", owner="ReplicaSet/web")])
    assert any("emptyDir or hostPath volumes" in note and "default/web-0" in note for note in found.notes)
    assert any("1 pod has no node (default/waits)" in note for note in found.notes)


def test_pods_that_only_fill_their_own_nodes_are_proved_to_stay() -> None:
    gpu = [node(f"gpu-{i}", cpu="4", labels={"pool": "p", "gpu": "yes"}) for i in range(2)]
    pods = [web(i, f"gpu-{i // 2}", cpu="1500m", selector={"gpu": "yes"}) for i in range(4)]
    snapshot = from_objects([*gpu, *nodes(3), *pods, web(4, "n0", cpu="1")])
    state = PoolState(read_pool(snapshot, UpgradeOptions("pool=p", "1", "0")))
    packing = NodePacking(RunContext.start(Options(deterministic=True)))
    assert [packing.confined(state, n, 0) for n in state.pool.old] == [True, True, False, False, False]
    assert not any(packing.confined(state, n, 1) for n in state.pool.old)


def test_progress_tells_the_nodes_that_are_done() -> None:
    heard: list[Progress] = []
    snapshot = from_objects([*nodes(3), web(0, "n0")])
    upgrade(snapshot, UpgradeOptions("pool=p", options=Options(deterministic=True)), on_progress=heard.append)
    assert [(each.value, each.bound) for each in heard if each.tier == "nodes"] == [(1, 3), (2, 3), (3, 3)]


def test_an_interrupted_search_has_the_waves_so_far() -> None:
    stop = threading.Event()
    snapshot = from_objects([*nodes(4), web(0, "n0")])

    def after_two(event: Progress) -> None:
        if event.value == 2:
            stop.set()

    request = UpgradeOptions("pool=p", options=Options(deterministic=True))
    found = upgrade(snapshot, request, on_progress=after_two, stop=stop)
    assert (found.complete, found.proved, found.blocked, len(found.waves)) == (False, False, [], 2)
    assert any(note.startswith("interrupted") for note in found.notes)
    assert not check_upgrade(snapshot, found).violations


@pytest.mark.parametrize("selector", ["pool=x", "pool==", "a b", ""])
def test_a_pool_of_no_node_is_refused(selector: str) -> None:
    with pytest.raises(InputError, match="--pool"):
        upgrade(from_objects(nodes(1)), UpgradeOptions(selector))


def placed(name: str, at: str, zones: str, cpu: str = "1", **more: Any) -> Object:
    """A pod that may run in some zones only."""
    expression = {"key": ZONE, "operator": "In", "values": list(zones)}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}
    affinity = {"nodeAffinity": required, **more}
    return pod(name, node_name=at, owner=f"ReplicaSet/{name}", labels={"app": name}, cpu=cpu, affinity=affinity)


def zonal(*zones: str) -> list[Object]:
    return [node(f"n-{zone}", cpu="4", labels={"pool": "p", ZONE: zone}) for zone in zones]


def test_nothing_is_proved_where_other_new_nodes_might_have_joined_first() -> None:
    """b and c at once, with their new nodes first, get through: p and q take each other's place."""
    full = [placed(f"full-{zone}", f"n-{zone}", zone, "3") for zone in "abc"]
    found = find([*zonal("a", "b", "c"), *full, placed("r", "n-a", "c"), placed("p", "n-b", "c"), placed("q", "n-c", "b")], "2")
    assert found.complete or not found.proved


def test_nothing_is_proved_where_pods_of_two_nodes_make_way_for_each_other() -> None:
    """x1 goes to the node that stays, then y to zone a, then x2 to zone b: neither node is empty before the other one is begun."""

    def apart(app: str) -> Object:
        term = {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": app}}}
        return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}

    stays = node("m", cpu="4", labels={ZONE: "c"})
    pods = [placed("x1", "n-a", "c", **apart("y")), placed("y", "n-b", "a", **apart("x1")), placed("x2", "n-a", "b", **apart("y"))]
    found = find([*zonal("a", "b"), stays, *pods], "2")
    assert found.complete or not found.proved


@pytest.mark.parametrize("small", [True, False])
def test_pods_that_stay_where_they_would_not_be_accepted_again_take_no_room_of_others(small: bool) -> None:
    """With ``small``, the node that stays has shrunk below its pods' requests; otherwise it has lost the label
    that its pod selects."""
    stays = node("m", cpu="1" if small else "4", labels={ZONE: "a" if small else "c"})
    objects = [*zonal("a"), node("n-b", cpu="4", labels={"pool": "p", ZONE: "a"}), stays]
    objects += [placed("g", "n-a", "a", "2"), placed("h", "m", "a", "4")]
    pool = read_pool(from_objects(objects), UpgradeOptions("pool=p", "1", "0", options=Options(deterministic=True)))
    context = RunContext.start(Options(deterministic=True))
    state = PoolState(pool)
    assert not any(NodePacking(context).confined(state, n, 0) for n in pool.old)
