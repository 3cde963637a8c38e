"""The command check as people and pipelines use it."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from kubestow import cli
from kubestow.models.documents.findings.check import Check
from kubestow.models.documents.placement import API_VERSION, from_builtins
from tests.objects import node
from tests.planted_defects.defects import DEFECTS
from tests.planted_defects.sound import SOUND, write_cluster
from tests.published_schemas import problems

INSTANCES = Path(cli.__file__).resolve().parent / "instances" / "check"
CLUSTER, BEFORE, SHOP = (str(INSTANCES / name) for name in ("cluster.yaml", "shop-before.yaml", "shop.yaml"))
LARGE = """\
apiVersion: v1
kind: PodTemplate
metadata: {name: large}
template: {spec: {containers: [{name: c, resources: {requests: {cpu: 99, memory: 1Gi}}}]}}
"""


def check(*arguments: str | Path, given: str | None = None) -> Result:
    return CliRunner().invoke(cli.main, ["check", *map(str, arguments)], input=given, catch_exceptions=False)


def document(*arguments: str | Path, given: str | None = None) -> Check:
    return from_builtins(json.loads(check(*arguments, "-q", "-f", "json", given=given).stdout), Check)


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    return write_cluster(tmp_path)


# --- exit codes -----------------------------------------------------------------------------------------------------------


@pytest.mark.full
def test_exit_codes_tell_what_is_wrong(tmp_path: Path) -> None:
    fine = ["-q", "--cluster", CLUSTER]
    (tmp_path / "large.yaml").write_text(LARGE)
    large = tmp_path / "large.yaml"
    assert check(BEFORE, *fine).exit_code == 0
    assert check(SHOP, *fine).exit_code == 4, "findings, and it does not fit"
    assert check(SHOP, *fine, "--fail-on", "never").exit_code == 3
    assert check(large, *fine, "--ignore", "KS2").exit_code == 3, "it does not fit, and nothing is found"
    assert check(SHOP, "-q").exit_code == 0, "a warning"
    assert check(SHOP, "-q", "--fail-on", "warning").exit_code == 4
    assert check(tmp_path / "missing.yaml", *fine).exit_code == 1
    assert check(SHOP, *fine, "--base", SHOP).exit_code == 0, "nothing is new"


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ([], "no manifests: name files"),
        (["-", "--cluster", "-"], "only one of the inputs can be standard input"),
        (["-", "--base", "-"], "only one of the inputs can be standard input"),
        ([SHOP, "--select", "KS0"], "no finding code starts with"),
        ([SHOP, "--fail-on", "fatal"], "is not one of"),
        ([SHOP, "-q", "-v"], "contradict each other"),
    ],
)
def test_wrong_usage_is_told(arguments: list[str], why: str) -> None:
    result = check(*arguments)
    assert (result.exit_code, why in result.stderr, result.stdout) == (2, True, "")


def test_bad_input_is_one_line_and_nothing_is_written(tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text("apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec: {replicas: many}\n")
    out = tmp_path / "out.json"
    result = check(tmp_path / "bad.yaml", "-o", out)
    assert (result.exit_code, out.exists()) == (1, False)
    assert "bad.yaml: Deployment web" in result.stderr.replace("default/", "")
    assert result.stderr.count("\n") == 1


# --- forms ----------------------------------------------------------------------------------------------------------------


@pytest.mark.full
def test_forms_say_the_same(tmp_path: Path) -> None:
    plain = json.loads(check(SHOP, "--cluster", CLUSTER, "-f", "json", "-q").stdout)
    assert list(plain)[:7] == ["apiVersion", "kind", "snapshot", "files", "workloads", "counts", "faults"]
    assert (plain["apiVersion"], plain["kind"], plain["files"]) == (API_VERSION, "Check", [SHOP])
    assert yaml.safe_load(check(SHOP, "--cluster", CLUSTER, "-f", "yaml", "-q").stdout) == plain
    table = check(SHOP, "--cluster", CLUSTER, "-f", "table", "-q").stdout
    rows = list(csv.DictReader(io.StringIO(check(SHOP, "--cluster", CLUSTER, "-f", "csv", "-q").stdout)))
    for fault in plain["faults"]:
        finding, place = fault["finding"], fault["position"]
        assert finding["code"] in table
        assert f":{place['line']}:{place['column']}" in table
        assert any((row["code"], row["object"], row["line"]) == (finding["code"], finding["object"], str(place["line"])) for row in rows)
    for fit in plain["workloads"]:
        assert f"{fit['fit']}  {fit['workload']}: {fit['change']}" in table
        assert any((row["object"], row["verdict"], row["change"]) == (fit["workload"], fit["fit"], fit["change"]) for row in rows)
    assert len(rows) == len(plain["faults"]) + len(plain["workloads"])
    assert check(SHOP, "--cluster", CLUSTER, "-q", "-f", f"json={tmp_path / 'a.json'}", "-f", "table").stdout == table
    assert json.loads((tmp_path / "a.json").read_text()) == plain


def test_positions_are_those_of_the_fields() -> None:
    found = document(SHOP, "--cluster", CLUSTER)
    lines = Path(SHOP).read_text().splitlines()
    at = {fault.finding.code: fault.position for fault in found.faults}
    for code, text in (("KS211", "nodeSelector:"), ("KS501", "strategy:"), ("KS601", "minAvailable: 3")):
        place = at[code]
        assert place is not None
        assert place.line is not None
        assert place.column is not None
        assert lines[place.line - 1][place.column - 1 :] == text


def test_the_summary_line_is_on_standard_error() -> None:
    assert check(SHOP, "--cluster", CLUSTER, "-f", "json").stderr.startswith("2 workloads do not fit, 2 errors, 1 warning, ")
    assert check(BEFORE, "--cluster", CLUSTER, "-f", "json").stderr.startswith("1 workload fits, nothing found, ")
    known = check(SHOP, "--cluster", CLUSTER, "--base", SHOP, "-f", "json").stderr
    assert known.startswith("2 not fitting as with the base, nothing new found (3 known findings), ")


@pytest.mark.full
def test_deterministic_runs_give_the_same_bytes() -> None:
    runs = {check(SHOP, "--base", BEFORE, "--cluster", CLUSTER, "--deterministic", "-q", "-f", "json").stdout for _ in range(2)}
    assert len(runs) == 1


# --- input ----------------------------------------------------------------------------------------------------------------


def test_what_helm_renders_is_read_from_standard_input(cluster: Path) -> None:
    documents = SOUND.split("---\n")
    rendered = "".join(f"---\n# Source: shop/templates/part-{i}.yaml\n{text}" for i, text in enumerate(documents))
    rendered = rendered.replace("maxUnavailable: 1\n  selector", "maxUnavailable: 0\n  selector")
    rendered += (
        "---\n# Source: shop/templates/monitor.yaml\napiVersion: monitoring.coreos.com/v1\nkind: ServiceMonitor\nmetadata: {name: m}\n"
    )
    (fault,) = document("-", "--cluster", cluster, given=rendered).faults
    assert fault.finding.code == "KS601"
    assert fault.position is not None
    assert (fault.position.file, fault.position.line) == ("shop/templates/part-2.yaml", None)
    result = check("-w", "-", "--cluster", cluster, "-f", "json", given=rendered)
    assert "1 object of kinds that create no pods here: ServiceMonitor 1" in json.loads(result.stdout)["notes"]
    assert "note: 1 object of kinds that create no pods here: ServiceMonitor 1" in result.stderr
    assert check("-", "--cluster", cluster, "--strict", given=rendered).exit_code == 4


def test_what_an_autoscaler_would_change_is_named(cluster: Path) -> None:
    scaler = "---\napiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: web}\nspec: {maxReplicas: 9}\n"
    notes = json.loads(check("-w", "-", "--cluster", cluster, "-f", "json", given=SOUND + scaler).stdout)["notes"]
    assert "replicas set by 1 HorizontalPodAutoscaler: spec.replicas counts instead" in notes


def test_lists_folders_and_json_are_read_alike(tmp_path: Path, cluster: Path) -> None:
    folder = tmp_path / "manifests"
    folder.mkdir()
    objects = list(yaml.safe_load_all(SOUND.replace("maxUnavailable: 1\n  selector", "maxUnavailable: 0\n  selector")))
    (folder / "list.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects[:2]}))
    (folder / "rest.yaml").write_text(yaml.safe_dump_all(objects[2:]))
    for arguments in ([folder], ["-w", folder], ["-w", folder / "list.json", folder / "rest.yaml"]):
        found = document(*arguments, "--cluster", cluster)
        assert [fault.finding.code for fault in found.faults] == ["KS601"]
        assert found.faults[0].position is not None
        assert found.faults[0].position.file == str(folder / "rest.yaml")
        assert len(found.workloads) == 4


def test_namespaces_of_objects_that_name_none(tmp_path: Path, cluster: Path) -> None:
    (tmp_path / "m.yaml").write_text(
        SOUND.replace("  namespace: shop\n", "").replace("maxUnavailable: 1\n  sel", "maxUnavailable: 0\n  sel")
    )
    found = document(tmp_path / "m.yaml", "-n", "shop", "--cluster", cluster)
    assert found.workloads[0].workload == "Deployment shop/web"
    assert [fault.finding.object for fault in found.faults] == ["PodDisruptionBudget shop/web"]
    assert found.faults[0].position is not None
    assert found.faults[0].position.line is not None


def test_manifests_without_pods_are_judged_too(tmp_path: Path) -> None:
    (tmp_path / "budget.yaml").write_text(
        "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: web, namespace: shop}\n"
        "spec: {maxUnavailable: 0, selector: {matchLabels: {app: web}}}\n"
    )
    found = document(tmp_path / "budget.yaml", "--cluster", CLUSTER)
    assert (found.workloads, [fault.finding.code for fault in found.faults]) == ([], ["KS601"])


@pytest.mark.full
def test_a_base_of_several_files_and_findings_of_the_baseline(tmp_path: Path) -> None:
    known, shop = tmp_path / "known.json", ["--cluster", CLUSTER]
    written = check(SHOP, *shop, "--write-baseline", known, "-f", "json")
    assert (written.exit_code, "3 findings written" in written.stderr) == (0, True)
    found = document(SHOP, *shop, "--baseline", known)
    assert (found.faults, found.known) == ([], 3)
    listed = document(SHOP, *shop, "--baseline", known, "--show-known")
    assert [fault.known for fault in listed.faults] == [True] * 3
    assert check(SHOP, *shop, "-q", "--baseline", known).exit_code == 3, "it does not fit, known findings or not"
    assert "3 of its findings no longer occur" in check(BEFORE, *shop, "--baseline", known, "-f", "json").stderr
    (tmp_path / "budget.yaml").write_text(Path(SHOP).read_text().split("---\n")[2])
    base: list[str | Path] = ["--base", BEFORE, "--base", tmp_path / "budget.yaml"]
    found = document(SHOP, *shop, *base)
    assert found.base == [BEFORE, str(tmp_path / "budget.yaml")]
    assert "KS601" not in [fault.finding.code for fault in found.faults]


def test_severities_of_a_configuration_count(tmp_path: Path) -> None:
    (tmp_path / "audit.yaml").write_text("severities: {KS601: error}\nignore: [KS2, KS5]\n")
    result = check(SHOP, "--cluster", CLUSTER, "--config", tmp_path / "audit.yaml", "-q", "-f", "json")
    found = json.loads(result.stdout)
    assert [(f["finding"]["code"], f["finding"]["severity"]) for f in found["faults"]] == [("KS601", "error")]
    assert result.exit_code == 4


def test_several_snapshots_are_one_cluster(tmp_path: Path) -> None:
    nodes: list[dict[str, Any]] = [node("n1", cpu="100"), node("n2", cpu="1")]
    for i, each in enumerate(nodes):
        (tmp_path / f"n{i}.json").write_text(json.dumps(each))
    (tmp_path / "large.yaml").write_text(LARGE)
    found = document(tmp_path / "large.yaml", "--cluster", tmp_path / "n0.json", "--cluster", tmp_path / "n1.json")
    assert found.snapshot is not None
    assert (found.snapshot.nodes, found.workloads[0].fit) == (2, "fits")


# --- formats of pipelines -------------------------------------------------------------------------------------------------


def results(path: Path) -> list[dict[str, Any]]:
    log = json.loads(path.read_text(encoding="utf-8"))
    assert problems("sarif-2.1.0", log) == []
    return list(log["runs"][0]["results"])


@pytest.mark.full
def test_several_forms_are_one_run_and_a_file_each(tmp_path: Path) -> None:
    files = {form: tmp_path / form for form in ("sarif", "github", "gitlab", "junit", "json")}
    done = check(
        SHOP, "--cluster", CLUSTER, "-q", "-f", "table", *(word for form, file in files.items() for word in ("-f", f"{form}={file}"))
    )
    assert done.exit_code == 4
    assert "2 workloads do not fit" in done.stdout
    found = from_builtins(json.loads(files["json"].read_text()), Check)
    number = len(found.faults) + sum(fit.fit != "fits" for fit in found.workloads)
    assert len(results(files["sarif"])) == number == len(files["github"].read_text().splitlines())
    assert len(json.loads(files["gitlab"].read_text())) == number
    assert files["junit"].read_text().count("<failure") == 4
    none = check(SHOP, "-q", "-f", f"sarif={tmp_path}/a", "-f", f"github={tmp_path}/missing/b")
    assert (none.exit_code, (tmp_path / "a").exists()) == (1, False)
    assert check(SHOP, "-q", "-f", "sarif", "-f", "github").exit_code == 2


@pytest.mark.full
def test_what_helm_renders_leads_to_its_templates(tmp_path: Path, cluster: Path) -> None:
    """A defect in each of two templates, of which one is of a chart within."""
    chart = tmp_path / "charts" / "my-shop"
    chart.mkdir(parents=True)
    (chart / "Chart.yaml").write_text("apiVersion: v2\nname: shop\nversion: 1.0.0\n")
    texts = {defect.name: defect for defect in DEFECTS}
    chosen = [defect for defect in texts.values() if defect.code in ("KS601", "KS211")][:2]
    assert len(chosen) == 2
    for defect in chosen:
        kind = defect.object.partition(" ")[0]
        documents = defect.text.removeprefix("---\n").split("\n---\n")
        rendered = "".join(
            f"---\n# Source: shop/{'charts/sub/' if kind in text else ''}templates/{i}.yaml\n{text.rstrip()}\n"
            for i, text in enumerate(documents)
        )
        done = check("-", "--chart", chart, "--cluster", cluster, "-q", "-f", f"sarif={tmp_path / 'out'}", given=rendered)
        assert done.exit_code in (3, 4), done.output
        (found,) = [result for result in results(tmp_path / "out") if result["ruleId"] == defect.code]
        physical = found["locations"][0]["physicalLocation"]
        uri = physical["artifactLocation"]["uri"]
        assert uri.startswith(f"file://{chart}/charts/sub/templates/")
        assert f"kind: {kind}\n" in documents[int(Path(uri).stem)]
        assert "region" not in physical


def test_a_chart_without_a_name_is_bad_input(tmp_path: Path) -> None:
    done = check(BEFORE, "--chart", tmp_path)
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.startswith(f"kubestow: {tmp_path}/Chart.yaml: cannot be read: ")
