"""Policies that the descheduler refuses are refused, with the place; in the others, unmodelled settings are named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kubestow.audit.descheduler import policy
from kubestow.models.snapshot.snapshot import InputError, Snapshot
from tests.audit.descheduler.planted import judged, policy_of, profile, read
from tests.objects import Object, node, pod

TAINTS = "RemovePodsViolatingNodeTaints"
LOW = "LowNodeUtilization"


def test_v1alpha1_is_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(InputError) as refused:
        read(tmp_path, {"apiVersion": "descheduler/v1alpha1", "kind": "DeschedulerPolicy", "strategies": {}}, [])
    (line,) = refused.value.problems
    assert "'descheduler/v1alpha1'" in line
    assert "expected descheduler/v1alpha2" in line


@pytest.mark.parametrize(
    ("plain", "said"),
    [
        ([], "a list"),
        ({**policy_of(), "profiles": []}, "profiles: empty"),
        (policy_of(profile(TAINTS), maxNoOfPodsToEvictPerNode=-1), "maxNoOfPodsToEvictPerNode"),
        (policy_of(profile(TAINTS), nodeSelector="a in b"), "nodeSelector: 'a in b' is not a label selector"),
        (policy_of(profile(TAINTS), unheard=1), "unheard"),
        (policy_of(profile("Unheard")), "'Unheard' is not a plugin of the descheduler"),
        (policy_of({**profile(TAINTS), "pluginConfig": []}), "is enabled without a pluginConfig"),
        (policy_of({**profile(LOW, {}), "plugins": {"deschedule": {"enabled": [LOW]}}}), "is not a plugin of this extension point"),
        (policy_of(profile(TAINTS, {"unheard": 1})), "profiles[0].pluginConfig[0].args"),
        (policy_of(profile(TAINTS, {"includedTaints": ["a"], "excludedTaints": ["b"]})), "only one of includedTaints and excludedTaints"),
        (policy_of(profile(TAINTS, {"namespaces": {"include": ["a"], "exclude": ["b"]}})), "only one of include and exclude"),
        (policy_of(profile(TAINTS, {"labelSelector": {"matchExpressions": [{"key": "a", "operator": "Is"}]}})), "operator 'Is'"),
        (policy_of(profile("RemovePodsViolatingNodeAffinity")), "nodeAffinityType: empty"),
        (policy_of(profile("RemovePodsViolatingNodeAffinity", {"nodeAffinityType": ["x"]})), "nodeAffinityType: 'x'"),
        (policy_of(profile("RemovePodsViolatingTopologySpreadConstraint", {"constraints": ["x"]})), "constraints: 'x'"),
        (policy_of(profile(LOW)), "thresholds: no resource is named"),
        (policy_of(profile(LOW, {"thresholds": {"cpu": 20}, "targetThresholds": {"memory": 20}})), "must name the same resources"),
        (policy_of(profile(LOW, {"thresholds": {"cpu": 60}, "targetThresholds": {"cpu": 50}})), "greater than in targetThresholds"),
        (policy_of(profile(LOW, {"thresholds": {"cpu": 101}, "targetThresholds": {"cpu": 101}})), "thresholds"),
        (policy_of(profile("HighNodeUtilization", {"thresholds": {"cpu": 1}, "evictionModes": ["x"]})), "evictionModes: 'x'"),
        (policy_of(profile(TAINTS, evictor={"priorityThreshold": {"value": 1, "name": "a"}})), "only one of value and name"),
        (policy_of(profile(TAINTS, evictor={"priorityThreshold": {"name": "a"}})), "the snapshot has no PriorityClass 'a'"),
        (policy_of(profile(TAINTS, evictor={"priorityThreshold": {"value": 2_000_000_001}})), "expected at most 2000000000"),
        (policy_of(profile(TAINTS, evictor={"noEvictionPolicy": "x"})), "noEvictionPolicy: 'x'"),
        (policy_of(profile(TAINTS, evictor={"podProtections": {"extraEnabled": ["x"]}})), "podProtections.extraEnabled: 'x'"),
        (
            policy_of(profile(TAINTS, evictor={"ignorePvcPods": True, "podProtections": {"extraEnabled": ["PodsWithPVC"]}})),
            "cannot be combined with the fields that it replaces",
        ),
        ({"kind": "ConfigMap", "data": {}}, "0 DeschedulerPolicies"),
        ({"kind": "ConfigMap", "data": {"a": "kind: DeschedulerPolicy\n\tx"}}, "ConfigMap: data"),
    ],
)
def test_what_the_descheduler_refuses_is_refused_in_a_line(tmp_path: Path, plain: Any, said: str) -> None:
    with pytest.raises(InputError) as refused:
        read(tmp_path, plain, [])
    assert any(said in line for line in refused.value.problems), refused.value.problems
    assert all(line.startswith(str(tmp_path)) and "\n" not in line for line in refused.value.problems)


def test_all_problems_are_said_at_once(tmp_path: Path) -> None:
    plain = policy_of(profile("A"), profile("B"))
    with pytest.raises(InputError) as refused:
        read(tmp_path, plain, [])
    assert len(refused.value.problems) == 4


def test_a_config_map_is_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "map.json"
    text = json.dumps(policy_of(profile(TAINTS)))
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "data": {"policy.yaml": text}}), encoding="utf-8")
    assert [name for name, _ in policy.read(str(path), Snapshot()).profiles[0].deschedule] == [TAINTS]


def test_what_is_not_modelled_is_named(tmp_path: Path) -> None:
    own = profile("PodLifeTime", {"maxPodLifeTimeSeconds": 60}, {"minPodAge": "5m"})
    own["plugins"]["balance"] = {"disabled": ["RemoveDuplicates"]}
    things: list[Object] = [node("n1"), node("n2"), pod("p", node_name="n1", owner="ReplicaSet/r")]
    found = judged(tmp_path, policy_of(own), things)
    assert not found.strategies
    for said in ("PodLifeTime", "minPodAge", "disabled"):
        assert any(said in text for text in found.notModelled)


def test_extension_points_may_be_written_as_the_documentation_does(tmp_path: Path) -> None:
    own = profile(TAINTS)
    own["plugins"]["preEvictionFilter"] = {"enabled": ["DefaultEvictor"]}
    assert read(tmp_path, policy_of(own), []).profiles[0].name == "p"


def test_what_is_null_is_taken_for_not_stated(tmp_path: Path) -> None:
    """Go reads ``deschedule:`` with nothing behind it as a field that is not there."""
    whole = profile(TAINTS, {"namespaces": None, "labelSelector": None}, evictor={"minReplicas": None})
    plain = {**policy_of({**whole, "plugins": {**whole["plugins"], "balance": None}}), "nodeSelector": None}
    assert [name for name, _ in read(tmp_path, plain, []).profiles[0].deschedule] == [TAINTS]
    with pytest.raises(InputError, match="profiles: empty"):
        read(tmp_path, {**policy_of(), "profiles": None}, [])
