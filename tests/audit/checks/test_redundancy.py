"""Replicas that share a node or a zone, by the rules that would keep them apart."""

from __future__ import annotations

from typing import Any

import pytest

from kubestow.audit.checks import redundancy
from kubestow.audit.view.view import ClusterView
from kubestow.models.documents.policy import Policy
from kubestow.models.snapshot.snapshot import from_objects
from tests.objects import Object, node, pod

HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
NODES = [node(name, labels={ZONE: name[0]}) for name in ("a1", "a2", "b1", "b2")]
OWN = {"matchLabels": {"app": "web"}}


def replicas(places: list[str], *, owner: str = "StatefulSet/web", **spec: Any) -> list[Object]:
    return [pod(f"web-{i}", labels={"app": "web"}, node_name=where, owner=owner, **spec) for i, where in enumerate(places)]


def anti(key: str, *, required: bool = False, selector: Object = OWN) -> Object:
    term = {"topologyKey": key, "labelSelector": selector}
    if required:
        return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": term}]}}


def constraint(key: str, selector: Object = OWN) -> Object:
    return {"maxSkew": 5, "topologyKey": key, "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": selector}


def codes(objects: list[Object], policy: Policy | None = None) -> list[tuple[str, str]]:
    view = ClusterView(from_objects(objects), policy=policy or Policy())
    return [(finding.code, finding.severity) for finding in redundancy.check(view)]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, [("KS511", "warning")]),
        ({"affinity": anti(HOST)}, [("KS512", "info")]),
        ({"affinity": anti(ZONE)}, [("KS512", "info")]),  # apart over zones is apart over nodes
        ({"spread": [constraint(HOST)]}, [("KS512", "info")]),
        ({"affinity": anti(HOST, selector={"matchLabels": {"app": "db"}})}, [("KS511", "warning")]),
        ({"affinity": anti("rack")}, [("KS511", "warning")]),  # no node has the label
        ({"affinity": anti(HOST, required=True)}, []),  # a broken rule is another check's
    ],
)
def test_all_on_one_node(spec: dict[str, Any], expected: list[tuple[str, str]]) -> None:
    assert codes([*NODES, *replicas(["a1", "a1", "a1"], **spec)]) == expected


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, [("KS513", "info")]),
        ({"affinity": anti(HOST)}, [("KS513", "info")]),
        ({"affinity": anti(ZONE)}, []),
        ({"spread": [constraint(ZONE, {"matchLabels": {"app": "db"}})]}, [("KS513", "warning")]),  # and no default constraints
        ({"selector": {ZONE: "a"}}, []),  # no node of another zone takes them
    ],
)
def test_all_in_one_zone(spec: dict[str, Any], expected: list[tuple[str, str]]) -> None:
    assert codes([*NODES, *replicas(["a1", "a2"], **spec)]) == expected


def test_most_on_one_node() -> None:
    assert codes([*NODES, *replicas(["a1", "a1", "b1"])]) == [("KS514", "info")]
    assert codes([*NODES, *replicas(["a1", "a1", "b1"], affinity=anti(HOST))]) == []
    assert codes([*NODES, *replicas(["a1", "a1", "b1", "b2"])]) == []
    two = [node("a1"), node("b1")]
    assert codes([*two, *replicas(["a1", "a1", "b1"])]) == []  # three pods on two nodes cannot be otherwise


def test_a_pod_alone_and_pods_without_another_node_are_no_findings() -> None:
    assert codes([*NODES, *replicas(["a1"])]) == []
    assert codes([node("a1"), *replicas(["a1", "a1"])]) == []
    cordoned = [node("a1"), node("b1", unschedulable=True)]
    assert codes([*cordoned, *replicas(["a1", "a1"])]) == [("KS516", "warning")]


@pytest.mark.parametrize("owner", ["Job/web", "DaemonSet/web", "Workflow/web"])
def test_pods_that_do_not_stand_in_for_each_other(owner: str) -> None:
    assert codes([*NODES, *replicas(["a1", "a1"], owner=owner)]) == []


@pytest.mark.parametrize(
    "spec",
    [
        {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": HOST, "labelSelector": OWN}]}}},
        {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "shared"}}]},
    ],
)
def test_pods_that_are_together_on_purpose(spec: dict[str, Any]) -> None:
    assert codes([*NODES, *replicas(["a1", "a1"], owner="ReplicationController/web", **spec)]) == []


def test_chance_counts_where_neither_own_rules_nor_defaults_apply() -> None:
    apart = replicas(["a1", "b1"])
    assert codes([*NODES, *apart]) == []
    assert codes([*NODES, *apart], Policy(defaultConstraints=())) == [("KS515", "info")]
    assert codes([*NODES, *replicas(["a1", "b1"], affinity=anti(HOST))], Policy(defaultConstraints=())) == []
