"""Required anti-affinity that keeps others out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kubestow.audit.checks.anti_affinity import domain_blocking
from kubestow.audit.view.view import ClusterView
from kubestow.models.documents.findings.audit import Finding
from kubestow.models.snapshot.snapshot import from_objects, load
from tests.audit.checks.unsatisfiable.test_check import affinity, deployment, together, zoned
from tests.objects import Object, node, pod
from tests.tiny import HOST

ROOT = Path(__file__).resolve().parents[4]
INSTANCES = ROOT / "instances" / "audit"
OWN = [code.code for code in domain_blocking.CODES]


def found(objects: list[Object], **view: Any) -> list[Finding]:
    return list(domain_blocking.check(ClusterView(from_objects(objects), **view)))


def graded(objects: list[Object], **view: Any) -> list[tuple[str, str]]:
    return [(finding.code, finding.severity) for finding in found(objects, **view)]


def everyone(key: str = "zone", **more: Any) -> Object:
    return together(
        {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": key, "labelSelector": {}, **more}]}}
    )


def elsewhere(name: str, replicas: int = 2) -> Object:
    found = deployment(name, replicas)
    found["metadata"]["namespace"] = "other"
    return found


@pytest.mark.parametrize("code", OWN)
def test_instances(code: str) -> None:
    triggers, fixed = sorted(INSTANCES.glob(f"{code}-*.yaml"), key=lambda path: len(path.name))
    assert {f.code for f in domain_blocking.check(ClusterView(load([str(triggers)])))} == {code, *(["KS302"] if code == "KS303" else [])}
    assert list(domain_blocking.check(ClusterView(load([str(fixed)])))) == []


def test_the_hog_of_the_seed() -> None:
    all_, held = domain_blocking.check(ClusterView(load([str(ROOT / "instances" / "seeds" / "anti-affinity-hog.yaml")])))
    assert (all_.code, all_.severity, all_.object) == ("KS301", "error", "Pod default/hog")
    assert (held.code, held.severity, held.domain) == ("KS303", "error", "topology.kubernetes.io/zone=a")
    assert (held.nodes, held.pods) == (["a1", "a2"], ["default/hog"])
    assert "tenants/tenant-a" in held.message
    assert "tenants/tenant-1" not in held.message  # it may use zone b


def test_all_namespaces_is_warned_of_even_for_its_own_pods() -> None:
    assert graded([deployment("web", 2, together(affinity("podAntiAffinity", "web", namespaceSelector={})))]) == [("KS301", "warning")]


def test_a_selector_of_namespaces_that_selects_all_of_several() -> None:
    chosen = {"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "Exists"}]}
    hog = deployment("hog", 1, everyone(namespaceSelector=chosen))
    assert graded([hog, elsewhere("shop")]) == [("KS301", "error")]
    assert graded([hog]) == []  # its own is the only one
    one = {"matchLabels": {"kubernetes.io/metadata.name": "other"}}
    assert graded([deployment("hog", 1, everyone(namespaceSelector=one)), elsewhere("shop")]) == [("KS302", "warning")]


def test_hostnames_are_nobodys_zone() -> None:
    assert graded([deployment("alone", 1, everyone(HOST, namespaceSelector={})), elsewhere("shop")]) == [("KS304", "info")]
    assert graded([deployment("alone", 1, everyone(HOST))]) == []


def test_some_others_are_worth_knowing_and_most_others_a_warning() -> None:
    rule = together(affinity("podAntiAffinity", "a"))
    others = [deployment(name, 1) for name in "abcd"]
    assert graded([deployment("hog", 1, rule), *others]) == [("KS302", "info")]
    most = {"matchExpressions": [{"key": "app", "operator": "In", "values": ["a", "b", "c"]}]}
    wide = together(
        {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone", "labelSelector": most}]}}
    )
    assert graded([deployment("hog", 1, wide), *others]) == [("KS302", "warning")]


def test_its_own_pods_and_those_of_the_same_rule_are_no_others() -> None:
    rule = together(affinity("podAntiAffinity", "web"))
    assert graded([deployment("web", 3, rule)]) == []
    assert graded([deployment("blue", 3, rule, app="web", color="blue"), deployment("green", 3, rule, app="web", color="green")]) == []


def test_a_preferred_rule_keeps_nobody_out() -> None:
    term = {"weight": 1, "podAffinityTerm": {"topologyKey": "zone", "labelSelector": {}, "namespaceSelector": {}}}
    soft = together({"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}})
    assert graded([deployment("web", 1, soft), elsewhere("shop")]) == []


def test_exempt_namespaces_neither_keep_out_nor_are_kept_out() -> None:
    hog = deployment("hog", 1, everyone(namespaceSelector={}))
    assert graded([hog, elsewhere("shop")], exempt=("default",)) == []
    assert graded([hog, elsewhere("shop")], exempt=("other",)) == []


def test_a_domain_is_held_by_what_runs() -> None:
    term = everyone()["affinity"]
    waiting = pod("hog", affinity=term)
    nodes = zoned("a", "a", "b")
    assert graded([*nodes, waiting, elsewhere("shop"), deployment("near", 1)]) == [("KS302", "warning")]
    running = pod("hog", affinity=term, node_name="n0")
    _, held = found([*nodes, running, deployment("near", 1)])
    assert (held.code, held.severity, held.domain, held.nodes) == ("KS303", "warning", "zone=a", ["n0", "n1"])
    stuck = pod("stuck", selector={"zone": "a"})
    assert found([*nodes, running, stuck])[1].severity == "error"
    free = pod("free")
    assert found([*nodes, running, free])[1].severity == "warning"


# --- consequences for other workloads ----------------------------------------------------------------------------------------


def node_of(name: str, zone: str, cpu: str = "4") -> Object:
    return node(name, cpu=cpu, memory="8Gi", labels={"zone": zone})


def test_what_is_free_beside_a_running_pod_is_kept_from_others() -> None:
    """Zone a has two nodes of 4 CPU: 1 is the pod's own, half of one another's."""
    hog = pod("hog-0", node_name="a0", cpu="1", memory="1Gi", **everyone())
    other = pod("x", namespace="other", node_name="a1", cpu="500m", memory="1Gi")
    (claims, held) = found([node_of("a0", "a"), node_of("a1", "a"), node_of("b0", "b"), hog, other, pod("y")])
    assert (claims.code, held.code) == ("KS302", "KS303")
    assert "its 1 running pod denies them the 6500m CPU and 14Gi memory that are free there" in claims.message
    assert "6500m CPU and 14Gi memory are free there" in held.message


def test_without_running_pods_it_is_the_largest_domain_that_takes_one() -> None:
    hog = deployment("hog", 1, everyone(HOST))
    hog["spec"]["template"]["spec"]["nodeSelector"] = {"zone": "a"}
    hog["spec"]["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "500m"}}
    nodes = [node_of("a0", "a", "2"), node_of("a1", "a", "3"), node_of("b0", "b", "16")]
    (finding,) = found([*nodes, hog, deployment("web", 1)])
    assert finding.code == "KS304"
    assert "one of its pods would deny them up to 2500m CPU and 8Gi memory" in finding.message
