"""The command rebalance, and verify on its documents, with a search and a checker of our own."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import Result
from rich.text import Text

from kubestow import cli
from kubestow.checker.violation import Violation
from kubestow.models.disruption import node_selection
from kubestow.models.documents.placement import Placement, Seconds, SnapshotRef, TierResult, Unmodelled
from kubestow.models.documents.policy import Policy
from kubestow.models.documents.rebalance_plan import Eviction, Limits, Move, Obstacle, RebalancePlan, Summary
from kubestow.models.kube.objects import Node, ObjectMeta
from kubestow.models.snapshot import snapshot as snapshots
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.report.documents import results
from kubestow.solver.rebalance.problem.options import PlanOptions
from kubestow.solver.runtime.options import Options

Run = Callable[..., Result]


class Fakes:
    """Answers of the fake search and checker, and the arguments of their calls."""

    def __init__(self) -> None:
        self.snapshot = Snapshot(nodes=[Node(metadata=ObjectMeta(name="n1"))], sha256="abc")
        self.plan = RebalancePlan(
            snapshot=SnapshotRef("abc", 1, 3, 0),
            goals=["repair"],
            engine="exact",
            status="optimal",
            objective=[TierResult("rules", 0, 0)],
            moves=[Move(1, 1, "prod/web-1", "n1", "n2", "r"), Move(2, 2, "prod/web-2", "n2", "n1", "r")],
            evictions=[Eviction(3, 2, "prod/web-3", "n1", "r")],
            before=Summary(0, 0),
            after=Summary(0, 1),
            seconds=Seconds(),
        )
        self.asked: PlanOptions | None = None
        self.loaded: list[str] = []
        self.violations: list[Violation] = []
        self.before: Callable[[threading.Event], None] = lambda stop: None

    def load(self, paths: list[str]) -> Snapshot:
        self.loaded = list(paths)
        return self.snapshot

    def rebalance(
        self, snapshot: Snapshot, asked: PlanOptions, *, on_progress: Any = None, stop: Any = None, began: float = 0
    ) -> RebalancePlan:
        assert snapshot is self.snapshot
        assert began > 0
        self.asked = asked
        self.before(stop)
        return self.plan

    def verify(self, snapshot: Snapshot, plan: RebalancePlan, *, claims: bool, earlier: object) -> list[Violation]:
        assert plan.moves == self.plan.moves
        return self.violations

    def table(self, plan: RebalancePlan, snapshot: Snapshot, surface: Any) -> Iterator[Text]:
        yield Text(f"table of {len(plan.moves)} moves")


@pytest.fixture
def fakes(monkeypatch: pytest.MonkeyPatch) -> Fakes:
    fakes = Fakes()
    monkeypatch.setattr(snapshots, "load", fakes.load)
    monkeypatch.setattr("kubestow.commands.rebalance.run.find", fakes.rebalance)
    monkeypatch.setattr("kubestow.commands.core.judging.verify_plan", fakes.verify)
    monkeypatch.setattr("kubestow.commands.rebalance.run.plan_table", fakes.table)
    monkeypatch.setattr("kubestow.commands.rebalance.run.plan_line", lambda plan, seconds: f"{len(plan.moves)} moves")
    return fakes


@pytest.fixture
def plan_file(tmp_path: Path, fakes: Fakes) -> str:
    path = tmp_path / "plan.json"
    path.write_bytes(results.encode(results.result_document(fakes.plan), "json"))
    return str(path)


# --- rebalance --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--max-moves", "3"],
        ["--goal", "perfect"],
        ["--goal", "repair", "--goal", "admit", "--goal", "repair"],
        ["--goal", "repair", "--max-moves", "-1"],
        ["--goal", "repair", "--max-moves-per-namespace", "many"],
        ["--goal", "repair", "--max-moves-per-workload", "0.5"],
        ["--goal", "improve", "--min-gain", "-1"],
        ["--goal", "admit", "--max-evictions", "1"],
        ["--goal", "repair", "--also-move", "everything"],
        ["--goal", "repair", "-f", "xml"],
        ["--goal", "repair", "--from-scratch"],
        ["--goal", "repair", "-q", "-v"],
        ["--goal", "repair", "--time-limit", "0"],
        ["-", "-", "--goal", "repair"],
    ],
)
def test_wrong_usage_is_exit_2(run: Run, fakes: Fakes, arguments: list[str]) -> None:
    result = run("rebalance", "x", *arguments)
    assert (result.exit_code, result.stdout, fakes.loaded) == (2, "", [])
    assert "Error: " in result.stderr


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys, cli\n"
        "try: cli.main(['rebalance', '--help'])\n"
        "except SystemExit: print({'numpy', 'rich', 'msgspec'} & {*sys.modules}, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=Path(cli.__file__).parent, capture_output=True, timeout=60, check=True)
    assert (b"--drain NODE|SELECTOR" in done.stdout, done.stderr) == (True, b"set()\n")


def test_options_reach_the_search(run: Run, fakes: Fakes) -> None:
    run("rebalance", "x", "y", "--goal", "repair")
    assert fakes.loaded == ["x", "y"]
    assert fakes.asked == PlanOptions(("repair",))
    goals = ["--goal", "improve", "--goal", "consolidate", "--drain", "n1", "--drain", "pool=old"]
    limits = ["--max-moves", "9", "--max-moves-per-namespace", "3", "--max-moves-per-workload", "0", "--min-gain", "5", "--max-waves", "7"]
    evictions = ["--allow-eviction", "--max-evictions", "2", "--also-move", "bare", "--also-move", "local-storage", "--also-move", "bare"]
    search = ["--time-limit", "2.5", "--engine", "lns", "--seed", "7", "--deterministic", "--workers", "3"]
    others = ["--include-gated", "--daemon-namespaces", "logs", "--shorthand", "symmetric"]
    run("rebalance", "x", *goals, *limits, *evictions, *search, *others)
    policy = Policy(shorthand="symmetric")
    assert fakes.asked == PlanOptions(
        ("improve", "consolidate"),
        ("n1", "pool=old"),
        Limits(9, 2, 3, 0, None, True, ["bare", "local-storage"], 5, 7),
        Options("lns", 2.5, 3, 7, True, include_gated=True, daemon_namespaces=("logs",), policy=policy),
    )


def test_forms(run: Run, fakes: Fakes) -> None:
    result = run("rebalance", "x", "--goal", "repair")
    assert (result.exit_code, result.stderr) == (0, "2 moves\n")
    assert json.loads(result.stdout)["moves"][0] == {"step": 1, "wave": 1, "pod": "prod/web-1", "from": "n1", "to": "n2", "reason": "r"}
    assert yaml.safe_load(run("rebalance", "x", "--goal", "repair", "-f", "yaml").stdout)["kind"] == "RebalancePlan"
    assert run("rebalance", "x", "--goal", "repair", "-f", "table").stdout == "table of 2 moves\n"
    assert run("rebalance", "x", "--goal", "repair", "-f", "kubectl").exit_code == 2


def test_output_goes_to_the_file_alone(run: Run, tmp_path: Path) -> None:
    result = run("rebalance", "x", "--drain", "n1", "-o", str(tmp_path / "out"), "-q")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "")
    assert json.loads((tmp_path / "out").read_text())["engine"] == "exact"


def test_a_plan_without_moves_is_done(run: Run, fakes: Fakes) -> None:
    fakes.plan.moves, fakes.plan.evictions = [], []
    assert run("rebalance", "x", "--goal", "improve").exit_code == 0


def test_a_goal_that_is_not_reached_is_exit_3_with_the_plan_written(run: Run, fakes: Fakes) -> None:
    fakes.plan.obstacles = [Obstacle("drain", "nowhere to go", pod="prod/web-1")]
    result = run("rebalance", "x", "--drain", "n1")
    assert (result.exit_code, json.loads(result.stdout)["obstacles"][0]["pod"]) == (3, "prod/web-1")


def test_interrupted_the_best_plan_so_far_is_written(run: Run, fakes: Fakes) -> None:
    fakes.before = threading.Event.set
    fakes.plan.obstacles = [Obstacle("drain", "no time")]
    result = run("rebalance", "x", "--drain", "n1")
    assert (result.exit_code, json.loads(result.stdout)["status"]) == (130, "optimal")


def test_strict_refuses_what_is_not_modelled(run: Run, fakes: Fakes) -> None:
    fakes.plan.unmodelled = [Unmodelled("prod/web-1", "spec.resourceClaims", "ignored")]
    result = run("rebalance", "x", "--goal", "repair", "--strict")
    assert (result.exit_code, result.stdout) == (4, "")
    assert result.stderr == "kubestow: not modelled: prod/web-1: spec.resourceClaims: ignored\n"


def test_a_drain_that_means_no_node_is_one_line(run: Run, fakes: Fakes) -> None:
    def choose(stop: threading.Event) -> None:
        node_selection.choose(fakes.snapshot, fakes.asked.drain if fakes.asked is not None else ())

    fakes.before = choose
    for value in ("n9", "pool=old", "a b"):
        result = run("rebalance", "x", "--drain", "n1", "--drain", value)
        assert (result.exit_code, result.stdout) == (1, "")
        assert result.stderr.startswith(f"kubestow: --drain '{value}': no such node in the snapshot, nor ")
        assert result.stderr.count("\n") == 1


def test_a_document_reads_back_as_it_was(fakes: Fakes, plan_file: str, tmp_path: Path) -> None:
    assert results.read_result(plan_file) == fakes.plan
    path = tmp_path / "plan.yaml"
    path.write_bytes(results.encode(results.result_document(fakes.plan), "yaml"))
    assert results.read_result(str(path)) == fakes.plan


# --- verify -----------------------------------------------------------------------------------------------------------


def test_verify_replays_a_plan(run: Run, fakes: Fakes, plan_file: str) -> None:
    good = run("verify", "x", "--result", plan_file)
    assert (good.exit_code, json.loads(good.stdout)["violations"]) == (0, [])
    assert good.stderr == "valid: 2 moves, 1 eviction, 2 waves\n"
    fakes.violations = [Violation("prod/web-1", "n2", "NodePorts", "port 80 is taken")]
    bad = run("verify", "x", "--result", plan_file)
    assert (bad.exit_code, json.loads(bad.stdout)["violations"][0]["rule"]) == (4, "NodePorts")
    assert bad.stderr == "1 violation in 2 moves, 1 eviction, 2 waves\n"
    assert "port 80 is taken" in run("verify", "x", "--result", plan_file, "-f", "table").stdout


def test_an_empty_plan_is_valid(run: Run, fakes: Fakes, tmp_path: Path) -> None:
    fakes.plan.moves, fakes.plan.evictions = [], []
    (tmp_path / "plan").write_bytes(results.encode(results.result_document(fakes.plan), "json"))
    assert run("verify", "x", "--result", str(tmp_path / "plan")).stderr == "valid: 0 moves\n"


def test_a_plan_of_another_snapshot_is_refused(run: Run, fakes: Fakes, plan_file: str) -> None:
    fakes.snapshot.sha256 = "def"
    result = run("verify", "x", "--result", plan_file)
    assert result.exit_code == 4
    (violation,) = json.loads(result.stdout)["violations"]
    assert violation == {
        "pod": "",
        "node": "",
        "rule": "RebalancePlan",
        "why": "the plan is for another snapshot: its sha256 is abc, that of this one def",
    }


def test_a_plan_takes_no_manifests(run: Run, fakes: Fakes, plan_file: str) -> None:
    result = run("verify", "x", "--result", plan_file, "-w", "more.yaml")
    assert (result.exit_code, result.stdout, fakes.loaded) == (2, "", [])


KINDS = "Placement, RebalancePlan, Fit, Sizing, Survival or Upgrade"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", f"empty, expected a {KINDS} document"),
        ("- 1\n", f"not a {KINDS}: Expected `object`, got `array`"),
        (
            "{apiVersion: kubestow.dev/v1alpha1, kind: Rollout}",
            f"kind: expected {KINDS}, got 'Rollout'",
        ),
        ("{apiVersion: v1, kind: RebalancePlan}", "apiVersion: expected apiVersion 'kubestow.dev/v1alpha1', got 'v1'"),
        ("{apiVersion: kubestow.dev/v1alpha1, kind: RebalancePlan}", "Object missing required field `snapshot`"),
    ],
)
def test_what_is_neither_is_one_line(run: Run, fakes: Fakes, tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / "r.yaml").write_text(text)
    result = run("verify", "x", "--result", str(tmp_path / "r.yaml"))
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith(f"kubestow: {tmp_path / 'r.yaml'}: ")
    assert problem in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_step_of_a_wrong_type_is_named(run: Run, fakes: Fakes, plan_file: str) -> None:
    document = json.loads(Path(plan_file).read_text())
    document["moves"][1]["to"] = 12
    Path(plan_file).write_text(json.dumps(document))
    assert run("verify", "x", "--result", plan_file).stderr == f"kubestow: {plan_file}: moves[1].to: Expected `str`, got `int`\n"


def test_placements_are_still_read(tmp_path: Path) -> None:
    placement = Placement(SnapshotRef("a", 1, 0, 0), "exact", "optimal", [], [])
    (tmp_path / "p").write_bytes(results.encode(results.result_document(placement), "json"))
    assert results.read_result(str(tmp_path / "p")) == placement
