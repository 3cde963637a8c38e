"""`explain` against recorded verdicts of kube-scheduler: the set of rejecting rules on every node, without exception."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import cli
from models.snapshot.snapshot import from_objects
from solver.explain.per_node import PodVerdict, explain

DATA = Path(__file__).parent / "data"
RULES = {
    "verdicts": frozenset(
        {"InterPodAffinity", "NodeAffinity", "TaintToleration", "NodeResourcesFit", "PodTopologySpread", "NodeUnschedulable", "NodePorts"}
    ),
    "volumes": frozenset({"VolumeBinding", "VolumeZone", "VolumeRestrictions", "NodeVolumeLimits", "NodeResourcesFit"}),
}
SAMPLE = 12


def cases(file: str) -> list[dict[str, Any]]:
    with gzip.open(DATA / f"{file}.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


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
    found = cases(file)[::8]
    assert len(found) >= 10
    assert [text for case in found for text in differences(case, explain(from_objects(case["snapshot"]["items"])), RULES[file])] == []


@pytest.mark.full
@pytest.mark.parametrize(("file", "snapshots", "verdicts"), [("verdicts", 320, 31_600), ("volumes", 80, 6_400)])
def test_agrees_with_kube_scheduler(file: str, snapshots: int, verdicts: int) -> None:
    found = cases(file)
    assert len(found) == snapshots
    assert sum(len(v["feasible"]) + len(v["rejected"]) for case in found for v in case["verdicts"]) == verdicts
    wrong = [text for case in found for text in differences(case, explain(from_objects(case["snapshot"]["items"])), RULES[file])]
    assert wrong == []


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


def ask(snapshot: Path) -> Any:
    """What ``kubestow explain --per-node -f json`` prints, run as a user runs it."""
    command = [sys.executable, cli.__file__, "explain", str(snapshot), "--per-node", "-f", "json"]
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", timeout=60, check=False)
    assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr
    return json.loads(done.stdout)


@pytest.mark.full
@pytest.mark.parametrize("file", ["verdicts", "volumes"])
def test_the_command_prints_the_recorded_verdicts(file: str, tmp_path: Path) -> None:
    """Nothing is filtered here: the recorded rules are all that can reject a pod of these snapshots."""
    for case in sample(file):
        path = tmp_path / f"{case['seed']}.json"
        path.write_text(json.dumps(case["snapshot"]), encoding="utf-8")
        document = ask(path)
        got = {found["pod"]: (sorted(found["feasible"]), found["rejected"]) for found in document["pods"]}
        assert len(got) == len(document["pods"])
        want = {v["pod"]: (sorted(v["feasible"]), {n: sorted(r) for n, r in v["rejected"].items()}) for v in case["verdicts"]}
        assert got == want, f"seed {case['seed']}"
