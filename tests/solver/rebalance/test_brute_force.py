"""Plans of tiny clusters against brute force; and the brute force against the checker of placements and instances with known answers."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

from kubestow.checker.placement import Judge
from kubestow.models.documents.rebalance_plan import Limits
from kubestow.models.kube.objects import pod_key
from kubestow.models.snapshot.snapshot import from_objects
from kubestow.solver.runtime.options import Options
from tests.objects import node, pod
from tests.plans import tiny
from tests.plans.brute import Best, Brute, Step, Tier, TooLarge, best
from tests.plans.carried_out import carried_out
from tests.plans.cluster import TinyCluster
from tests.tiers import sampled, thinned

Object = dict[str, Any]
RS = "ReplicaSet/web"


def _running(name: str, where: str, **rest: Any) -> Object:
    return pod(name, node_name=where, **{"owner": RS, **rest})


def _replicas(count: int) -> Object:
    return {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "web", "namespace": "default"}, "spec": {"replicas": count}}


def _budget(**spec: Any) -> Object:
    selector = {"matchLabels": {"app": "web"}}
    return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "guard", "namespace": "default"},
            "spec": {"selector": selector, **spec}}  # fmt: skip


# --- the brute force itself -------------------------------------------------------------------------------------------------------------


@pytest.mark.full
@pytest.mark.parametrize("kind", tiny.KINDS)
def test_the_world_of_the_brute_force_judges_as_the_checker(kind: str) -> None:
    refused = 0
    for seed in range(40):
        rng, objects = random.Random(seed), tiny.cluster(seed, kind)
        if seed % 2:  # anywhere, and those that wait as well
            names = [thing["metadata"]["name"] for thing in objects if thing["kind"] == "Node"]
            objects = [{**o, "spec": {**o["spec"], "nodeName": rng.choice(names)}} if o["kind"] == "Pod" else o for o in objects]
        world, snapshot = TinyCluster(objects), from_objects(objects)
        for subject in snapshot.pods:
            judge = Judge(snapshot, [subject], free=[pod_key(subject)])
            for n, name in enumerate(world.names):
                found = {rule for rule, _ in judge.faults(subject, name)}
                assert found == world.rejecting(world.index[pod_key(subject)], n, world.start), (seed, pod_key(subject), name)
                refused += bool(found)
    assert refused > 100


def _swap(spare: bool) -> list[Object]:
    """Two pods, each on the node that only the other one accepts, and a third node if there is a spare place."""
    nodes = [node("n1", cpu="1", labels={"disk": "ssd"}), node("n2", cpu="1", labels={"disk": "hdd"})]
    if spare:
        nodes.append(node("n3", cpu="1", labels={"disk": "both"}))
    wants = [{"key": "disk", "operator": "In", "values": ["ssd", "both"]}], [{"key": "disk", "operator": "In", "values": ["hdd", "both"]}]
    affinities = [
        {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": e}]}}}
        for e in wants
    ]
    return [*nodes, _running("p1", "n2", cpu="1", affinity=affinities[0]), _running("p2", "n1", cpu="1", affinity=affinities[1])]


def test_a_swap_needs_a_spare_place() -> None:
    assert best(_swap(False), ["repair"]).tiers == (("rules", None, -2),)
    found = best(_swap(True), ["repair"])
    assert (found.tiers, found.moves) == ((("rules", None, 0),), 2)  # one to the spare place for good, the other where that was


def test_a_swap_with_a_spare_place_that_is_no_home_takes_three_moves() -> None:
    objects = _swap(True)
    objects[2]["spec"]["taints"] = [{"key": "k", "value": "v", "effect": "PreferNoSchedule"}]
    found = best(objects, ["repair"], ["n3"])  # nothing may land there: it is to be drained
    assert (found.tiers, found.moves) == ((("drained", None, 0), ("rules", None, -2)), 0)


def test_a_budget_without_disruptions_keeps_everything() -> None:
    objects = [node("n1"), node("n2"), _replicas(1), _running("p", "n1", labels={"app": "web"})]
    assert best(objects, [], ["n1"]).steps == (Step("default/p", "n1", "n2"),)
    for spec, remaining in (
        ({"minAvailable": 1}, -1),
        ({"maxUnavailable": 0}, -1),
        ({"maxUnavailable": "50%"}, 0),
        ({"minAvailable": "1%"}, -1),
    ):
        found = best([*objects, _budget(**spec)], [], ["n1"])
        assert (found.tiers, found.moves) == ((("drained", None, remaining),), -remaining ^ 1), spec


def test_a_drain_that_cannot_succeed_takes_what_fits() -> None:
    objects = [node("n1"), node("n2", cpu="1"), *(_running(f"p{i}", "n1", cpu="600m") for i in range(3))]
    found = best(objects, [], ["n1"])
    assert (found.tiers, found.moves) == ((("drained", None, -2),), 1)
    gone = best(objects, [], ["n1"], allow_eviction=True)
    assert (gone.tiers, gone.evictions, gone.moves) == ((("drained", None, 0), ("evictions", 0, -2)), 2, 1)


def test_budgets_limit_evictions_for_good_and_single_moves_only_one_by_one() -> None:
    objects = [node("n1"), node("n2"), _replicas(3), _budget(maxUnavailable=1)]
    objects += [_running(f"p{i}", "n1", labels={"app": "web"}) for i in range(3)]
    assert best(objects, [], ["n1"]).moves == 3  # one after the other
    objects[1] = node("n2", pods="0")
    found = best(objects, [], ["n1"], allow_eviction=True)
    assert (found.tiers, found.evictions) == ((("drained", None, -2), ("evictions", 0, -1)), 1)


def test_evictions_weigh_less_than_drain_and_more_than_consolidation() -> None:
    """One pod has to go for good; the other one moves, though its going, too, would free another node."""
    objects = [node("n1", cpu="1"), node("n2", cpu="1"), *(_running(f"p{i}", "n1", cpu="500m") for i in range(2)), pod("stays", cpu="500m")]
    objects[-1]["spec"]["nodeName"] = "n2"
    found = best(objects, ["consolidate"], ["n1"], allow_eviction=True)
    assert found.tiers == (("drained", None, 0), ("evictions", 0, -1), ("freed", None, 1))
    objects.pop()
    found = best(objects, ["consolidate"], ["n1"], allow_eviction=True)
    assert found.tiers == (("drained", None, 0), ("evictions", 0, 0), ("freed", None, 1))


def test_nobody_goes_for_pods_that_do_not_preempt() -> None:
    objects = [node("n1", cpu="1"), _running("p", "n1", cpu="1"), pod("new", cpu="1", priority=9)]
    assert best(objects, ["admit"], allow_eviction=True).evictions == 1
    objects[-1]["spec"]["preemptionPolicy"] = "Never"
    assert best(objects, ["admit"], allow_eviction=True).tiers == (("placed", 9, 0),)


def test_a_pod_that_goes_without_its_budget_moves_once() -> None:
    """Pods change places through a spare node, which only one of them may be on, and which is to be free again."""
    objects = _swap(True)
    objects[1]["metadata"]["annotations"] = {"karpenter.sh/do-not-disrupt": "true"}
    objects[2]["metadata"]["labels"]["disk"] = "hdd"
    found = best(objects, ["repair", "consolidate"])
    assert (found.tiers, found.moves) == ((("rules", None, 0), ("freed", None, 1)), 3)
    objects[4]["metadata"]["labels"] = {"app": "web"}
    for ready, tiers, moves in (("True", 1, 3), ("False", 0, 2)):
        objects[4]["status"]["conditions"] = [{"type": "Ready", "status": ready}]
        found = best([*objects, _budget(minAvailable=0, unhealthyPodEvictionPolicy="AlwaysAllow")], ["repair", "consolidate"])
        assert (found.tiers, found.moves) == ((("rules", None, 0), ("freed", None, tiers)), moves)


@pytest.mark.full
def test_room_is_made_by_the_fewest_moves_or_by_evictions_of_less_priority() -> None:
    nodes = [node(f"n{i}", cpu="2") for i in range(3)]
    running = [_running(f"p{i}", f"n{i}", cpu="1") for i in range(3)]
    found = best([*nodes, *running, pod("new", cpu="2", priority=5)], ["admit"])
    assert (found.tiers, found.moves, len(found.steps)) == ((("placed", 5, 1),), 1, 2)
    full = [*nodes, *running, *(_running(f"q{i}", f"n{i}", cpu="1", priority=7) for i in range(3)), pod("new", cpu="2", priority=0)]
    assert best(full, ["admit"], allow_eviction=True).tiers == (("placed", 0, 0),)
    full[-1] = pod("new", cpu="2", priority=9)
    found = best(full, ["admit"], allow_eviction=True)
    assert found.tiers == (("placed", 9, 1), ("evictions", 7, 0), ("evictions", 0, -2))
    assert (found.evictions, found.moves) == (2, 1)


def test_consolidation_frees_nodes_but_those_that_are_kept() -> None:
    objects = [node(f"n{i}", cpu="2") for i in range(3)]
    objects += [_running(f"p{i}", f"n{i}", cpu="600m") for i in range(3)]
    assert (best(objects, ["consolidate"]).tiers, best(objects, ["consolidate"]).moves) == ((("freed", None, 2),), 2)
    objects[0]["metadata"]["annotations"] = {"karpenter.sh/do-not-disrupt": "true"}
    objects[1]["metadata"]["labels"]["node-role.kubernetes.io/control-plane"] = ""
    found = best(objects, ["consolidate"])
    assert (found.tiers, found.moves) == ((("freed", None, 1),), 1)


def test_a_gang_comes_whole_or_not_at_all() -> None:
    notes = {"kubestow.dev/gang": "default/g"}
    gang = [pod(f"g{i}", cpu="1") for i in range(2)]
    for member in gang:
        member["metadata"]["annotations"] = notes
    assert best([node("n1", cpu="1"), *gang], ["admit"]).tiers == (("placed", 0, 0),)
    assert best([node("n1", cpu="1"), node("n2", cpu="1"), *gang], ["admit"]).tiers == (("placed", 0, 2),)


def test_more_states_than_asked_for_are_an_error() -> None:
    with pytest.raises(TooLarge):
        Brute([node("n1"), node("n2"), *(_running(f"p{i}", "n1", cpu=f"{i + 1}m") for i in range(4))], ["consolidate"]).best(most_states=4)


# --- plans against it -------------------------------------------------------------------------------------------------------------------


def _told(tiers: Sequence[Tier]) -> dict[tuple[str, int | None], int]:
    return {(name, priority): value for name, priority, value in tiers if value}


def compare(seed: int, kind: str, *, resized: bool = False) -> Best:
    """Assert that the plan of a random cluster is as good as the best one, valid, and the last of its kind; return the best one.

    ``resized``: pods hold other than they ask for, so that nodes are fuller after a move, and a second plan may be worth something.
    """
    objects = tiny.resized(tiny.cluster(seed, kind), seed) if resized else tiny.cluster(seed, kind)
    goals, drain, limits = tiny.plan_options(seed, kind)
    return agree(objects, goals, drain, limits, proved=not resized)


def agree(objects: list[Object], goals: Sequence[str], drain: Sequence[str], limits: Limits, *, proved: bool = True) -> Best:
    """Assert that the plan of a cluster is as good as the best one, and valid; return the best one. ``proved``: assert that it is proved
    best, and that a second plan moves nothing."""
    from kubestow.checker.plan.plan import verify_plan
    from kubestow.solver.rebalance.problem.options import PlanOptions
    from kubestow.solver.rebalance.rebalance import rebalance

    snapshot, options = from_objects(objects), Options(time_limit=20.0, workers=1)
    plan = rebalance(snapshot, PlanOptions(tuple(goals), tuple(drain), limits, options))
    assert verify_plan(snapshot, plan) == []
    known = best(objects, goals, drain, allow_eviction=limits.allowEviction, limits=limits)
    moves = [move for move in plan.moves if move.source is not None]
    values = [(t.tier, t.priority, t.value) for t in plan.objective]
    wanted = _told([*known.tiers, ("moves", None, -known.moves)])
    assert _told(values) == wanted, (_told(values), wanted, goals, drain, limits, known.steps)
    assert list(_told(values)) == list(wanted), "order of the tiers"
    assert (len(moves), len(plan.evictions), len(plan.moves) - len(moves)) == (
        known.moves, known.evictions, len(known.steps) - known.moves - known.evictions,
    )  # fmt: skip
    assert plan.status == "optimal" or not proved, plan.objective  # counts do not distinguish pods that may stay or return
    if proved and not plan.evictions and plan.limits == Limits(allowEviction=limits.allowEviction, alsoMove=limits.alsoMove):
        again = rebalance(from_objects(carried_out(objects, plan)), PlanOptions(tuple(goals), tuple(drain), limits, options))
        assert not again.moves, "a second plan"
    return known


#: Clusters per kind: in CI, and of the longer run.
FEW, MANY = 40, 500


@pytest.mark.parametrize("kind", tiny.KINDS)
def test_plans_of_a_few_clusters_are_as_good_as_brute_force(kind: str) -> None:
    for seed in range(2):
        compare(seed, kind)


@pytest.mark.full
@pytest.mark.parametrize("block", thinned(range(FEW // 10), 2))
@pytest.mark.parametrize("kind", tiny.KINDS)
def test_plans_are_as_good_as_brute_force(kind: str, block: int) -> None:
    for seed in range(10 * block, 10 * block + 10):
        compare(seed, kind)


@pytest.mark.parametrize("kind", sampled(tiny.KINDS, every=3))
def test_plans_beside_resizes_that_wait_are_as_good_as_brute_force(kind: str) -> None:
    for seed in range(12):
        compare(seed, kind, resized=True)


@pytest.mark.full
@pytest.mark.parametrize("kind", tiny.KINDS)
def test_the_clusters_of_this_comparison_need_moves(kind: str) -> None:
    found = []
    for seed in range(FEW):
        goals, drain, limits = tiny.plan_options(seed, kind)
        found.append(best(tiny.cluster(seed, kind), goals, drain, allow_eviction=limits.allowEviction, limits=limits))
    assert sum(bool(each.moves) for each in found) >= FEW // 8
    assert sum(each.moves > 1 for each in found) >= FEW // 20


@pytest.mark.slow
@pytest.mark.parametrize("block", range(MANY // 50))
@pytest.mark.parametrize("kind", tiny.KINDS)
def test_plans_are_as_good_as_brute_force_on_many_clusters(kind: str, block: int) -> None:
    for seed in range(1000 + 50 * block, 1000 + 50 * block + 50):
        compare(seed, kind)
