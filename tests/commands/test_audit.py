"""The command audit as people and pipelines use it. Nothing here needs more than the repository holds."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from kubestow import cli
from kubestow.models.documents.findings.audit import SEVERITIES, Audit
from kubestow.models.documents.placement import API_VERSION, from_builtins
from tests.audit.clusters import kubeadm, runs
from tests.objects import Object, node, pod

ROOT = Path(__file__).resolve().parents[2]
INSTANCES = ROOT / "instances" / "audit"
ERROR = str(INSTANCES / "KS105-node-overcommitted.yaml")
WARNING = str(INSTANCES / "KS101-node-affinity-broken.yaml")
HOSTILE = ["<script>alert(1)</script>", "]]>&quot;", "\u202egnp.exe", "nul\x00bell\x07", "line\nbreak", "[bold]x[/bold]", "é\ufffe"]


def audit(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli.main, ["audit", *map(str, arguments)], catch_exceptions=False)


def document(*arguments: str | Path) -> Audit:
    return from_builtins(json.loads(audit(*arguments, "--fail-on", "never", "-q", "-f", "json").stdout), Audit)


def written(folder: Path, *things: Object, name: str = "cluster.json") -> Path:
    path = folder / name
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(things)}), encoding="utf-8")
    return path


# --- forms ----------------------------------------------------------------------------------------------------------------


def test_forms_say_the_same(tmp_path: Path) -> None:
    plain = json.loads(audit(ERROR, "-f", "json").stdout)
    assert yaml.safe_load(audit(ERROR, "-f", "yaml").stdout) == plain
    assert plain["apiVersion"] == API_VERSION
    assert plain["kind"] == "Audit"
    assert list(plain["counts"]) == list(SEVERITIES)
    table = audit(ERROR, "-f", "table").stdout
    for finding in plain["findings"]:
        assert finding["code"] in table
        assert finding["object"] in table
    out = tmp_path / "out.json"
    result = audit(ERROR, "-o", out)
    assert result.stdout == ""
    assert json.loads(out.read_text()) == plain
    assert audit(ERROR).stdout == audit(ERROR, "-f", "json").stdout  # no terminal


def test_findings_come_the_gravest_first_and_are_complete() -> None:
    found = document(ERROR).findings
    order = [(SEVERITIES.index(f.severity), f.code, f.object) for f in found]
    assert order == sorted(order)
    assert all(f.message and f.why.endswith(".") and f.fix for f in found)


def test_the_same_input_gives_the_same_bytes() -> None:
    assert audit(ERROR, "-f", "json").stdout_bytes == audit(ERROR, "-f", "json").stdout_bytes


def test_a_line_says_how_many_and_quiet_says_none(tmp_path: Path) -> None:
    assert audit(ERROR).stderr.startswith("1 error")
    assert audit(ERROR, "-q").stderr == ""
    assert audit(written(tmp_path, node("n0"))).stderr.startswith("nothing found")


# --- exit codes -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", [ERROR, WARNING, ERROR.replace(".yaml", "-fixed.yaml")])
@pytest.mark.parametrize("threshold", [None, *SEVERITIES, "never"])
def test_exit_codes(path: str, threshold: str | None) -> None:
    present = {f.severity for f in document(path).findings}
    counts = {"never": (), "error": ("error",), "warning": ("error", "warning"), "info": SEVERITIES}[threshold or "error"]
    options = [] if threshold is None else ["--fail-on", threshold]
    assert audit(path, *options).exit_code == (4 if present & set(counts) else 0)


@pytest.mark.parametrize(
    "options",
    [
        ("--machine-label",),
        ("--machine-label", ""),
        ("--stage-label", "zones"),
        ("--stage-label", "zones="),
        ("--stage-label", "rooms=example.com/room"),
        ("--stage-label", "zones=a", "--stage-label", "zones=b"),
        ("--time-limit", "0"),
        ("--time-limit", "nan"),
        ("--fail-on", "all"),
        ("--format", "xml"),
        ("-q", "-v"),
        ("--no-such-option",),
    ],
)
def test_wrong_usage(options: tuple[str, ...]) -> None:
    result = audit(WARNING, *options)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert options[0] in result.stderr or "contradict" in result.stderr


@pytest.mark.parametrize("text", ["", "{", "[1, 2]", "kind: Pod\n", "a: &a [*a]\n"])
def test_bad_input_is_a_line_for_each_problem(tmp_path: Path, text: str) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    result = audit(path, "-q")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr
    assert all(line.startswith(f"kubestow: {path}: ") for line in result.stderr.splitlines())
    assert audit(tmp_path / "missing.yaml", "-q").exit_code == 1
    assert audit(WARNING, "-w", path, "-q").exit_code == 1


def test_nothing_is_left_of_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    result = audit(WARNING, "-q", "-o", tmp_path / "no" / "such")
    assert (result.exit_code, result.stdout) == (1, "")
    assert list(tmp_path.iterdir()) == []


# --- JUnit ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("threshold", "failures"), [("error", 1), ("never", 0)])
def test_junit(threshold: str, failures: int) -> None:
    root = ET.fromstring(audit(ERROR, "-f", "junit", "--fail-on", threshold).stdout)
    suites = root.findall("testsuite")
    assert len(suites) > 70  # one for each code, those that passed as well
    assert sum(int(suite.get("failures", "")) for suite in suites) == int(root.get("failures", "")) == failures
    for suite in suites:
        assert len(suite.findall("testcase")) == int(suite.get("tests", ""))
        assert len(suite.findall("testcase/failure")) == int(suite.get("failures", ""))
        assert len(suite.findall("testcase/skipped")) == int(suite.get("skipped", ""))


def test_names_of_any_kind(tmp_path: Path) -> None:
    """Escaped in XML, without control characters on a terminal, whole in JSON."""
    path = written(tmp_path, node("n0", cpu="1"), *(pod(f"p{i}", selector={name: name}) for i, name in enumerate(HOSTILE)))
    found = document(path).findings
    assert all(any(name in f"{finding.name}{finding.message}{finding.fix}" for finding in found) for name in HOSTILE)
    xml = audit(path, "-f", "junit")
    ET.fromstring(xml.stdout_bytes)
    assert b"<script>" not in xml.stdout_bytes
    table = audit(path, "-f", "table").stdout
    assert not set(table) & {"\x00", "\x07", "\u202e"}
    assert "[bold]x[/bold]" in table
    assert yaml.safe_load(audit(path, "-f", "yaml").stdout) == json.loads(audit(path, "-f", "json").stdout)


# --- inputs -------------------------------------------------------------------------------------------------------------------


def test_a_cluster_without_pods(tmp_path: Path) -> None:
    path = written(tmp_path, node("n"))
    found = document(path)
    assert (found.findings, found.controlPlane, found.snapshot.nodes) == ([], None, 1)
    for form in ("table", "json", "yaml", "junit"):
        assert audit(path, "-f", form, "--fail-on", "info").exit_code == 0


def test_manifests_are_audited_in_a_cluster(tmp_path: Path) -> None:
    anti: Object = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"name": "web"}}}]}}  # fmt: skip
    manifest = written(tmp_path, runs("Deployment", "web", [], replicas=3, affinity=anti)[0], name="web.json")
    assert audit(manifest).exit_code == 1
    inside = document(written(tmp_path, *kubeadm()), "-w", manifest)
    assert [f.code for f in inside.findings] == ["KS201"]
    assert inside.snapshot.pending == 3


def test_workloads_are_audited_as_if_they_were_applied(tmp_path: Path) -> None:
    cluster = written(tmp_path, *kubeadm())
    assert document(cluster).findings == []
    manifest = written(tmp_path, runs("Deployment", "web", [], replicas=2, nodeSelector={"disk": "ssd"})[0], name="web.json")
    result = audit(cluster, "-w", manifest, "-f", "json")
    assert result.exit_code == 4
    assert [f["code"] for f in json.loads(result.stdout)["findings"]] == ["KS211"]


def test_labels_of_machines_and_stages(tmp_path: Path) -> None:
    cluster = written(tmp_path, *kubeadm())
    assert document(cluster).controlPlane is not None
    by_zone = document(cluster, "--stage-label", "clouds=topology.kubernetes.io/zone").controlPlane
    assert by_zone is not None
    assert (by_zone.machineLabel, by_zone.grade) == ("topology.scs.community/host-id", "clouds")
    other = document(cluster, "--machine-label", "kubernetes.io/hostname").controlPlane
    assert other is not None
    assert other.machineLabel == "kubernetes.io/hostname"
    missing = document(cluster, "--machine-label", "example.com/rack", "--machine-label", "example.com/host")
    assert [(f.code, f.severity) for f in missing.findings] == [("KS908", "warning")]
    misspelt = document(cluster, "--stage-label", "locations=example.com/reigon")
    assert [(f.code, f.severity) for f in misspelt.findings] == [("KS907", "warning")]


def test_exempt_namespaces_and_a_policy(tmp_path: Path) -> None:
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    pods = [pod(f"web-{i}", labels={"app": "web"}, node_name="n0", affinity=affinity, owner="StatefulSet/web") for i in range(2)]
    path = written(tmp_path, node("n0"), *pods)
    assert "KS107" in [f.code for f in document(path).findings]
    exempt = document(path, "--daemon-namespaces", "default")
    assert "KS107" not in [f.code for f in exempt.findings]
    assert exempt.snapshot.daemonNamespaces == ["default"]
    policy = tmp_path / "policy.yaml"
    policy.write_text("daemonNamespaces: [default]\n")
    assert "KS107" not in [f.code for f in document(path, "--policy", policy).findings]


def test_a_time_limit_that_is_over_at_once_still_gives_an_answer() -> None:
    """Checks that need a search are named as omitted; the others report their findings."""
    began = time.monotonic()
    found = document(INSTANCES / "KS501-rollout-deadlock.yaml", "--time-limit", "0.001")
    assert "KS501" in [f.code for f in found.findings]
    assert time.monotonic() - began < 30


@pytest.mark.full
def test_as_a_program(tmp_path: Path) -> None:
    """With the snapshot on standard input, and the answer into a pipe that is closed early."""
    with open(ERROR, "rb") as given:
        result = subprocess.run(
            [sys.executable, ROOT / "cli.py", "audit", "-", "-q"], stdin=given, capture_output=True, check=False, timeout=60
        )
    assert (result.returncode, result.stderr) == (4, b"")
    assert json.loads(result.stdout)["kind"] == "Audit"
    process: Any = subprocess.Popen([sys.executable, ROOT / "cli.py", "audit", ERROR], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.close()
    assert b"Traceback" not in process.stderr.read()
    assert process.wait(60) != 0


# --- which findings -------------------------------------------------------------------------------------------------------------


def test_codes_can_be_chosen() -> None:
    assert audit(ERROR, "--ignore", "ks105", "--fail-on", "error").exit_code == 0
    assert audit(ERROR, "--select", "KS1,KS9").exit_code == 4
    assert "codes KS105" in audit(ERROR, "--ignore", "KS105", "-f", "table").stdout
    assert json.loads(audit(ERROR, "--ignore", "KS105").stdout)["selection"]["ignore"] == ["KS105"]
    assert "selection" not in json.loads(audit(ERROR).stdout)


@pytest.mark.parametrize("text", ["KS77", "X", "KS1,", ""])
def test_codes_that_there_are_not_are_refused(text: str) -> None:
    for option in ("--select", "--ignore"):
        result = audit(ERROR, option, text)
        assert (result.exit_code, result.stdout) == (2, "")
        assert option in result.stderr


def test_a_baseline_hides_what_is_known(tmp_path: Path) -> None:
    known = tmp_path / "known.json"
    written_to = audit(ERROR, "--write-baseline", known)
    assert written_to.exit_code == 0
    assert f"written to {known}" in written_to.stderr
    later = audit(ERROR, "--baseline", known, "--fail-on", "info", "-f", "table")
    assert later.exit_code == 0
    assert "known from the baseline" in later.stdout
    gone = audit(ERROR.replace(".yaml", "-fixed.yaml"), "--baseline", known)
    assert "of its findings no longer occur" in gone.stderr
    assert audit(ERROR, "--baseline", known, "--write-baseline", known).exit_code == 0


@pytest.mark.parametrize("option", ["--baseline", "--config"])
@pytest.mark.parametrize(
    ("text", "why"),
    [("nonsense: 1", "nonsense"), ("kind: Policy", "kind"), ("findings: 1\nselect: 1\n", ""), ("a: [", "a: ["), ("ignore: [KS77]", "KS77")],
)
def test_files_that_are_none_are_refused(tmp_path: Path, option: str, text: str, why: str) -> None:
    path = tmp_path / "audit.yaml"
    path.write_text(text)
    result = audit(ERROR, option, path)
    assert (result.exit_code, result.stdout) == (1, "")
    (line,) = result.stderr.splitlines()
    assert line.startswith(f"kubestow: {path}: ")
    assert why in line or text == "a: [" or option == "--baseline"


def test_a_file_gives_severities(tmp_path: Path) -> None:
    path = tmp_path / "audit.yaml"
    path.write_text("severities: {KS105: warning}\n")
    result = audit(ERROR, "--config", path)
    assert result.exit_code == 0
    assert json.loads(result.stdout)["counts"]["error"] == 0
    path.write_text("severities: {KS105: fatal}\n")
    assert audit(ERROR, "--config", path).exit_code == 1


def test_a_baseline_that_cannot_be_written_is_told_before_the_audit(tmp_path: Path) -> None:
    result = audit(ERROR, "--write-baseline", tmp_path / "no" / "such" / "file")
    assert (result.exit_code, result.stdout) == (1, "")


# --- what other controllers would do --------------------------------------------------------------------------------------


POLICY = INSTANCES.parent / "descheduler-policy.yaml"
CROWDED = INSTANCES.parent / "rebalance-consolidate.yaml"


def test_a_policy_of_the_descheduler_is_judged_beside_the_findings() -> None:
    found = document(CROWDED, "--descheduler-policy", POLICY, "--select", "KS1")
    assert found.descheduler is not None
    assert [result.plugin for result in found.descheduler.strategies] == ["RemovePodsViolatingInterPodAntiAffinity", "HighNodeUtilization"]
    assert len(found.descheduler.evictions) == 4
    assert not any(entry.helps == "always" for entry in found.descheduler.evictions)
    assert [(plan.goal, plan.moves, plan.emptyNodes) for plan in found.descheduler.instead] == [("repair", 0, 0), ("consolidate", 3, 2)]
    assert document(CROWDED).descheduler is None


def test_what_the_descheduler_would_do_is_the_same_in_every_run() -> None:
    runs = [audit(CROWDED, "--descheduler-policy", POLICY, "-f", "json", "-q").stdout for _ in range(2)]
    assert runs[0] == runs[1]


def test_a_policy_that_is_none_ends_the_command_with_a_line_for_each_problem(tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text("apiVersion: descheduler/v1alpha1\nkind: DeschedulerPolicy\n", encoding="utf-8")
    result = audit(CROWDED, "--descheduler-policy", path)
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr.splitlines() == [
        f"kubestow: {path}: DeschedulerPolicy: apiVersion 'descheduler/v1alpha1', kind 'DeschedulerPolicy': "
        "expected descheduler/v1alpha2, DeschedulerPolicy"
    ]
    assert audit(CROWDED, "--descheduler-policy", tmp_path / "none.yaml").exit_code == 1


FLEET = INSTANCES.parent / "karpenter.yaml"
POOLS = INSTANCES.parent / "node-pool.yaml"
CATALOGUE = INSTANCES.parent / "catalogue.yaml"


def test_what_karpenter_could_consolidate_is_said_beside_the_optimum() -> None:
    found = document(FLEET, "--karpenter", POOLS, "--catalogue", CATALOGUE, "--select", "KS1").karpenter
    assert found is not None
    assert [(command.method, command.nodes, command.replacement) for command in found.commands] == [
        ("empty", ["c1"], None),
        ("single", ["c6"], "g2.large@a"),
        ("single", ["c2"], None),
        ("single", ["c3"], None),
    ]
    assert {entry.node for entry in found.blocked} == {"c4", "c5", "g2.large-a-1"}
    assert (found.costBefore, found.costAfter) == (0.86, 0.288)
    assert found.optimum is not None
    assert (found.optimum.freed, found.optimum.proved, found.optimum.cheapest) == (["c2", "c3"], True, 0.288)


def test_prices_are_for_karpenter_and_pools_are_read_first(tmp_path: Path) -> None:
    assert audit(FLEET, "--catalogue", CATALOGUE).exit_code == 2
    path = tmp_path / "pool.yaml"
    path.write_text("apiVersion: karpenter.sh/v1beta1\nkind: NodePool\n", encoding="utf-8")
    result = audit(FLEET, "--karpenter", POOLS, "--karpenter", path)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == (f"kubestow: {path}: apiVersion 'karpenter.sh/v1beta1', kind 'NodePool': expected karpenter.sh/v1, NodePool\n")


def test_policies_and_pools_may_come_from_standard_input_one_at_a_time() -> None:
    arguments = ["audit", str(FLEET), "--select", "KS1", "-q", "-f", "json", "--karpenter", "-"]
    result = CliRunner().invoke(cli.main, arguments, input=POOLS.read_text(encoding="utf-8"), catch_exceptions=False)
    assert result.exit_code == 0
    assert json.loads(result.stdout)["karpenter"]["pools"][0]["name"] == "default"
    assert CliRunner().invoke(cli.main, [*arguments, "--descheduler-policy", "-"], input="").exit_code == 2
