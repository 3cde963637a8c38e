"""Every recorded snapshot in the repository is read: what entered a real cluster is never refused."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from kubestow.models.snapshot.snapshot import from_objects, load
from tests.tiers import sampled

TESTS = Path(__file__).resolve().parents[2]
BENCHMARKS = sorted(p for p in (TESTS / "benchmarks" / "data").glob("*.json.gz") if not p.name.startswith("kube-scheduler-"))


def lines(name: str) -> list[dict[str, Any]]:
    path = TESTS / "conformance" / "data" / name
    text = gzip.decompress(path.read_bytes()) if name.endswith(".gz") else path.read_bytes()
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.full
@pytest.mark.parametrize(("name", "count"), [("verdicts.jsonl.gz", 320), ("volumes.jsonl.gz", 80)])
def test_conformance_snapshots_pass_validation(name: str, count: int) -> None:
    cases = lines(name)
    assert len(cases) == count
    for case in cases:
        snapshot = from_objects([case["snapshot"]])
        items = case["snapshot"]["items"]
        assert len(snapshot.pods) == sum(item["kind"] == "Pod" for item in items)
        assert len(snapshot.nodes) == sum(item["kind"] == "Node" for item in items)
        assert snapshot.ignored == {}


def test_upstream_tables_are_read_past_validation() -> None:
    cases = lines("upstream-tables.jsonl")
    assert len(cases) == 150
    for case in cases:
        items = case["input"]["items"]
        snapshot = from_objects(items, validate=False)
        assert len(snapshot.pods) == sum(item["kind"] == "Pod" for item in items)
        assert len(snapshot.nodes) == sum(item["kind"] == "Node" for item in items)


@pytest.mark.parametrize("path", sampled(BENCHMARKS, every=15, full=5), ids=lambda path: path.name.removesuffix(".json.gz"))
def test_benchmarks(path: Path) -> None:
    items = json.loads(gzip.decompress(path.read_bytes()))["items"]
    snapshot = load([str(path)])
    assert sum(snapshot.counts().values()) == len(items)
    assert from_objects(items).pods == snapshot.pods
