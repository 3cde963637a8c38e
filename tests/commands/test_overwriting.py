"""No command overwrites a file that it reads, under any name: exit 2, and the file is unchanged."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from kubestow import cli
from kubestow.commands.common import overwriting
from tests.objects import Object, node, pod

#: Parameters that name a file to write.
_WRITES = {"output", "forms", "save_snapshot", "write_baseline"}


WEB: Object = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web"},
    "spec": {
        "replicas": 1,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "web:1"}]}},
    },
}


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli.main, [str(argument) for argument in arguments])


def write(path: Path, *items: Object) -> Path:
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(items)}), encoding="utf-8")
    return path


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "s.json", node("n1"), pod("p"))
    write(tmp_path / "w.json", WEB)
    (tmp_path / "policy.yaml").write_text("{}\n", encoding="utf-8")
    (tmp_path / "catalogue.yaml").write_bytes(Path(cli.__file__).parent.joinpath("instances", "catalogue.yaml").read_bytes())
    assert run("solve", "s.json", "-o", "r.json").exit_code == 0
    (tmp_path / "r.json.journal.jsonl").write_text("{}\n", encoding="utf-8")
    return tmp_path


CASES = [
    ("s.json", "solve s.json -o s.json"),
    ("s.json", "solve s.json -f csv=s.json"),
    ("w.json", "solve s.json -w w.json -o w.json"),
    ("w.json", "solve s.json --rollout web=w.json -o w.json"),
    ("policy.yaml", "solve s.json --policy policy.yaml -o policy.yaml"),
    ("s.json", "nodes s.json -o s.json"),
    ("s.json", "audit s.json -o s.json"),
    ("s.json", "audit s.json -f sarif=s.json"),
    ("s.json", "audit s.json --write-baseline s.json"),
    ("s.json", "rebalance s.json -o s.json"),
    ("s.json", "report s.json -o s.json"),
    ("r.json", "report s.json --result r.json -o r.json"),
    ("s.json", "fit s.json -w w.json -o s.json"),
    ("w.json", "fit s.json -w w.json -o w.json"),
    ("s.json", "explain s.json -o s.json"),
    ("s.json", "simulate s.json -o s.json"),
    ("s.json", "survive s.json --fail node -o s.json"),
    ("s.json", "upgrade s.json --pool a=b -o s.json"),
    ("catalogue.yaml", "size s.json --catalogue catalogue.yaml -o catalogue.yaml"),
    ("r.json", "verify s.json --result r.json -o r.json"),
    ("w.json", "check w.json -o w.json"),
    ("s.json", "check w.json --cluster s.json -o s.json"),
    ("w.json", "check w.json --base w.json -o w.json"),
    ("r.json", "apply s.json --result r.json -o r.json"),
    ("r.json.journal.jsonl", "apply s.json --result r.json -o r.json.journal.jsonl"),
    ("s.json", "capture --kubeconfig s.json -o s.json"),
    ("s.json", "doctor --kubeconfig s.json -o s.json"),
]


@pytest.mark.parametrize(("file", "line"), CASES, ids=[line for _, line in CASES])
def test_an_output_that_is_an_input_is_refused(here: Path, file: str, line: str) -> None:
    before = (here / file).read_bytes()
    result = run(*line.split())
    assert result.exit_code == 2, result.output
    assert "would overwrite an input" in result.stderr
    assert file in result.stderr
    assert (here / file).read_bytes() == before


@pytest.mark.parametrize("link", [os.symlink, os.link])
@pytest.mark.parametrize("linked", ["input", "output"])
def test_links_are_seen_through(here: Path, link: object, linked: str) -> None:
    assert callable(link)
    link("s.json", "other.json")
    arguments = ["other.json", "-o", "s.json"] if linked == "input" else ["s.json", "-o", "other.json"]
    assert run("nodes", *arguments).exit_code == 2
    assert run("nodes", "./s.json", "-o", here / "s.json").exit_code == 2


def test_every_command_with_an_output_refuses() -> None:
    commands = {line.split()[0] for _, line in CASES} | {"batch"}
    root = click.Context(cli.main)
    for name in cli.main.list_commands(root):
        command = cli.main.get_command(root, name)
        assert command is not None
        reads = [p for p in command.params if p.name not in _WRITES and list(overwriting.paths_of(p, ("x",)))]
        if reads and any(p.name in _WRITES for p in command.params):
            assert name in commands, f"{name} has no case here"
        for parameter in command.params:
            help_text = getattr(parameter, "help", None) or ""
            if isinstance(parameter.type, click.Path) and help_text.startswith(("Write", "Keep what")):
                assert parameter.name in _WRITES, f"{name} {parameter.opts}"


def test_files_of_a_folder_that_is_read_are_inputs_but_for_results(here: Path) -> None:
    folder = here / "d"
    folder.mkdir()
    write(folder / "s.json", node("n1"), pod("p"))
    assert run("audit", "d", "-o", "d/s.json").exit_code == 2
    for _ in range(2):  # the second time the result of the first one is there
        assert run("audit", "d", "-o", "d/audit.json").exit_code in (0, 4)
        assert run("audit", "d", "-f", "sarif=d/sarif.json").exit_code in (0, 4)
        assert run("check", "d", "-f", "yaml=d/check.yaml").exit_code in (0, 4)


def test_other_files_are_replaced_and_a_baseline_is_brought_up_to_date(here: Path) -> None:
    (here / "old.json").write_text("something else", encoding="utf-8")
    assert run("nodes", "s.json", "-o", "old.json").exit_code == 0
    assert json.loads((here / "old.json").read_text(encoding="utf-8"))
    assert run("audit", "s.json", "--write-baseline", "known.json").exit_code == 0
    assert run("audit", "s.json", "--baseline", "known.json", "--write-baseline", "known.json").exit_code == 0
    assert run("audit", "s.json", "--baseline", "known.json", "-o", "known.json").exit_code == 2


def test_devices_are_no_files_that_are_overwritten(here: Path) -> None:
    assert run("nodes", "s.json", "-o", os.devnull, "--requests", os.devnull).exit_code != 2


@pytest.mark.full
@pytest.mark.parametrize("how", ["stdin", "stdout"])
def test_redirected_streams_are_inputs_and_outputs(here: Path, how: str) -> None:
    before = (here / "s.json").read_bytes()
    with open("s.json", "rb") as read, open("s.json", "ab") as append:
        arguments = ["-", "-o", "s.json"] if how == "stdin" else ["s.json"]
        done = subprocess.run(
            [sys.executable, cli.__file__, "nodes", *arguments],
            stdin=read,
            stdout=append if how == "stdout" else subprocess.PIPE,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert done.returncode == 2
    assert b"would overwrite an input" in done.stderr
    assert (here / "s.json").read_bytes() == before


# --- batch --------------------------------------------------------------------------------------------------------------


def test_a_batch_overwrites_none_of_its_inputs(here: Path) -> None:
    (here / "out" / "results").mkdir(parents=True)
    for name in ("out/summary.json", "out/summary.csv", "out/index.html", "out/rows.jsonl", "out/results/a.json"):
        write(here / name, node("n1"), pod("p"))
        before = (here / name).read_bytes()
        result = run("batch", "-o", "out", "audit", name)
        assert result.exit_code == 2, (name, result.output)
        assert (here / name).read_bytes() == before
        (here / name).unlink()
    os.link("s.json", "out/summary.json")
    assert run("batch", "-o", "out", "audit", "s.json").exit_code == 2
    assert run("batch", "-o", "out", "audit", "w.json", "--policy", "s.json").exit_code == 2
    (here / "out/summary.json").unlink()
    (here / "plan.yaml").write_text("command: audit\nsnapshots: [../s.json]\n", encoding="utf-8")
    os.replace("plan.yaml", "out/summary.json")
    assert run("batch", "-o", "out", "out/summary.json").exit_code == 2


def test_a_merge_overwrites_no_summary_that_it_reads(here: Path) -> None:
    for shard in ("1/2", "2/2"):
        assert run("batch", "-o", "parts", "--shard", shard, "audit", "s.json").exit_code in (0, 3)
    assert run("batch", "--merge", "parts", "-o", "parts").exit_code == 0
    assert run("batch", "--merge", "parts/shard-1-of-2", "parts/shard-2-of-2", "-o", "parts/shard-1-of-2").exit_code == 2
