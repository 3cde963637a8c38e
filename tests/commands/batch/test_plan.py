"""Plans: sets of options from a matrix or by name, and messages about invalid plans."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

from kubestow.commands.batch import plan
from kubestow.commands.batch.arguments import BATCHED
from kubestow.models.documents.batch import Batched
from kubestow.models.snapshot.snapshot import InputError


def read(folder: Path, text: str) -> plan.TaskPlan:
    path = folder / "plan.yaml"
    path.write_text(text, encoding="utf-8")
    return plan.read(str(path))


def test_one_command_is_one_set_without_a_name(tmp_path: Path) -> None:
    found = read(
        tmp_path, "snapshots: [a/*.json]\ncommand: audit\noptions: {fail-on: never, select: [KS1, KS2], strict: true, config: null}"
    )
    assert found.snapshots == (str(tmp_path / "a/*.json"),)
    tokens = ("--fail-on", "never", "--select", "KS1", "--select", "KS2", "--strict")
    assert found.sets == (plan.OptionSet("audit", tokens, None),)


def test_a_matrix_is_every_combination_but_what_is_excluded_and_what_is_included(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        """
        snapshots: [a.json]
        command: survive
        options: {deterministic: true}
        matrix:
          fail: [node, zone]
          at-once: [1, 2]
          exclude: [{fail: zone, at-once: 2}]
          include: [{fail: zone, no-remedy: true}, {fail: rack, at-once: 1}]
        """,
    )
    assert [each.label for each in found.sets] == [
        "fail=node, at-once=1",
        "fail=node, at-once=2",
        "fail=zone, at-once=1, no-remedy=true",
        "fail=rack, at-once=1",
    ]
    assert found.sets[2].options == ("--deterministic", "--fail", "zone", "--at-once", "1", "--no-remedy")


def test_the_command_can_be_an_axis(tmp_path: Path) -> None:
    found = read(tmp_path, "snapshots: [a.json]\nmatrix: {command: [audit, explain]}")
    assert [(each.command, each.label) for each in found.sets] == [("audit", "command=audit"), ("explain", "command=explain")]


def test_sets_have_names_and_what_all_have(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        """
        snapshots: [a.json]
        command: solve
        options: {seed: 1}
        sets:
          pack: {options: {seed: 2, engine: greedy}}
          look: {command: audit, options: {seed: null}}
        """,
    )
    assert found.sets == (
        plan.OptionSet("solve", ("--seed", "2", "--engine", "greedy"), "pack"),
        plan.OptionSet("audit", (), "look"),
    )


def test_files_lie_where_the_plan_does(tmp_path: Path) -> None:
    found = read(tmp_path, "snapshots: [a.json]\ncommand: solve\noptions: {workload: [w.yaml], policy: p.yaml}")
    assert found.sets[0].options == ("--workload", str(tmp_path / "w.yaml"), "--policy", str(tmp_path / "p.yaml"))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("command: audit", "missing required field `snapshots`"),
        ("snapshots: []\ncommand: audit", "snapshots: Expected `array` of length >= 1"),
        ("snapshots: [a]\ncommand: report", "command: Invalid enum value 'report'"),
        ("snapshots: [a]\ncommand: audit\nnope: 1", "unknown field `nope`"),
        ("snapshots: [a]", "command: expected command, one of audit, solve"),
        ("snapshots: [a]\ncommand: audit\noptions: {nope: 1}", "options.nope: audit has no option --nope"),
        ("snapshots: [a]\ncommand: audit\noptions: {output: x}", "options.output: is not allowed"),
        ("snapshots: [a]\ncommand: audit\noptions: {strict: 1}", "options.strict: expected true or false, found 1"),
        ("snapshots: [a]\ncommand: audit\noptions: {fail-on: true}", "options.fail-on: expected a value, found true"),
        ("snapshots: [a]\ncommand: audit\noptions: {fail-on: [error, info]}", "options.fail-on: expected one value, found a list"),
        ("snapshots: [a]\ncommand: audit\noptions: {fail-on: bad}", "options: audit: Invalid value for '--fail-on'"),
        ("snapshots: [a]\ncommand: survive", "options: survive: Missing option '--fail'"),
        ("snapshots: [a]\ncommand: audit\nmatrix: {fail-on: []}", "matrix.fail-on: expected at least one value"),
        ("snapshots: [a]\ncommand: audit\nmatrix: {fail-on: [{a: 1}]}", "matrix.fail-on[0]: expected a text, a number"),
        ("snapshots: [a]\ncommand: audit\nmatrix: {fail-on: [error], exclude: [{x: 1}]}", "matrix.exclude[0].x: is not an axis"),
        ("snapshots: [a]\ncommand: audit\nmatrix: {fail-on: [error], exclude: [{fail-on: error}]}", "no combination is left"),
        ("snapshots: [a]\nmatrix: {command: [audit, nope]}", "matrix.command: 'nope' is none of"),
        ("snapshots: [a]\ncommand: audit\nmatrix: {strict: [true]}\nsets: {a: {}}", "expected either matrix or sets"),
    ],
)
def test_a_bad_plan_is_told_by_file_and_field(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(InputError) as caught:
        read(tmp_path, text)
    (problem,) = caught.value.problems
    assert problem.startswith(f"{tmp_path / 'plan.yaml'}: BatchPlan: ")
    assert why in problem


def test_documents_and_the_command_line_know_the_same_commands() -> None:
    assert get_args(Batched) == BATCHED
