"""KubeSchedulerConfigurations: what is read, what it means, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from kubestow.models.documents.policy import SYSTEM_CONSTRAINTS
from kubestow.models.scheduler import configuration
from kubestow.models.scheduler.profiles import DEFAULT_PROFILE, SCORE_WEIGHTS, Profile, default_rules, profiles, unmodelled
from kubestow.models.snapshot.snapshot import InputError

BASE = {"apiVersion": configuration.API_VERSION, "kind": configuration.KIND}


def read(tmp_path: Path, document: Any) -> dict[str, Profile]:
    file = tmp_path / "scheduler.yaml"
    file.write_text(yaml.safe_dump(document))
    return profiles(*configuration.read(str(file)))


def profile(tmp_path: Path, **section: Any) -> Profile:
    (found,) = read(tmp_path, {**BASE, "profiles": [section]}).values()
    return found


def test_an_empty_configuration_is_the_default(tmp_path: Path) -> None:
    assert read(tmp_path, BASE) == {"default-scheduler": DEFAULT_PROFILE}
    assert profile(tmp_path) == DEFAULT_PROFILE
    assert unmodelled({"default-scheduler": DEFAULT_PROFILE}) == []


@pytest.mark.parametrize(
    ("plugins", "expected"),
    [
        ({"score": {"disabled": [{"name": "ImageLocality"}]}}, {"ImageLocality": None}),
        ({"score": {"disabled": [{"name": "*"}], "enabled": [{"name": "NodeResourcesFit", "weight": 4}]}}, "only NodeResourcesFit"),
        ({"multiPoint": {"disabled": [{"name": "ImageLocality"}]}}, {"ImageLocality": None}),
        ({"multiPoint": {"enabled": [{"name": "ImageLocality", "weight": 9}]}}, {"ImageLocality": 9}),
        ({"multiPoint": {"enabled": [{"name": "TaintToleration"}]}}, {"TaintToleration": 1}),
        (
            {
                "multiPoint": {"enabled": [{"name": "ImageLocality", "weight": 9}]},
                "score": {"enabled": [{"name": "ImageLocality", "weight": 5}]},
            },
            {"ImageLocality": 5},
        ),
        (
            {"multiPoint": {"disabled": [{"name": "*"}]}, "score": {"enabled": [{"name": "NodeResourcesFit", "weight": 4}]}},
            "only NodeResourcesFit",
        ),
    ],
)
def test_weights_follow_the_extension_points(tmp_path: Path, plugins: Any, expected: Any) -> None:
    weights = profile(tmp_path, plugins=plugins).weights
    if expected == "only NodeResourcesFit":
        assert weights == {"NodeResourcesFit": 4}
    else:
        merged = {**SCORE_WEIGHTS, **expected}
        assert weights == {name: weight for name, weight in merged.items() if weight is not None}


def test_arguments(tmp_path: Path) -> None:
    given = [
        {"name": "InterPodAffinity", "args": {"hardPodAffinityWeight": 40, "ignorePreferredTermsOfExistingPods": True}},
        {
            "name": "PodTopologySpread",
            "args": {
                "defaultingType": "List",
                "defaultConstraints": [
                    {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"},
                    {"maxSkew": 2, "topologyKey": "rack", "whenUnsatisfiable": "DoNotSchedule"},
                ],
            },
        },
        {"name": "NodeResourcesFit", "args": {"scoringStrategy": {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 0}]}}},
    ]
    found = profile(tmp_path, schedulerName="batch", pluginConfig=given)
    assert (found.name, found.hard_affinity_weight, found.ignores_terms_of_others) == ("batch", 40, True)
    assert [(each.topologyKey, each.maxSkew) for each in found.spread] == [("zone", 1)]
    assert [(each.topologyKey, each.maxSkew) for each in found.hard_spread] == [("rack", 2)]
    assert (found.strategy.type, [(each.name, each.weight) for each in found.strategy.resources]) == ("MostAllocated", [("cpu", 1)])
    assert default_rules({"batch": found}) == ["scheduler profile batch: default constraints DoNotSchedule"]
    assert profile(tmp_path).spread == SYSTEM_CONSTRAINTS


def test_what_is_not_followed_is_named(tmp_path: Path) -> None:
    section = {
        "plugins": {
            "filter": {"disabled": [{"name": "NodePorts"}], "enabled": [{"name": "Mine"}]},
            "postFilter": {"disabled": [{"name": "*"}]},
        },
        "pluginConfig": [
            {"name": "NodeResourcesFit", "args": {"ignoredResources": ["example.com/x"], "ignoredResourceGroups": ["example.org"]}},
            {
                "name": "NodeAffinity",
                "args": {"addedAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{}]}}},
            },
            {"name": "Mine", "args": {"anything": 1}},
        ],
    }
    found = read(tmp_path, {**BASE, "profiles": [section], "extenders": [{"urlPrefix": "http://127.0.0.1/x"}]})
    start = "scheduler profile default-scheduler: "
    assert unmodelled(found) == [
        f"{start}plugin Mine is out of tree",
        f"{start}filter NodePorts is disabled",
        f"{start}extender http://127.0.0.1/x",
        f"{start}NodeResourcesFit ignores example.com/x, example.org/*",
        f"{start}NodeAffinity adds required node affinity",
    ]
    assert not found["default-scheduler"].preempts


def test_a_config_map(tmp_path: Path) -> None:
    text = yaml.safe_dump({**BASE, "profiles": [{"schedulerName": "packed"}]})
    assert [*read(tmp_path, {"apiVersion": "v1", "kind": "ConfigMap", "data": {"config.yaml": text, "other": "x"}})] == ["packed"]


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"kind": "Pod"}, "kind: got 'Pod', expected KubeSchedulerConfiguration, or a ConfigMap that holds one"),
        (
            {"apiVersion": "v1", "kind": "ConfigMap", "data": {}},
            "expected one KubeSchedulerConfiguration in the data of the ConfigMap",
        ),
        ({**BASE, "profile": []}, "Object contains unknown field `profile`; did you mean profiles?"),
        ({**BASE, "profiles": [{}, {}]}, "profiles: expected a schedulerName of its own in each of several profiles"),
        (
            {**BASE, "profiles": [{"pluginConfig": [{"name": "NodeResourcesFit", "args": {"scoringStrategies": {}}}]}]},
            "NodeResourcesFitArgs: Object contains unknown field `scoringStrategies`; did you mean scoringStrategy?",
        ),
        (
            {**BASE, "profiles": [{"pluginConfig": [{"name": "InterPodAffinity", "args": {"hardPodAffinityWeight": 101}}]}]},
            "hardPodAffinityWeight: Expected `int` <= 100",
        ),
        (
            {**BASE, "profiles": [{"pluginConfig": [{"name": "NodeResourcesFit"}, {"name": "NodeResourcesFit"}]}]},
            "profiles[0].pluginConfig[1]: repeated entry of NodeResourcesFit",
        ),
    ],
)
def test_refusals_are_one_line(tmp_path: Path, document: Any, message: str) -> None:
    with pytest.raises(InputError) as caught:
        read(tmp_path, document)
    (line,) = caught.value.problems
    assert message in line
    assert line.startswith(str(tmp_path))
