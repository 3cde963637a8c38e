"""Selectors that choose nothing, everything, or not the pods that they were meant for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kubestow.audit.checks import selectors
from kubestow.audit.view.view import ClusterView
from kubestow.models.documents.findings.audit import Finding
from kubestow.models.snapshot.snapshot import from_objects, load
from tests.audit.checks.unsatisfiable.test_check import affinity, deployment, together, zoned
from tests.objects import Object, node, pod

INSTANCES = Path(__file__).resolve().parents[3] / "instances" / "audit"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
OWN = [code.code for code in selectors.CODES]


def found(objects: list[Object]) -> list[Finding]:
    return list(selectors.check(ClusterView(from_objects(objects))))


def codes(objects: list[Object]) -> list[str]:
    return [finding.code for finding in found(objects)]


def spread(selector: Any, **more: Any) -> Object:
    chosen = {} if selector is None else {"labelSelector": selector}
    return {"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway", **chosen, **more}]}


def service(**selector: str) -> Object:
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s", "namespace": "default"}, "spec": {"selector": selector}}


@pytest.mark.parametrize("code", OWN)
def test_instances_have_the_one_finding_they_are_about(code: str) -> None:
    triggers, fixed = sorted(INSTANCES.glob(f"{code}-*.yaml"), key=lambda path: len(path.name))
    assert [f.code for f in selectors.check(ClusterView(load([str(triggers)])))] == [code]
    assert list(selectors.check(ClusterView(load([str(fixed)])))) == []


def test_a_dead_selector_of_several_replicas_names_the_label_that_differs() -> None:
    rule = together(affinity("podAntiAffinity", "web"))
    (finding,) = found([deployment("w", 3, rule, role="web")])
    assert (finding.code, finding.severity, finding.rule) == ("KS201", "warning", "InterPodAffinity")
    assert "the template has no label app (but role=web)" in finding.message
    (finding,) = found([deployment("w", 3, spread({"matchLabels": {"app": "web"}}), app="wab")])
    assert (finding.code, finding.severity, finding.rule) == ("KS201", "warning", "PodTopologySpread")
    assert "it requires app=web, but the template has app=wab" in finding.message


def test_keeping_away_from_what_is_not_there_is_worth_knowing_only() -> None:
    for replicas in (1, 3):
        (finding,) = found([deployment("web", replicas, together(affinity("podAntiAffinity", "noisy")))])
        assert (finding.code, finding.severity) == ("KS201", "info")


def test_affinity_to_what_is_not_in_a_manifest_is_worth_knowing_only() -> None:
    web = deployment("web", 2, together(affinity("podAffinity", "cache")))
    (finding,) = found([web])
    assert (finding.code, finding.severity) == ("KS201", "info")
    assert codes([*zoned("a"), web]) == []  # KS217 is about it


def test_pods_without_their_workload_are_matched_too() -> None:
    rule = together(affinity("podAntiAffinity", "noisy"))
    assert codes([*zoned("a"), pod("x", labels={"app": "noisy"}, node_name="n0"), deployment("web", 2, rule)]) == []
    over = {**pod("x", labels={"app": "noisy"}, node_name="n0"), "status": {"phase": "Succeeded"}}
    assert codes([*zoned("a"), over, deployment("web", 2, rule)]) == ["KS201"]


def test_keeping_away_from_others_is_no_mistake() -> None:
    assert codes([deployment("web", 3, together(affinity("podAntiAffinity", "noisy"))), deployment("noisy", 1)]) == []


def test_all_but_its_own_is_meant() -> None:
    term = {"topologyKey": "zone", "labelSelector": {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["web"]}]}}
    rule = {"affinity": {"podAntiAffinity": {REQUIRED: [term]}}}
    assert codes([deployment("web", 3, rule), deployment("noisy", 1)]) == []
    assert codes([deployment("web", 3, rule)]) == []  # all others; there are none yet


def test_anti_affinity_that_misses_its_own_by_one_label() -> None:
    term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "web", "tier": "front"}}}
    rule = {"affinity": {"podAntiAffinity": {REQUIRED: [term]}}}
    objects = [deployment("back", 3, rule, app="web", tier="back"), deployment("front", 1, app="web", tier="front")]
    assert codes(objects) == ["KS202"]
    own = {"weight": 1, "podAffinityTerm": {"topologyKey": "zone", "labelSelector": {"matchLabels": {"tier": "back"}}}}
    variants = {REQUIRED: [term], "preferredDuringSchedulingIgnoredDuringExecution": [own]}
    rule = together({"podAntiAffinity": variants})
    objects = [deployment("back", 3, rule, app="web", tier="back"), deployment("front", 1, app="web", tier="front")]
    assert codes(objects) == []  # another rule keeps its replicas apart


def test_one_replica_needs_no_spread() -> None:
    other = deployment("other", 1)
    assert codes([other, deployment("web", 1, spread({"matchLabels": {"app": "other"}}))]) == []
    assert codes([other, deployment("web", 2, spread({"matchLabels": {"app": "other"}}))]) == ["KS202"]


@pytest.mark.parametrize(("kind", "severity"), [("podAffinity", "error"), ("podAntiAffinity", "warning")])
def test_no_selector(kind: str, severity: str) -> None:
    rule = together({kind: {REQUIRED: [{"topologyKey": "zone"}]}})
    (finding,) = found([deployment("web", 2, rule)])
    assert (finding.code, finding.severity) == ("KS203", severity)


def test_no_selector_for_spread() -> None:
    """An empty one is no way out: topology spread counts no pod with it."""
    (finding,) = found([deployment("web", 2, spread(None))])
    assert finding.code == "KS203"
    assert "{} counts no pod either" in finding.fix
    (finding,) = found([deployment("web", 2, together({"podAntiAffinity": {REQUIRED: [{"topologyKey": "zone"}]}}))])
    assert "{} matches every pod" in finding.fix


def test_an_empty_selector_of_anti_affinity_is_told_once() -> None:
    rule = together({"podAntiAffinity": {REQUIRED: [{"topologyKey": "zone", "labelSelector": {}}]}})
    (finding,) = found([deployment("web", 2, rule)])
    assert (finding.code, finding.severity) == ("KS204", "info")
    assert "in namespace default" in finding.message
    assert codes([deployment("web", 2, rule), deployment("other", 1)]) == []  # KS302 is about it


def test_match_label_keys_make_no_empty_selector() -> None:
    assert codes([deployment("web", 2, spread({}, matchLabelKeys=["app"]))]) == []


def test_namespaces_are_judged_in_a_whole_cluster_only() -> None:
    web = deployment("web", 2, together(affinity("podAffinity", "web", namespaces=["nowhere", "default"])))
    view = ClusterView(from_objects([web]))
    assert list(selectors.check(view)) == []
    assert any("namespaces" in note for note in view.not_checked)
    default = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}}
    assert codes([default, node("n0"), web]) == ["KS205"]


def test_a_namespace_selector_that_selects_none() -> None:
    default = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}}
    web = deployment("web", 2, together(affinity("podAntiAffinity", "web", namespaceSelector={"matchLabels": {"team": "x"}})))
    (finding,) = found([default, node("n0"), web])
    assert finding.code == "KS205"
    assert finding.field is not None
    assert finding.field.endswith(".namespaceSelector")
    named = {"matchLabels": {"kubernetes.io/metadata.name": "default"}}
    web = deployment("web", 2, together(affinity("podAntiAffinity", "web", namespaceSelector=named)))
    assert codes([default, node("n0"), web]) == []


def test_services() -> None:
    assert [(f.code, f.severity) for f in found([deployment("x", 1), service(app="web")])] == [("KS206", "info")]
    assert [(f.code, f.severity) for f in found([node("n0"), pod("x"), service(app="web")])] == [("KS206", "warning")]
    view = ClusterView(from_objects([node("n0"), service(app="web")]))  # pods were not captured
    assert list(selectors.check(view)) == []
    assert any("Services" in note for note in view.not_checked)
    assert codes([service(app="web"), deployment("web", 0)]) == []
    assert codes([node("n0"), service(app="web"), pod("static", labels={"app": "web"}, node_name="n0")]) == []
    assert codes([service(**{"statefulset.kubernetes.io/pod-name": "web-0"}), {**deployment("web", 1), "kind": "StatefulSet"}]) == []
    assert codes([{**service(), "spec": {}}]) == []
    other = pod("x", namespace="other", labels={"app": "web"})
    assert codes([service(app="web"), other]) == ["KS206"]


@pytest.mark.parametrize(("selector", "uid", "expected"), [
    ({"app.kubernetes.io/name": "prometheus", "app.kubernetes.io/instance": "k8s"}, None, []),
    ({"prometheus": "k8s"}, None, []),
    ({"prometheus": "k9s"}, None, ["KS206"]),
    ({"prometheus": "k8s"}, "u1", ["KS206"]),
])  # fmt: skip
def test_services_of_pods_that_an_operator_makes_of_new_objects(selector: dict[str, str], uid: str | None, expected: list[str]) -> None:
    metadata = {"name": "k8s", "namespace": "default", **({"uid": uid} if uid else {})}
    operated: Object = {"apiVersion": "monitoring.coreos.com/v1", "kind": "Prometheus", "metadata": metadata, "spec": {"replicas": 2}}
    view = ClusterView(from_objects([operated, deployment("x", 1), service(**selector)]))
    assert [finding.code for finding in selectors.check(view)] == expected
    said = "whether Service default/s selects pods that Prometheus default/k8s creates"
    assert (said in view.not_checked) is (expected == [])
