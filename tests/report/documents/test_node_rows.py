"""Rows of nodes, against plain sums; the largest pod that still fits, against the rules themselves."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kubestow.models.documents.answers import NodeRow
from kubestow.models.snapshot.snapshot import from_objects
from kubestow.report.documents.node_rows import SORTS, table
from kubestow.solver.explain.per_node import explain
from tests.objects import Object, node, pod
from tests.solver.devices.test_shortage import device, in_use, published

ZONE = "topology.kubernetes.io/zone"
MI = 2**20


def limited(name: str, where: str | None, *, cpu: str, memory: str, limits: dict[str, str], namespace: str = "default") -> Object:
    found = pod(name, node_name=where, cpu=cpu, memory=memory, namespace=namespace)
    found["spec"]["containers"][0]["resources"]["limits"] = limits
    return found


OBJECTS: list[Object] = [
    node("n10", cpu="4", memory="8Gi", labels={ZONE: "a"}),
    node("n2", cpu="2", memory="4Gi", pods="2", labels={ZONE: "a"}, unschedulable=True),
    node("n1", cpu="1500m", memory="9Gi", labels={ZONE: "b"}),
    node("gpu", cpu="64", memory="64Gi", taints=[{"key": "gpu", "effect": "NoSchedule"}]),
    limited("p0", "n10", cpu="1", memory="1Gi", limits={"cpu": "6", "memory": "2Gi"}),
    limited("p1", "n2", cpu="2500m", memory="1Gi", limits={"memory": "1Gi"}, namespace="shop"),
    limited("p2", "n1", cpu="1", memory="1Gi", limits={}, namespace="shop"),
    {**limited("over", "n1", cpu="1", memory="1Gi", limits={}), "status": {"phase": "Succeeded"}},
    pod("waits", namespace="shop"),
]


def rows(by: str = "node", sort: str = "name", nodes: list[str] | None = None) -> list[NodeRow]:
    return table(from_objects(OBJECTS), nodes, by=by, sort=sort).rows  # type: ignore[arg-type]


def test_a_node_has_requests_limits_and_what_is_free() -> None:
    found = {row.name: row for row in rows()}
    assert list(found) == ["gpu", "n1", "n2", "n10"]
    n10, n2, n1 = found["n10"], found["n2"], found["n1"]
    assert (n10.pods, n10.requests, n10.limits) == (1, {"cpu": 1000, "memory": 2**30}, {"cpu": 6000, "memory": 2 * 2**30})
    assert (n10.free["cpu"], n10.free["memory"], n10.free["pods"]) == (3000, 7 * 2**30, 109)
    assert n2.free["cpu"] == -500
    assert (n2.cordoned, found["gpu"].taints, n1.pods) == (True, ["gpu:NoSchedule"], 1)


def test_the_largest_pod_fits_and_nothing_larger_does() -> None:
    """As the scheduler's own rule says; taints and cordons aside."""
    objects = [
        {**each, "spec": {**each["spec"], "taints": [], "unschedulable": False}} if each["kind"] == "Node" else each for each in OBJECTS
    ]
    for row in rows():
        (most,) = row.largest
        for more, fits in (((0, 0), True), ((1, 0), False), ((0, 1), False)):
            asked = pod("x", cpu=f"{most.cpu + more[0]}m", memory=str(most.memory + more[1]))
            (verdict,) = explain(from_objects([*objects, asked]), pod="default/x", node=row.name)
            assert bool(verdict.feasible) == fits, (row.name, more)


def test_no_pod_fits_where_the_kubelet_takes_no_more() -> None:
    full = [node("n", pods="1"), pod("p", node_name="n")]
    (row,) = table(from_objects(full)).rows
    assert row.largest == []
    (verdict,) = explain(from_objects([*full, pod("x", cpu="0", memory="0")]), pod="default/x")
    assert verdict.feasible == []


def test_a_zone_sums_up_and_names_the_best_nodes() -> None:
    found = {row.name: row for row in rows("zone")}
    assert list(found) == ["a", "b", ""]
    assert (found["a"].nodes, found["a"].pods, found["a"].allocatable["cpu"], found["a"].free["cpu"]) == (2, 2, 6000, 2500)
    assert [most.node for most in found["a"].largest] == ["n10"]
    assert found[""].largest == []  # its only node is tainted
    total = table(from_objects(OBJECTS)).total
    assert [(most.node, most.cpu) for most in total.largest] == [("n10", 3000), ("n1", 500)]
    assert (total.nodes, total.pods, total.pending) == (4, 3, 1)


def test_a_namespace_has_its_pods() -> None:
    found = {row.name: row for row in rows("namespace")}
    shop = found["shop"]
    assert (shop.pods, shop.pending, shop.nodes, shop.requests) == (2, 1, 2, {"cpu": 3500, "memory": 2 * 2**30})
    assert found["default"].limits == {"cpu": 6000, "memory": 2 * 2**30}
    assert {row.name: row.pods for row in rows("namespace", nodes=["n1"])} == {"shop": 1}


@pytest.mark.parametrize(
    ("sort", "order"),
    [
        ("name", ["gpu", "n1", "n2", "n10"]),
        ("cpu", ["n2", "n1", "n10", "gpu"]),
        ("memory", ["n2", "n10", "n1", "gpu"]),
        ("pods", ["n2", "n1", "n10", "gpu"]),
        ("limits-cpu", ["n10", "gpu", "n1", "n2"]),
        ("limits-memory", ["n2", "n10", "gpu", "n1"]),
        ("free-cpu", ["gpu", "n10", "n1", "n2"]),
        ("free-memory", ["gpu", "n1", "n10", "n2"]),
    ],
)
def test_orders(sort: str, order: list[str]) -> None:
    assert [row.name for row in rows(sort=sort)] == order
    assert sort in SORTS


def test_a_cluster_of_the_generator_adds_up(tmp_path: Path) -> None:
    from click.testing import CliRunner

    from kubestow import cli

    file = tmp_path / "c.json"
    assert (
        CliRunner()
        .invoke(cli.main, ["generate", "--nodes", "9", "--pods", "80", "--bound", "70", "--seed", "4", "-o", str(file)])
        .exit_code
        == 0
    )
    for by in ("node", "zone", "namespace"):
        result = CliRunner().invoke(cli.main, ["nodes", str(file), "--by", by, "-q"])
        document = json.loads(result.stdout)
        assert sum(row["pods"] for row in document["rows"]) == document["total"]["pods"]
        for resource in ("cpu", "memory"):
            assert sum(row["requests"].get(resource, 0) for row in document["rows"]) == document["total"]["requests"][resource]


def test_devices_are_counted_by_driver_with_those_that_nobody_has() -> None:
    """Also those that several nodes reach; nothing is said where there are none."""
    network: Object = {
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "net"},
        "spec": {
            "driver": "net.example.com", "allNodes": True, "pool": {"name": "net", "generation": 1, "resourceSliceCount": 1},
            "devices": [device("line")],
        },
    }  # fmt: skip
    slices = [published("n1", device("a"), device("b")), network]
    found = table(from_objects([node("n1"), node("n2"), *slices, in_use("a", "n1")]))
    assert [row.devices for row in found.rows] == [{"d.example.com": 2, "net.example.com": 1}, {"net.example.com": 1}]
    assert [row.freeDevices for row in found.rows] == [{"d.example.com": 1, "net.example.com": 1}, {"net.example.com": 1}]
    assert (found.total.devices, found.total.freeDevices["d.example.com"]) == ({"d.example.com": 2, "net.example.com": 2}, 1)
    assert table(from_objects([node("n1")])).rows[0].devices == {}
