"""Greedy construction of gangs: hand-written instances, whole or nothing, with nothing left behind by what was tried in vain."""

from __future__ import annotations

import numpy as np

from kubestow.models.cluster.cluster import Cluster
from kubestow.solver import rules
from kubestow.solver.construction.gang_greedy import place_gang
from kubestow.solver.construction.greedy import Guide, _PlacementBuilder, construct
from kubestow.solver.objective.incremental_score import SoftState
from kubestow.solver.objective.preferences import Objective
from kubestow.solver.rules.eligibility import possible
from tests.objects import node, pod
from tests.solver.bind_order.test_gang_units import evenly, member, oracle, verdicts, wants, zones
from tests.solver.rules.test_gang_agreement import Oracle
from tests.tiny import RACK, ZONE


def builder(cluster: Cluster) -> _PlacementBuilder:
    active = rules.build(cluster)
    return _PlacementBuilder(cluster, active, possible(cluster, rules.build(cluster)), Guide(soft=SoftState(Objective(cluster, active))))


def never() -> bool:
    return False


def wanted(cluster: Cluster, k: int) -> list[tuple[int, int]]:
    return [(g, int(cluster.count[g])) for g in cluster.gangs[k].classes]


def placed(case: Oracle) -> dict[str, str]:
    """Node of each pod that greedy places; the checker accepts it."""
    cluster = case.cluster
    built = construct(cluster, rules.build(cluster), possible(cluster, rules.build(cluster)), tries=4)
    assert case.accepts(case.read(built.sequence))
    dealt = [0] * cluster.n_classes
    where: dict[str, str] = {}
    for g, n, k in built.sequence:
        for i in cluster.classes[g].pods[dealt[g] : dealt[g] + k]:
            where[case.snapshot.pods[i].metadata.name or ""] = cluster.nodes.names[n]
        dealt[g] += k
    return where


def test_two_templates_that_want_each_other_are_placed_in_the_one_zone_with_room() -> None:
    pods = [member(f"a{i}", "a", cpu="1500m", affinity=wants("b")) for i in range(3)]
    pods += [member(f"b{i}", "b", cpu="1", affinity=wants("a")) for i in range(3)]
    where = placed(oracle(*zones("z1", "z2", "z2"), *pods))
    assert set(where.values()) == {"n1", "n2"}
    assert len(where) == 6


def test_a_cycle_of_three_templates_is_placed() -> None:
    pods = [member(f"{app}{i}", app, affinity=wants(target)) for app, target in ("ab", "bc", "ca") for i in range(2)]
    assert len(placed(oracle(*zones("z1", "z1", "z2"), *pods))) == 6


def test_a_self_affine_gang_opens_the_zone_that_takes_it_whole() -> None:
    pods = [member(f"a{i}", "a", cpu="1", affinity=wants("a")) for i in range(5)]
    where = placed(
        oracle(node("n0", cpu="4", labels={ZONE: "z1"}), *(node(f"m{i}", cpu="3", labels={ZONE: "z2"}) for i in range(2)), *pods)
    )
    assert set(where.values()) == {"m0", "m1"}


def test_a_required_topology_leaves_the_domain_that_has_room() -> None:
    notes = {"required-topology": RACK}
    nodes = [node(f"n{i}", cpu="2", labels={RACK: f"r{i // 2}"}) for i in range(6)]
    running = [pod("x0", cpu="1", node_name="n0"), pod("x1", cpu="1", node_name="n4")]
    pods = [member(f"a{i}", "a", cpu="1", notes=notes) for i in range(4)]
    where = placed(oracle(*nodes, *running, *pods))
    assert set(where.values()) == {"n2", "n3"}
    assert len(where) == 4
    # Without the topology the same gang is spread over all free nodes.
    assert len(placed(oracle(*nodes, *running, *(member(f"a{i}", "a", cpu="1") for i in range(10))))) == 10
    assert placed(oracle(*nodes, *running, *(member(f"a{i}", "a", cpu="1", notes=notes) for i in range(5)))) == {}


def test_running_members_count_towards_the_minimum_and_say_which_domain() -> None:
    notes = {"min-member": "3", "required-topology": ZONE}
    running = member("a8", "a", notes=notes, node_name="n1")
    pods = [member(f"a{i}", "a", cpu="3", notes=notes) for i in range(4)]
    nodes = zones("z1", "z2", "z2", "z1")
    where = placed(oracle(*nodes, running, *pods))
    assert sorted(where.values()) == ["n1", "n2"]  # two more than the running one, in its zone
    assert placed(oracle(*nodes[:2], nodes[3], running, *pods)) == {}  # one more is not enough


def test_a_gang_that_cannot_be_whole_leaves_nothing_and_the_rest_its_room() -> None:
    gang = [member(f"a{i}", "a", cpu="3", priority=100) for i in range(3)]
    alone = [member(f"b{i}", "b", gang=None, cpu="4") for i in range(2)]
    assert set(placed(oracle(*zones("z1", "z2"), *gang, *alone))) == {"b0", "b1"}


def test_of_two_gangs_the_higher_priority_is_whole() -> None:
    for first, second in (("g", "h"), ("h", "g")):
        pods = [member(f"{name}{i}", name, gang=name, cpu="3", priority=10 if name == first else 0) for name in "gh" for i in range(2)]
        assert set(placed(oracle(*zones("z1", "z2", "z2"), *pods))) == {f"{first}0", f"{first}1"}, second


def test_members_that_are_counted_together_are_placed_evenly() -> None:
    pods = [member(f"{app}{i}", app, spread=evenly("a", "b")) for app in "ab" for i in range(3)]
    where = placed(oracle(*zones("z1", "z2"), *pods))
    assert sorted(where.values()) == ["n0"] * 3 + ["n1"] * 3


def test_a_gang_that_fails_after_many_pods_leaves_no_trace() -> None:
    """Everything fits but the last template; rules, preferences, room and counts are as they were."""
    prefer = {"preferredDuringSchedulingIgnoredDuringExecution": [
        {"weight": 7, "podAffinityTerm": {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "b"}}}}]}  # fmt: skip
    for both in (wants("b"), {}):
        affinity = {"podAffinity": {**both.get("podAffinity", {}), **prefer}}
        pods = [member(f"a{i}", "a", affinity=affinity, spread=evenly("a", key=RACK)) for i in range(3)]
        pods += [member("b0", "b", affinity=wants("a") if both else None), member("c0", "c", cpu="2"), member("d0", "d", cpu="3")]
        pods += [member(f"d{i}", "d", cpu="3") for i in range(1, 4)]
        case = oracle(*zones("z1", "z1", "z2", "z2"), pod("x", cpu="1500m", node_name="n3"), *pods)
        cluster = case.cluster
        site = builder(cluster)
        assert site.soft is not None
        before = verdicts(case, site.active)
        gains = [site.soft.gain(g).tolist() for g in range(cluster.n_classes)]
        free, residual = site.fit.free.copy(), site.residual.copy()
        assert place_gang(site, 0, wanted(cluster, 0), never) == wanted(cluster, 0)
        assert not site.counts.any()
        assert site.sequence == []
        assert site.only is None
        assert verdicts(case, site.active) == before
        assert [site.soft.gain(g).tolist() for g in range(cluster.n_classes)] == gains
        assert (site.fit.free == free).all()
        assert np.allclose(site.residual, residual)


def test_what_is_left_of_a_gang_with_a_minimum_is_told() -> None:
    notes = {"min-member": "2"}
    case = oracle(*zones("z1", "z2"), *(member(f"a{i}", "a", cpu="3", notes=notes) for i in range(4)))
    site = builder(case.cluster)
    assert place_gang(site, 0, [(0, 4)], never) == [(0, 2)]
    assert int(site.counts.sum()) == 2


def test_a_gang_with_a_minimum_goes_where_most_of_it_has_room() -> None:
    notes = {"min-member": "1", "required-topology": ZONE}
    pods = [member(f"a{i}", "a", cpu="3", notes=notes) for i in range(3)]
    where = placed(oracle(*zones("z1", "z2", "z2", "z3"), *pods))
    assert sorted(where.values()) == ["n1", "n2"]


def test_members_come_to_a_gang_that_is_whole_already() -> None:
    """The minimum counts what was placed before."""
    case = oracle(*zones("z1", "z2"), *(member(f"a{i}", "a", cpu="3", notes={"min-member": "2"}) for i in range(3)))
    site = builder(case.cluster)
    assert place_gang(site, 0, [(0, 1)], never) == [(0, 1)]
    assert place_gang(site, 0, [(0, 2)], never) == []
    site.undo(1)
    assert place_gang(site, 0, [(0, 1)], never) == []
