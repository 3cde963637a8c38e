"""The cheapest purchase equals that of brute force, with every rule, mode and limit of the catalogue."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kubestow.models.catalogue.catalogue import Catalogue, of_shapes, read
from kubestow.models.catalogue.money import MILLIONTHS_PER_UNIT
from kubestow.models.documents.catalogue import Shape
from kubestow.models.documents.sizing import Sizing
from kubestow.models.snapshot.snapshot import from_objects
from kubestow.solver.capacity.size.options import SizeOptions
from kubestow.solver.capacity.size.size import size
from kubestow.solver.capacity.survive.options import SurviveOptions
from kubestow.solver.runtime.options import Options
from tests.instances.planted.planted_sizing import planted_sizing
from tests.objects import node, pod
from tests.solver.capacity.size import tiny
from tests.tiers import in_slow

OPTIONS = Options(time_limit=30.0, workers=1)
SHAPES = (
    Shape("small", {"cpu": "4", "memory": "8Gi", "pods": 10}, ("z1", "z2"), 1),
    Shape("large", {"cpu": "8", "memory": "16Gi", "pods": 20}, ("z1", "z2"), "1.9"),
)


def offered(*shapes: Shape, most_spot: int = 100) -> Catalogue:
    problems: list[str] = []
    found = Catalogue(of_shapes(shapes or SHAPES, problems), most_spot)
    assert not problems
    return found


def sized(objects: list[dict[str, Any]], catalogue: Catalogue | None = None, request: SizeOptions | None = None, **options: Any) -> Sizing:
    chosen = Options(**{"time_limit": 30.0, "workers": 1, **options})
    return size(from_objects(objects), catalogue or offered(), request or SizeOptions(), chosen)


def bought(sizing: Sizing) -> dict[str, int]:
    counts: dict[str, int] = {}
    for purchase in sizing.buy:
        counts[purchase.shape] = counts.get(purchase.shape, 0) + purchase.count
    return counts


def agree(kind: str, seed: int) -> None:
    snapshot, catalogue, request = tiny.question(seed, kind)
    found = size(snapshot, catalogue, request, OPTIONS)
    assert found.status in ("optimal", "infeasible"), "tiny questions are decided"
    best = tiny.brute(snapshot, catalogue, request, OPTIONS, max_nodes=5)
    got = None if found.status == "infeasible" else (round(found.cost.value * MILLIONTHS_PER_UNIT), found.nodes.value)
    assert got == best, f"{kind} {seed}: {request}"


@pytest.mark.parametrize("kind", tiny.KINDS)
@pytest.mark.parametrize("seed", range(3))
def test_as_cheap_as_the_cheapest_of_all_purchases(kind: str, seed: int) -> None:
    agree(kind, seed)


@pytest.mark.slow
@pytest.mark.parametrize("kind", tiny.KINDS)
@pytest.mark.parametrize("tens", range(4))
def test_as_cheap_as_the_cheapest_of_all_purchases_on_320_questions(kind: str, tens: int) -> None:
    for seed in range(10 * tens, 10 * tens + 10):
        agree(kind, seed)


def test_nothing_is_bought_where_nothing_waits_or_there_is_room() -> None:
    found = sized([node("n", cpu="4"), pod("p", cpu="1")])
    assert (found.status, found.buy, found.cost.value, found.nodes.value) == ("optimal", [], 0.0, 0)
    assert found.placement is not None
    assert [entry.node for entry in found.placement.assignments] == ["n"]
    assert sized([node("n")]).status == "optimal"


def test_a_snapshot_without_nodes_is_welcome() -> None:
    found = sized([pod(f"p{i}", cpu="1") for i in range(8)])
    assert (found.status, bought(found), found.cost.value, found.cost.bound) == ("optimal", {"large": 1}, 1.9, 1.9)


def test_of_two_purchases_that_cost_the_same_the_one_of_fewer_nodes() -> None:
    shapes = (SHAPES[0], Shape("large", {"cpu": "8", "memory": "16Gi", "pods": 20}, ("z1",), 2))
    found = sized([pod(f"p{i}", cpu="1") for i in range(8)], offered(*shapes))
    assert (bought(found), found.nodes.value, found.nodes.bound) == ({"large": 1}, 1, 1)


def test_zones_that_no_rule_reads_are_taken_in_turn() -> None:
    found = sized([pod(f"p{i}", cpu="4") for i in range(4)], offered(SHAPES[0]))
    assert [(p.zone, p.count) for p in found.buy] == [("z1", 2), ("z2", 2)]


def _spread_web(i: int) -> dict[str, Any]:
    constraint = {
        "maxSkew": 1,
        "topologyKey": tiny.ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    return pod(f"web-{i}", cpu="3", labels={"app": "web"}, spread=[constraint])


def test_of_purchases_that_cost_the_same_one_is_even_over_all_zones_of_the_catalogue() -> None:
    found = sized([_spread_web(i) for i in range(4)], offered(SHAPES[0]))
    assert {purchase.zone: purchase.count for purchase in found.buy} == {"z1": 2, "z2": 2}


def test_a_zone_that_costs_more_is_left_out_with_a_note() -> None:
    """The scheduler counts no zone without nodes, so this is the cheapest; what happens later is said."""
    dear = Shape("small", {"cpu": "4", "memory": "8Gi", "pods": 10}, ("z1", "z2"), {"z1": 1, "z2": 3})
    found = sized([_spread_web(i) for i in range(4)], offered(dear))
    assert found.status == "optimal"
    assert {purchase.zone: purchase.count for purchase in found.buy} == {"z1": 4}
    assert any("is even over all domains of the catalogue" in note for note in found.notes)


def test_where_nothing_can_be_bought_for_all_the_cause_is_said() -> None:
    closed = node("a1", labels={tiny.ZONE: "z3"}, taints=[{"key": "other", "effect": "NoSchedule"}])
    found = sized([closed, *(_spread_web(i) for i in range(4))], offered(SHAPES[0]))
    assert found.status == "infeasible"
    assert {fact.rule for cause in found.causes for fact in cause.facts} == {"PodTopologySpread", "TaintToleration"}
    assert any("the causes are those with 4 nodes of each offer" in note for note in found.notes)


def test_limits_of_the_catalogue_are_named_where_they_leave_no_way() -> None:
    few = Shape("small", {"cpu": "4", "memory": "8Gi", "pods": 10}, ("z1",), 1, most=1)
    found = sized([pod(f"p{i}", cpu="3") for i in range(2)], offered(few))
    assert found.status == "infeasible"
    assert any("the limits of the catalogue or the options" in note for note in found.notes)


def test_the_node_itself_costs_what_licences_cost_besides() -> None:
    licensed = Shape("large", {"cpu": "8", "memory": "16Gi", "pods": 20}, ("z1",), "1.9", fixedPrice="0.2")
    found = sized([pod(f"p{i}", cpu="1") for i in range(8)], offered(SHAPES[0], licensed))
    assert (bought(found), found.cost.value) == ({"small": 2}, 2.0)


@pytest.mark.parametrize(("kinds", "cost"), [(None, 2.9), (1, 3.0)])
def test_at_most_so_many_shapes(kinds: int | None, cost: float) -> None:
    found = sized([pod(f"p{i}", cpu="1") for i in range(12)], request=SizeOptions(kinds=kinds))
    assert (found.status, found.cost.value) == ("optimal", cost)


def test_quotas_and_the_share_of_spot_nodes_hold() -> None:
    cheap = Shape("cheap", {"cpu": "4", "memory": "8Gi", "pods": 10}, ("z1",), "0.1", spot=True)
    pods = [pod(f"p{i}", cpu="4") for i in range(4)]
    assert bought(sized(pods, offered(SHAPES[0], cheap))) == {"cheap": 4}
    assert bought(sized(pods, offered(SHAPES[0], cheap, most_spot=50))) == {"small": 2, "cheap": 2}
    large = Shape("large", {"cpu": "8", "memory": "16Gi", "pods": 20}, ("z1",), "1.9")
    assert bought(sized(pods, offered(SHAPES[0], large, cheap, most_spot=50))) == {"large": 1, "cheap": 2}
    few = Shape("cheap", {"cpu": "4", "memory": "8Gi", "pods": 10}, ("z1",), "0.1", most=1)
    assert bought(sized(pods, offered(SHAPES[0], few))) == {"small": 3, "cheap": 1}


def test_nodes_without_pods_outweigh_spot_ones_where_nothing_else_takes_the_pods() -> None:
    only = Shape("only", {"cpu": "4", "memory": "8Gi", "pods": 10}, ("z1",), "0.1", spot=True, labels={"gpu": "yes"})
    found = sized([pod("p", cpu="4", selector={"gpu": "yes"})], offered(SHAPES[0], only, most_spot=10))
    assert (found.status, bought(found)) == ("optimal", {"small": 9, "only": 1})


def test_pods_that_fit_no_shape_are_named_with_a_cause() -> None:
    found = sized([pod("huge", cpu="9"), pod("fits")])
    assert (found.status, found.placement, found.buy) == ("infeasible", None, [])
    assert [cause.pods for cause in found.causes] == [["default/huge"]]
    assert [misfit.pods for misfit in found.misfits] == [["default/huge"]]


def test_bare_pods_of_nodes_that_go_are_housed() -> None:
    old = node("old", cpu="8", labels={"pool": "a"})
    objects = [old, pod("bare", cpu="3", node_name="old"), pod("rs", cpu="3", node_name="old", owner="ReplicaSet/x")]
    found = sized(objects, request=SizeOptions("replace", "pool=a", ("old",)))
    assert (found.status, bought(found), found.removed) == ("optimal", {"large": 1}, ["old"])
    assert found.placement is not None
    assert {entry.pod for entry in found.placement.assignments} == {"default/bare", "default/rs"}


def test_from_scratch_the_control_plane_stays_with_what_is_pinned_to_it() -> None:
    control = node("control", cpu="4", labels={"node-role.kubernetes.io/control-plane": ""})
    control["spec"]["taints"] = [{"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}]
    objects = [control, pod("etcd", cpu="1", node_name="control"), node("w", cpu="64")]
    objects += [pod(f"p{i}", cpu="1", node_name="w", owner="ReplicaSet/x") for i in range(4)]
    found = sized(objects, request=SizeOptions("from-scratch"))
    assert (found.status, bought(found), found.removed) == ("optimal", {"small": 1}, ["w"])
    assert found.placement is not None
    assert len(found.placement.assignments) == 4


@pytest.mark.parametrize(("fail", "cost"), [("node", 3.0), ("zone", 3.8)])
def test_what_is_bought_survives_failures(fail: str, cost: float) -> None:
    objects = [pod(f"p{i}", cpu="1", memory="1Gi", owner="ReplicaSet/x") for i in range(8)]
    found = sized(objects, request=SizeOptions(survive=SurviveOptions(fail)))
    assert (found.status, found.cost.value, found.cost.bound) == ("optimal", cost, cost)
    assert found.survival is not None
    assert found.survival.certified


def test_deterministic_runs_are_the_same() -> None:
    objects = [pod(f"p{i}", cpu=f"{300 + 37 * (i % 9)}m", memory=f"{500 + 91 * (i % 7)}Mi") for i in range(60)]
    first, second = (sized(objects, deterministic=True, time_limit=0.5) for _ in range(2))
    assert first == second


def test_a_stop_gives_what_is_certain() -> None:
    stop = threading.Event()
    stop.set()
    found = size(from_objects([pod(f"p{i}", cpu="1") for i in range(60)]), offered(), SizeOptions(), OPTIONS, stop=stop)
    assert found.status in ("unknown", "feasible")
    assert found.cost.bound <= 14.5


@pytest.mark.full
@pytest.mark.parametrize(("nodes", "pods", "seconds"), [(8, 100, 3.0), in_slow((20, 300, 10.0))])
def test_near_a_purchase_that_is_known_to_do_and_never_below_its_bound(tmp_path: Path, nodes: int, pods: int, seconds: float) -> None:
    planted = planted_sizing(1, nodes, pods)
    file = tmp_path / "catalogue.json"
    file.write_bytes(msgspec.json.encode(planted.catalogue))
    found = sized(planted.objects, read(str(file)), time_limit=seconds, deterministic=True)
    assert found.placement is not None
    assert not found.placement.unplaced
    assert (
        round(found.cost.bound * MILLIONTHS_PER_UNIT) <= planted.cost <= round(found.cost.value * MILLIONTHS_PER_UNIT) <= planted.cost * 1.1
    )
