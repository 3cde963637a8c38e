"""docs/exit-codes.md has every exit code of every command, and an example of each that ends with it (tests/test_docs.py runs them)."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from kubestow import cli
from kubestow.commands.common.exit_codes import BAD_INPUT, DONE, INCOMPLETE, INTERRUPTED, VIOLATED
from tests.fuzz import cases
from tests.live.capture_stand_in import Server, install
from tests.objects import node, pod
from tests.terminals import heard
from tests.test_docs import RUNS, text_of

pytestmark = pytest.mark.full

ROOT = Path(cli.__file__).resolve().parent
TEXT = text_of("docs/exit-codes.md")
COMMANDS = sorted(cli.main.commands)
#: Covered by the tests below, and those of apply and of verify's journals, instead of an example, which would need a cluster.
_OTHERWISE = {("capture", 0), ("capture", 3), ("apply", 3), ("verify", 3)}
#: Arguments with which a command runs for a while, or waits for input that never comes.
_LONG = {
    "apply": ["-", "--result", "x.json"],
    "batch": ["-o", "out", "solve", "-"],
    "capture": ["--kubectl", "./sleeper"],
    "check": ["-"],
    "doctor": ["--context", "x", "--kubectl", "./sleeper", "--timeout", "600"],
    "fit": ["-", "-w", "x.json"],
    "generate": ["--nodes", "20000", "--pods", "600000", "-o", "big.json"],
    "rebalance": ["-", "--goal", "repair"],
    "size": ["-", "--catalogue", str(ROOT / "instances/catalogue.yaml")],
    "survive": ["-", "--fail", "node"],
    "upgrade": ["-", "--pool", "pool=old"],
    "verify": ["-", "--result", "x.json"],
}


def stated() -> dict[str, set[int]]:
    """The codes of each command that differ from command to command, as the table has them; 1, 2 and 130 are all commands'."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in TEXT.splitlines() if line.startswith("| `")]
    return {name.strip("`"): {code for code, said in zip((0, 3, 4), cells, strict=True) if said} for name, *cells in rows}


def shown() -> set[tuple[str, int]]:
    """(command, exit code) of the examples."""
    found = set()
    for run in RUNS:
        if run.page == "docs/exit-codes.md" and run.commands[-1].endswith("; echo $?"):
            words = shlex.split(run.commands[-1].removesuffix("; echo $?"))
            found.add((words[words.index("kubestow") + 1], int(run.shown.splitlines()[-1])))
    return found


def test_every_command_and_every_code_is_in_the_tables() -> None:
    assert set(stated()) == set(COMMANDS)
    listed = {int(code) for code in re.findall(r"^\| (\d+) \|", TEXT, re.MULTILINE)}
    assert listed == {DONE, BAD_INPUT, 2, INCOMPLETE, VIOLATED, INTERRUPTED}
    assert {int(code) for code in re.findall(r"^## (\d+): ", TEXT, re.MULTILINE)} == listed


def test_the_table_agrees_with_what_spoiled_input_may_end_with() -> None:
    """tests/fuzz lets each command end with its own codes and no others."""
    for name, codes in cases.CODES.items():
        of_runs = {INCOMPLETE} if name == "verify" else set()  # only with a journal, which spoiled input has not
        assert (stated()[name] | {1}) - of_runs == set(codes), name


def test_each_code_of_each_command_has_an_example() -> None:
    wanted = {(name, code) for name, codes in stated().items() for code in {*codes, 1}}
    assert wanted - shown() == _OTHERWISE
    assert {code for _, code in shown()} >= {2, 130}


@pytest.mark.parametrize("name", COMMANDS)
def test_wrong_usage_is_2(name: str) -> None:
    assert CliRunner().invoke(cli.main, [name, "--no-such-option"]).exit_code == 2


def test_captures_are_0_whole_and_3_with_holes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
    objects = [node("n1"), pod("p")]
    for server, code in ((Server(objects), 0), (Server(objects, forbidden=["/api/v1/persistentvolumes"]), 3)):
        install(tmp_path / "bin", server)
        assert CliRunner().invoke(cli.main, ["capture", "-o", "cluster.json"]).exit_code == code
        assert Path("cluster.json").exists()


def test_every_command_is_130_when_interrupted(tmp_path: Path) -> None:
    """Before there is a result: nothing is written, and nothing but one line said."""
    sleeper = tmp_path / "sleeper"
    sleeper.write_text("#!/bin/sh\nexec sleep 60\n", encoding="utf-8")
    sleeper.chmod(0o755)
    (tmp_path / "x.json").write_text("{}", encoding="utf-8")
    running = {}
    for name in COMMANDS:
        if name == "completion":
            continue  # done before anybody could interrupt it
        arguments = [sys.executable, cli.__file__, name, *_LONG.get(name, ["-"])]
        if name == "report":
            arguments += ["-o", "page.html"]
        if name in ("apply", "verify"):
            arguments = [a if a != "x.json" else str(_placement(tmp_path)) for a in arguments]
        pipe = subprocess.PIPE
        running[name] = subprocess.Popen(
            arguments,
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            text=True,
            preexec_fn=heard,
        )
    time.sleep(4)
    for process in running.values():
        assert process.poll() is None, process.args
        process.send_signal(signal.SIGINT)
    for name, process in running.items():
        output, errors = process.communicate(timeout=60)
        assert (process.returncode, output) == (130, ""), f"{name}: {errors}"
        assert "Traceback" not in errors
    assert sorted(p.name for p in tmp_path.iterdir()) == ["placement.json", "sleeper", "x.json"]


def _placement(folder: Path) -> Path:
    path = folder / "placement.json"
    result = CliRunner().invoke(cli.main, ["solve", str(ROOT / "instances/quickstart.yaml"), "-q", "-o", str(path)])
    assert result.exit_code == 0
    return path
