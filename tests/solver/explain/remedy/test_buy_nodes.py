"""Nodes of a catalogue as a remedy: the cheapest purchase of one shape in one zone, proved by placing the pods."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from kubestow.models.catalogue.catalogue import Catalogue
from kubestow.models.documents.catalogue import Shape, ShapeTaint
from kubestow.models.documents.placement import Edits, Remedy
from kubestow.models.snapshot import snapshot as snapshots
from kubestow.models.snapshot.scope import select
from kubestow.solver.explain.conflict.placement_question import PlacementQuestion
from kubestow.solver.explain.remedy.apply import applied, with_edits
from kubestow.solver.explain.remedy.buy_nodes import cheapest
from kubestow.solver.explain.remedy.search import find_remedies
from kubestow.solver.explain.remedy.time_slices import TimeSlices
from tests.objects import Object, node, pod
from tests.solver.explain.questions import within
from tests.tiers import sampled

ZONE = "topology.kubernetes.io/zone"


def shape(name: str, cpu: int, price: Any, *zones: str, **fields: Any) -> Shape:
    return Shape(name, {"cpu": cpu, "memory": "64Gi", "pods": 110}, zones or ("a",), price, **fields)


def question(objects: list[Object], *shapes: Shape, most_spot: int = 100) -> PlacementQuestion:
    snapshot = snapshots.from_objects(objects)
    pending = tuple(select(snapshot).pending)
    return PlacementQuestion(snapshot, pending, len(pending), catalogue=Catalogue({s.name: s for s in shapes}, most_spot, path="c.yaml"))


def way_out(given: PlacementQuestion) -> Remedy | None:
    """The remedy, checked: when it is applied, the pods can be placed."""
    context = within(60)
    assert given.catalogue is not None
    found = cheapest(given, given.catalogue, TimeSlices(context, 60), 1)
    if found is not None:
        assert applied(given, found).feasible(within(20)) is True
        assert "least" not in found.arguments
    return found


def offered(given: PlacementQuestion) -> str | None:
    found = way_out(given)
    return None if found is None else found.options[-1]


def large(count: int, **fields: Any) -> list[Object]:
    return [pod(f"large-{i}", cpu="3", **fields) for i in range(count)]


HERE = [node("n1", cpu="2", labels={ZONE: "a"})]


def test_the_cheapest_offer_is_named_with_what_it_costs() -> None:
    found = way_out(question([*HERE, *large(1)], shape("m", 4, 0.38, "a", "b"), shape("l", 8, 0.5, "a")))
    assert found is not None
    assert (found.change, found.message) == ("buyNodes", "add 1 node of shape m in zone a, 0.38 per hour")
    assert found.arguments == {"count": "1", "shape": "m", "zone": "a", "price": "0.38"}
    assert found.options == ["--catalogue", "c.yaml", "--buy", "1:m@a"]


@pytest.mark.parametrize(
    ("shapes", "expected"),
    [
        ([shape("m", 4, 0.38), shape("l", 8, 0.7)], "1:l@a"),
        ([shape("m", 4, 0.3), shape("l", 8, 0.7)], "2:m@a"),
        ([shape("m", 4, 0.35), shape("l", 8, 0.7)], "1:l@a"),  # fewer nodes for the same money
        ([shape("m", 4, 0.3, most=1), shape("l", 8, 0.7)], "1:l@a"),
        ([shape("m", 4, 0.3, fixedPrice=0.1), shape("l", 8, 0.7)], "1:l@a"),
        ([shape("m", 4, {"a": 0.3, "b": 0.2}, "a", "b"), shape("l", 8, 0.5)], "2:m@b"),
        ([shape("s", 2, 0.1)], None),
        ([shape("m", 4, 0.3, taints=(ShapeTaint("k", "NoSchedule"),)), shape("l", 8, 0.9)], "1:l@a"),
        ([shape("m", 4, 0, spot=True)], "2:m@a"),
    ],
)
def test_cost_counts_first_then_nodes(shapes: list[Shape], expected: str | None) -> None:
    assert offered(question([*HERE, *large(2)], *shapes)) == expected


def test_spot_nodes_alone_are_too_large_a_share_where_there_is_one() -> None:
    shapes = [shape("spot", 8, 0.1, spot=True), shape("m", 8, 0.5)]
    assert offered(question([*HERE, *large(1)], *shapes)) == "1:spot@a"
    assert offered(question([*HERE, *large(1)], *shapes, most_spot=99)) == "1:m@a"


def test_zones_matter_where_rules_say_so() -> None:
    near = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "db"}}}]}}  # fmt: skip
    there = node("n2", cpu="1", labels={ZONE: "b"})
    db = pod("db", labels={"app": "db"}, node_name="n2")
    assert offered(question([*HERE, there, db, *large(1, affinity=near)], shape("m", 4, {"a": 0.1, "b": 0.9}, "a", "b"))) == "1:m@b"


def test_a_daemon_set_takes_its_part_of_each_node() -> None:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1500m"}}}]}}
    daemon_set = {
        "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "net", "namespace": "kube-system", "uid": "u"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template},
    }  # fmt: skip
    assert offered(question([*HERE, *large(1)], shape("m", 4, 0.3), shape("l", 8, 0.7))) == "1:m@a"
    assert offered(question([*HERE, daemon_set, *large(1)], shape("m", 4, 0.3), shape("l", 8, 0.7))) == "1:l@a"


def test_the_room_of_running_nodes_is_used_too() -> None:
    assert offered(question([node("n1", cpu="4", labels={ZONE: "a"}), *large(2)], shape("m", 4, 0.3), shape("l", 8, 0.5))) == "1:m@a"


def test_it_stands_after_nodes_like_those_that_there_are() -> None:
    given = question([*HERE, *(pod(f"p{i}", cpu="1500m") for i in range(2))], shape("m", 2, 0.38))
    assert [way.message for way in find_remedies(given, ["NodeResourcesFit"], within(60))][:2] == [
        "add 1 node like n1",
        "add 1 node of shape m in zone a, 0.38 per hour",
    ]


def test_without_a_node_in_the_snapshot_there_is_still_the_catalogue() -> None:
    assert [way.change for way in find_remedies(question(large(1), shape("m", 4, 0.38)), [], within(60))] == ["buyNodes"]


def test_without_time_there_is_none() -> None:
    given = question([*HERE, *large(1)], shape("m", 4, 0.38))
    context = within(1e-9)
    assert given.catalogue is not None
    assert cheapest(given, given.catalogue, TimeSlices(context, 1e-9), 1) is None


def test_nobody_is_helped_by_a_node_for_a_daemon_sets_pod() -> None:
    assert offered(question([*HERE, *large(1, owner="DaemonSet/d")], shape("m", 4, 0.38))) is None


@pytest.mark.parametrize("seed", sampled(range(60), every=12, full=4))
def test_no_purchase_of_one_offer_is_cheaper(seed: int) -> None:
    draw = random.Random(seed)
    zones = ("a", "b")
    shapes = [
        shape(
            f"s{i}", draw.randint(2, 9), {z: draw.randint(1, 9) / 10 for z in zones}, *zones, fixedPrice=draw.choice([0, 0.1]),
            most=draw.choice([None, 1, 2]), labels=draw.choice([{}, {"disk": "ssd"}]),
            taints=draw.choice([(), (), (ShapeTaint("k", "NoSchedule"),)]),
        )
        for i in range(draw.randint(1, 4))
    ]  # fmt: skip
    spread = [{"maxSkew": 1, "topologyKey": draw.choice([ZONE, "kubernetes.io/hostname"]), "whenUnsatisfiable": "DoNotSchedule",
               "labelSelector": {"matchLabels": {"app": "x"}}}]  # fmt: skip
    there = [node(f"n{i}", cpu=str(draw.randint(1, 3)), labels={ZONE: draw.choice(zones)}) for i in range(draw.randint(1, 3))]
    selector = draw.choice([None, None, {"disk": "ssd"}])
    pods = [
        pod(f"p{i}", cpu=str(draw.randint(1, 3)), labels={"app": "x"}, spread=draw.choice([None, spread]), selector=selector)
        for i in range(draw.randint(1, 4))
    ]
    given = question([*there, *pods], *shapes)
    if given.feasible(within(20)):
        return
    expected: list[tuple[int, int]] = []
    assert given.catalogue is not None
    for offer in given.catalogue.offers:
        for k in range(1, min(given.needed, offer.shape.most or given.needed) + 1):
            edits = Edits(buy=[f"{k}:{offer.shape.name}@{offer.zone}"], shapes=[offer.shape])
            if with_edits(replace(given, catalogue=None), edits).feasible(within(20)):
                expected.append((k * offer.cost, k))
    found = way_out(given)
    got = None
    if found is not None:
        [offer] = [o for o in given.catalogue.offers if (o.shape.name, o.zone) == (found.arguments["shape"], found.arguments["zone"])]
        got = (int(found.arguments["count"]) * offer.cost, int(found.arguments["count"]))
    assert got == min(expected, default=None)
