"""The checker against recorded verdicts of kube-scheduler: the set of rejecting rules on every node, without exception."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from kubestow.checker.placement import Judge
from kubestow.models.kube import objects
from kubestow.models.kube.feature_gates import DEFAULT, FeatureGates
from kubestow.models.snapshot.snapshot import Snapshot, from_objects
from tests.conformance.test_explain_conformance import as_of, gates_of

DATA = Path(__file__).parent / "data"
VOLUME_RULES = frozenset({"VolumeBinding", "VolumeZone", "VolumeRestrictions", "NodeVolumeLimits", "NodeResourcesFit"})
FILTER_RULES = frozenset(
    {
        "InterPodAffinity",
        "NodeAffinity",
        "TaintToleration",
        "NodeResourcesFit",
        "PodTopologySpread",
        "NodeUnschedulable",
        "NodePorts",
    }
)
DEVICE_RULES = FILTER_RULES | {"DynamicResources"}


def pending(snapshot: Snapshot) -> list[objects.Pod]:
    return [pod for pod in snapshot.pods if not pod.spec.nodeName]


def meant(verdict: dict[str, Any], node: str, rules: list[str]) -> list[str]:
    """Return the rules that ought to reject: where a fault of the allocator decided, the opposite of its verdict."""
    return sorted({*rules} ^ {"DynamicResources"}) if node in verdict.get("upstreamFault", ()) else rules


def differences(case: dict[str, Any], rules: frozenset[str], gates: FeatureGates = DEFAULT) -> Iterator[str]:
    """Every node on which the checker's set of rules is not the recorded one."""
    snapshot = from_objects(case["snapshot"]["items"])
    snapshot.gates = gates
    judge = Judge(snapshot, pending(snapshot))
    by_key = {objects.pod_key(pod): pod for pod in pending(snapshot)}
    for verdict in case["verdicts"]:
        recorded = {node: [] for node in verdict["feasible"]} | verdict["rejected"]
        assert set(recorded) == set(judge.nodes)
        for node, want in recorded.items():
            want = meant(verdict, node, want)
            faults = judge.verdict(by_key[verdict["pod"]], node)
            got = sorted({rule for rule, _ in faults if rule in rules})
            if got != sorted(want):
                yield f"seed {case['seed']}, {verdict['pod']} on {node}: recorded {sorted(want)}, judged {faults}"


def recorded(file: str, every: int = 1) -> list[dict[str, Any]]:
    with gzip.open(DATA / f"{file}.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in islice(lines, 0, None, every)]


@pytest.mark.parametrize(("file", "rules"), [("verdicts", FILTER_RULES), ("volumes", VOLUME_RULES), ("dra", DEVICE_RULES)])
def test_a_sample_agrees_with_kube_scheduler(file: str, rules: frozenset[str]) -> None:
    """Some of the snapshots: the quick tier's part of the next test."""
    cases = recorded(file, every=24 if file == "dra" else 8)
    assert len(cases) >= 10
    assert [text for case in cases for text in differences(case, rules)] == []


@pytest.mark.full
@pytest.mark.parametrize(
    ("file", "rules", "snapshots"), [("verdicts", FILTER_RULES, 320), ("volumes", VOLUME_RULES, 80), ("dra", DEVICE_RULES, 300)]
)
def test_agrees_with_kube_scheduler(file: str, rules: frozenset[str], snapshots: int) -> None:
    cases = recorded(file)
    assert len(cases) == snapshots
    assert [text for case in cases for text in differences(case, rules)] == []


@pytest.mark.slow
@pytest.mark.parametrize(("file", "rules"), [("verdicts", FILTER_RULES), ("volumes", VOLUME_RULES)])
def test_agrees_with_kube_scheduler_134(file: str, rules: frozenset[str]) -> None:
    assert [text for case in recorded(file) for text in differences(case, rules, FeatureGates("1.34"))] == []


def _of_136(version: str, every: int = 1) -> Iterator[str]:
    for case in recorded("rules-136", every):
        gates = FeatureGates(version, gates_of(case))
        yield from differences(as_of(case, version), FILTER_RULES | VOLUME_RULES | {"NodeDeclaredFeatures"}, gates)


def test_a_sample_agrees_with_kube_scheduler_136() -> None:
    assert list(_of_136("1.36", every=8)) == []


@pytest.mark.full
@pytest.mark.parametrize("version", ["1.36", "1.37"])
def test_agrees_with_kube_scheduler_136(version: str) -> None:
    assert list(_of_136(version)) == []


def _tables() -> list[dict[str, Any]]:
    """The cases with the scheduler's default configuration."""
    cases = [json.loads(line) for line in (DATA / "upstream-tables.jsonl").read_text(encoding="utf-8").splitlines()]
    return [case for case in cases if "config" not in case["input"]["oracle"]]


def test_all_upstream_tables_are_read() -> None:
    assert len(_tables()) == 145


@pytest.mark.parametrize("case", [pytest.param(case, id=f"{case['plugin']}: {case['name']}") for case in _tables()])
def test_upstream_table(case: dict[str, Any]) -> None:
    snapshot = from_objects(case["input"]["items"], validate=False)  # objects that an API server would refuse
    (pod,) = [pod for pod in pending(snapshot) if pod.metadata.name == "incoming"] or pending(snapshot)
    judge = Judge(snapshot, [pod])
    got = {node: not any(rule == case["plugin"] for rule, _ in judge.faults(pod, node)) for node in case["want"]}
    assert got == {node: want["code"] == "Success" for node, want in case["want"].items()}


@pytest.mark.full
def test_verdicts_by_a_fault_of_the_allocator_are_few() -> None:
    assert sum(len(verdict.get("upstreamFault", ())) for case in recorded("dra") for verdict in case["verdicts"]) == 14
