"""Versions and feature gates: the gates of each version, those that may be set, and the version that a text names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kubestow.models.kube import feature_gates
from kubestow.models.kube.feature_gates import DEFAULT_VERSION, VERSIONS, FeatureGates, GateError, nearest, newest, parse_gate
from tests.models.kube.gate_facts import FACTS, OTHERS, state

_PAGE = Path(feature_gates.__file__).parents[2] / "docs" / "rules.md"
_CELLS = {"on": "on", "off": "off", "locked": "locked", "none": "–"}


def test_the_page_lists_what_each_version_has() -> None:
    rows = re.findall(r"^\| (\w+) \| \d+ \| ((?:(?:on|off|locked|–) \| ){4})", _PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    shown = {gate: cells.strip(" |").split(" | ") for gate, cells in rows}
    assert shown == {gate: [_CELLS[state] for state in states.values()] for gate, states in feature_gates.table().items()}


def test_the_table_is_that_of_the_sources() -> None:
    assert feature_gates.table() == {gate: {v: state(FACTS[gate], v) for v in VERSIONS} for gate in feature_gates.table()}
    assert set(FACTS) == set(feature_gates.table())


@pytest.mark.parametrize("gate", OTHERS)
def test_gates_outside_the_table_are_set_alike_or_change_no_verdict(gate: str) -> None:
    stages, why = OTHERS[gate]
    states = {state(stages, version) for version in VERSIONS}
    assert gate not in feature_gates.table()
    assert states <= {"on", "locked"} or why in ("speed", "no filter reads it", "says where a pod will go, not where it may")


def test_gates_follow_their_version() -> None:
    assert [FeatureGates(version).enabled("DRAExtendedResource") for version in VERSIONS] == [False, False, True, True]
    assert [FeatureGates(version).enabled("VolumeLimitScaling") for version in VERSIONS] == [False, False, False, True]
    assert [FeatureGates(version).has("incomplete pools yield no devices") for version in VERSIONS] == [False, True, True, True]
    with pytest.raises(KeyError):
        FeatureGates().enabled("NoSuchGate")


def test_only_what_differs_from_the_defaults_is_kept() -> None:
    given = {"VolumeLimitScaling": True, "DRADeviceTaints": True, "DRAPartitionableDevices": False}
    gates = feature_gates.feature_gates("1.36", given)
    assert gates.given == (("DRAPartitionableDevices", False), ("VolumeLimitScaling", True))
    assert (gates.enabled("DRADeviceTaints"), gates.enabled("DRAPartitionableDevices"), gates.enabled("VolumeLimitScaling")) == (1, 0, 1)
    assert str(gates) == "Kubernetes 1.36 with DRAPartitionableDevices=false, VolumeLimitScaling=true"
    assert feature_gates.feature_gates("1.36", {"DRADeviceTaints": True}) == FeatureGates("1.36")


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("gate", feature_gates.table())
def test_what_may_be_set(gate: str, version: str) -> None:
    now = feature_gates.table()[gate][version]
    for on in (False, True):
        if now == "none" or (now == "locked" and not on):
            words = "which (came with|was removed in)" if now == "none" else "locked to true"
            with pytest.raises(GateError, match=words):
                feature_gates.feature_gates(version, {gate: on})
        else:
            assert feature_gates.feature_gates(version, {gate: on}).enabled(gate) == on


@pytest.mark.parametrize(("version", "words"), [("1.34", "which came with 1.35"), ("1.37", "which was removed in 1.37")])
def test_a_gate_that_is_not_there_came_later_or_went(version: str, words: str) -> None:
    with pytest.raises(GateError, match=words):
        feature_gates.feature_gates(version, {"GangScheduling": True})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("VolumeLimitScalin=true", "unknown feature gate 'VolumeLimitScalin'; did you mean VolumeLimitScaling?"),
        ("Nonsense=true", "unknown feature gate 'Nonsense'"),
        ("VolumeLimitScaling", "is not of the form NAME=true or NAME=false"),
        ("VolumeLimitScaling=1", "is not of the form NAME=true or NAME=false"),
        ("=true", "unknown feature gate ''"),
    ],
)
def test_bad_gates(text: str, words: str) -> None:
    with pytest.raises(GateError) as error:
        parse_gate(text)
    assert str(error.value).endswith(words)


def test_values_are_read_in_any_case() -> None:
    assert parse_gate("VolumeLimitScaling=True") == ("VolumeLimitScaling", True)
    assert parse_gate("VolumeLimitScaling=false") == ("VolumeLimitScaling", False)


@pytest.mark.parametrize(
    ("text", "version"),
    [("v1.36.2", "1.36"), ("v1.33.5-eks-3abbec1", "1.33"), ("1.37+", "1.37"), ("v1.40.0-alpha.1", "1.40"), ("v1.9.0", "1.9")],
)
def test_versions_are_read_of_what_servers_say(text: str, version: str) -> None:
    assert newest([text]) == version


@pytest.mark.parametrize("text", ["", "1", "latest", "v1.x", "x1.36", "1.99999"])
def test_what_is_no_version(text: str) -> None:
    assert newest([text]) is None


def test_the_newest_is_not_the_first_by_its_letters() -> None:
    assert newest(["v1.9.1", None, "v1.36.2", "odd", "v1.35.9"]) == "1.36"
    assert newest([]) is None


@pytest.mark.parametrize(("version", "known"), [("1.9", "1.34"), ("1.33", "1.34"), ("1.35", "1.35"), ("1.38", "1.37"), ("2.0", "1.37")])
def test_of_other_versions_the_nearest_counts(version: str, known: str) -> None:
    assert nearest(version) == known


def test_the_default_version_is_known() -> None:
    assert DEFAULT_VERSION in VERSIONS
