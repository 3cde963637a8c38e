"""Commands, options and exit codes, with engines of our own."""

from __future__ import annotations

import json
import sys
import tomllib
import types
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

import cli
from checker.violation import InternalFault
from commands import VERSION
from models.documents.placement import Assignment, Placement, Reason, Seconds, SnapshotRef, TierResult, Unmodelled, Unplaced
from models.documents.policy import Policy
from models.kube.objects import Node, ObjectMeta, Pod, PodSpec
from models.snapshot import snapshot as snapshots
from models.snapshot.snapshot import InputError, Snapshot
from report.documents import results
from solver.explain import per_node as explaining
from solver.runtime.options import Options

Run = Callable[..., Result]


@dataclass(frozen=True)
class Violation:
    pod: str
    node: str
    rule: str
    why: str


class Fakes:
    """What the fake loader and engines give back, and what they were asked."""

    def __init__(self) -> None:
        pods = [Pod(metadata=ObjectMeta(name=name, namespace="prod"), spec=PodSpec()) for name in ("web-1", "web-2")]
        self.snapshot = Snapshot(nodes=[Node(metadata=ObjectMeta(name="n1"))], pods=pods, sha256="abc")
        self.placement = Placement(
            snapshot=SnapshotRef("abc", 1, 2, 2),
            engine="exact",
            status="optimal",
            objective=[TierResult("placed", 2, 2, 0)],
            assignments=[Assignment("prod/web-1", "n1", 1), Assignment("prod/web-2", "n1", 2)],
            seconds=Seconds(),
        )
        self.error: BaseException | None = None
        self.violations: list[Violation] = []
        self.verdicts: list[explaining.PodVerdict] = []
        self.options: Options | None = None
        self.asked: dict[str, Any] = {}
        self.loaded: list[str] = []

    def drop_a_pod(self) -> None:
        self.placement.assignments.pop()
        self.placement.unplaced = [Unplaced("prod/web-2", [Reason("NodeResourcesFit", 1, "insufficient cpu")])]
        self.placement.status = "infeasible"

    def load(self, paths: list[str]) -> Snapshot:
        self.loaded = list(paths)
        if self.error is not None:
            raise self.error
        return self.snapshot

    def place(self, snapshot: Snapshot, options: Options, *, on_progress: Any = None, stop: Any = None, began: float = 0) -> Placement:
        self.options = options
        return self.placement

    def verify(self, snapshot: Snapshot, placement: Placement) -> list[Violation]:
        return self.violations

    def explain(self, snapshot: Snapshot, **asked: Any) -> list[explaining.PodVerdict]:
        self.asked = asked
        if self.error is not None:
            raise self.error
        return self.verdicts


@pytest.fixture
def fakes(monkeypatch: pytest.MonkeyPatch) -> Fakes:
    fakes = Fakes()
    monkeypatch.setattr(snapshots, "load", fakes.load)
    replaced: dict[str, dict[str, Any]] = {
        "solver.solve": {"place": fakes.place},
        "checker.placement": {"verify": fakes.verify},
    }
    for name, members in replaced.items():
        module = types.ModuleType(name)
        module.__dict__.update(members)
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(explaining, "explain", fakes.explain)
    return fakes


@pytest.fixture
def run(fakes: Fakes) -> Run:
    def invoke(*arguments: str, stdin: str | None = None) -> Result:
        result = CliRunner().invoke(cli.main, list(arguments), input=stdin)
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        return result

    return invoke


@pytest.fixture
def result_file(tmp_path: Path, fakes: Fakes) -> str:
    path = tmp_path / "result.json"
    path.write_bytes(results.encode(results.placement_document(fakes.placement), "json"))
    return str(path)


# --- common -----------------------------------------------------------------------------------------------------------


def test_the_version_is_that_of_the_package() -> None:
    project = tomllib.loads((Path(cli.__file__).parent / "pyproject.toml").read_text())
    assert project["project"]["version"] == VERSION
    assert CliRunner().invoke(cli.main, ["--version"]).output == f"kubestow, version {VERSION}\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ["solve"],
        ["nonsense"],
        ["solve", "x", "--nonsense"],
        ["solve", "x", "-f", "xml"],
        ["solve", "x", "--engine", "magic"],
        ["solve", "x", "--time-limit", "0"],
        ["solve", "x", "--time-limit", "-1"],
        ["solve", "x", "--time-limit", "nan"],
        ["solve", "x", "--time-limit", "inf"],
        ["solve", "x", "--time-limit", "soon"],
        ["solve", "x", "--workers", "0"],
        ["solve", "x", "--seed", "-1"],
        ["solve", "x", "--daemon-namespaces", "a,,b"],
        ["solve", "x", "-q", "-v"],
        ["solve", "x", "-f", "kubectl", "--from-scratch"],
        ["verify", "x"],
        ["verify", "-", "--result", "-"],
        ["verify", "x", "--result", "r", "-f", "kubectl"],
        ["explain", "x", "--pod", "web"],
        ["explain", "x", "--pod", "a/b/c"],
        ["explain", "x", "--pod", "/b"],
    ],
)
def test_wrong_usage_is_exit_2(run: Run, fakes: Fakes, arguments: list[str]) -> None:
    result = run(*arguments)
    assert (result.exit_code, result.stdout, fakes.loaded) == (2, "", [])
    assert "Error: " in result.stderr


def test_what_an_engine_cannot_read_is_bad_input(run: Run, fakes: Fakes, monkeypatch: pytest.MonkeyPatch) -> None:
    def too_big(*args: object, **kwargs: object) -> None:
        raise InputError(["Pod prod/x: spec: memory does not fit 64 bits"])

    monkeypatch.setattr(sys.modules["solver.solve"], "place", too_big)
    monkeypatch.setattr(explaining, "explain", too_big)
    for command in ("solve", "explain"):
        result = run(command, "x")
        assert (result.exit_code, result.stdout, result.stderr) == (1, "", "kubestow: Pod prod/x: spec: memory does not fit 64 bits\n")


@pytest.mark.parametrize("command", [["solve"], ["explain"], ["solve", "-q"]])
def test_each_problem_of_bad_input_is_a_line_of_its_own(run: Run, fakes: Fakes, command: list[str]) -> None:
    fakes.error = InputError(["a.yaml: Pod prod/x: spec.priority: expected int", "b.yaml: \x1b[31mtwo\nlines"])
    result = run(*command, "a.yaml", "b.yaml")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "kubestow: a.yaml: Pod prod/x: spec.priority: expected int\nkubestow: b.yaml: \\x1b[31mtwo\\nlines\n"
    assert fakes.loaded == ["a.yaml", "b.yaml"]


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (MemoryError(), "kubestow: out of memory"),
        (RecursionError(), "kubestow: the input is nested too deeply"),
        (PermissionError(13, "Permission denied", "x.json"), "kubestow: x.json: Permission denied"),
        (UnicodeEncodeError("ascii", "ü", 0, 1, "no"), "kubestow: text that cannot be encoded: "),
    ],
)
def test_what_the_machine_refuses_is_one_line(run: Run, fakes: Fakes, error: Exception, line: str) -> None:
    fakes.error = error
    result = run("explain", "x")
    assert result.exit_code == 1
    assert result.stderr.startswith(line)
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("command", ["solve", "explain"])
def test_an_interrupt_while_reading_ends_at_once(run: Run, fakes: Fakes, command: str) -> None:
    fakes.error = KeyboardInterrupt()
    result = run(command, "x")
    assert (result.exit_code, result.stdout, result.stderr) == (130, "", "kubestow: interrupted\n")


def test_warnings_are_cut_without_v_and_silenced_by_q(run: Run, fakes: Fakes) -> None:
    fakes.snapshot.warnings = [f"w{i}" for i in range(30)]
    fakes.snapshot.ignored = {"Secret": 3}
    assert "warning: w19\nwarning: 10 more like these (-v shows all)\n" in run("explain", "x").stderr
    assert run("explain", "x", "-q").stderr == ""
    loud = run("explain", "x", "-v").stderr
    assert "warning: w29\n" in loud
    assert "read 1 nodes and 2 pods\nignored: 3 Secret\n" in loud


def test_an_output_that_cannot_be_written_is_known_before_the_work(run: Run, fakes: Fakes, tmp_path: Path) -> None:
    result = run("solve", "x", "-o", str(tmp_path / "absent" / "out"))
    assert (result.exit_code, fakes.loaded) == (1, [])
    assert result.stderr == f"kubestow: {tmp_path / 'absent' / 'out'}: No such file or directory\n"


# --- solve ------------------------------------------------------------------------------------------------------------


def test_solve_prints_json_where_there_is_no_terminal(run: Run) -> None:
    result = run("solve", "x")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["kind"] == "Placement"
    assert result.stderr.startswith("2 of 2 pods placed; on 1 node; optimal; ")


def test_solve_options_reach_the_engine(run: Run, fakes: Fakes) -> None:
    run("solve", "x")
    assert fakes.options == Options()
    flags = ["--deterministic", "--from-scratch", "--include-gated"]
    values = ["--time-limit", "2.5", "--engine", "greedy", "--seed", "7", "--workers", "3", "--daemon-namespaces", "kube-system, logs,logs"]
    run("solve", "x", *flags, *values)
    assert fakes.options == Options("greedy", 2.5, 3, 7, True, True, True, ("kube-system", "logs"))
    run("solve", "x", "--strategy", "spread", "--shorthand", "symmetric")
    assert fakes.options == Options(policy=Policy(shorthand="symmetric"), search_strategy=True)


def test_formats(run: Run) -> None:
    assert yaml.safe_load(run("solve", "x", "-f", "yaml").stdout)["status"] == "optimal"
    assert run("solve", "x", "-f", "table").stdout.startswith("2 of 2 pods placed\n")
    names = [json.loads(line)["metadata"]["name"] for line in run("solve", "x", "-f", "kubectl").stdout.splitlines()]
    assert names == ["web-1", "web-2"]


def test_output_goes_to_the_file_alone(run: Run, tmp_path: Path) -> None:
    result = run("solve", "x", "-o", str(tmp_path / "out"), "-q")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "")
    assert json.loads((tmp_path / "out").read_text())["engine"] == "exact"
    assert run("solve", "x", "-o", "-", "-q").stdout == (tmp_path / "out").read_text()


def test_pods_left_over_are_exit_3_with_the_result_written(run: Run, fakes: Fakes) -> None:
    fakes.drop_a_pod()
    result = run("solve", "x")
    assert result.exit_code == 3
    assert json.loads(result.stdout)["unplaced"][0]["pod"] == "prod/web-2"
    assert result.stderr.startswith("1 of 2 pods placed, 1 cannot be (proved); on 1 node; infeasible; ")


def test_strict_refuses_what_is_not_modelled(run: Run, fakes: Fakes, tmp_path: Path) -> None:
    assert run("solve", "x", "--strict").exit_code == 0
    fakes.placement.unmodelled = [Unmodelled("prod/web-1", "spec.resourceClaims", "ignored"), Unmodelled("Node/n1", "x", "y")]
    result = run("solve", "x", "--strict", "-q", "-o", str(tmp_path / "out"))
    assert (result.exit_code, result.stdout, list(tmp_path.iterdir())) == (4, "", [])
    assert result.stderr == "kubestow: not modelled: prod/web-1: spec.resourceClaims: ignored\nkubestow: not modelled: Node/n1: x: y\n"
    assert run("solve", "x").exit_code == 0


def test_a_result_that_the_checker_refused_is_one_line(run: Run, fakes: Fakes, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: object, **kwargs: object) -> Placement:
        raise InternalFault("prod/web-1 on n1: NodePorts")

    monkeypatch.setattr(sys.modules["solver.solve"], "place", broken)
    result = run("solve", "x")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "kubestow: internal fault, please report it: prod/web-1 on n1: NodePorts\n"


def test_a_deterministic_document_holds_no_times(run: Run, fakes: Fakes) -> None:
    fakes.placement.seconds = None
    assert "seconds" not in json.loads(run("solve", "x", "--deterministic").stdout)


def test_bindings_of_gated_pods_come_with_a_warning(run: Run) -> None:
    assert "scheduling gates" in run("solve", "x", "-f", "kubectl", "--include-gated").stderr


# --- verify -----------------------------------------------------------------------------------------------------------


def test_verify_says_valid_or_what_is_broken(run: Run, fakes: Fakes, result_file: str) -> None:
    good = run("verify", "x", "--result", result_file)
    assert (good.exit_code, json.loads(good.stdout)) == (0, {"valid": True, "violations": []})
    assert good.stderr == "valid: 2 assignments\n"
    fakes.violations = [Violation("prod/web-1", "n1", "NodePorts", "port 80 is taken")]
    bad = run("verify", "x", "--result", result_file, "-f", "yaml")
    assert bad.exit_code == 4
    assert yaml.safe_load(bad.stdout)["violations"][0]["rule"] == "NodePorts"
    assert "port 80 is taken" in run("verify", "x", "--result", result_file, "-f", "table").stdout


def test_verify_reads_the_result_from_standard_input(run: Run, result_file: str) -> None:
    assert run("verify", "x", "--result", "-", stdin=Path(result_file).read_text()).exit_code == 0


def test_verify_refuses_what_is_no_placement(run: Run, tmp_path: Path) -> None:
    (tmp_path / "r.yaml").write_text("kind: Pod\n")
    result = run("verify", "x", "--result", str(tmp_path / "r.yaml"))
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith(f"kubestow: {tmp_path / 'r.yaml'}: apiVersion: ")


# --- explain ----------------------------------------------------------------------------------------------------------


def test_explain_forms(run: Run, fakes: Fakes) -> None:
    fakes.verdicts = [explaining.PodVerdict("prod/x", ["n1"], {"n2": ["NodePorts", "NodeResourcesFit"]}, {"NodePorts": "port 80"})]
    total = {"pods": [{"pod": "prod/x", "feasible": 1, "rejected": {"NodePorts": 1, "NodeResourcesFit": 1}}]}
    each = {"pods": [{"pod": "prod/x", "feasible": ["n1"], "rejected": {"n2": ["NodePorts", "NodeResourcesFit"]}}]}
    assert json.loads(run("explain", "x").stdout) == total
    assert yaml.safe_load(run("explain", "x", "--per-node", "-f", "yaml").stdout) == each
    assert "1 of 2 nodes feasible" in run("explain", "x", "-f", "table").stdout
    assert run("explain", "x", "-f", "table", "--per-node").stdout.count("NodePorts") == 1


def test_explain_options_reach_the_engine(run: Run, fakes: Fakes) -> None:
    assert run(*["explain", "x", "--pod", "prod/x", "--node", "n1", "--include-gated", "--daemon-namespaces", "a,b"]).exit_code == 0
    assert fakes.asked == {
        "pod": "prod/x",
        "workload": None,
        "node": "n1",
        "include_gated": True,
        "daemon_namespaces": ("a", "b"),
        "policy": Policy(),
    }


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (explaining.UnknownPod("prod/x: no such pod in the snapshot"), "kubestow: --pod: prod/x: no such pod in the snapshot\n"),
        (explaining.UnknownNode("n9"), "kubestow: --node: n9: no such node in the snapshot\n"),
    ],
)
def test_explain_of_unknown_names_is_bad_input(run: Run, monkeypatch: pytest.MonkeyPatch, error: Exception, line: str) -> None:
    def unknown(*args: object, **kwargs: object) -> None:
        raise error

    monkeypatch.setattr(explaining, "explain", unknown)
    result = run("explain", "x")
    assert (result.exit_code, result.stdout, result.stderr) == (1, "", line)
