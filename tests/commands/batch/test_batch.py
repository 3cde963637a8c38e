"""``kubestow batch`` as a user calls it, on workers in this process."""

from __future__ import annotations

import csv
import json
import os
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from kubestow import cli
from kubestow.commands.batch import worker
from kubestow.commands.batch.folder import Folder
from kubestow.models.documents.batch import Row
from tests.commands.batch.conftest import Batch, snapshot

ROOT = Path(cli.__file__).resolve().parent


def summary(folder: str = "out") -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path(folder, "summary.json").read_text(encoding="utf-8"))
    return found


def test_every_snapshot_has_a_row_and_a_result(batch: Batch, here: Path) -> None:
    snapshot(here, "s/a.json", 1)
    snapshot(here, "s/b.json", 9)
    result = batch("-o", "out", "solve", "--engine", "greedy", "s", "-f", "csv")
    assert result.exit_code == 0, result.stderr
    found = summary()
    assert (found["tasks"], found["failed"]) == (2, 0)
    assert [(row["snapshot"], row["exit"], row["placed"], row["pods"]) for row in found["rows"]] == [
        (["s/a.json"], 0, 1, 1),
        (["s/b.json"], 3, 4, 9),
    ]
    assert result.stdout == Path("out/summary.csv").read_text(encoding="utf-8")
    assert [row["placed"] for row in csv.DictReader(result.stdout.splitlines())] == ["1", "4"]
    assert sorted(os.listdir("out/results")) == sorted(f"{row['id']}.json" for row in found["rows"])
    assert "2 tasks" in result.stderr


def test_a_result_is_what_the_command_prints_byte_for_byte(batch: Batch, here: Path) -> None:
    snapshot(here, "a.json", 5)
    for command, *options in (("solve", "--deterministic"), ("audit",), ("explain",), ("survive", "--fail", "node", "--deterministic")):
        assert batch("-o", command, command, *options, "a.json").exit_code == 0
        alone = CliRunner().invoke(cli.main, [command, *options, "a.json", "-q", "-f", "json"])
        (row,) = summary(command)["rows"]
        assert Path(command, row["result"]).read_text(encoding="utf-8") == alone.stdout
        assert row["exit"] == alone.exit_code


def test_a_deterministic_summary_has_no_seconds(batch: Batch, here: Path) -> None:
    snapshot(here, "a.json", 2)
    texts = []
    for folder in ("x", "y"):
        batch("-o", folder, "solve", "--deterministic", "a.json")
        texts.append(Path(folder, "summary.json").read_bytes())
    assert texts[0] == texts[1]
    assert "seconds" not in json.loads(texts[0])["rows"][0]


def test_a_task_that_fails_is_a_row_and_the_others_are_done(batch: Batch, here: Path) -> None:
    snapshot(here, "a.json")
    (here / "b.json").write_text("{oops", encoding="utf-8")
    result = batch("-o", "out", "audit", "a.json", "b.json", "missing.json", "-f", "table")
    assert result.exit_code == 3
    rows = {row["snapshot"][0]: row for row in summary()["rows"]}
    assert rows["a.json"]["verdict"] == "clean"
    assert rows["b.json"]["exit"] == 1
    assert "b.json: JSON is malformed" in rows["b.json"]["reason"]
    assert rows["missing.json"]["reason"] == "missing.json: No such file or directory"
    assert "Failed (2)" in result.stdout
    assert "failed: b.json: audit: b.json: JSON is malformed" in result.stderr


def test_an_audit_shows_its_findings(batch: Batch, here: Path) -> None:
    result = batch("-o", "out", "audit", str(ROOT / "instances/audit/KS211-node-rules-match-no-node.yaml"), "-f", "table")
    (row,) = summary()["rows"]
    assert (row["exit"], row["verdict"], row["findings"]["error"]) == (4, "error", 1)
    assert "1 error" in result.stdout


def test_wrong_options_are_refused_before_anything_is_made(batch: Batch, here: Path) -> None:
    snapshot(here, "a.json")
    for arguments, why in (
        (["audit", "--fail-on", "bad", "a.json"], "audit: Invalid value for '--fail-on'"),
        (["audit", "--nope", "a.json"], "No such option"),
        (["audit"], "snapshots are missing"),
        (["a.json", "b.json"], "read as a plan"),
        (["audit", "a.json", "--shard", "3/2"], "is not a shard"),
        (["audit", "a.json", "--shards", "2"], "JOB_COMPLETION_INDEX"),
        (["audit", "a.json", "--memory", "much"], "is not a size"),
        (["audit", "a.json", "-q", "-v"], "contradict"),
    ):
        result = batch("-o", "out", *arguments)
        assert result.exit_code == 2, arguments
        assert why in result.stderr
    assert not Path("out").exists()


def test_a_plan_runs_where_it_lies(batch: Batch, here: Path) -> None:
    snapshot(here, "fleet/s/a.json", 2)
    text = "snapshots: ['s/*.json']\ncommand: solve\nmatrix: {engine: [greedy, exact]}\noptions: {deterministic: true}"
    (here / "fleet/plan.yaml").write_text(text, encoding="utf-8")
    result = batch("fleet/plan.yaml", "-o", "out", "-f", "table")
    assert result.exit_code == 0, result.stderr
    assert [row["set"] for row in summary()["rows"]] == ["engine=greedy", "engine=exact"]
    assert "solve engine=greedy" in result.stdout


@pytest.mark.parametrize(("text", "why"), [("snapshots: ['x*.json']\ncommand: audit", "x*.json: no file matches"), ("a: [", "plan.yaml: ")])
def test_a_bad_plan_is_one_line(batch: Batch, here: Path, text: str, why: str) -> None:
    (here / "plan.yaml").write_text(text, encoding="utf-8")
    result = batch("plan.yaml", "-o", "out")
    assert result.exit_code == 1
    assert why in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_snapshots_are_files_patterns_folders_and_a_list(batch: Batch, here: Path) -> None:
    for i in range(4):
        snapshot(here, f"s/{i}/{i}.json", i)
    snapshot(here, "out/results/no.json", 9)
    os.rename("out/results/no.json", "s/.hidden.json")
    result = batch("-o", "out", "explain", "s/0/0.json", "s/1/*.json", "-", "s", stdin="s/2\n")
    assert result.exit_code == 0, result.stderr
    assert [row["snapshot"] for row in summary()["rows"]] == [["s/0/0.json"], ["s/1/1.json"], ["s/2/2.json"], ["s/3/3.json"]]


def test_results_in_a_folder_of_snapshots_are_none(batch: Batch, here: Path) -> None:
    snapshot(here, "s/a.json")
    for again in ((), ("--resume",)):
        assert batch("-o", "s/out", *again, "explain", "s").exit_code == 0
        assert summary("s/out")["tasks"] == 1


def test_a_folder_can_be_one_snapshot(batch: Batch, here: Path) -> None:
    snapshot(here, "s/x/a.json", 1)
    snapshot(here, "s/y/a.json", 2)
    (here / "s/y/more.yaml").write_text("apiVersion: v1\nkind: Namespace\nmetadata: {name: team}\n", encoding="utf-8")
    assert batch("-o", "out", "--each-directory", "solve", "s/*").exit_code == 0
    assert [(row["snapshot"], row["pods"]) for row in summary()["rows"]] == [(["s/x"], 1), (["s/y"], 2)]


def test_the_same_content_is_one_task(batch: Batch, here: Path) -> None:
    snapshot(here, "a.json")
    snapshot(here, "b.json")
    batch("-o", "out", "explain", "a.json", "b.json")
    assert summary()["tasks"] == 1
    assert summary()["notes"] == ["b.json has the same content as a.json, and no row of its own"]


def test_resume_does_what_is_not_done(batch: Batch, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    perform = worker.perform

    def counted(task: Any, *rest: Any) -> Any:
        done.append(task.files[0])
        return perform(task, *rest)

    monkeypatch.setattr(worker, "perform", counted)
    snapshot(here, "a.json", 1)
    (here / "b.json").write_text("{oops", encoding="utf-8")
    assert batch("-o", "out", "solve", "a.json", "b.json").exit_code == 3
    refused = batch("-o", "out", "solve", "a.json", "b.json")
    assert refused.exit_code == 1
    assert refused.stderr == "kubestow: out: has results of a batch: continue it with --resume, or name another folder\n"
    snapshot(here, "b.json", 2)
    snapshot(here, "c.json", 3)
    os.rename("a.json", "renamed.json")
    with open("out/rows.jsonl", "ab") as journal:
        journal.write(b'{"id": "cut o')
    assert batch("-o", "out", "--resume", "solve", "renamed.json", "b.json", "c.json").exit_code == 0
    assert done == ["a.json", "b.json", "b.json", "c.json"]
    assert [(row["snapshot"], row["pods"]) for row in summary()["rows"]] == [(["renamed.json"], 1), (["b.json"], 2), (["c.json"], 3)]
    os.unlink(f"out/{summary()['rows'][0]['result']}")
    assert batch("-o", "out", "--resume", "solve", "renamed.json", "b.json", "c.json").exit_code == 0
    assert done[4:] == ["renamed.json"]


def test_a_changed_input_of_an_option_is_another_task(batch: Batch, here: Path) -> None:
    snapshot(here, "a.json")
    names = set()
    for strategy in ("pack", "spread"):
        (here / "policy.yaml").write_text(f"strategy: {strategy}\n", encoding="utf-8")
        batch("-o", strategy, "solve", "--policy", "policy.yaml", "a.json")
        names.add(summary(strategy)["rows"][0]["id"])
    assert len(names) == 2


def test_two_batches_do_not_share_a_folder(batch: Batch, here: Path) -> None:
    snapshot(here, "a.json")
    with Folder("out").take(resume=False):
        result = batch("-o", "out", "--resume", "solve", "a.json")
    assert result.exit_code == 1
    assert result.stderr == "kubestow: out: another batch is running in this folder\n"
    assert batch("-o", "out", "--resume", "solve", "a.json").exit_code == 0


def test_a_full_folder_is_one_line_and_what_is_done_is_kept(batch: Batch, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for i in range(3):
        snapshot(here, f"{i}.json", i)
    record = Folder.record

    def full(self: Folder, row: Row, document: bytes | None = None) -> None:
        if row.snapshot == ["1.json"]:
            raise OSError(28, os.strerror(28))
        record(self, row, document)

    monkeypatch.setattr(f"{__name__.rpartition('.')[0]}.conftest.Inline.ahead", 1)  # by the name under which pytest knows it
    with monkeypatch.context() as patched:
        patched.setattr(Folder, "record", full)
        result = batch("-o", "out", "explain", "0.json", "1.json", "2.json", "-q")
    assert result.exit_code == 1
    assert result.stderr == "kubestow: out: the disk is full; finished results are kept; --resume continues\n"
    assert (summary()["tasks"], summary()["left"]) == (3, 2)
    assert batch("-o", "out", "--resume", "explain", "0.json", "1.json", "2.json").exit_code == 0
    assert (summary()["tasks"], summary().get("left", 0)) == (3, 0)


def test_a_folder_that_cannot_be_made_is_one_line(batch: Batch, here: Path) -> None:
    snapshot(here, "a.json")
    result = batch("-o", "a.json/out", "explain", "a.json")
    assert result.exit_code == 1
    assert result.stderr == "kubestow: a.json/out: Not a directory\n"


def test_a_fault_of_a_command_is_a_row(batch: Batch, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fault(*_: object) -> None:
        raise ZeroDivisionError("so it is")

    monkeypatch.setattr(worker, "perform", fault)
    snapshot(here, "a.json")
    assert batch("-o", "out", "explain", "a.json").exit_code == 3
    (row,) = summary()["rows"]
    assert row["reason"] == "internal fault, please report it: ZeroDivisionError: so it is"


def test_interrupted_keeps_what_is_done(batch: Batch, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    perform = worker.perform

    def second(task: Any, *rest: Any) -> Any:
        if task.files[0] == "1.json":
            raise KeyboardInterrupt
        return perform(task, *rest)

    monkeypatch.setattr(worker, "perform", second)
    for i in range(3):
        snapshot(here, f"{i}.json", i)
    monkeypatch.setattr(f"{__name__.rpartition('.')[0]}.conftest.Inline.ahead", 1)  # by the name under which pytest knows it
    result = batch("-o", "out", "explain", "0.json", "1.json", "2.json")
    assert result.exit_code == 130
    assert (summary()["tasks"], summary()["left"]) == (3, 2)
    said = result.stderr.splitlines()[-1]
    assert said.startswith("kubestow: interrupted; ")
    assert "--resume" in said


def test_each_task_gets_its_share_unless_the_user_says(here: Path) -> None:
    from kubestow.commands.batch.task import BatchTask

    def task(command: str, *options: str) -> BatchTask:
        return BatchTask("x", command, options, ("a",), ())

    assert worker.within(task("solve"), 2) == ("--workers", "2")
    assert worker.within(task("solve", "--workers", "3"), 2) == ()
    assert worker.within(task("solve", "--deterministic"), 2) == ()
    assert worker.within(task("explain"), 2) == ()


def test_shares_have_every_task_once_and_are_merged(batch: Batch, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for i in range(9):
        snapshot(here, f"s/{i}.json", i)
    assert batch("-o", "whole", "explain", "s").exit_code == 0
    for i in range(2):
        assert batch("-o", "cut", "--shard", f"{i + 1}/3", "explain", "s").exit_code == 0
    lacking = batch("--merge", "cut", "-o", "cut")
    assert lacking.exit_code == 3
    assert summary("cut")["notes"] == ["missing: shard 3/3"]
    monkeypatch.setenv("JOB_COMPLETION_INDEX", "2")
    assert batch("-o", "cut", "--shards", "3", "explain", "s").exit_code == 0
    assert all(summary(f"cut/shard-{i}-of-3")["tasks"] < 9 for i in (1, 2, 3))
    assert batch("--merge", "cut", "-o", "all").exit_code == 0
    whole, merged = summary("whole"), summary("all")
    assert {row["id"] for row in merged["rows"]} == {row["id"] for row in whole["rows"]}
    assert len(merged["rows"]) == 9
    assert all(Path("all", row["result"]).is_file() for row in merged["rows"])
    assert summary("cut/shard-1-of-3")["shard"] == "1/3"
    twice = batch("--merge", "cut", "whole", "-o", "twice", "-f", "json")
    assert json.loads(twice.stdout)["notes"] == ["9 tasks are in several summaries; each counts once, with a result if one has it"]


@pytest.mark.parametrize(
    ("text", "why"),
    [(None, "No such file or directory"), ("{}", "expected apiVersion"), ("{", "not a BatchSummary")],
)
def test_what_cannot_be_merged_is_named(batch: Batch, here: Path, text: str | None, why: str) -> None:
    (here / "x").mkdir()
    if text is not None:
        (here / "x/summary.json").write_text(text, encoding="utf-8")
    result = batch("--merge", "x", "-o", "out")
    assert result.exit_code == 1
    assert result.stderr.startswith("kubestow: x/summary.json: ")
    assert why in result.stderr


def test_shares_of_different_cuts_are_not_merged(batch: Batch, here: Path) -> None:
    snapshot(here, "a.json")
    for share in ("1/1", "1/2"):
        batch("-o", "cut", "--shard", share, "explain", "a.json")
    result = batch("--merge", "cut", "-o", "all")
    assert result.exit_code == 1
    assert "shards of different divisions: N = 1, N = 2" in result.stderr
