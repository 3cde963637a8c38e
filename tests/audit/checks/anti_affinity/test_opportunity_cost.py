"""KS305: what required anti-affinity takes beyond requests, by pod, workload and namespace."""

from __future__ import annotations

from pathlib import Path

import pytest

from kubestow.audit.run import AuditOptions, audit
from kubestow.audit.selection import FindingFilters
from kubestow.models.documents.findings.audit import Audit, ClosedCapacity
from kubestow.models.snapshot.snapshot import from_objects, load
from tests.objects import Object, node, pod

INSTANCES = Path(__file__).resolve().parents[4] / "instances"
HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
ALL: Object = {"topologyKey": HOST, "labelSelector": {}, "namespaceSelector": {}}
GI = 2**30


def refusing(name: str, term: Object = ALL, **more: object) -> Object:
    anti = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return pod(name, affinity=anti, **({"cpu": "1", "memory": "1Gi"} | more))  # type: ignore[arg-type]


def found(*objects: Object, chosen: FindingFilters | None = None) -> Audit:
    nodes = [node("a1", cpu="4", labels={ZONE: "a"}), node("a2", cpu="4", labels={ZONE: "a"}), node("b1", cpu="8", labels={ZONE: "b"})]
    return audit(from_objects([*nodes, *objects]), AuditOptions(chosen=chosen or FindingFilters()))


def costs(document: Audit) -> dict[str, tuple[ClosedCapacity | None, ClosedCapacity, ClosedCapacity]]:
    return {entry.object: (entry.actual, entry.average, entry.largest) for entry in document.opportunityCosts or ()}


def messages(document: Audit) -> dict[str, str]:
    return {each.object: each.message for each in document.findings if each.code == "KS305"}


def test_a_running_pod_takes_its_node_and_a_new_one_the_average_or_the_largest() -> None:
    document = audit(load([str(INSTANCES / "audit/KS305-anti-affinity-opportunity-cost.yaml")]), AuditOptions())
    assert messages(document) == {
        "Deployment team/alone": "over kubernetes.io/hostname: 1 running pod closes 1 node with 3500m CPU and 7Gi memory beyond its "
        "request (small); each new pod will close 1 node with 7500m CPU and 25.7Gi memory on average, up to 1 node with 15500m CPU and "
        "63Gi memory, beyond its request"
    }
    small, large = ClosedCapacity(1, 3500, 7 * GI), ClosedCapacity(1, 15500, 63 * GI)
    average = ClosedCapacity(1, 7500, -(-77 * GI // 3))
    both = ClosedCapacity(2, 15000, -(-154 * GI // 3)), ClosedCapacity(2, 31000, 126 * GI)
    assert costs(document) == {
        "Namespace team": (small, *both),
        "Deployment team/alone": (small, *both),
        "Pod team/alone-1-x": (small, average, large),
    }


def test_a_zone_counts_all_its_nodes_and_a_selected_node_only_itself() -> None:
    document = found(refusing("z", ALL | {"topologyKey": ZONE}, node_name="a1"), refusing("s", selector={HOST: "a2"}))
    given = costs(document)
    assert given["Pod default/z"] == (
        ClosedCapacity(2, 7000, 15 * GI),
        ClosedCapacity(1.5, 7000, 11 * GI),
        ClosedCapacity(2, 7000, 15 * GI),
    )
    assert given["Pod default/s"] == (None, ClosedCapacity(1, 3000, 7 * GI), ClosedCapacity(1, 3000, 7 * GI))
    assert (
        messages(document)["Pod default/s"]
        == "over kubernetes.io/hostname: it will close 1 node with 3 CPU and 7Gi memory beyond its request"
    )


def test_a_namespace_counts_each_node_once_with_all_its_pods_there() -> None:
    term = {"topologyKey": HOST, "labelSelector": {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["s"]}]}}
    pair = [refusing(f"s-{i}", term, node_name="a1", labels={"app": "s"}, owner="ReplicaSet/s") for i in range(2)]
    guest = pod("guest", cpu="1", memory="1Gi", node_name="a1", labels={"app": "s"}, owner="ReplicaSet/g")
    given = costs(found(*pair, guest))
    assert given["Pod default/s-0"][0] == ClosedCapacity(1, 3000, 7 * GI)
    assert given["ReplicaSet default/s"][0] == ClosedCapacity(1, 2000, 6 * GI)
    assert given["Namespace default"][0] == ClosedCapacity(1, 1000, 5 * GI)


@pytest.mark.parametrize(
    "made",
    [
        refusing("p", ALL | {"labelSelector": {"matchLabels": {"app": "p"}}, "namespaceSelector": None}, labels={"app": "p"}),
        refusing("p", ALL | {"topologyKey": "no.one/has-it"}),
        refusing("p", selector={HOST: "b1"}, cpu="8", memory="8Gi"),  # it asks for the whole node
        pod("p"),
        refusing("p", {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": "nobody"}}}),
    ],
)
def test_nothing_beyond_requests_is_no_finding(made: Object) -> None:
    document = found(made)
    assert (messages(document), document.opportunityCosts) == ({}, None)


def test_a_choice_of_findings_is_one_of_costs() -> None:
    objects = [refusing("p"), refusing("q", namespace="other")]
    assert found(*objects, chosen=FindingFilters(ignore=("KS305",))).opportunityCosts is None
    assert set(costs(found(*objects, chosen=FindingFilters(namespaces=("other",))))) == {"Namespace other", "Pod other/q"}
    assert found(*objects, chosen=FindingFilters(select=("KS305",))).opportunityCosts
