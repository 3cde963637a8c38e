"""A cluster instead of a snapshot: the same answers as in two steps, messages about the capture, and the saved snapshot."""

from __future__ import annotations

import json
import os
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from kubestow import cli
from kubestow.commands.batch.arguments import BATCHED as OF_BATCH
from kubestow.commands.common.cluster_choice import PLUGIN
from kubestow.models.snapshot.snapshot import load
from tests.live.capture_stand_in import TABLE, Server, calls, install
from tests.live.test_redact import objects_of
from tests.tiers import thinned

_ROOT = Path(cli.__file__).resolve().parent
_OBJECTS = objects_of(_ROOT / "instances/quickstart.yaml")
_BUDGETS = "/apis/policy/v1/poddisruptionbudgets"
_POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: one}\nspec: {containers: [{name: c, resources: {requests: {cpu: 100m}}}]}\n"
#: Commands that read a snapshot, with their other arguments.
_COMMANDS = {
    "solve": (),
    "fit": ("-w", "one.yaml"),
    "size": ("--catalogue", str(_ROOT / "instances/catalogue.yaml"), "--from-scratch", "--engine", "greedy"),
    "survive": ("--fail", "node"),
    "upgrade": ("--pool", "kubernetes.io/hostname=a1"),
    "rebalance": ("--goal", "repair"),
    "explain": (),
    "simulate": (),
    "audit": ("--fail-on", "never"),
    "check": ("one.yaml", "--fail-on", "never"),
    "nodes": (),
    "report": ("-o", "page.html"),
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A place with a manifest in it and a stand-in for kubectl on the PATH."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
    monkeypatch.delenv("KUBECTL_PATH", raising=False)
    monkeypatch.setattr("kubestow.live.capture.now", lambda: "2026-11-22T10:00:00Z")
    Path("one.yaml").write_text(_POD, encoding="utf-8")
    serve()
    return tmp_path


def serve(server: Server | None = None, name: str = "kubectl", place: str = "bin") -> Path:
    return install(Path(place).absolute(), server or Server(_OBJECTS), name)


def run(*arguments: str, name: str = "kubestow") -> Result:
    result = CliRunner().invoke(cli.main, list(arguments), prog_name=name)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def test_every_command_that_reads_a_snapshot_is_looked_at() -> None:
    taking = {name for name, command in cli.main.commands.items() if "save_snapshot" in {p.name for p in command.params}}
    assert taking == set(_COMMANDS)
    reading = {name for name, command in cli.main.commands.items() if any(isinstance(p, click.Argument) for p in command.params)}
    assert reading - taking <= {"apply", "verify", "batch", "completion"}


@pytest.mark.full
@pytest.mark.parametrize("name", thinned(_COMMANDS, 2))
def test_one_step_is_as_two(name: str) -> None:
    more = (*_COMMANDS[name], "--deterministic") if "deterministic" in {p.name for p in cli.main.commands[name].params} else _COMMANDS[name]
    assert run("capture", "--context", "prod", "-o", "two.json").exit_code == 0
    two = run(name, *(("--cluster",) if name == "check" else ()), "two.json", *more)
    page = Path("page.html").read_bytes() if name == "report" else b""
    one = run(name, "--context", "prod", "--save-snapshot", "one.json", *more)
    assert (one.exit_code, one.stdout) == (two.exit_code, two.stdout), one.stderr
    assert Path("one.json").read_bytes() == Path("two.json").read_bytes()
    assert one.stderr.startswith(f"captured: {15} Pod, 1 PriorityClass, 5 Node\n")
    assert len(page) == (Path("page.html").stat().st_size if name == "report" else 0)
    assert ["--context=prod", "get", "--raw", "/api/v1/pods?limit=500"] in calls(Path("bin"))


def test_what_is_kept_is_for_verify_and_apply() -> None:
    assert run("solve", "--context", "prod", "--engine", "greedy", "--save-snapshot", "kept.json.gz", "-q", "-o", "p.json").exit_code == 0
    assert Path("kept.json.gz").read_bytes()[:2] == b"\x1f\x8b"
    assert json.loads(Path("p.json").read_text())["snapshot"]["sha256"] == load(["kept.json.gz"]).sha256
    assert run("verify", "kept.json.gz", "--result", "p.json", "-q").exit_code == 0


def test_what_could_not_be_read_is_named_and_refused_by_strict() -> None:
    serve(Server(_OBJECTS, forbidden=[_BUDGETS]))
    quiet = run("nodes", "--context", "prod", "-q")
    line = "the snapshot lacks something: poddisruptionbudgets.policy: poddisruptionbudgets is forbidden"
    assert (quiet.exit_code, quiet.stderr.count(line)) == (0, 1)
    assert "captured:" not in quiet.stderr
    strict = run("nodes", "--context", "prod", "--strict")
    assert (strict.exit_code, strict.stdout) == (4, "")
    assert line in strict.stderr


def test_nodes_that_may_not_be_read_are_named_where_that_is_the_end() -> None:
    serve(Server(_OBJECTS, forbidden=["/api/v1/nodes"]))
    found = run("solve", "--context", "prod")
    assert found.exit_code == 1
    assert "kubestow: context prod: holds no Node objects" in found.stderr
    assert "kubestow: the snapshot lacks something: nodes: nodes is forbidden" in found.stderr


def test_a_cluster_that_does_not_answer_is_one_line() -> None:
    serve(Server(faults={"api-resources": {"stdout": "", "stderr": "error: no route\n", "exit": 1}}))
    found = run("audit", "--kubeconfig", "here.config", "--save-snapshot", "kept.json")
    assert (found.exit_code, found.stderr) == (1, "kubestow: kubectl api-resources: no route\n")
    assert not Path("kept.json").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["solve"], "Missing argument 'SNAPSHOT...'. (--context NAME captures a cluster instead)"),
        (["solve", "a.json", "--context", "prod"], "--context captures a cluster instead of reading a SNAPSHOT"),
        (["solve", "a.json", "--kubectl", "oc"], "--kubectl captures a cluster instead of reading a SNAPSHOT"),
        (["nodes", "a.json", "--save-snapshot", "b.json"], "--save-snapshot requires a cluster to capture"),
        (["nodes", "--context", "prod", "--save-snapshot", "-"], "--save-snapshot needs a file"),
        (["nodes", "--context", "prod", "-o", "a.json", "--save-snapshot", "a.json"], "each form needs a file of its own"),
        (["report", "--context", "prod", "--result", "p.json"], "--result needs the SNAPSHOT that it was made from"),
    ],
)
def test_wrong_usage(arguments: list[str], said: str) -> None:
    found = run(*arguments)
    assert found.exit_code == 2
    assert said in " ".join(found.stderr.split())
    assert calls(Path("bin")) == []


def test_files_that_cannot_be_written_are_found_before_kubectl_is_asked() -> None:
    found = run("nodes", "--context", "prod", "--save-snapshot", "none/a.json")
    assert (found.exit_code, found.stderr) == (1, "kubestow: none/a.json: No such file or directory\n")
    assert calls(Path("bin")) == []


def test_input_that_is_larger_than_wanted_is_refused() -> None:
    found = run("nodes", "--context", "prod", "--max-input", "1k", "-q")
    assert (found.exit_code, found.stderr) == (
        1,
        "kubestow: context prod: takes more than 1000 bytes: --max-input SIZE or none lifts this limit\n",
    )


@pytest.mark.parametrize("command", OF_BATCH)
def test_a_batch_reads_files(command: str) -> None:
    found = run("batch", "-o", "out", command, "--context", "prod")
    assert found.exit_code == 2
    assert "--context is not allowed in a batch, which reads files" in " ".join(found.stderr.split())


# --- namespaces ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("of_context", "option", "expected"),
    [("shop", (), "shop"), ("", (), "default"), ("shop", ("-n", "till"), "till"), ("No Name", (), "default")],
)
def test_manifests_go_where_kubectl_would_create_them(of_context: str, option: tuple[str, ...], expected: str) -> None:
    serve(Server(_OBJECTS, namespace=of_context, lacking=sorted({row[4] for row in TABLE} - {"Pod", "Node", "PriorityClass"})))
    found = run("explain", "--context", "prod", "-w", "one.yaml", "--pod", f"{expected}/one", *option)
    assert (found.exit_code, json.loads(found.stdout)["pods"][0]["pod"]) == (0, f"{expected}/one")
    assert ("go to shop, that of the context" in found.stderr) == (expected == "shop")


def test_pods_of_all_namespaces_are_captured_whatever_the_context_says() -> None:
    serve(Server(_OBJECTS, namespace="till"))
    assert len(json.loads(run("explain", "--context", "prod").stdout)["pods"]) == 15
    assert not any("view" in call for call in calls(Path("bin"))), "there are no manifests that could be in it"


def test_check_needs_no_cluster_but_takes_that_of_the_context_as_a_plugin() -> None:
    serve(Server(_OBJECTS, namespace="shop"))
    assert run("check", "one.yaml", "-q").exit_code in (0, 4)
    assert calls(Path("bin")) == []
    assert "requires a cluster to capture (--context)" in " ".join(run("check", "one.yaml", "--save-snapshot", "x.json").stderr.split())
    found = run("check", "one.yaml", "--fail-on", "never", name=PLUGIN)
    assert (found.exit_code, json.loads(found.stdout)["workloads"][0]["workload"]) == (0, "Pod shop/one")


# --- the plugin ---------------------------------------------------------------------------------------------------------


def test_the_plugin_reads_the_current_context_and_calls_itself_as_users_do() -> None:
    found = run("nodes", name=PLUGIN)
    assert (found.exit_code, len(json.loads(found.stdout)["rows"])) == (0, 5)
    assert ["get", "--raw", "/api/v1/pods?limit=500"] in calls(Path("bin"))
    assert run("solve", "--help", name=PLUGIN).stdout.startswith("Usage: kubectl stow solve [OPTIONS] SNAPSHOT...\n")
    assert run("nodes", "none.json", name=PLUGIN).stderr == "kubestow: none.json: cannot be read: No such file or directory\n"


def test_the_plugin_explains_a_pod_in_the_namespace_of_the_context() -> None:
    namespaces = [{**each, "metadata": {**each["metadata"], "namespace": "shop"}} if each["kind"] == "Pod" else each for each in _OBJECTS]
    serve(Server(namespaces, namespace="shop"))
    name = next(each["metadata"]["name"] for each in _OBJECTS if each["kind"] == "Pod")
    for words in ((f"pod/{name}",), ("po", name), (f"pod/{name}", "-n", "shop"), (f"pod/{name}", "-A")):
        found = run("explain", *words, "-q", name=PLUGIN)
        assert (found.exit_code, [each["pod"] for each in json.loads(found.stdout)["pods"]]) == (0, [f"shop/{name}"]), found.stderr
    missing = run("explain", f"pod/{name}", "-n", "till", "-q", name=PLUGIN)
    line = f"kubestow: pod/{name}: no such pod in namespace till of the snapshot; there is one in shop (-n shop)\n"
    assert (missing.exit_code, missing.stderr.splitlines(keepends=True)[-1]) == (1, line)
    serve(Server(faults={"api-resources": {"stdout": "", "stderr": "error: no route\n", "exit": 1}}))
    assert run("explain", f"pod/{name}", name=PLUGIN).stderr == "kubestow: kubectl api-resources: no route\n"


@pytest.mark.parametrize("command", ["report", "verify"])
def test_the_plugin_does_not_take_the_cluster_for_the_snapshot_of_a_result(command: str) -> None:
    found = run(command, "--result", "p.json", name=PLUGIN)
    assert found.exit_code == 2
    assert "Missing argument 'SNAPSHOT...'." in found.stderr


def test_the_kubectl_that_runs_the_plugin_is_the_one_that_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    program = serve(name="kubectl-1.37", place="elsewhere")
    monkeypatch.setenv("KUBECTL_PATH", str(program))
    assert run("nodes", name=PLUGIN).exit_code == 0
    assert run("capture", "-o", "a.json").exit_code == 0
    asked = len(calls(Path("elsewhere")))
    assert asked > 2
    assert calls(Path("bin")) == []
    assert run("nodes", "--kubectl", "kubectl").exit_code == 0
    assert len(calls(Path("elsewhere"))) == asked, "--kubectl goes before"
