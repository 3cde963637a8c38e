"""Strategies against broken rules, on clusters whose evictions and benefits can be worked out by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from kubestow.models.documents.findings.descheduler import Range
from tests.audit.descheduler.planted import evicted, judged, policy_of, profile, refused
from tests.objects import Object, node, pod

ANTI = "RemovePodsViolatingInterPodAntiAffinity"
AFFINITY = "RemovePodsViolatingNodeAffinity"
TAINTS = "RemovePodsViolatingNodeTaints"
APART: Object = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"labelSelector": {"matchLabels": {"app": "a"}}, "topologyKey": "kubernetes.io/hostname"}
        ]
    }
}
TAINT = {"key": "old", "value": "yes", "effect": "NoSchedule"}
NOSCHEDULE: Object = {"nodeAffinityType": ["requiredDuringSchedulingIgnoredDuringExecution"]}
PREFERRED: Object = {"nodeAffinityType": ["preferredDuringSchedulingIgnoredDuringExecution"]}


def apart(name: str, at: str, **more: object) -> Object:
    return pod(name, node_name=at, owner="ReplicaSet/r", labels={"app": "a"}, affinity=APART, **more)  # type: ignore[arg-type]


def affine(name: str, at: str, required: bool = True) -> Object:
    term = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}
    own: Object = (
        {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
        if required
        else {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 5, "preference": term}]}
    )
    return pod(name, node_name=at, owner="ReplicaSet/r", affinity={"nodeAffinity": own})


def test_of_two_pods_that_keep_apart_the_less_important_goes_and_finds_another_node(tmp_path: Path) -> None:
    things = [node("n1"), node("n2"), apart("high", "n1", priority=10), apart("low", "n1", priority=1)]
    found = judged(tmp_path, policy_of(profile(ANTI)), things)
    assert evicted(found) == ["low"]
    assert [(e.helps, e.returns, e.pending) for e in found.evictions] == [("always", "never", "never")]
    assert found.exhaustive
    (instead,) = found.instead
    assert (instead.goal, instead.moves, instead.evictions, instead.again) == ("repair", 1, 1, 0)


def test_where_no_other_node_takes_it_the_evicted_pod_waits(tmp_path: Path) -> None:
    things = [node("n1"), node("n2", unschedulable=True), apart("x", "n1"), apart("y", "n1")]
    found = judged(tmp_path, policy_of(profile(ANTI)), things)
    assert [(e.helps, e.pending) for e in found.evictions] == [("never", "always")]
    assert found.strategies[0].pending == 1
    assert any("preemption" in text for text in found.notModelled)


def test_with_node_fit_a_pod_that_fits_nowhere_else_stays(tmp_path: Path) -> None:
    things = [node("n1"), node("n2", unschedulable=True), apart("x", "n1"), apart("y", "n1")]
    assert evicted(judged(tmp_path, policy_of(profile(ANTI, evictor={"nodeFit": True})), things)) == []


def test_only_a_pods_own_terms_count(tmp_path: Path) -> None:
    other = pod("b", node_name="n1", owner="ReplicaSet/r", labels={"app": "a"})
    things = [node("n1"), node("n2"), apart("a", "n1"), other]
    assert evicted(judged(tmp_path, policy_of(profile(ANTI)), things)) == ["a"]


def test_node_affinity_that_no_longer_holds_sends_a_pod_to_where_it_does(tmp_path: Path) -> None:
    things = [node("n1"), node("n2", labels={"disk": "ssd"}), affine("x", "n1"), affine("y", "n2")]
    found = judged(tmp_path, policy_of(profile(AFFINITY, NOSCHEDULE)), things)
    assert evicted(found) == ["x"]
    assert found.evictions[0].helps == "always"


def test_without_a_node_that_would_do_node_affinity_evicts_nobody(tmp_path: Path) -> None:
    things = [node("n1"), node("n2"), affine("x", "n1")]
    assert evicted(judged(tmp_path, policy_of(profile(AFFINITY, NOSCHEDULE)), things)) == []


def test_a_preference_does_not_keep_a_pod_from_coming_back(tmp_path: Path) -> None:
    things = [node("n1"), node("n2", labels={"disk": "ssd"}), affine("x", "n1", required=False)]
    found = judged(tmp_path, policy_of(profile(AFFINITY, PREFERRED)), things)
    assert evicted(found) == ["x"]
    assert (found.evictions[0].helps, found.evictions[0].returns) == ("sometimes", "sometimes")
    assert found.strategies[0].again == Range(0, 1)
    assert [(plan.goal, plan.moves, plan.again) for plan in found.instead] == [("improve", 1, 0)]


@pytest.mark.parametrize(
    ("args", "gone"),
    [
        ({}, ["x"]),
        ({"excludedTaints": ["old"]}, []),
        ({"excludedTaints": ["old=yes"]}, []),
        ({"excludedTaints": ["old=no"]}, ["x"]),
        ({"includedTaints": ["old=yes"]}, ["x"]),
        ({"includedTaints": ["else"]}, []),
        ({"includePreferNoSchedule": True}, ["x", "z"]),
        ({"namespaces": {"exclude": ["default"]}}, []),
        ({"labelSelector": {"matchLabels": {"app": "other"}}}, []),
    ],
)
def test_taints_of_which_effects_and_names_count(tmp_path: Path, args: Object, gone: list[str]) -> None:
    tolerant = pod("y", node_name="n1", owner="ReplicaSet/r", tolerations=[{"key": "old", "operator": "Exists"}])
    soft = node("n2", taints=[{"key": "soft", "effect": "PreferNoSchedule"}])
    bare = pod("bare", node_name="n1")
    things = [node("n1", taints=[TAINT]), soft, node("n3"), pod("x", node_name="n1", owner="ReplicaSet/r"), tolerant, bare]
    things.append(pod("z", node_name="n2", owner="ReplicaSet/r"))
    assert evicted(judged(tmp_path, policy_of(profile(TAINTS, args)), things)) == gone


def _tainted(number: int = 3, **more: object) -> list[Object]:
    return [node("n1", taints=[TAINT]), node("n2")] + [
        pod(f"p{k}", node_name="n1", owner="ReplicaSet/r", labels={"app": "a"}, **more)  # type: ignore[arg-type]
        for k in range(number)
    ]


@pytest.mark.parametrize(
    ("limits", "gone", "by"),
    [
        ({"maxNoOfPodsToEvictPerNode": 1}, ["p0"], "maxNoOfPodsToEvictPerNode 1"),
        ({"maxNoOfPodsToEvictPerNamespace": 2}, ["p0", "p1"], "maxNoOfPodsToEvictPerNamespace 2"),
        ({"maxNoOfPodsToEvictTotal": 0}, [], "maxNoOfPodsToEvictTotal 0"),
    ],
)
def test_limits_end_it(tmp_path: Path, limits: dict[str, int], gone: list[str], by: str) -> None:
    found = judged(tmp_path, policy_of(profile(TAINTS), **limits), _tainted())
    assert evicted(found) == gone
    assert set(refused(found).values()) == {by}


def test_budgets_refuse_evictions(tmp_path: Path) -> None:
    budget = {
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "a"}}, "minAvailable": 2},
    }  # fmt: skip
    found = judged(tmp_path, policy_of(profile(TAINTS)), [*_tainted(), budget])
    assert evicted(found) == ["p0"]
    assert refused(found) == dict.fromkeys(["p1", "p2"], "PodDisruptionBudget default/b allows no eviction now")
    assert found.strategies[0].refused == 2


@pytest.mark.parametrize(
    ("evictor", "more", "goes"),
    [
        ({}, {"volumes": [{"name": "v", "emptyDir": {}}]}, False),
        ({"evictLocalStoragePods": True}, {"volumes": [{"name": "v", "emptyDir": {}}]}, True),
        ({"podProtections": {"defaultDisabled": ["PodsWithLocalStorage"]}}, {"volumes": [{"name": "v", "hostPath": {"path": "/"}}]}, True),
        ({}, {"priority": 2_000_000_000}, False),
        ({"evictSystemCriticalPods": True}, {"priority": 2_000_000_000}, True),
        ({"priorityThreshold": {"value": 100}}, {"priority": 100}, False),
        ({"priorityThreshold": {"value": 101}}, {"priority": 100}, True),
        ({"priorityThreshold": {"name": "gold"}}, {"priority": 500}, False),
        ({"ignorePvcPods": True}, {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}, False),
        ({"ignorePodsWithoutPDB": True}, {}, False),
        ({"labelSelector": {"matchLabels": {"app": "b"}}}, {}, False),
        ({"minReplicas": 2}, {}, False),
        ({"minReplicas": 1}, {}, True),
        ({"namespaceLabelSelector": {"matchLabels": {"team": "x"}}}, {}, True),
        ({"namespaceLabelSelector": {"matchLabels": {"team": "y"}}}, {}, False),
    ],
)
def test_what_the_evictor_protects(tmp_path: Path, evictor: Object, more: Object, goes: bool) -> None:
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default", "labels": {"team": "x"}}}
    gold = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "gold"}, "value": 500}
    found = judged(tmp_path, policy_of(profile(TAINTS, evictor=evictor)), [*_tainted(1, **more), space, gold])
    assert evicted(found) == ["p0"] * goes


def test_the_annotation_overrides_protections_and_a_bare_pod_is_gone(tmp_path: Path) -> None:
    bare = pod("bare", node_name="n1")
    bare["metadata"]["annotations"] = {"descheduler.alpha.kubernetes.io/evict": "true"}
    found = judged(tmp_path, policy_of(profile(TAINTS)), [*_tainted(0), bare])
    assert evicted(found) == ["bare"]
    assert (found.evictions[0].recreated, found.evictions[0].pending, found.evictions[0].helps) == (False, "always", "never")


def test_a_wish_to_stay_counts_where_the_policy_says_so(tmp_path: Path) -> None:
    things = _tainted(1)
    things[-1]["metadata"]["annotations"] = {"descheduler.alpha.kubernetes.io/prefer-no-eviction": ""}
    assert evicted(judged(tmp_path, policy_of(profile(TAINTS)), things)) == ["p0"]
    assert evicted(judged(tmp_path, policy_of(profile(TAINTS, evictor={"noEvictionPolicy": "Mandatory"})), things)) == []


def test_nodes_that_the_policy_does_not_select_are_left_alone(tmp_path: Path) -> None:
    things = [*_tainted(1), node("n3", labels={"pool": "a"}), node("n4", labels={"pool": "a"})]
    assert evicted(judged(tmp_path, policy_of(profile(TAINTS), nodeSelector="pool=a"), things)) == []
    found = judged(tmp_path, policy_of(profile(TAINTS), nodeSelector="pool=b"), things)
    assert found.skipped is not None
    assert not found.strategies
