"""Behaviour that only a real process shows: imports, pipes, full devices, signals, terminals."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from kubestow import cli
from tests.terminals import heard, on_a_terminal

_ROOT = Path(__file__).resolve().parents[2]

#: Runs the command line with a loader and an engine of our own. place() gives a placement of `pods` pods; with `wait` it says that it
#: has begun and gives its answer only after `stop`; with `deaf` it never answers; with `rude` it sets SIGINT back to its default first,
#: as CP-SAT does.
_DRIVER = """
import sys, threading, time, types
from kubestow.models.snapshot import snapshot
from kubestow.models.kube.objects import Node, ObjectMeta, Pod, PodSpec
from kubestow.models.documents.placement import *

mode, count, status = sys.argv[1], int(sys.argv[2]), sys.argv[3]
pods = [Pod(metadata=ObjectMeta(name=f"k\\u00f6ln-{i}", namespace="prod"), spec=PodSpec()) for i in range(count)]
snapshot.load = lambda paths: snapshot.Snapshot(nodes=[Node(metadata=ObjectMeta(name="n1"))], pods=pods)

def place(snap, options, *, on_progress=None, stop=None, began=0):
    if mode == "rude":
        import ctypes
        ctypes.CDLL(None).signal(2, None)
        time.sleep(0.5)
    if mode != "fast":
        print("begun", file=sys.stderr, flush=True)
        while mode == "deaf" or not stop.is_set():
            time.sleep(0.01)
    assignments = [Assignment(f"prod/k\\u00f6ln-{i}", "n1", i + 1) for i in range(count)]
    return Placement(snapshot=SnapshotRef("a", 1, count, count), engine="e", status=status, objective=[], assignments=assignments)

module = types.ModuleType("kubestow.solver.solve")
module.place = place
sys.modules["kubestow.solver.solve"] = module
from kubestow import cli
cli.main(sys.argv[4:])
"""


def _command(*arguments: str, mode: str = "fast", count: int = 3, status: str = "feasible") -> list[str]:
    return [sys.executable, "-c", _DRIVER, mode, str(count), status, "solve", "x", *arguments]


def _environment(extra: Mapping[str, str]) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "PYTHONIOENCODING")}
    return {**kept, "PYTHONPATH": str(_ROOT), "TERM": "xterm", **extra}


def _run(command: Sequence[str], **extra: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(command, cwd=_ROOT, env=_environment(extra), capture_output=True, timeout=60, check=False)


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["solve", "--help"], ["verify", "--help"], ["explain", "--help"]])
def test_help_and_version_import_nothing_heavy(arguments: list[str]) -> None:
    heavy = ["ortools", "numpy", "pandas", "rich", "yaml", "msgspec", "jinja2"]
    code = (
        "import sys, cli\n"
        f"try: cli.main({arguments!r})\n"
        f"except SystemExit as end: print([m for m in {heavy!r} if m in sys.modules], end.code, file=sys.stderr)"
    )
    done = _run([sys.executable, "-c", code])
    assert done.stderr == b"[] 0\n"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(shell: str) -> None:
    done = _run([sys.executable, "cli.py"], _KUBESTOW_COMPLETE=f"{shell}_source")
    assert done.returncode == 0
    assert b"kubestow" in done.stdout


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("kubestow ", [f"plain,{name}" for name in sorted(cli.main.commands)]),
        ("kubestow solve ", ["file,"]),
        ("kubestow solve x --engine e", ["plain,exact"]),
    ],
)
def test_completion_of_commands_files_and_choices(words: str, expected: list[str]) -> None:
    parts = words.split(" ")
    done = _run([sys.executable, "cli.py"], _KUBESTOW_COMPLETE="bash_complete", COMP_WORDS=words, COMP_CWORD=str(len(parts) - 1))
    assert done.stdout.decode().splitlines() == expected


def test_a_reader_that_leaves_is_no_error() -> None:
    process = subprocess.Popen(_command(count=20_000), cwd=_ROOT, env=_environment({}), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.read(10) == b'{\n  "apiVe'
    process.stdout.close()
    said = process.stderr.read().decode()
    process.stderr.close()
    assert process.wait(60) == 0
    assert re.fullmatch(r"20,000 of 20,000 pods placed; on 1 node; feasible; [0-9.]+ s\n", said)


@pytest.mark.full
def test_a_full_device_is_bad_output() -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(_command(), cwd=_ROOT, env=_environment({}), stdout=full, stderr=subprocess.PIPE, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (1, b"kubestow: No space left on device\n")
    done = _run(_command("-o", "/dev/full"))
    assert (done.returncode, done.stdout, done.stderr) == (1, b"", b"kubestow: No space left on device\n")


def test_a_closed_standard_output_is_an_error() -> None:
    done = _run(["sh", "-c", 'exec "$@" >&-', "sh", *_command()])
    assert (done.returncode, done.stderr) == (1, b"kubestow: standard output is closed\n")


def test_a_closed_standard_error_is_no_reason_to_fail() -> None:
    done = _run(["sh", "-c", 'exec "$@" 2>&-', "sh", *_command()])
    assert done.returncode == 0
    assert json.loads(done.stdout)["engine"] == "e"


def test_a_file_that_cannot_be_replaced_stays_and_nothing_is_left(tmp_path: Path) -> None:
    # A directory in the place of the file holds against root too, which write permissions do not.
    (tmp_path / "out").mkdir()
    done = _run(_command("-o", str(tmp_path / "out")))
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr == f"kubestow: {tmp_path / 'out'}: Is a directory\n".encode()
    assert os.listdir(tmp_path) == ["out"]
    assert os.listdir(tmp_path / "out") == []


@pytest.mark.full
@pytest.mark.parametrize("form", ["table", "json", "yaml", "kubectl"])
def test_names_beyond_ascii_never_crash(form: str) -> None:
    done = _run(_command("-f", form), PYTHONIOENCODING="ascii", LC_ALL="C", PYTHONUTF8="0")
    assert done.returncode == 0
    assert ("köln-1" in done.stdout.decode()) == (form != "table")


def _interrupt(*arguments: str, mode: str = "wait", times: int = 1, status: str = "feasible") -> tuple[int, bytes, bytes]:
    process = subprocess.Popen(
        _command(*arguments, mode=mode, status=status), cwd=_ROOT, env=_environment({}), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stderr is not None
    said = process.stderr.readline()
    assert said == b"begun\n"
    for _ in range(times):
        process.send_signal(signal.SIGINT)
        if times > 1:
            said += process.stderr.readline()
    out, err = process.communicate(timeout=60)
    return process.returncode, out, said + err


@pytest.mark.full
@pytest.mark.parametrize("mode", ["wait", "rude"])
def test_interrupted_with_an_answer_writes_it(tmp_path: Path, mode: str) -> None:
    code, out, err = _interrupt("-o", str(tmp_path / "out"), mode=mode)
    assert (code, out) == (130, b"")
    assert json.loads((tmp_path / "out").read_text())["status"] == "feasible"
    assert b"stopping with the best result so far" in err


def test_interrupted_without_an_answer_writes_nothing(tmp_path: Path) -> None:
    code, out, err = _interrupt("-o", str(tmp_path / "out"), status="unknown")
    assert (code, out, os.listdir(tmp_path)) == (130, b"", [])
    assert err.endswith(b"kubestow: interrupted before a result was found; nothing was written\n")


@pytest.mark.full
def test_a_second_interrupt_aborts_an_engine_that_does_not_listen(tmp_path: Path) -> None:
    code, out, err = _interrupt("-o", str(tmp_path / "out"), mode="deaf", times=2)
    assert (code, out, os.listdir(tmp_path)) == (130, b"", [])
    assert err.endswith(b"kubestow: aborted\n")


def _on_a_terminal(command: Sequence[str], **extra: str) -> tuple[int, str]:
    """Exit code, and the part of standard output and standard error that a terminal gets."""
    return on_a_terminal(command, _environment(extra), _ROOT)


def test_a_terminal_gets_a_coloured_table() -> None:
    code, text = _on_a_terminal(_command())
    assert code == 0
    assert "feasible\x1b[0m" in text
    assert "Assignments, in bind order" in text


def test_no_color_is_honoured() -> None:
    code, text = _on_a_terminal(_command("-q"), NO_COLOR="1")
    assert code == 0
    assert text.startswith("3 of 3 pods placed")
    assert "Objective: feasible (" in text
    assert "\x1b[" not in text


#: A ^C while a module is read that cannot stand an exception, as that of OR-tools.
_INTERRUPTED_IMPORT = """
import os, signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.argv = ["kubestow", "solve", "x"]
from kubestow import cli

class Loader:
    def find_spec(self, name, path=None, target=None):
        if name == "kubestow.models.snapshot.snapshot":
            try:
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(5)
            except KeyboardInterrupt:
                os.abort()

sys.meta_path.insert(0, Loader())
cli.main()
"""


def test_an_interrupt_while_modules_are_read_ends_at_once() -> None:
    done = subprocess.run([sys.executable, "-c", _INTERRUPTED_IMPORT], cwd=_ROOT, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "kubestow: interrupted\n")


_AT_THE_RENAME = """
import os, runpy, signal, sys
when, number = sys.argv.pop(), int(sys.argv.pop())
signal.signal(signal.SIGINT, signal.default_int_handler)
replace = os.replace
def rename(*names):
    if when == "before":
        os.kill(os.getpid(), number)
    replace(*names)
    if when == "after":
        os.kill(os.getpid(), number)
os.replace = rename
runpy.run_path(sys.argv.pop(1), run_name="__main__")
"""


@pytest.mark.full
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_at_the_rename_tells_the_truth(tmp_path: Path, number: signal.Signals, when: str) -> None:
    """The file is complete or almost complete by then: ^C comes too late, and no other file remains."""
    target = tmp_path / "out.json"
    words = ["generate", "--nodes", "1", "--pods", "1", "-o", str(target)]
    command = [sys.executable, "-c", _AT_THE_RENAME, str(_ROOT / "cli.py"), *words, str(int(number)), when]
    done = subprocess.run(command, capture_output=True, timeout=60, check=False, preexec_fn=heard)
    assert (done.returncode, done.stderr) == (0 if number == signal.SIGINT else -number, b"")
    assert json.loads(target.read_bytes())["kind"] == "List"
    assert [path.name for path in tmp_path.iterdir()] == ["out.json"]
