"""The command capture: the page's runs with a stand-in for kubectl on PATH, the written files, and the end."""

from __future__ import annotations

import gzip
import json
import os
import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kubestow import cli
from kubestow.commands.common.exit_codes import DONE, INCOMPLETE
from kubestow.models.kube import kinds
from kubestow.models.snapshot.snapshot import load
from tests.live.capture_objects import SECRET, cluster
from tests.live.capture_stand_in import TABLE, Server, install
from tests.live.test_redact import objects_of
from tests.objects import pod

_ROOT = Path(cli.__file__).resolve().parent
_PAGE = (_ROOT / "docs/capture.md").read_text(encoding="utf-8")
_LINES = [line.removeprefix("$ ") for block in re.findall(r"```console\n(.*?)```", _PAGE, re.DOTALL) for line in block.splitlines()]
_FEW = sorted({row[4] for row in TABLE} - {"Pod", "Namespace", "Node"})


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)


def run(*arguments: str, server: Server | None = None) -> Result:
    if server is not None:
        install(Path("bin").absolute(), server)
    return CliRunner().invoke(cli.main, ["capture", *arguments])


@pytest.mark.full
def test_the_page_s_commands_run_in_their_order() -> None:
    shop = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}
    elsewhere = pod("elsewhere", namespace="office", node_name="a1")
    install(Path("bin").absolute(), Server([*objects_of(_ROOT / "instances/quickstart.yaml"), shop, elsewhere]))
    for line in _LINES:
        name, *arguments = shlex.split(line)
        result = CliRunner().invoke(cli.main, arguments)
        assert (name, result.exit_code) == ("kubestow", 0), f"{line}\n{result.stderr}"
    assert (load(["cluster.json.gz"]).counts()["Pod"], load(["shop.json"]).counts()["Pod"]) == (16, 15)
    assert load(["whole.json"]).counts() == load(["prod.json"]).counts()


def test_the_page_tells_every_option_and_every_kind() -> None:
    options = {name for parameter in cli.main.commands["capture"].params for name in (*parameter.opts, *parameter.secondary_opts)}
    rows = re.findall(r"^\| (`-.*?) \|", _PAGE, re.MULTILINE)
    shown = set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", " ".join(rows)))
    assert shown == options - {"--help", "--quiet", "--verbose"}
    kinds_shown = set(re.findall(r"[a-z]+", _PAGE.split("## What is asked for")[1].split("\n\n")[1]))
    assert {row[0] for row in TABLE if kinds.find(row[2], row[4])} <= kinds_shown


def test_files_and_standard_output_hold_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kubestow.live.capture.now", lambda: "2026-11-22T10:00:00Z")
    printed = run("-q", server=Server(cluster(), lacking=_FEW))
    assert run("-q", "-o", "a.json").exit_code == run("-q", "-o", "a.json.gz").exit_code == printed.exit_code
    assert Path("a.json").read_text() == printed.stdout == gzip.decompress(Path("a.json.gz").read_bytes()).decode()
    assert (printed.stderr, SECRET in printed.stdout) == ("", False)
    assert {o["kind"] for o in json.loads(printed.stdout)["items"]} == {"Pod", "Namespace", "Node"}


def test_holes_are_named_and_told_by_the_exit_code() -> None:
    result = run("-o", "a.json", server=Server(cluster(), forbidden=["/api/v1/persistentvolumes"]))
    assert result.exit_code == INCOMPLETE
    assert "warning: left out: persistentvolumes: persistentvolumes is forbidden" in result.stderr
    assert load(["a.json"]).counts()["Pod"] == 3
    assert run("-o", "a.json", server=Server(cluster())).exit_code == DONE


@pytest.mark.parametrize(
    "command", ["solve FILE", "explain FILE", "audit FILE --fail-on never", "rebalance FILE --goal repair", "report FILE -o page.html"]
)
def test_every_command_tells_what_a_snapshot_lacks(command: str) -> None:
    run("-o", "a.json", server=Server(cluster(), forbidden=["/apis/policy/v1/poddisruptionbudgets"]))
    words = command.replace("FILE", "a.json").split()
    quiet = CliRunner().invoke(cli.main, [*words, "-q"])
    line = "the snapshot lacks something: poddisruptionbudgets.policy: poddisruptionbudgets is forbidden"
    assert f"note: {line}" in quiet.stderr
    if "page" not in command:
        assert any(line in note for note in json.loads(quiet.stdout)["notes"])
    strict = CliRunner().invoke(cli.main, [*words, "--strict"])
    assert (strict.exit_code, strict.stdout) == (4, "")
    assert line in strict.stderr


def test_a_capture_of_single_namespaces_warns_that_others_take_room() -> None:
    result = run("-n", "shop", "-o", "a.json", server=Server(cluster()))
    line = "objects in other namespaces than shop: their pods use capacity, so the nodes look emptier than they are"
    assert (result.exit_code, f"warning: not in the snapshot: {line}" in result.stderr) == (DONE, True)
    assert f"note: the snapshot lacks something: {line}" in CliRunner().invoke(cli.main, ["audit", "a.json", "-q"]).stderr


@pytest.mark.parametrize(("option", "mode"), [("--redact", 0o644), ("--no-redact", 0o600)])
def test_whole_objects_are_for_the_owner_of_the_file_alone(option: str, mode: int) -> None:
    before = os.umask(0o022)
    try:
        for name in ("a.json", "a.json.gz"):
            assert run(option, "-o", name, server=Server(cluster())).exit_code == DONE
            assert Path(name).stat().st_mode & 0o777 == mode
    finally:
        os.umask(before)


@pytest.mark.full
def test_failures_leave_no_file() -> None:
    faulty = {"/api/v1/pods": {"stdout": 50, "stderr": "error: connection lost\nat once\n", "exit": 1}}
    Path("old.json").write_text("old")
    for target in ("old.json", "new.json", "new.json.gz"):
        result = run("-o", target, server=Server(cluster(), faults=faulty))
        assert (result.exit_code, result.stderr, result.stdout) == (1, "kubestow: kubectl get --raw /api/v1/pods: connection lost\n", "")
    assert (Path("old.json").read_text(), sorted(p.name for p in Path().iterdir())) == ("old", ["bin", "old.json"])
    assert run(server=Server(cluster(), faults=faulty)).stdout == ""


def test_targets_that_cannot_be_written_are_found_before_kubectl_is_asked() -> None:
    result = run("-o", "none/a.json", server=Server(cluster()))
    assert (result.exit_code, result.stderr) == (1, "kubestow: none/a.json: No such file or directory\n")
    assert not Path("bin/state.json.log").exists()


@pytest.mark.parametrize("arguments", [["-n", "../x"], ["--timeout", "0"], ["--timeout", "nan"], ["x"], ["-q", "-v"]])
def test_wrong_usage(arguments: list[str]) -> None:
    assert run(*arguments, server=Server(cluster())).exit_code == 2
    assert not Path("bin/state.json.log").exists()


@pytest.mark.full
def test_what_kubectl_says_is_told_on_demand() -> None:
    server = Server(cluster(), lacking=_FEW, warn="v1 Pod is \x1b[1mold")
    assert "old" not in run("-o", "a.json", server=server).stderr
    assert "kubectl: Warning: v1 Pod is \\x1b[1mold\n" in run("-v", "-o", "a.json").stderr
