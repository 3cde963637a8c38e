"""Hard spread that cannot hold. The unsatisfiable check's tests compare the findings with all states of tiny clusters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kubestow.audit.checks import topology_spread
from kubestow.audit.view.view import ClusterView
from kubestow.models.documents.findings.audit import Finding
from kubestow.models.snapshot.snapshot import from_objects, load
from tests.audit.checks.unsatisfiable.test_check import deployment, unsound, zoned
from tests.objects import Object, node, pod

ROOT = Path(__file__).resolve().parents[3]
OWN = [code.code for code in topology_spread.CODES]
CLOSED: Object = {"taints": [{"key": "closed", "effect": "NoSchedule"}]}


def found(objects: list[Object]) -> list[Finding]:
    return list(topology_spread.check(ClusterView(from_objects(objects))))


def graded(objects: list[Object]) -> list[tuple[str, str]]:
    return [(finding.code, finding.severity) for finding in found(objects)]


def spread(app: str = "web", max_skew: int = 1, key: str = "zone", **more: Any) -> list[Object]:
    selector = {"matchLabels": {"app": app}}
    return [{"maxSkew": max_skew, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector, **more}]


def web(replicas: int, max_skew: int = 1, *, cpu: str = "100m", **more: Any) -> Object:
    ask = {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}
    return deployment("web", replicas, {**ask, "topologySpreadConstraints": spread(max_skew=max_skew, **more)})


def running(name: str, at: str, app: str = "web", **more: Any) -> Object:
    """A running pod of Deployment web where it is of that app, else a bare one."""
    return pod(
        name, labels={"app": app, "pod-template-hash": "1"}, node_name=at, owner="ReplicaSet/web-1" if app == "web" else None, **more
    )


@pytest.mark.parametrize("code", OWN)
def test_instances_have_the_one_finding_they_are_about(code: str) -> None:
    triggers, fixed = sorted((ROOT / "instances" / "audit").glob(f"{code}-*.yaml"), key=lambda path: len(path.name))
    assert [f.code for f in topology_spread.check(ClusterView(load([str(triggers)])))] == [code]
    assert list(topology_spread.check(ClusterView(load([str(fixed)])))) == []


@pytest.mark.parametrize("name", ["1-1-0-infeasible", "2-1-0-infeasible", "3-3-0-infeasible"])
def test_the_seed_s_zone_that_takes_nobody(name: str) -> None:
    (finding,) = topology_spread.check(ClusterView(load([str(ROOT / "instances" / "seeds" / f"spread-{name}.yaml")])))
    assert (finding.code, finding.severity, finding.object) == ("KS402", "error", "Pod default/hard")
    assert (finding.domain, finding.nodes) == ("topology.kubernetes.io/zone=zone3", ["zone3"])
    assert "tainted" in finding.message


@pytest.mark.parametrize("name", ["1-1-1-infeasible", "2-1-1-infeasible", "3-2-1", "node-affinity"])
def test_the_seed_s_other_cases_are_none(name: str) -> None:
    assert list(topology_spread.check(ClusterView(load([str(ROOT / "instances" / "seeds" / f"spread-{name}.yaml")])))) == []


def test_scaled_until_the_closed_zone_blocks_it() -> None:
    nodes = [*zoned("a", "b"), node("n9", labels={"zone": "c"}, **CLOSED)]
    assert graded([*nodes, web(8, 3)]) == [("KS402", "error")]
    assert graded([*nodes, web(6, 3)]) == []
    running_ = [running(f"web-1-{i}", f"n{i % 2}") for i in range(6)]
    (finding,) = found([*nodes, web(6, 3), *running_])
    assert (finding.code, finding.severity) == ("KS402", "info")
    assert "no more than 6" in finding.message
    assert graded([*nodes, web(2, 3), *running_[:2]]) == []  # far from the limit


@pytest.mark.parametrize(
    ("spec", "allocatable", "word"),
    [({"unschedulable": True}, {}, "cordoned"), (CLOSED, {}, "tainted"), ({}, {"cpu": "50m"}, "too small")],
)
def test_why_a_domain_takes_nobody(spec: Object, allocatable: Object, word: str) -> None:
    (finding,) = found([*zoned("a"), node("n9", labels={"zone": "c"}, **allocatable, **spec), web(3)])
    assert (finding.code, finding.severity) == ("KS402", "warning" if word == "cordoned" else "error")
    assert f"({word})" in finding.message
    assert "at most 1 can run" in finding.message
    assert ("nodeTaintsPolicy" in finding.fix) == (word == "tainted")


def test_policies_decide_which_nodes_count() -> None:
    nodes = [*zoned("a"), node("n9", labels={"zone": "c"}, **CLOSED)]
    assert graded([*nodes, web(3, nodeTaintsPolicy="Honor")]) == []
    pinned = web(3)
    pinned["spec"]["template"]["spec"]["nodeSelector"] = {"zone": "a"}
    assert graded([*zoned("a", "c"), pinned]) == []
    pinned["spec"]["template"]["spec"]["topologySpreadConstraints"] = spread(nodeAffinityPolicy="Ignore")
    (finding,) = found([*zoned("a", "c"), pinned])
    assert finding.code == "KS402"
    assert "nodeAffinityPolicy: Honor" in finding.fix


def test_others_that_are_to_come_may_raise_the_minimum() -> None:
    nodes = [*zoned("a"), node("n9", labels={"zone": "c"}, **CLOSED)]
    tolerant = deployment("more", 5, {"tolerations": [{"operator": "Exists"}]}, app="web", more="yes")
    assert graded([*nodes, web(3), tolerant]) == []


def test_a_rule_about_others_is_not_judged() -> None:
    nodes = [*zoned("a"), node("n9", labels={"zone": "c"}, **CLOSED)]
    other = deployment("other", 5, {"topologySpreadConstraints": spread("web")})
    assert graded([*nodes, other]) == []


def test_min_domains() -> None:
    assert graded([*zoned("a", "b"), web(3, minDomains=3)]) == [("KS401", "error")]
    assert graded([*zoned("a", "b"), web(2, minDomains=3)]) == [("KS401", "info")]
    assert graded([*zoned("a", "b", "c"), web(30, minDomains=3)]) == []


def test_full_for_now() -> None:
    nodes = zoned("a", "b", cpu="2")
    full = running("other", "n1", "other", cpu="2")
    wait = [*nodes, full, web(3, cpu="500m"), running("web-1-0", "n0", cpu="500m")]
    (finding,) = found(wait)
    assert (finding.code, finding.severity, finding.domain) == ("KS403", "warning", "zone=b")
    assert "at most 0 can be placed" in finding.message
    assert graded([*nodes, web(3, cpu="500m"), running("web-1-0", "n0", cpu="500m")]) == []
    all_full = [*wait, running("another", "n0", "other", cpu="1500m")]
    assert graded(all_full) == []  # no spread is to blame


def test_the_same_when_all_run_is_a_warning() -> None:
    nodes = [*zoned("a"), node("n9", labels={"zone": "c"}, **CLOSED)]
    assert graded([*nodes, web(3), *(running(f"web-1-{i}", "n0") for i in range(3))]) == [("KS402", "warning")]


def test_keys() -> None:
    assert graded([*zoned("a"), web(2, key="rack")]) == [("KS405", "error")]
    both = deployment("web", 2, {"topologySpreadConstraints": spread() + spread(key="rack")})
    nodes = [node("n0", labels={"zone": "a"}), node("n1", labels={"rack": "r"})]
    assert graded([*nodes, both]) == [("KS405", "error")] * 2  # no node has both
    (finding,) = found([*zoned("a"), node("n9"), web(2)])
    assert (finding.code, finding.nodes) == ("KS406", ["n9"])


def test_what_costs_only_is_not_judged() -> None:
    assert graded([*zoned("a"), web(9, key="rack", whenUnsatisfiable="ScheduleAnyway")]) == []


def test_without_nodes_it_says_so() -> None:
    view = ClusterView(from_objects([web(3)]))
    assert list(topology_spread.check(view)) == []
    assert view.not_checked == ["whether topology spread can hold: the snapshot has no nodes"]


@pytest.mark.full
def test_findings_about_spread_are_seen_and_true_in_tiny_clusters() -> None:
    wrong, seen = unsound(range(600, 1000), "spread")
    assert wrong == []
    assert seen & {"KS401", "KS402", "KS404", "KS405"}
