"""The command verify with the journal of a run, on a plan of rebalance."""

from __future__ import annotations

import copy
import hashlib
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from click.testing import CliRunner, Result

from kubestow import cli
from kubestow.models.documents.journal import Answered, Request
from kubestow.models.documents.rebalance_plan import RebalancePlan
from kubestow.report.documents.results import read_result
from tests.checker.journal import runs
from tests.checker.journal.runs import Driver

INSTANCE = Path(cli.__file__).resolve().parent / "instances" / "rebalance-drain.yaml"


class Files:
    """A snapshot, its plan, and the journal and the end of a run that carried it out."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.objects = [thing for thing in yaml.safe_load_all(INSTANCE.read_text(encoding="utf-8")) if thing]
        for thing in self.objects:
            if thing["kind"] == "Pod":
                runs.named(thing)
        self.write("cluster.json", self.objects)
        invoke("rebalance", self.path("cluster.json"), "--drain", "n1", "--deterministic", "-q", "-o", self.path("plan.json"))
        self.driver = self._run()
        self.journal()
        self.write("end.json", self.driver.objects)

    def path(self, name: str) -> str:
        return str(self.folder / name)

    def write(self, name: str, things: list[Any]) -> None:
        (self.folder / name).write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": things}), encoding="utf-8")

    def journal(self, lines: int | None = None, *, tail: bytes = b"") -> None:
        data = b"".join(msgspec.json.encode(line) + b"\n" for line in self.driver.lines[:lines]) + tail
        (self.folder / "run.jsonl").write_bytes(data)

    def _run(self) -> Driver:
        plan = read_result(self.path("plan.json"))
        assert isinstance(plan, RebalancePlan)
        run = Driver(plan, self.objects)
        run.first.result = hashlib.sha256((self.folder / "plan.json").read_bytes()).hexdigest()
        for wave in range(1, plan.waves + 1):
            run.fact("wave", wave=wave)
            run.close("n1", "n2", "n3")
            for move in plan.moves:
                if move.wave == wave:
                    name = f"{move.pod.partition('/')[2]}-new"
                    old = copy.deepcopy(run.find("Pod", move.pod.partition("/")[2]))
                    run.evict(move.step, move.pod)
                    run.replace(move.step, move.pod, old, name, f"uid-{name}")
                    run.bind(move.step, move.pod, name, move.to)
        run.open("n1", "n2", "n3", drained=("n1",))
        run.fact("end")
        return run

    def verify(self, *more: str) -> Result:
        return invoke("verify", self.path("cluster.json"), "--result", self.path("plan.json"), "--journal", self.path("run.jsonl"), *more)


def invoke(*arguments: str) -> Result:
    result = CliRunner().invoke(cli.main, list(arguments))
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def test_a_run_that_did_all_is_valid_and_told(files: Files) -> None:
    result = files.verify("--end", files.path("end.json"))
    assert (result.exit_code, json.loads(result.stdout)["violations"]) == (0, []), result.output
    told = json.loads(result.stdout)["journal"]
    assert told["moves"] == {"done": 5, "of": 5}
    assert told["end"] == {"missed": [], "foreign": []}
    assert result.stderr.splitlines()[1] == "valid: 5 moves, 2 waves"
    assert result.stderr.splitlines()[2].startswith("journal: 5 of 5 moves done; the run of 2026-11-22T13:00:01Z, ended at ")
    table = files.verify("--end", files.path("end.json"), "-f", "table").stdout
    for words in ("5 evictions, 5 Bindings", "3 nodes closed for the run, all are open again", "The end state is as planned"):
        assert words in table


def test_a_run_that_was_cut_off_leaves_something(files: Files) -> None:
    at = next(i for i, line in enumerate(files.driver.lines) if getattr(line, "what", "") == "done") + 1
    files.journal(at, tail=b'{"line":"request","numb')
    files.write("end.json", [thing for thing in files.objects if thing["kind"] != "Pod"])
    result = files.verify("--end", files.path("end.json"), "-f", "table")
    assert result.exit_code == 3
    assert "1 of 5 moves done" in result.stdout
    assert "Not done (4)" in result.stdout
    assert "Differences from the planned end state" in result.stdout
    assert files.verify().exit_code == 4  # without an end, nodes that the journal leaves closed are a violation


def test_what_contradicts_the_plan_is_a_violation(files: Files) -> None:
    binding = next(line for line in files.driver.lines if isinstance(line, Request) and line.path.endswith("/binding"))
    assert isinstance(binding.body, dict)
    binding.body["target"]["name"] = "n1"
    files.journal()
    result = files.verify()
    assert result.exit_code == 4
    (violation,) = json.loads(result.stdout)["violations"]
    assert violation["rule"] == "Journal"
    assert "a Binding to n1, step " in violation["why"]


def test_refusals_are_shown_with_what_is_left(files: Files) -> None:
    at = next(i for i, line in enumerate(files.driver.lines) if isinstance(line, Request) and line.path.endswith("/eviction"))
    request = files.driver.lines[at]
    assert isinstance(request, Request)
    files.driver.lines[at + 1] = Answered(request.number, request.time, 429, "TooManyRequests", "the budget web needs 4")
    files.journal(at + 2)
    result = files.verify("-f", "table")
    assert "the budget web needs 4" in result.stdout
    assert "1 refused" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("--journal", "none.jsonl"), 1, "none.jsonl: No such file"),
        (("--journal", "plan.json"), 1, "plan.json: line 1: not a journal line"),
        (("--journal", "run.jsonl", "--end", "plan.json"), 1, "holds no Node objects"),
        (("--end", "end.json"), 2, "--end requires --journal"),
    ],
)
def test_bad_input_is_one_line(files: Files, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], code: int, words: str) -> None:
    monkeypatch.chdir(files.folder)
    result = invoke("verify", "cluster.json", "--result", "plan.json", *arguments)
    assert (result.exit_code, result.stdout) == (code, "")
    assert words in result.stderr.replace("\n", " ")
    if code == 1:
        assert len(result.stderr.splitlines()) == 1


def test_the_journal_of_another_plan_is_a_violation(files: Files) -> None:
    files.driver.first.result = "f" * 64
    files.journal()
    result = files.verify()
    assert result.exit_code == 4
    assert "the journal is of another document" in result.stdout
    assert "journal" not in json.loads(result.stdout)
