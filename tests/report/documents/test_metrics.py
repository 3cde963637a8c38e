"""Metrics of results: read back by Prometheus' own parsers, of both formats, with the figures of the documents."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families as classic

from kubestow import cli
from kubestow.commands import VERSION
from kubestow.models.documents.findings.audit import Audit, Finding
from kubestow.models.documents.placement import SnapshotRef
from kubestow.report.documents import metrics

ROOT = Path(cli.__file__).resolve().parent
RUNS = {
    "solve": "solve instances/pending/capacity.yaml",
    "audit": "audit instances/rollout-deadlock.yaml",
    "survive": "survive instances/survive-three-zones.yaml --fail node --no-remedy",
    "check": "check -w instances/check/shop.yaml --cluster instances/check/cluster.yaml",
    "check without a cluster": "check -w instances/check/shop.yaml",
}
_Sample = tuple[str, tuple[tuple[str, str], ...]]


def samples(text: str) -> dict[_Sample, float]:
    """Return the samples of a text, which both parsers read alike."""
    both = [
        {(sample.name, tuple(sorted(sample.labels.items()))): sample.value for family in parser(text) for sample in family.samples}
        for parser in (openmetrics, classic)
    ]
    assert both[0] == both[1]
    assert all(name.startswith("kubestow_") for name, _ in both[0])
    return both[0]


def run(line: str, folder: Path) -> tuple[dict[_Sample, float], dict[str, object]]:
    """Return the metrics of a run and its document."""
    files = {form: folder / f"out.{form}" for form in ("openmetrics", "json")}
    arguments = [str(ROOT / word) if word.startswith("instances/") else word for word in line.split()]
    done = CliRunner().invoke(cli.main, [*arguments, "-q", *(part for form, file in files.items() for part in ("-f", f"{form}={file}"))])
    assert done.exit_code in (0, 3, 4), done.stderr
    return samples(files["openmetrics"].read_text()), json.loads(files["json"].read_text())


def value(found: dict[_Sample, float], name: str, /, **labels: str) -> float:
    (one,) = [number for (named, has), number in found.items() if named == f"kubestow_{name}" and labels.items() <= dict(has).items()]
    return one


@pytest.mark.parametrize("name", RUNS)
def test_every_sample_says_of_which_command_it_is(name: str, tmp_path: Path) -> None:
    found, _ = run(RUNS[name], tmp_path)
    assert {dict(labels)["command"] for _, labels in found} == {name.split(maxsplit=1)[0]}
    assert value(found, "run", version=VERSION) == 1
    assert value(found, "run_seconds") > 0


def test_files_of_several_commands_can_lie_in_one_folder(tmp_path: Path) -> None:
    """The textfile collector refuses all files where two have the same sample."""
    seen: set[_Sample] = set()
    for line in list(RUNS.values())[:4]:
        found, _ = run(line, tmp_path)
        assert not seen & set(found)
        seen |= set(found)


def test_of_a_placement(tmp_path: Path) -> None:
    found, document = run(RUNS["solve"], tmp_path)
    assert value(found, "placed_pods") == len(document["assignments"])  # type: ignore[arg-type]
    assert value(found, "unplaced_pods") == len(document["unplaced"])  # type: ignore[arg-type]
    assert value(found, "status", status=str(document["status"])) == 1
    assert sum(number for (name, _), number in found.items() if name == "kubestow_status") == 1
    for tier in document["objective"]:  # type: ignore[attr-defined]
        labels = {"tier": tier["tier"]} | ({"priority": str(tier["priority"])} if "priority" in tier else {})
        assert (value(found, "objective_value", **labels), value(found, "objective_bound", **labels)) == (tier["value"], tier["bound"])


def test_of_an_audit_and_a_check(tmp_path: Path) -> None:
    for name in ("audit", "check"):
        found, document = run(RUNS[name], tmp_path)
        assert {each: value(found, "findings", severity=each) for each in ("error", "warning", "info")} == document["counts"]
    assert value(found, "workloads", fit="does not fit") == 2


def test_of_a_survival(tmp_path: Path) -> None:
    found, document = run(RUNS["survive"], tmp_path)
    assert value(found, "survival_certified", fail="node", at_once="1") == 0
    assert value(found, "failures_not_survived") == len(document["counterexamples"])  # type: ignore[arg-type]


def test_names_are_escaped() -> None:
    finding = Finding("KS1", 'odd "name"\\\n', "error", "Pod a/b", "m", "w", "f")
    document = Audit(SnapshotRef("0", 1, 2, 3, cluster='prod"\\\nnew', capturedAt="2026-11-23T01:00:00Z"), {"error": 1}, [finding])
    found = samples(metrics.audit(document, "1", None).decode())
    assert value(found, "findings_by_code", name='odd "name"\\\n', cluster='prod"\\\nnew') == 1
    assert value(found, "captured_timestamp_seconds") == 1795395600
    assert not any(name == "kubestow_run_seconds" for name, _ in found)


def test_opportunity_cost_is_by_namespace_workload_and_pod(tmp_path: Path) -> None:
    found, _ = run("audit instances/audit/KS305-anti-affinity-opportunity-cost.yaml", tmp_path)
    for level, labels in (("namespace", {}), ("workload", {"workload": "Deployment/alone"}), ("pod", {"pod": "alone-1-x"})):
        of, name = {"namespace": "team", **labels}, f"{level}_opportunity_cost"
        assert value(found, name, estimate="actual", resource="cpu", unit="core", **of) == 3.5
        assert value(found, name, estimate="actual", resource="memory", unit="byte", **of) == 7 * 2**30
        assert value(found, name, estimate="actual", resource="nodes", unit="integer", **of) == 1
    assert value(found, "pod_opportunity_cost", pod="alone-1-x", estimate="average", resource="cpu") == 7.5
    assert value(found, "namespace_opportunity_cost", namespace="team", estimate="largest", resource="cpu") == 31


def test_a_deterministic_run_has_the_same_bytes(tmp_path: Path) -> None:
    texts = []
    for _ in range(2):
        run(f"{RUNS['solve']} --deterministic", tmp_path)
        texts.append((tmp_path / "out.openmetrics").read_bytes())
    assert texts[0] == texts[1]
