"""--catalogue and --buy: nodes of a catalogue as a what-if, from the question to what verify says of the answer."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from kubestow import cli
from tests.commands.test_tables import written
from tests.objects import Object, node, pod

_CATALOGUE = str(Path(__file__).parents[2] / "instances" / "catalogue.yaml")


def run(*arguments: str, code: int = 0) -> Result:
    result = CliRunner().invoke(cli.main, [*arguments])
    assert result.exit_code == code, result.stderr
    return result


def bought(*offers: str) -> list[str]:
    return ["--catalogue", _CATALOGUE, *(argument for offer in offers for argument in ("--buy", offer))]


@pytest.fixture
def cluster(tmp_path: Path) -> str:
    """A small node in zone a, with a DaemonSet's pod, and two pods that are too large for it."""
    there = node("n1", cpu="2", labels={"topology.kubernetes.io/zone": "a"})
    waiting = [pod(f"large-{i}", cpu="6") for i in range(2)]
    return written(tmp_path / "cluster.json", [there, _daemon_set(), *waiting])


def _daemon_set() -> Object:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "100m"}}}]}}
    return {
        "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "net", "namespace": "kube-system", "uid": "u"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template}, "status": {},
    }  # fmt: skip


def solved(*arguments: str, code: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run("solve", *arguments, "-q", "-f", "json", code=code).stdout)
    return found


def test_bought_nodes_take_pods(cluster: str) -> None:
    assert solved(cluster, code=3)["unplaced"]
    found = solved(cluster, *bought("1:g2.2xlarge@b", "1:g2.2xlarge.spot@c"))
    assert {a["node"] for a in found["assignments"]} == {"g2.2xlarge-b-1", "g2.2xlarge.spot-c-1"}
    assert found["snapshot"]["nodes"] == 3
    assert found["snapshot"]["pods"] == 4
    edits = found["snapshot"]["edits"]
    assert edits["buy"] == ["1:g2.2xlarge@b", "1:g2.2xlarge.spot@c"]
    assert [shape["name"] for shape in edits["shapes"]] == ["g2.2xlarge", "g2.2xlarge.spot"]


def test_verify_and_report_need_no_catalogue(cluster: str, tmp_path: Path) -> None:
    result, page = str(tmp_path / "result.json"), str(tmp_path / "page.html")
    run("solve", cluster, *bought("2:g2.2xlarge@b"), "-q", "-o", result)
    assert json.loads(run("verify", cluster, "--result", result, "-q", "-f", "json").stdout)["valid"]
    run("report", cluster, "--result", result, "-o", page, "-q")
    assert "with 2 bought nodes of shape g2.2xlarge in zone b" in Path(page).read_text(encoding="utf-8")


def test_verify_sees_through_shapes_that_are_too_small(cluster: str, tmp_path: Path) -> None:
    result = tmp_path / "result.json"
    run("solve", cluster, *bought("2:g2.2xlarge@b"), "-q", "-o", str(result))
    document = json.loads(result.read_text())
    document["snapshot"]["edits"]["shapes"][0]["allocatable"]["cpu"] = "6"  # of which the DaemonSet's pod takes some
    result.write_text(json.dumps(document))
    found = json.loads(run("verify", cluster, "--result", str(result), "-q", "-f", "json", code=4).stdout)
    assert {fault["rule"] for fault in found["violations"]} >= {"NodeResourcesFit"}


def test_shapes_of_a_document_that_are_none_are_bad_input(cluster: str, tmp_path: Path) -> None:
    result = tmp_path / "result.json"
    run("solve", cluster, *bought("2:g2.2xlarge@b"), "-q", "-o", str(result))
    document = json.loads(result.read_text())
    del document["snapshot"]["edits"]["shapes"][0]["allocatable"]["pods"]
    result.write_text(json.dumps(document))
    [line] = [each for each in run("verify", cluster, "--result", str(result), "-q", code=1).stderr.splitlines() if "catalogue" in each]
    assert line.startswith("kubestow: --catalogue: shape 'g2.2xlarge': allocatable.pods: missing")


def test_explain_judges_bought_nodes(cluster: str) -> None:
    found = json.loads(run("explain", cluster, *bought("1:m4.4xlarge@a"), "-q", "-f", "json").stdout)
    assert [each["feasible"] for each in found["pods"]] == [1, 1]


def test_a_snapshot_without_nodes_is_welcome_where_some_are_bought(tmp_path: Path) -> None:
    empty, result = written(tmp_path / "empty.json", [pod("p", cpu="6")]), str(tmp_path / "result.json")
    assert "holds no Node objects" in run("solve", empty, code=1).stderr
    assert "holds no Node objects" in run("solve", empty, "--catalogue", _CATALOGUE, code=1).stderr
    run("solve", empty, *bought("1:g2.2xlarge@b"), "-q", "-o", result)
    assert json.loads(run("verify", empty, "--result", result, "-q", "-f", "json").stdout)["valid"]
    assert json.loads(run("explain", empty, *bought("1:g2.2xlarge@b"), "-q", "-f", "json").stdout)["pods"]


@pytest.mark.parametrize(
    ("offers", "lines"),
    [
        (["2"], ["--buy '2': expected N:SHAPE@ZONE, N a whole number within 1..100000"]),
        (["x:g2.large@a"], ["--buy 'x:g2.large@a': expected N:SHAPE@ZONE, N a whole number within 1..100000"]),
        (["0:g2.large@a"], ["--buy '0:g2.large@a': expected N:SHAPE@ZONE, N a whole number within 1..100000"]),
        (["1:g3.large@a"], ["--buy '1:g3.large@a': no shape 'g3.large' in the catalogue; did you mean g2.large?"]),
        (["1:x1.8xlarge@b"], ["--buy '1:x1.8xlarge@b': shape 'x1.8xlarge' is not offered in zone 'b', expected one of a, c"]),
        (["2:x1.8xlarge@a", "1:x1.8xlarge@c"], ["--buy: 3 nodes of shape 'x1.8xlarge', expected at most 2, as the catalogue says"]),
        (["1:q@a", "1:r@a"], ["--buy '1:q@a': no shape 'q' in the catalogue", "--buy '1:r@a': no shape 'r' in the catalogue"]),
    ],
)
def test_what_cannot_be_bought_is_said_in_one_line(cluster: str, tmp_path: Path, offers: list[str], lines: list[str]) -> None:
    out = tmp_path / "out.json"
    for command in ("solve", "explain"):
        said = run(command, cluster, *bought(*offers), "-o", str(out), "-q", code=1).stderr.splitlines()
        assert said == [f"kubestow: {each}" for each in lines]
        assert not out.exists()


def test_bad_catalogues_end_the_command_and_nothing_is_written(cluster: str, tmp_path: Path) -> None:
    out, bad = tmp_path / "out.json", tmp_path / "bad.yaml"
    bad.write_text("shapes:\n- {name: m, allocatable: {cpu: 1, memory: 1Gi, pods: 1}, zones: [a], price: -1}\n- {name: n}\n")
    for command in ("solve", "explain"):
        lines = run(command, cluster, "--catalogue", str(bad), "--buy", "1:m@a", "-o", str(out), "-q", code=1).stderr.splitlines()
        assert [line.partition(": shape ")[2].partition(", expected")[0] for line in lines] == [
            "'m': price: got -1", "'n': allocatable: missing", "'n': zones: missing", "'n': price: missing",
        ]  # fmt: skip
        assert not out.exists()


def test_buying_needs_a_catalogue(cluster: str) -> None:
    assert "--buy requires a catalogue of nodes" in run("solve", cluster, "--buy", "1:m@a", code=2).stderr


def test_bindings_are_not_created_on_nodes_that_are_not_there(cluster: str) -> None:
    assert "cannot carry out" in run("solve", cluster, *bought("1:g2.large@a"), "-f", "kubectl", code=2).stderr


def test_a_catalogue_that_is_not_there_is_bad_input(cluster: str) -> None:
    [line] = run("solve", cluster, "--catalogue", "nowhere.yaml", "-q", code=1).stderr.splitlines()
    assert line == "kubestow: nowhere.yaml: cannot be read: No such file or directory"


# --- ways out ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["explain", "solve"])
def test_the_options_of_a_way_out_work_when_they_are_run(cluster: str, tmp_path: Path, command: str) -> None:
    folder = tmp_path / "a folder"
    folder.mkdir()
    catalogue = folder / "nodes.yaml"
    catalogue.write_text(Path(_CATALOGUE).read_text())
    code = 3 if command == "solve" else 0
    document = json.loads(run(command, cluster, "--catalogue", str(catalogue), "-q", "-f", "json", code=code).stdout)
    [way] = [way for cause in document["causes"] for way in cause["waysOut"] if way["change"] == "buyNodes"]
    assert way["message"] == "add 1 node of shape g2.2xlarge in zone a, 0.38 per hour"
    assert way["options"] == ["--catalogue", str(catalogue), "--buy", "1:g2.2xlarge@a"]
    assert "large-0" in {a["pod"].removeprefix("default/") for a in solved(cluster, *way["options"], code=3)["assignments"]}


def test_a_table_shows_the_options_as_a_shell_takes_them(cluster: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "1000")
    catalogue = tmp_path / "my nodes.yaml"
    catalogue.write_text(Path(_CATALOGUE).read_text())
    table = run("explain", cluster, "--catalogue", str(catalogue), "-q", "-f", "wide").stdout
    [line] = [line for line in table.splitlines() if "of shape g2.2xlarge" in line]
    assert shlex.split(line)[-4:] == ["--catalogue", str(catalogue), "--buy", "1:g2.2xlarge@a"]


def test_no_way_out_is_like_a_node_that_is_only_bought(tmp_path: Path) -> None:
    cluster = written(tmp_path / "cluster.json", [node("n1", cpu="1"), *(pod(f"p{i}", cpu="6") for i in range(2))])
    document = solved(cluster, *bought("1:g2.2xlarge@a"), code=3)
    assert [way["change"] for cause in document["causes"] for way in cause["waysOut"]] == ["buyNodes", "lowerRequest"]


def test_what_is_bought_already_counts_towards_the_quota(tmp_path: Path) -> None:
    gpus = {"resources": {"requests": {"cpu": "1", "example.com/gpu": "3"}}}
    waiting = [pod(f"p{i}", tolerations=[{"operator": "Exists"}]) for i in range(4)]
    for each in waiting:
        each["spec"]["containers"][0] |= gpus
    cluster = written(tmp_path / "gpus.json", [node("n1"), *waiting])
    for bought_already, change in (("1:x1.8xlarge@a", ["buyNodes"]), ("2:x1.8xlarge@a", [])):
        document = solved(cluster, *bought(bought_already), code=3)
        changes = [way["change"] for cause in document["causes"] for way in cause.get("waysOut", ())]
        assert [each for each in changes if each != "lowerRequest"] == change


# --- other commands ---------------------------------------------------------------------------------------------------


def test_fit_counts_on_bought_nodes(cluster: str, tmp_path: Path) -> None:
    template = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "6"}}}]}}
    manifest = {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "x", "namespace": "default"}, "template": template}
    asked = [cluster, "-w", written(tmp_path / "x.json", [manifest]), "-q", "-f", "json"]
    result = str(tmp_path / "fit.json")
    assert json.loads(run("fit", *asked, code=3).stdout)["units"] == 0
    run("fit", *asked, *bought("2:g2.2xlarge@b", "1:m4.4xlarge@a"), "-o", result)
    assert json.loads(Path(result).read_text())["units"] == 4
    assert json.loads(run("verify", cluster, *asked[1:3], "--result", result, "-q", "-f", "json").stdout)["valid"]
    assert "--buy requires a catalogue of nodes" in run("fit", *asked, "--buy", "1:m@a", code=2).stderr


def test_what_size_buys_is_a_what_if_for_other_commands(cluster: str, tmp_path: Path) -> None:
    nodes = str(tmp_path / "nodes.yaml")
    run("size", cluster, "--catalogue", _CATALOGUE, "-q", "-f", f"nodes={nodes}")
    assert not solved(cluster, nodes)["unplaced"]
