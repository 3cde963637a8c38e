"""The command solve, with an engine of our own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from kubestow.checker.violation import InternalFault
from kubestow.models.documents.placement import Placement, Unmodelled
from kubestow.models.documents.policy import Policy
from kubestow.models.kube.objects import PodResourceClaim
from kubestow.solver.runtime.options import Options
from tests.commands.fakes import Fakes, Run


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


def test_output_goes_to_the_file_alone(run: Run, fakes: Fakes, tmp_path: Path) -> None:
    fakes.placement.seconds = None  # two runs are compared
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

    monkeypatch.setattr("kubestow.commands.solve.run.place", broken)
    result = run("solve", "x")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "kubestow: internal fault, please report it: prod/web-1 on n1: NodePorts\n"


def test_a_deterministic_document_holds_no_times(run: Run, fakes: Fakes) -> None:
    fakes.placement.seconds = None
    assert "seconds" not in json.loads(run("solve", "x", "--deterministic").stdout)


def test_bindings_of_gated_pods_come_with_a_warning(run: Run) -> None:
    assert "scheduling gates" in run("solve", "x", "-f", "kubectl", "--include-gated").stderr


def test_pods_that_a_binding_would_strand_are_named_and_get_none(run: Run, fakes: Fakes) -> None:
    fakes.snapshot.pods[1].spec.resourceClaims = [PodResourceClaim("gpu")]
    result = run("solve", "x", "-f", "kubectl", "-q")
    assert [json.loads(line)["metadata"]["name"] for line in result.stdout.splitlines()] == ["web-1"]
    assert result.stderr == "note: prod/web-2 gets no Binding and is left to the scheduler (planned for n1): it has resource claims\n"
    assert result.exit_code == 0
