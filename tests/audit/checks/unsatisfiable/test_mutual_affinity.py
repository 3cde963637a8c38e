"""Workloads whose pods wait for each other."""

from __future__ import annotations

from typing import Any

from kubestow.audit.checks.unsatisfiable import mutual_affinity
from kubestow.audit.view.label_matches import LabelMatches
from kubestow.audit.view.view import ClusterView
from kubestow.models.documents.findings.audit import Finding
from kubestow.models.snapshot.snapshot import from_objects
from tests.audit.checks.unsatisfiable.test_check import affinity, deployment, together, zoned
from tests.objects import Object, pod


def found(*things: Object) -> list[Finding]:
    view = ClusterView(from_objects([*zoned("a"), *things]))
    return list(mutual_affinity.find(view, view.once(LabelMatches)))


def near(name: str, other: str, replicas: int = 1, **more: Any) -> Object:
    return deployment(name, replicas, {**together(affinity("podAffinity", other)), **more})


def test_a_circle_of_two_and_of_three() -> None:
    (finding,) = found(near("a", "b"), near("b", "a"))
    assert (finding.code, finding.severity, finding.object) == ("KS231", "error", "Deployment default/a")
    assert "Deployment default/b" in finding.message
    assert "kubestow.dev/gang" in finding.fix
    (finding,) = found(near("a", "b"), near("b", "c"), near("c", "a"), near("d", "a"))
    assert "Deployment default/b, Deployment default/c" in finding.message


def test_what_can_begin_is_no_circle() -> None:
    assert found(near("a", "b"), deployment("b", 1)) == []
    assert found(near("a", "a")) == []  # the first of its kind
    both = together(affinity("podAffinity", "b"))
    assert found(near("a", "b"), near("b", "a"), deployment("c", 1, app="b")) == []  # another one has the label
    assert found(near("a", "b"), near("b", "a"), pod("x", node_name="n0", labels={"app": "b"})) == []
    assert found(deployment("a", 1, both), near("b", "nobody")) == []  # KS217
    assert found(near("a", "b", 0), near("b", "a", 0)) == []


def test_a_gang_begins_together() -> None:
    pair = [near("a", "b"), near("b", "a")]
    for each in pair:
        each["spec"]["template"]["metadata"]["annotations"] = {"kubestow.dev/gang": "pair"}
    assert found(*pair) == []
    pair[0]["spec"]["template"]["metadata"]["annotations"] = {"kubestow.dev/gang": "other"}
    assert len(found(*pair)) == 1


def test_where_they_run_it_is_a_risk() -> None:
    pods = [
        pod(f"{name}-1", owner=f"ReplicaSet/{name}-5d8f", node_name="n0", labels={"app": name, "pod-template-hash": "5d8f"})
        for name in "ab"
    ]
    (finding,) = found(near("a", "b"), near("b", "a"), *pods)
    assert finding.severity == "warning"
    assert "they run now" in finding.message
