"""NodeDeclaredFeatures and Gt/Lt tolerations in the solver: rejected pods, distinguished pods, and placed pods."""

from __future__ import annotations

from typing import Any

import pytest

from kubestow.checker.placement import rejecting_rules, verify
from kubestow.models.cluster.compile import compile_cluster
from kubestow.models.kube.feature_gates import FeatureGates
from kubestow.models.snapshot.scope import select
from kubestow.models.snapshot.snapshot import Snapshot, from_objects
from kubestow.solver.explain.per_node import explain
from kubestow.solver.runtime.options import Options
from kubestow.solver.solve import place
from tests.objects import node, pod

RESTARTS = "RestartAllContainersOnContainerExits"
NETWORK = "UserNamespacesHostNetworkSupport"
COMPARING = FeatureGates("1.36", (("TaintTolerationComparisonOperators", True),))


def declaring(name: str, *features: str, cpu: str = "4") -> dict[str, Any]:
    found = node(name, cpu=cpu)
    found["status"]["declaredFeatures"] = list(features)
    return found


def restarting(name: str, action: str = "RestartAllContainers") -> dict[str, Any]:
    found = pod(name)
    found["spec"]["containers"][0]["restartPolicyRules"] = [{"action": action, "exitCodes": {"operator": "In", "values": [42]}}]
    return found


def rejected(snapshot: Snapshot, name: str) -> dict[str, list[str]]:
    (verdict,) = explain(snapshot, pod=f"default/{name}")
    (chosen,) = [p for p in snapshot.pods if p.metadata.name == name]
    for found in snapshot.nodes:
        here = found.metadata.name or ""
        assert rejecting_rules(snapshot, chosen, here) == verdict.rejected.get(here, [])
    return verdict.rejected


def test_a_node_has_to_declare_what_a_spec_needs() -> None:
    objects = [
        declaring("both", "Unheard", RESTARTS, NETWORK), declaring("one", RESTARTS), node("none"),
        restarting("restarts"), restarting("plain", "Restart"),
        pod("network", hostNetwork=True, hostUsers=False), pod("host", hostNetwork=True), pod("users", hostUsers=False),
    ]  # fmt: skip
    snapshot = from_objects(objects)
    assert rejected(snapshot, "restarts") == {"none": ["NodeDeclaredFeatures"]}
    assert rejected(snapshot, "network") == {"one": ["NodeDeclaredFeatures"], "none": ["NodeDeclaredFeatures"]}
    for name in ("plain", "host", "users"):
        assert rejected(snapshot, name) == {}
    (verdict,) = explain(snapshot, pod="default/network")
    assert verdict.messages == {"NodeDeclaredFeatures": f"not declared by the kubelet: {NETWORK}"}
    snapshot.gates = FeatureGates("1.35")
    assert rejected(snapshot, "restarts") == rejected(snapshot, "network") == {}


def test_pods_that_differ_in_what_they_need_are_of_two_classes() -> None:
    snapshot = from_objects([node("n1"), pod("a", hostUsers=False), pod("b", hostNetwork=True, hostUsers=False)])
    assert [cls.features for cls in compile_cluster(snapshot, select(snapshot)).classes] == [(), (NETWORK,)]
    snapshot.gates = FeatureGates("1.34")
    assert len(compile_cluster(snapshot, select(snapshot)).classes) == 1


def test_a_batch_goes_where_its_features_are() -> None:
    snapshot = from_objects(
        [node("n1", cpu="1"), declaring("n2", RESTARTS, cpu="1"), *(restarting(f"p{i}") for i in range(3)), pod("q", cpu="1")]
    )
    result = place(snapshot, Options(deterministic=True))
    assert {a.pod: a.node for a in result.assignments} == {**{f"default/p{i}": "n2" for i in range(3)}, "default/q": "n1"}
    assert verify(snapshot, result) == []


def test_a_cause_names_what_is_not_declared() -> None:
    snapshot = from_objects([node("n1"), restarting("p")])
    (unplaced,) = place(snapshot, Options(deterministic=True)).unplaced
    assert [(reason.rule, reason.nodes) for reason in unplaced.reasons] == [("NodeDeclaredFeatures", 1)]
    assert RESTARTS in unplaced.reasons[0].message


@pytest.mark.parametrize(("gates", "nodes"), [(COMPARING, {"high"}), (FeatureGates("1.36"), set()), (FeatureGates("1.34"), set())])
def test_a_toleration_that_compares_opens_nodes_where_its_gate_is_on(gates: FeatureGates, nodes: set[str]) -> None:
    def rated(name: str, value: str, **spec: Any) -> dict[str, Any]:
        return node(name, taints=[{"key": "sla", "value": value, "effect": "NoSchedule"}], **spec)

    toleration = {"key": "sla", "operator": "Gt", "value": "950", "effect": "NoSchedule"}
    objects = [rated("low", "950"), rated("high", "951"), rated("word", "gold"), rated("shut", "999", unschedulable=True)]
    snapshot = from_objects([*objects, pod("p", tolerations=[toleration])])
    snapshot.gates = gates
    found = rejected(snapshot, "p")
    assert {"low", "high", "word", "shut"} - found.keys() == nodes
    assert found["low"] == found["word"] == ["TaintToleration"]
    assert found["shut"] == (["NodeUnschedulable"] if nodes else ["NodeUnschedulable", "TaintToleration"])


def test_spread_counts_nodes_by_tolerations_that_compare() -> None:
    zones = [node(f"n{i}", labels={"zone": f"z{i}"}, taints=[{"key": "sla", "value": str(i), "effect": "NoSchedule"}]) for i in range(3)]
    spread = {
        "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "nodeTaintsPolicy": "Honor",
        "labelSelector": {"matchLabels": {"app": "a"}},
    }  # fmt: skip
    tolerations = [{"key": "sla", "operator": "Gt", "value": "0"}]
    there = pod("there", node_name="n1", labels={"app": "a"})
    snapshot = from_objects([*zones, there, pod("p", labels={"app": "a"}, spread=[spread], tolerations=tolerations)])
    snapshot.gates = COMPARING  # zone z0, where no pod may go, does not count: the minimum is that of z2
    assert rejected(snapshot, "p") == {"n0": ["TaintToleration"], "n1": ["PodTopologySpread"]}


def test_preferred_taints_cost_nothing_where_a_comparison_tolerates_them() -> None:
    soft = [{"key": "cost", "value": "5", "effect": "PreferNoSchedule"}]
    objects = [node("n1", taints=soft), pod("p", tolerations=[{"key": "cost", "operator": "Lt", "value": "9"}])]
    for gates, points in ((COMPARING, []), (FeatureGates("1.36"), [-100])):
        snapshot = from_objects(objects)
        snapshot.gates = gates
        result = place(snapshot, Options(deterministic=True))
        assert [tier.value for tier in result.objective if tier.tier == "soft"] == points
        assert verify(snapshot, result) == []


def running(name: str, info: str | None, label: str | None = None) -> dict[str, Any]:
    found = node(name, labels={"kubernetes.io/os": label} if label else {})
    found["status"]["nodeInfo"] = {"kubeletVersion": "v1.36.0", **({"operatingSystem": info} if info else {})}
    return found


def test_a_pod_goes_to_nodes_of_the_operating_system_that_it_names() -> None:
    nodes = [running("lin", "linux"), running("win", "windows"), running("labelled", None, "windows"), running("unknown", None)]
    nodes += [running("relabelled", "linux", "windows")]  # the kubelet's own labels count
    snapshot = from_objects([*nodes, pod("p", os={"name": "linux"}), pod("w", os={"name": "windows"}), pod("any")])
    assert rejected(snapshot, "p") == {"win": ["PodOS"], "labelled": ["PodOS"]}
    assert rejected(snapshot, "w") == {"lin": ["PodOS"], "relabelled": ["PodOS"]}
    assert rejected(snapshot, "any") == {}
    (verdict,) = explain(snapshot, pod="default/p")
    assert verdict.messages == {"PodOS": "the kubelet refuses: spec.os is linux, the node runs windows"}


def test_no_pod_is_placed_where_the_kubelet_refuses_it() -> None:
    snapshot = from_objects([running("win", "windows"), pod("p", os={"name": "linux"}), pod("q", os={"name": "windows"})])
    placement = place(snapshot, Options(deterministic=True))
    assert [a.pod for a in placement.assignments] == ["default/q"]
    assert verify(snapshot, placement) == []
    placement.assignments[0].pod = "default/p"
    assert any("PodOS" in str(found) for found in verify(snapshot, placement))
