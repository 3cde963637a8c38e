"""Planted purchases are right: everything is placed, every node is exactly full, and nothing costs less."""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction

import pytest

from kubestow.models.catalogue import money
from kubestow.models.cluster.compile import compile_cluster
from kubestow.models.documents.catalogue import Shape
from kubestow.models.documents.placement import Edits
from kubestow.models.edits.edits import apply
from kubestow.models.kube.objects import pod_key
from kubestow.models.snapshot.scope import select
from kubestow.models.snapshot.snapshot import from_objects
from kubestow.solver import rules
from kubestow.solver.rules.node_resources_fit.rule import NodeResourcesFit
from tests.instances.planted.planted_sizing import CPU, MEMORY, SHAPES, net_of, planted_sizing, price_of

ZONE, TYPE = "topology.kubernetes.io/zone", "node.kubernetes.io/instance-type"


@pytest.mark.parametrize("seed", range(3))
def test_the_purchase_holds_everything_and_is_exactly_full(seed: int) -> None:
    planted = planted_sizing(seed, 9, 60)
    shapes = [Shape(**{**shape, "zones": tuple(shape["zones"])}) for shape in planted.catalogue["shapes"]]
    buy = [f"{count}:{shape}@{zone}" for (shape, zone), count in planted.buy.items()]
    edited = apply(from_objects(planted.objects), None, Edits(buy=buy, shapes=shapes)).snapshot
    names: dict[tuple[str, str], list[str]] = defaultdict(list)
    for node in edited.nodes:
        labels = node.metadata.labels or {}
        names[labels[TYPE], labels[ZONE]].append(node.metadata.name or "")
    cluster = compile_cluster(edited, select(edited))
    active = rules.build(cluster)
    classes = {pod_key(edited.pods[i]): g for g, cls in enumerate(cluster.classes) for i in cls.pods}
    for pod, shape, zone, number in planted.placement:
        n = cluster.nodes.names.index(names[shape, zone][number])
        refusing = [rule.name for rule in active if rule.rejects(classes[pod])[n]]
        assert not refusing, pod
        for rule in active:
            rule.place(classes[pod], n)
    assert len(planted.placement) == len(classes) == 60
    fit = NodeResourcesFit.of(active)
    free = {resource: fit.free[:, r] for r, resource in enumerate(cluster.resources)}
    assert not free["cpu"].any()
    assert not free["memory"].any()


def test_no_purchase_costs_less() -> None:
    planted = planted_sizing(4, 12, 100)
    asked = [0, 0]
    for each in planted.objects:
        for container in each["spec"]["containers"] if each["kind"] == "Pod" else ():
            requests = container["resources"]["requests"]
            asked[0] += int(requests["cpu"].removesuffix("m"))
            asked[1] += int(requests["memory"].removesuffix("Mi"))
    assert CPU * asked[0] + MEMORY * asked[1] == planted.cost
    for shape in SHAPES:
        cpu, memory = net_of(shape)
        assert Fraction(price_of(shape), CPU * cpu + MEMORY * memory) >= 1
    prices = {shape["name"]: money.parse(shape["price"]) for shape in planted.catalogue["shapes"]}
    assert prices == {shape: price_of(shape) for shape in SHAPES}
