"""The tier `topologySpread`: within maxSkew, too, the domain with fewer pods is better, before the nodes are filled evenly."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from kubestow.checker.placement import verify
from kubestow.models.documents.placement import Placement, TierResult
from kubestow.models.documents.policy import DEFAULT
from kubestow.models.snapshot.snapshot import Snapshot, from_objects
from kubestow.solver.objective.domain_evenness import _least_cost
from kubestow.solver.runtime.options import Engine, Options
from kubestow.solver.solve import place
from tests.objects import Object, node, pod

ZONE = "topology.kubernetes.io/zone"
ENGINES = ("auto", "greedy", "exact", "lns")


def spreading(name: str, *, skew: int = 5, key: str = ZONE, **more: Any) -> Object:
    """A pod of app web that would rather be apart from its kind."""
    result = pod(name, labels={"app": "web"}, **more)
    result["spec"]["topologySpreadConstraints"] = [
        {"maxSkew": skew, "topologyKey": key, "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": {"matchLabels": {"app": "web"}}}
    ]
    return result


def zones(*sizes: str) -> list[Object]:
    """A node in a zone of its own for each amount of CPU."""
    return [node(f"n{i}", labels={ZONE: f"z{i}"}, cpu=cpu, memory=f"{2 * int(cpu)}Gi") for i, cpu in enumerate(sizes)]


def solved(snapshot: Snapshot, engine: Engine = "auto", **options: Any) -> Placement:
    placement = place(snapshot, Options(engine=engine, time_limit=5, workers=1, **options))
    assert verify(snapshot, placement) == []
    return placement


def tier(placement: Placement) -> TierResult | None:
    return next((tier for tier in placement.objective if tier.tier == "topologySpread"), None)


@pytest.mark.parametrize("engine", ENGINES)
def test_within_max_skew_the_emptier_domain_is_better(engine: Engine) -> None:
    """The large node would stay the less used one, and still it is the zone without pods that gets the next."""
    running = [spreading(f"r{i}", node_name="n0", cpu="1") for i in range(2)]
    placement = solved(from_objects([*zones("64", "4"), *running, spreading("p", cpu="1")]), engine)
    assert [entry.node for entry in placement.assignments] == ["n1"]
    assert tier(placement) == TierResult("topologySpread", -1, -1)


@pytest.mark.parametrize("engine", ENGINES)
def test_what_is_beyond_max_skew_still_counts_first(engine: Engine) -> None:
    """Six of nine pods fit only into the first zone: four points of a hundred are lost, and the other zones share the rest evenly."""
    placement = solved(from_objects([*zones("32", "2", "2"), *(spreading(f"p{i}", skew=1, cpu="1") for i in range(9))]), engine)
    assert sorted(entry.node for entry in placement.assignments) == ["n0"] * 5 + ["n1"] * 2 + ["n2"] * 2
    soft = next(tier for tier in placement.objective if tier.tier == "soft")
    assert (soft.value, tier(placement)) == (-200, TierResult("topologySpread", -(25 + 4 + 4), -(25 + 4 + 4)))


@pytest.mark.parametrize("engine", ENGINES)
def test_other_preferences_come_first(engine: Engine) -> None:
    """A single point of node affinity keeps all three pods in the fuller zone."""
    pods = [spreading(f"p{i}", cpu="1") for i in range(3)]
    for each in pods:
        term = {"weight": 1, "preference": {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["z0"]}]}}
        each["spec"]["affinity"] = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}
    placement = solved(from_objects([*zones("8", "8"), *pods]), engine)
    assert {entry.node for entry in placement.assignments} == {"n0"}
    assert placement.status == "optimal"


@pytest.mark.parametrize("engine", ENGINES)
def test_among_equal_domains_nodes_are_filled_evenly(engine: Engine) -> None:
    """Two zones of two nodes: a pod on each, by zones that differ in the tie-break alone."""
    nodes = [node(f"n{i}", labels={ZONE: f"z{i // 2}"}) for i in range(4)]
    placement = solved(from_objects([*nodes, *(spreading(f"p{i}", cpu="1") for i in range(4))]), engine, search_strategy=True)
    assert len({entry.node for entry in placement.assignments}) == 4


def test_two_constraints_of_a_pod_add_up() -> None:
    """By hosts and zones: where the zones are even, hosts are."""
    pods = [spreading(f"p{i}", cpu="100m") for i in range(8)]
    for each in pods:
        each["spec"]["topologySpreadConstraints"] += spreading("x", key="kubernetes.io/hostname")["spec"]["topologySpreadConstraints"]
    hosts = [node(f"n{i}", labels={ZONE: f"z{i // 2}", "kubernetes.io/hostname": f"n{i}"}, cpu="64" if i == 1 else "4") for i in range(4)]
    placement = solved(from_objects([*hosts, *pods]))
    assert np.unique([entry.node for entry in placement.assignments], return_counts=True)[1].tolist() == [2] * 4
    assert tier(placement) == TierResult("topologySpread", -(2 * 16 + 4 * 4), -(2 * 16 + 4 * 4))


@pytest.mark.parametrize(
    "policy", [replace(DEFAULT, strategy="pack"), replace(DEFAULT, multipliers=replace(DEFAULT.multipliers, topologySpread=0))]
)
def test_few_nodes_and_switched_off_constraints_do_without(policy: Any) -> None:
    """Under `pack` pods share a node as far as maxSkew allows, and what counts nothing counts nothing within maxSkew."""
    placement = solved(from_objects([*zones("8", "8"), *(spreading(f"p{i}", cpu="1") for i in range(3))]), policy=policy)
    assert tier(placement) is None
    if policy.strategy == "pack":
        assert len({entry.node for entry in placement.assignments}) == 1


def test_it_is_absent_without_soft_constraints() -> None:
    assert tier(solved(from_objects([*zones("4"), pod("p")]))) is None


def test_what_the_document_says_is_checked() -> None:
    snapshot = from_objects([*zones("8", "8"), *(spreading(f"p{i}") for i in range(4))])
    placement = solved(snapshot)
    (claim,) = (t for t in placement.objective if t.tier == "topologySpread")
    claim.value = claim.bound = -4
    assert [fault.why for fault in verify(snapshot, placement)] == ["tier topologySpread: the value is -4, the placement is worth -8"]
    claim.value, claim.bound = -8, 0
    assert verify(snapshot, placement) == []  # nobody asked for its proof: the status stays optimal
    plain = from_objects([*zones("8"), pod("p")])
    other = solved(plain)
    other.objective.insert(1, TierResult("topologySpread", 0, 0))
    assert [fault.why for fault in verify(plain, other)] == [
        "tier topologySpread: no ScheduleAnyway constraint of a pod to be placed counts here"
    ]


def test_the_bound_pours_evenly() -> None:
    """Against every way to share out a few pods."""
    rng = np.random.default_rng(0)
    for _ in range(200):
        base, room, pods = rng.integers(0, 5, 3), rng.integers(0, 4, 3), int(rng.integers(0, 7))
        ways = [np.array(w) for w in itertools.product(*(range(int(r) + 1) for r in room)) if sum(w) == min(pods, int(room.sum()))]
        assert _least_cost(base, room, pods) == min(int((w * (w + 2 * base)).sum()) for w in ways)
