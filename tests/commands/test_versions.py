"""--kubernetes-version and --feature-gate: what commands judge by, what results note, and what becomes of both."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from kubestow import cli
from kubestow.commands.common import version_options
from kubestow.models.kube.feature_gates import VERSIONS
from kubestow.models.snapshot.capture_info import Capture
from tests.objects import node, pod

JUDGING = ("solve", "explain", "audit", "nodes", "rebalance", "report", "verify", "apply")
GATED = ("--kubernetes-version", "1.35", "--feature-gate", "VolumeLimitScaling=true")
SAID = {"kubernetesVersion": "1.35", "featureGates": {"VolumeLimitScaling": True}}


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli.main, [str(each) for each in arguments], catch_exceptions=False)


@pytest.fixture
def snapshot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of a cluster; there is none that can be asked."""
    for variable in ("KUBECONFIG", "HOME"):
        monkeypatch.setenv(variable, str(tmp_path / "nowhere"))
    return written(tmp_path / "cluster.json")


def written(path: Path, server: str = "", kubelet: str | None = None) -> Path:
    first = node("n1")
    if kubelet is not None:
        first.setdefault("status", {})["nodeInfo"] = {"kubeletVersion": kubelet}
    notes = {"annotations": Capture("prod", server_version=server).annotations()} if server else {}
    items = [first, pod("waits"), pod("runs", node_name="n1", owner="ReplicaSet/web")]
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "metadata": notes, "items": items}))
    return path


def solved(snapshot: Path, *more: str) -> Path:
    result = snapshot.with_name("result.json")
    found = run("solve", snapshot, *more, "-q", "-f", "json", "-o", result)
    assert found.exit_code == 0, found.stderr
    return result


def document(result: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(result.read_text())
    return found


def test_the_choice_is_that_of_the_table() -> None:
    assert version_options._VERSIONS == VERSIONS


@pytest.mark.parametrize("command", JUDGING)
def test_every_command_that_judges_has_both_options(command: str) -> None:
    names = {name for parameter in cli.main.commands[command].params for name in parameter.opts}
    assert {"--kubernetes-version", "--feature-gate"} <= names


@pytest.mark.parametrize(
    "command", ["solve", "audit --fail-on never", "rebalance --drain n1", "explain", "explain --per-node", "nodes", "nodes --by zone"]
)
def test_results_note_what_they_were_judged_by(snapshot: Path, command: str) -> None:
    name, *more = command.split()
    for asked, said in (((), {"kubernetesVersion": "1.36"}), (GATED, SAID)):
        found = json.loads(run(name, snapshot, *more, *asked, "-q", "-f", "json").stdout)
        where = found.get("snapshot", found)
        assert {key: where[key] for key in ("kubernetesVersion", "featureGates") if key in where} == said


@pytest.mark.parametrize("text", ["1.35", "v1.35", "v1.35.2", "1.35.0-rc.1"])
def test_versions_may_be_written_as_servers_tell_them(snapshot: Path, text: str) -> None:
    assert document(solved(snapshot, "--kubernetes-version", text))["snapshot"]["kubernetesVersion"] == "1.35"


def test_gates_that_are_as_the_version_has_them_are_no_difference(snapshot: Path) -> None:
    ref = document(solved(snapshot, "--feature-gate", "DRADeviceTaints=true,VolumeLimitScaling=false"))["snapshot"]
    assert "featureGates" not in ref


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (("--kubernetes-version", "1.33"), "'1.33' is not one of '1.34', '1.35', '1.36', '1.37'"),
        (("--feature-gate", "VolumeLimitScalin=true"), "unknown feature gate 'VolumeLimitScalin'; did you mean VolumeLimitScaling?"),
        (("--feature-gate", "VolumeLimitScaling"), "is not of the form NAME=true or NAME=false"),
        (("--feature-gate", "VolumeLimitScaling=true,VolumeLimitScaling=false"), "VolumeLimitScaling is both true and false"),
        (("--feature-gate", "DRAAdminAccess=false"), "--feature-gate: Kubernetes 1.36 has the feature gate DRAAdminAccess locked"),
        (
            ("--kubernetes-version", "1.34", "--feature-gate", "VolumeLimitScaling=false"),
            "--feature-gate: Kubernetes 1.34 has no feature gate VolumeLimitScaling, which came with 1.35",
        ),
    ],
)
def test_what_no_version_has_is_refused(snapshot: Path, asked: tuple[str, ...], words: str) -> None:
    found = run("explain", snapshot, *asked)
    assert (found.exit_code, found.stdout) == (2, "")
    assert words in found.stderr.splitlines()[-1]


def test_what_the_snapshot_tells_is_said_where_it_is_a_guess(tmp_path: Path) -> None:
    path = written(tmp_path / "kubelet.json", kubelet="v1.35.1")
    found = run("solve", path, "-f", "json", "-q")
    note = "the snapshot does not state the server's version: assumed to be that of the newest kubelet, Kubernetes 1.35"
    assert (found.stderr, json.loads(found.stdout)["notes"][-1]) == (f"note: {note}\n", note)
    assert json.loads(found.stdout)["snapshot"]["kubernetesVersion"] == "1.35"
    assert run("solve", path, "-q", "--kubernetes-version", "1.36").stderr == ""
    assert run("solve", written(tmp_path / "server.json", "v1.34.2", "v1.33.0"), "-q").stderr == ""


def test_results_are_judged_by_what_they_say(snapshot: Path) -> None:
    result = solved(snapshot, *GATED)
    page = snapshot.with_name("page.html")
    clause = "the rules are those of Kubernetes 1.35 with VolumeLimitScaling on"
    verdict = run("verify", snapshot, "--result", result, "-f", "json", "-q")
    assert (verdict.exit_code, json.loads(verdict.stdout)["says"]) == (0, [clause])
    assert verdict.stderr == f"note: the document says: {clause}\n"
    said = "note: judged by the rules of Kubernetes 1.35 with VolumeLimitScaling=true, as recorded in the result"
    assert said in run("report", snapshot, "--result", result, "-o", page).stderr.splitlines()
    assert said in run("apply", snapshot, "--result", result).stderr.splitlines()


@pytest.mark.parametrize("command", ["verify", "report -o page.html", "apply"])
def test_options_that_contradict_the_result_are_refused(
    snapshot: Path, command: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    result = solved(snapshot, *GATED)
    name, *more = command.split()
    for asked in (("--kubernetes-version", "1.36"), ("--feature-gate", "VolumeLimitScaling=false")):
        found = run(name, snapshot, "--result", result, *more, *asked)
        assert found.exit_code == 2
        assert "expected that of the result, Kubernetes 1.35 with VolumeLimitScaling=true" in found.stderr
    assert run(name, snapshot, "--result", result, *more, *GATED).exit_code == 0


def test_results_that_tell_no_version_are_judged_as_by_default_or_as_asked(snapshot: Path) -> None:
    result = solved(snapshot)
    told = document(result)
    del told["snapshot"]["kubernetesVersion"]
    result.write_text(json.dumps(told))
    for asked in ((), GATED):
        assert run("verify", snapshot, "--result", result, "-q", *asked).stderr == ""


def test_a_result_of_another_version_than_the_server_is_said_to_be(tmp_path: Path) -> None:
    path = written(tmp_path / "server.json", "v1.34.2")
    result = solved(path, "--kubernetes-version", "1.37")
    assert (
        "note: the result was made for Kubernetes 1.37, but the snapshot is of a server of v1.34.2\n"
        in run("verify", path, "--result", result).stderr
    )


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"kubernetesVersion": "new"}, "kubernetesVersion: got 'new', expected a version such as 1.36"),
        ({"featureGates": {"Tomorrow": True}}, "unknown feature gate 'Tomorrow'"),
        ({"featureGates": {"DRAAdminAccess": False}}, "Kubernetes 1.36 has the feature gate DRAAdminAccess locked to true"),
    ],
)
def test_results_with_what_no_version_has_are_bad_input(snapshot: Path, change: dict[str, Any], words: str) -> None:
    result = solved(snapshot)
    told = document(result)
    told["snapshot"].update(change)
    result.write_text(json.dumps(told))
    found = run("verify", snapshot, "--result", result)
    assert (found.exit_code, found.stderr) == (1, f"kubestow: the result: snapshot: {words}\n")


def test_a_result_of_a_version_to_come_is_judged_by_the_nearest(snapshot: Path) -> None:
    result = solved(snapshot)
    told = document(result)
    told["snapshot"]["kubernetesVersion"] = "1.38"
    result.write_text(json.dumps(told))
    found = run("verify", snapshot, "--result", result, "-q")
    assert found.exit_code == 0
    assert "note: the rules of Kubernetes 1.38 are not known: using those of 1.37, the nearest known version" in found.stderr.splitlines()


def test_new_tolerations_follow_the_gates(snapshot: Path) -> None:
    new = snapshot.with_name("new.json")
    new.write_text(json.dumps(pod("new", tolerations=[{"key": "k", "operator": "Gt", "value": "5"}])))
    assert "TaintTolerationComparisonOperators is off" in run("solve", snapshot, "-w", new, "-q").stderr
    assert run("solve", snapshot, "-w", new, "-q", "--feature-gate", "TaintTolerationComparisonOperators=true").exit_code == 0
