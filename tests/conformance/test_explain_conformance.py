"""`explain` against recorded verdicts of kube-scheduler: the set of rejecting rules on every node, without exception."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from kubestow import cli
from kubestow.models.kube.feature_gates import FeatureGates
from kubestow.models.snapshot.snapshot import from_objects
from kubestow.solver.explain.per_node import PodVerdict, explain
from tests.tiers import in_slow

DATA = Path(__file__).parent / "data"
RULES = {
    "verdicts": frozenset(
        {"InterPodAffinity", "NodeAffinity", "TaintToleration", "NodeResourcesFit", "PodTopologySpread", "NodeUnschedulable", "NodePorts"}
    ),
    "rules-136": frozenset(
        {
            "InterPodAffinity",
            "NodeAffinity",
            "NodeDeclaredFeatures",
            "NodePorts",
            "NodeResourcesFit",
            "NodeUnschedulable",
            "NodeVolumeLimits",
            "PodTopologySpread",
            "TaintToleration",
            "VolumeBinding",
            "VolumeRestrictions",
            "VolumeZone",
        }
    ),
    "volumes": frozenset({"VolumeBinding", "VolumeZone", "VolumeRestrictions", "NodeVolumeLimits", "NodeResourcesFit"}),
}
SAMPLE = 12


def cases(file: str, every: int = 1) -> list[dict[str, Any]]:
    with gzip.open(DATA / f"{file}.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in islice(lines, 0, None, every)]


def sample(file: str) -> list[dict[str, Any]]:
    """Twelve snapshots, evenly over the file."""
    found = cases(file)
    return found[:: len(found) // SAMPLE][:SAMPLE]


def differences(case: dict[str, Any], verdicts: list[PodVerdict], rules: frozenset[str]) -> Iterator[str]:
    """Every pod and node on which the set of rejecting rules is not the recorded one."""
    by_pod = {verdict.pod: verdict for verdict in verdicts}
    assert len(by_pod) == len(verdicts)
    assert set(by_pod) == {recorded["pod"] for recorded in case["verdicts"]}
    for recorded in case["verdicts"]:
        judged = by_pod[recorded["pod"]]
        got = {node: set[str]() for node in judged.feasible} | {node: set(names) for node, names in judged.rejected.items()}
        want = {node: set[str]() for node in recorded["feasible"]} | {node: set(names) for node, names in recorded["rejected"].items()}
        assert set(got) == set(want)
        assert len(judged.feasible) + len(judged.rejected) == len(want)
        for node in want:
            if got[node] & rules != want[node]:
                yield f"seed {case['seed']}, {judged.pod} on {node}: recorded {sorted(want[node])}, judged {sorted(got[node])}"


@pytest.mark.parametrize("file", ["verdicts", "volumes"])
def test_a_sample_agrees_with_kube_scheduler(file: str) -> None:
    """Every eighth snapshot: the quick tier's part of the next test."""
    found = cases(file, every=8)
    assert len(found) >= 10
    assert [text for case in found for text in differences(case, explain(from_objects(case["snapshot"]["items"])), RULES[file])] == []


@pytest.mark.full
@pytest.mark.parametrize("version", ["1.36", in_slow("1.34")])
@pytest.mark.parametrize(("file", "snapshots", "verdicts"), [("verdicts", 320, 31_600), ("volumes", 80, 6_400)])
def test_agrees_with_kube_scheduler(file: str, snapshots: int, verdicts: int, version: str) -> None:
    """Recorded from 1.34.1, and again from 1.36.2: no verdict is another one there."""
    found = cases(file)
    assert len(found) == snapshots
    assert sum(len(v["feasible"]) + len(v["rejected"]) for case in found for v in case["verdicts"]) == verdicts
    wrong: list[str] = []
    for case in found:
        snapshot = from_objects(case["snapshot"]["items"])
        snapshot.gates = FeatureGates(version)
        wrong += differences(case, explain(snapshot), RULES[file])
    assert wrong == []


def of_136(version: str, every: int = 1) -> Iterator[str]:
    """Differences from the recorded verdicts of 1.36.2, under each snapshot's feature gates; since 1.37 some are reversed."""
    for case in cases("rules-136", every):
        snapshot = from_objects(case["snapshot"]["items"])
        snapshot.gates = FeatureGates(version, gates_of(case))
        yield from differences(as_of(case, version), explain(snapshot), RULES["rules-136"])


def gates_of(case: dict[str, Any]) -> tuple[tuple[str, bool], ...]:
    """Return the gates of a recorded case: those it switched on; VolumeLimitScaling, which is on by default since 1.37, as it was."""
    return tuple(sorted({"VolumeLimitScaling": False, **dict.fromkeys(case["gates"], True)}.items()))


def as_of(case: dict[str, Any], version: str) -> dict[str, Any]:
    """A recorded case with the verdicts of a version: those that the footprint of resizes turns round since 1.37."""
    verdicts = []
    for recorded in case["verdicts"]:
        want = {node: set[str]() for node in recorded["feasible"]} | {node: set(names) for node, names in recorded["rejected"].items()}
        for node in recorded.get("resize137", ()) if version == "1.37" else ():
            want[node] = want[node] ^ {"NodeResourcesFit"}
        feasible = [node for node, names in want.items() if not names]
        verdicts.append({**recorded, "feasible": feasible, "rejected": {node: sorted(names) for node, names in want.items() if names}})
    return {**case, "verdicts": verdicts}


def test_a_sample_agrees_with_kube_scheduler_136() -> None:
    assert list(of_136("1.36", every=8)) == []


@pytest.mark.full
@pytest.mark.parametrize("version", ["1.36", "1.37"])
def test_agrees_with_kube_scheduler_136(version: str) -> None:
    found = cases("rules-136")
    assert len(found) == 200
    assert sum(len(v["feasible"]) + len(v["rejected"]) for case in found for v in case["verdicts"]) == 11_468
    assert sum(len(v.get("resize137", ())) for case in found for v in case["verdicts"]) == 219
    assert list(of_136(version)) == []


def tables() -> list[dict[str, Any]]:
    """The cases with the scheduler's default configuration."""
    found = [json.loads(line) for line in (DATA / "upstream-tables.jsonl").read_text(encoding="utf-8").splitlines()]
    return [case for case in found if "config" not in case["input"]["oracle"]]


def test_all_upstream_tables_are_read() -> None:
    assert len(tables()) == 145


@pytest.mark.parametrize("case", [pytest.param(case, id=f"{case['plugin']}: {case['name']}") for case in tables()])
def test_upstream_table(case: dict[str, Any]) -> None:
    snapshot = from_objects(case["input"]["items"], validate=False)  # objects that an API server would refuse
    verdicts = explain(snapshot)
    (verdict,) = [v for v in verdicts if v.pod.endswith("/incoming")] or verdicts
    assert set(case["want"]) <= {*verdict.feasible, *verdict.rejected}
    got = {node: case["plugin"] not in verdict.rejected.get(node, []) for node in case["want"]}
    assert got == {node: want["code"] == "Success" for node, want in case["want"].items()}


def ask(snapshot: Path, *options: str) -> Any:
    """Return the output of ``kubestow explain --per-node -f json``."""
    words = ["explain", str(snapshot), "--per-node", "-f", "json", *options]
    done = CliRunner().invoke(cli.main, words, catch_exceptions=False)
    assert done.exit_code == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.full
@pytest.mark.parametrize("file", ["verdicts", "volumes", "rules-136"])
def test_the_command_prints_the_recorded_verdicts(file: str, tmp_path: Path) -> None:
    """Nothing is filtered here: the recorded rules are all that can reject a pod of these snapshots."""
    for case in sample(file):
        path = tmp_path / f"{case['seed']}.json"
        path.write_text(json.dumps(case["snapshot"]), encoding="utf-8")
        gates = [word for gate in case.get("gates", ()) for word in ("--feature-gate", f"{gate}=true")]
        document = ask(path, *(["--kubernetes-version", "1.36", *gates] if file == "rules-136" else []))
        got = {found["pod"]: (sorted(found["feasible"]), found["rejected"]) for found in document["pods"]}
        assert len(got) == len(document["pods"])
        want = {v["pod"]: (sorted(v["feasible"]), {n: sorted(r) for n, r in v["rejected"].items()}) for v in case["verdicts"]}
        assert got == want, f"seed {case['seed']}"
