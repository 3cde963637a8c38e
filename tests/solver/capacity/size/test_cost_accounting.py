"""Utilisation and costs by workload: exact numbers, which add up."""

from __future__ import annotations

import random
from fractions import Fraction

import pytest

from kubestow.models.catalogue.catalogue import Catalogue
from kubestow.models.documents.catalogue import Quantity, Shape
from kubestow.models.documents.placement import Assignment, Placement, SnapshotRef, TierResult
from kubestow.models.documents.sizing import Cost, Purchase, Sizing, Utilisation
from kubestow.models.snapshot.snapshot import from_objects
from kubestow.solver.capacity.size.cost_accounting import account, divided, replaced
from tests.objects import Object, node, pod

ZONE, TYPE = "topology.kubernetes.io/zone", "node.kubernetes.io/instance-type"


def accounted(objects: list[Object], buy: list[Purchase], assignments: dict[str, str] | None = None) -> Sizing:
    snapshot = from_objects(objects)
    ref = SnapshotRef(snapshot.sha256, len(snapshot.nodes), len(snapshot.pods), len(assignments or {}))
    goes = [Assignment(f"default/{name}", where, i + 1) for i, (name, where) in enumerate((assignments or {}).items())]
    placement = Placement(ref, "greedy", "optimal", [], goes)
    nodes = TierResult("nodes", sum(p.count for p in buy), 0)
    cost = sum(p.price * p.count for p in buy)
    sizing = Sizing(ref, "add", "optimal", buy, Cost(cost, cost), nodes, placement)
    account(sizing, snapshot)
    return sizing


def test_a_pod_weighs_what_it_takes_of_its_dominant_resource() -> None:
    objects = [node("n1", cpu="4", memory="8Gi"), pod("cpu", cpu="2", memory="1Gi"), pod("mem", cpu="1", memory="6Gi")]
    found = accounted(objects, [Purchase("s", "a", 1, 1.0, ["n1"])], {"cpu": "n1", "mem": "n1"})
    # Half of the CPUs and three quarters of the memory: 2 to 3. Nobody requests both in the same ratio.
    assert {w.workload: w.cost for w in found.workloads} == {"Pod default/mem": 0.6, "Pod default/cpu": 0.4}


def test_what_every_node_brings_is_told_apart() -> None:
    agents = [pod(f"agent-{n}", cpu="1", memory="1Mi", node_name=n, owner="DaemonSet/agent") for n in ("n1", "n2", "old")]
    static = pod("proxy-n1", cpu="1", memory="1Mi", node_name="n1", owner="Node/n1")
    objects = [node("n1"), node("n2"), node("old"), *agents, static, pod("web", cpu="2", memory="1Mi")]
    found = accounted(objects, [Purchase("s", "a", 2, 1.0, ["n1", "n2"])], {"web": "n2"})
    costs = {w.workload: (w.pods, w.cost, w.daemon) for w in found.workloads}
    assert costs == {
        "DaemonSet default/agent": (2, 0.833333, True),  # half of n1, a third of n2; that on the old node is not paid for here
        "Pod default/web": (1, 0.666667, False),
        "Pod default/proxy": (1, 0.5, True),
    }
    cpu = [u for u in found.utilisation if u.resource == "cpu"]
    assert cpu == [Utilisation("", "cpu", 5000, 3000, 8000), Utilisation("s", "cpu", 5000, 3000, 8000)]


def test_pods_that_are_left_or_over_weigh_nothing_and_empty_nodes_are_nobodys() -> None:
    done = pod("done", node_name="n1") | {"status": {"phase": "Succeeded"}}
    found = accounted([node("n1"), node("n2"), done, pod("p")], [Purchase("s", "a", 2, 0.25, ["n1", "n2"])], {"p": "n1"})
    assert [(w.workload, w.pods, w.cost) for w in found.workloads] == [("", 0, 0.25), ("Pod default/p", 1, 0.25)]


def test_utilisation_is_by_shape_and_of_all_resources_that_are_asked_for() -> None:
    gpu = node("n2") | {"status": {"allocatable": {"cpu": "2", "memory": "1Gi", "pods": "10", "example.com/gpu": "4"}}}
    asks = pod("g", cpu="1", memory="1Gi")
    asks["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1", "example.com/gpu": "1"}, "limits": {"example.com/gpu": "1"}}
    objects = [node("n1", cpu="4"), gpu, pod("p", cpu="1"), asks]
    found = accounted(objects, [Purchase("s", "a", 1, 1.0, ["n1"]), Purchase("g", "a", 1, 3.0, ["n2"])], {"p": "n1", "g": "n2"})
    rows = {(u.shape, u.resource): (u.requested, u.allocatable) for u in found.utilisation}
    assert rows["s", "cpu"] == (1000, 4000)
    assert rows["", "cpu"] == (2000, 6000)
    assert rows["g", "example.com/gpu"] == rows["", "example.com/gpu"] == (1, 4)
    assert rows["", "pods"] == (2, 120)
    assert ("s", "example.com/gpu") not in rows


def test_parts_are_whole_and_add_up() -> None:
    assert divided(10, {"a": Fraction(1), "b": Fraction(1), "c": Fraction(1)}) == {"a": 4, "b": 3, "c": 3}
    assert divided(7, {"a": Fraction(1, 3), "b": Fraction(2, 3)}) == {"a": 2, "b": 5}
    rng = random.Random(1)
    for _ in range(200):
        price, weights = rng.randrange(10**7), {str(i): Fraction(rng.randint(1, 99), rng.randint(1, 99)) for i in range(rng.randint(1, 9))}
        parts = divided(price, weights)
        assert sum(parts.values()) == price
        total = sum(weights.values())
        assert all(abs(parts[name] - price * weight / total) < 1 for name, weight in weights.items())


@pytest.mark.parametrize(
    ("labels", "cost"),
    [
        ({TYPE: "m", ZONE: "a"}, 0.4),
        ({TYPE: "m", ZONE: "b"}, 0.5),
        ({TYPE: "m", ZONE: "a", "capacity": "spot"}, 0.1),  # of the two that are called m this one says more of it
        ({TYPE: "m"}, None),
        ({TYPE: "x", ZONE: "a"}, None),
        ({TYPE: "m", ZONE: "c"}, None),
    ],
)
def test_nodes_that_go_have_the_price_of_their_instance_type_and_zone(labels: dict[str, str], cost: float | None) -> None:
    amounts: dict[str, Quantity] = {"cpu": "4", "memory": "8Gi", "pods": "10"}
    plain = Shape("m", amounts, ("a", "b"), {"a": 0.4, "b": "0.5"})
    spot = Shape("m.spot", amounts, ("a",), 0.1, labels={TYPE: "m", "capacity": "spot"}, spot=True)
    nodes = from_objects([node("n", labels=labels), node("other")]).nodes
    found = replaced(nodes, Catalogue({"m": plain, "m.spot": spot}))
    assert (found.nodes, found.priced, found.cost) == (2, int(cost is not None), cost or 0)
