"""Pods that are nominated to a node: a second pass in single verdicts, nothing reserved twice in placements."""

from __future__ import annotations

from typing import Any

from kubestow.checker.placement import rejecting_rules, verify
from kubestow.models.snapshot.snapshot import Snapshot, from_objects
from kubestow.solver.explain.per_node import explain
from kubestow.solver.runtime.options import Options
from kubestow.solver.solve import place
from tests.objects import node, pod


def nominated(name: str, to: str = "n1", **more: Any) -> dict[str, Any]:
    found = pod(name, **more)
    found["status"]["nominatedNodeName"] = to
    return found


def rejected(snapshot: Snapshot, name: str) -> dict[str, list[str]]:
    (verdict,) = explain(snapshot, pod=f"default/{name}")
    (chosen,) = [p for p in snapshot.pods if p.metadata.name == name]
    for found in snapshot.nodes:
        assert rejecting_rules(snapshot, chosen, found.metadata.name or "") == verdict.rejected.get(found.metadata.name or "", [])
    return verdict.rejected


def test_a_pod_yields_to_pods_of_equal_or_higher_priority_alone() -> None:
    objects = [node("n1", cpu="2"), nominated("there", cpu="2", priority=5)]
    snapshot = from_objects([*objects, *(pod(f"p{k}", priority=k, cpu="1") for k in (4, 5, 6))])
    assert rejected(snapshot, "p4") == rejected(snapshot, "p5") == {"n1": ["NodeResourcesFit"]}
    assert rejected(snapshot, "p6") == rejected(snapshot, "there") == {}


def test_affinity_to_a_nominated_pod_alone_does_not_hold() -> None:
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "a"}}}
    near = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    snapshot = from_objects([node("n1"), nominated("a", labels={"app": "a"}), pod("p", affinity=near)])
    assert rejected(snapshot, "p") == {"n1": ["InterPodAffinity"]}


def test_a_batch_reserves_nothing_twice() -> None:
    snapshot = from_objects([node("n1", cpu="2"), nominated("a", cpu="1"), nominated("b", cpu="1"), nominated("gone", "n9", cpu="1")])
    result = place(snapshot, Options(deterministic=True))
    assert len(result.assignments) == 2
    assert verify(snapshot, result) == []
    assert [reason.rule for left in result.unplaced for reason in left.reasons] == ["NodeResourcesFit"]
