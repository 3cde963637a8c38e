"""The common part of all commands: usage, bad input, warnings and output, with fake engines."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner

from kubestow import cli
from kubestow.commands import VERSION
from kubestow.models.snapshot.snapshot import InputError
from kubestow.solver.explain import per_node as explaining
from tests.commands.fakes import Fakes, Run


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
        ["solve", "x", "-f", "json", "-f", "kubectl=k", "--from-scratch"],
        ["solve", "x", "-f", "json="],
        ["solve", "x", "-f", "xml=a"],
        ["solve", "x", "-f", "json", "-f", "yaml"],
        ["solve", "x", "-f", "json", "-f", "yaml=-"],
        ["solve", "x", "-f", "json=a", "-f", "yaml=./a"],
        ["solve", "x", "-f", "json=a", "-o", "a"],
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


def test_several_forms_of_one_search(run: Run, fakes: Fakes, tmp_path: Path) -> None:
    fakes.placement.seconds = None  # two runs are compared
    one, two, three = (str(tmp_path / name) for name in ("one", "two", "three"))
    result = run("solve", "x", "-q", "-f", f"json={one}", "-f", f"kubectl={two}", "-f", "csv")
    assert json.loads(Path(one).read_text())["kind"] == "Placement"
    assert json.loads(Path(two).read_text().splitlines()[0])["kind"] == "Binding"
    assert result.stdout.startswith("status,pod,")
    assert run("solve", "x", "-q", "-f", f"json={three}").stdout == ""
    assert run("solve", "x", "-q", "-f", f"csv={two}", "-o", one).stdout == ""
    assert (Path(one).read_text(), Path(two).read_text()) == (Path(three).read_text(), result.stdout)


def test_no_form_is_written_if_one_cannot_be(run: Run, fakes: Fakes, tmp_path: Path) -> None:
    result = run("solve", "x", "-f", f"json={tmp_path}/a", "-f", f"csv={tmp_path}/no/b")
    assert (result.exit_code, result.stdout, list(tmp_path.iterdir()), fakes.loaded) == (1, "", [], [])


@pytest.mark.parametrize(
    ("command", "word", "hint"),
    [
        ("solve x", "yaml", "-f yaml chooses the form"),
        ("solve x", "json", "-f json chooses the form"),
        ("explain x", "jsonpath={.items}", "-f chooses the form: table, wide, csv, json, yaml"),
        ("rebalance x --goal repair", "yaml", "-f yaml chooses the form"),
        ("verify x --result y", "name", "-f chooses the form: table, json, yaml"),
        ("audit x", "junit", "-f junit chooses the form"),
        ("generate --nodes 1 --pods 1", "yaml", "-f yaml chooses the form"),
        ("capture", "json", "the form is fixed"),
        ("report x", "custom-columns=A:.b", "the form is fixed"),
    ],
)
def test_what_kubectl_takes_after_o_is_no_file(
    run: Run, fakes: Fakes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, word: str, hint: str
) -> None:
    monkeypatch.chdir(tmp_path)
    result = run(*command.split(), "-o", word)
    assert (result.exit_code, result.stdout, fakes.loaded, list(tmp_path.iterdir())) == (2, "", [], [])
    name = word.partition("=")[0]
    assert f"Error: -o {name}: -o names the file to write; {hint}" in result.stderr
    assert result.stderr.endswith(f" (a file of this name is ./{name})\n")


def test_a_file_may_be_called_like_a_form(run: Run, fakes: Fakes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("generate", "--nodes", "1", "--pods", "1", "-o", "./yaml").exit_code == 0
    assert [path.name for path in tmp_path.iterdir()] == ["yaml"]


def test_what_an_engine_cannot_read_is_bad_input(run: Run, fakes: Fakes, monkeypatch: pytest.MonkeyPatch) -> None:
    def too_big(*args: object, **kwargs: object) -> None:
        raise InputError(["Pod prod/x: spec: memory does not fit 64 bits"])

    monkeypatch.setattr("kubestow.commands.solve.run.place", too_big)
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
