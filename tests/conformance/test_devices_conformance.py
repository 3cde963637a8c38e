"""`explain` against recorded verdicts of kube-scheduler 1.36.2 on devices: the set of rejecting rules on every node, without exception.

If a fault of its allocator decided (``upstreamFault``), the opposite is meant.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from kubestow.models.cel import selectors
from kubestow.models.snapshot.snapshot import from_objects
from kubestow.solver.explain.per_node import explain
from tests.conformance.test_explain_conformance import ask

DATA = Path(__file__).parent / "data" / "dra.jsonl.gz"
RULE = "DynamicResources"

pytestmark = pytest.mark.skipif(not selectors.available(), reason="no library evaluates selectors on this platform")


def cases(every: int = 1) -> list[dict[str, Any]]:
    with gzip.open(DATA, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in islice(lines, 0, None, every)]


def meant(recorded: dict[str, Any]) -> dict[str, list[str]]:
    """Return the rejections of a pod on each node, with the faults of the recorded version corrected."""
    found = {node: set[str]() for node in recorded["feasible"]} | {node: set(names) for node, names in recorded["rejected"].items()}
    for node in recorded.get("upstreamFault", ()):
        found[node] ^= {RULE}
    return {node: sorted(names) for node, names in found.items()}


def differences(case: dict[str, Any]) -> Iterator[str]:
    """Every pod and node on which other rules reject than recorded."""
    judged = {verdict.pod: verdict for verdict in explain(from_objects(case["snapshot"]["items"]))}
    assert set(judged) == {recorded["pod"] for recorded in case["verdicts"]}
    for recorded in case["verdicts"]:
        verdict, want = judged[recorded["pod"]], meant(recorded)
        got: dict[str, list[str]] = {node: [] for node in verdict.feasible} | verdict.rejected
        assert set(got) == set(want)
        for node in want:
            if got[node] != want[node]:
                yield f"seed {case['seed']}, {verdict.pod} on {node}: recorded {want[node]}, judged {got[node]}"


def test_a_sample_agrees_with_kube_scheduler() -> None:
    found = cases(every=20)
    assert len(found) == 15
    assert [text for case in found for text in differences(case)] == []


@pytest.mark.full
def test_agrees_with_kube_scheduler() -> None:
    found = cases()
    recorded = [verdict for case in found for verdict in case["verdicts"]]
    assert len(found) == 300
    assert sum(len(meant(verdict)) for verdict in recorded) == 13_252
    assert sum(RULE in names for verdict in recorded for names in verdict["rejected"].values()) == 7_438
    assert sum(len(verdict.get("upstreamFault", ())) for verdict in recorded) == 14
    assert [text for case in found for text in differences(case)] == []


@pytest.mark.full
def test_the_command_prints_the_recorded_verdicts(tmp_path: Path) -> None:
    for case in cases()[::30]:
        path = tmp_path / f"{case['seed']}.json"
        path.write_text(json.dumps(case["snapshot"]), encoding="utf-8")
        pods = ask(path, "--kubernetes-version", "1.36")["pods"]
        got = {found["pod"]: {node: [] for node in found["feasible"]} | found["rejected"] for found in pods}
        assert got == {recorded["pod"]: meant(recorded) for recorded in case["verdicts"]}, f"seed {case['seed']}"
