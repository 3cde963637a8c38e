"""Remedies: the cheapest nodes with which all failures are survived, by hand and against all cheaper purchases."""

from __future__ import annotations

import threading
from itertools import product
from random import Random
from typing import Any

import pytest

from kubestow.models.catalogue.catalogue import Catalogue
from kubestow.models.documents.catalogue import Shape
from kubestow.models.documents.placement import Edits
from kubestow.models.documents.survival import Survival
from kubestow.models.edits.edits import apply
from kubestow.models.snapshot.snapshot import from_objects
from kubestow.solver.capacity.survive.answer import Wishes, answer
from kubestow.solver.capacity.survive.options import ZONE_KEY, SurviveOptions
from kubestow.solver.capacity.survive.survive import survive
from kubestow.solver.runtime.options import Options
from tests.objects import Object, node, pod

OPTIONS = Options(time_limit=30, workers=1, causes=False)


def zoned(*cpus: str) -> list[Object]:
    return [node(f"n{i}", cpu=cpu, labels={ZONE_KEY: "abc"[i]}) for i, cpu in enumerate(cpus)]


def web(*homes: str, **fields: Any) -> list[Object]:
    return [pod(f"web-{i}", node_name=home, owner="ReplicaSet/web", labels={"app": "web"}, **fields) for i, home in enumerate(homes)]


def shape(name: str, price: str, **fields: Any) -> Shape:
    fields = {"zones": ("a", "b", "c"), "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}} | fields
    return Shape(name=name, price=price, **fields)


def found(*objects: Object, catalogue: tuple[Shape, ...] = (), most_spot: int = 100, place: bool = False, **options: Any) -> Survival:
    of = Catalogue({each.name: each for each in catalogue}, most_spot) if catalogue else None
    wishes = Wishes(place=place, ways=False, catalogue=of)
    return answer(from_objects(list(objects)), SurviveOptions(**options), OPTIONS, wishes)


def test_a_certified_cluster_needs_no_remedy() -> None:
    result = found(node("n0"), node("n1"), *web("n0"))
    assert result.certified
    assert result.remedy is None


def test_one_clone_is_the_spare_for_any_node() -> None:
    remedy = found(*(node(f"n{i}") for i in range(3)), *web("n0", "n1", "n2", cpu="3")).remedy
    assert remedy is not None
    assert (remedy.addNodes, remedy.bound, remedy.cost, remedy.certified) == (["1:n0"], 1.0, None, True)
    assert remedy.options == ["--add-nodes", "1:n0"]


def test_two_at_once_need_two_spares_and_those_may_fail_too() -> None:
    remedy = found(*(node(f"n{i}") for i in range(3)), *web("n0", "n1", "n2", cpu="3"), at_once=2).remedy
    assert remedy is not None
    assert (remedy.addNodes, remedy.bound) == (["2:n0"], 2.0)


def test_spares_for_zones_stand_in_two_zones() -> None:
    """Each zone has a full node; a spare in b helps when a or c fails, and one elsewhere when b does."""
    remedy = found(*zoned("4", "4", "4"), *web("n0", "n1", "n2", cpu="3"), fail="zone").remedy
    assert remedy is not None
    assert remedy.bound == 2.0
    assert sorted(text[:2] for text in remedy.addNodes) == ["1:", "1:"]


def test_the_cheapest_shape_that_does_is_bought_and_not_the_cheapest_there_is() -> None:
    small = shape("small", "0.1", allocatable={"cpu": "2", "memory": "8Gi", "pods": "110"})
    nodes, pods = zoned("4", "4"), web("n0", "n1", cpu="3")
    remedy = found(*nodes, *pods, catalogue=(small, shape("dear", "0.9"), shape("fair", "0.4"))).remedy
    assert remedy is not None
    assert remedy.buy == ["1:fair@a"]
    assert (remedy.cost, remedy.bound) == (0.4, 0.4)
    assert [each.name for each in remedy.shapes] == ["fair"]
    assert remedy.options == ["--buy", "1:fair@a"]


def test_two_small_nodes_are_bought_where_they_cost_less_than_a_large_one() -> None:
    small = shape("small", "0.1", allocatable={"cpu": "2", "memory": "8Gi", "pods": "110"})
    remedy = found(*zoned("4"), *web("n0", "n0", cpu="1500m"), catalogue=(shape("large", "0.3"), small)).remedy
    assert remedy is not None
    assert remedy.cost == 0.2
    few = shape("small", "0.1", allocatable={"cpu": "2", "memory": "8Gi", "pods": "110"}, most=1)
    remedy = found(*zoned("4"), *web("n0", "n0", cpu="1500m"), catalogue=(shape("large", "0.3"), few)).remedy
    assert remedy is not None
    assert remedy.buy == ["1:large@a"]


def test_spot_nodes_are_bought_within_their_share() -> None:
    spot = shape("spot", "0.1", spot=True)
    nodes, pods = zoned("4", "4"), web("n0", "n1", cpu="3")
    for percent, cost in ((100, 0.1), (50, 0.4)):
        remedy = found(*nodes, *pods, catalogue=(spot, shape("firm", "0.4")), most_spot=percent).remedy
        assert remedy is not None
        assert remedy.cost == cost


def test_no_nodes_help_a_pod_that_is_held_to_one() -> None:
    result = found(node("n0"), node("n1"), *web("n0", selector={"kubernetes.io/hostname": "n0"}))
    assert result.remedy is None
    assert any(note.startswith("no remedy: ") for note in result.notes)


def test_pods_that_wait_are_placed_first_if_asked_for() -> None:
    objects = [node("n0"), node("n1"), pod("new", cpu="3", owner="ReplicaSet/new"), *web("n1", cpu="2")]
    assert found(*objects).certified
    result = found(*objects, place=True)
    assert not result.certified
    assert result.placement is not None
    assert [a.node for a in result.placement.assignments] == ["n0"]
    assert {pod for each in result.counterexamples for pod in each.pending} <= {"default/new", "default/web-0"}


def test_a_remedy_says_that_it_leaves_out_what_waits() -> None:
    objects = [*(node(f"n{i}") for i in range(3)), *web("n0", "n1", "n2", cpu="3")]
    waiting = [note for note in found(*objects, pod("new", cpu="3", owner="ReplicaSet/new")).notes if "the remedy leaves out" in note]
    assert len(waiting) == 1
    assert not any("the remedy leaves out" in note for note in found(*objects).notes)


def test_a_stop_before_the_end_gives_no_remedy() -> None:
    stop = threading.Event()
    stop.set()
    snapshot = from_objects([*(node(f"n{i}") for i in range(3)), *web("n0", "n1", "n2", cpu="3")])
    result = answer(snapshot, SurviveOptions(), OPTIONS, stop=stop)
    assert result.remedy is None
    assert not result.certified


@pytest.mark.parametrize("seed", range(3))
def test_a_few_remedies_are_the_cheapest(seed: int) -> None:
    _beside_all_purchases(seed)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(3, 15))
def test_remedies_are_the_cheapest(seed: int) -> None:
    _beside_all_purchases(seed)


def _beside_all_purchases(seed: int) -> None:
    """The remedy costs what the cheapest of all purchases of up to three nodes costs with which it is certified, and no bound is above."""
    random = Random(seed)
    objects = zoned(*(random.choice(["3", "4", "6"]) for _ in range(3)))
    homes = [random.choice(["n0", "n1", "n2"]) for _ in range(random.randint(2, 4))]
    objects += [pod(f"p-{i}", node_name=home, owner=f"ReplicaSet/r{i % 2}", cpu=random.choice(["1", "2"])) for i, home in enumerate(homes)]
    request = SurviveOptions(random.choice(["node", "zone"]), random.choice([1, 1, 2]))
    shapes = (shape("s", "0.2", allocatable={"cpu": "2", "memory": "8Gi", "pods": "9"}), shape("l", "0.3", zones=("a", "b")))
    snapshot = from_objects(objects)
    wishes = Wishes(ways=False, catalogue=Catalogue({each.name: each for each in shapes}))
    result = answer(snapshot, request, OPTIONS, wishes)
    offers = [("s@a", 20), ("s@b", 20), ("s@c", 20), ("l@a", 30), ("l@b", 30)]
    bought = [counts for counts in product(range(3), repeat=len(offers)) if sum(counts) <= 3]
    certified = []
    for cost, counts in sorted((sum(n * price for n, (_, price) in zip(c, offers, strict=True)), c) for c in bought):
        edits = Edits(buy=[f"{n}:{text}" for n, (text, _) in zip(counts, offers, strict=True) if n], shapes=list(shapes))
        if survive(apply(snapshot, None, edits).snapshot, request, OPTIONS).certified:
            certified.append(cost)
            break
    if result.certified:
        assert certified == [0]
    elif certified:
        assert result.remedy is not None
        assert round(100 * (result.remedy.cost or 0)) == round(100 * (result.remedy.bound or 0)) == certified[0]
