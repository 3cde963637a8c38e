"""Signals at any moment, to real processes: the exit code is that of an interruption or of a run that was over already, what is written is
whole, and nothing is left behind. The moments are drawn from the number of the test; the long run draws more."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fuzz.cases import OLD

pytestmark = pytest.mark.full

_ROOT = Path(__file__).resolve().parents[2]
#: Moments of each test, in seconds after the start of a run, and those of the long run.
_FEW, _MANY = 1, 40


#: Runs the command line with SIGINT as a terminal has it (a suite in the background may have it ignored, and its children too), and says
#: when that of the program takes over: before, the interpreter starts, which dies of a signal in ways of its own.
_DRIVER = """
import runpy, signal, sys
def told(event, arguments):
    if event == "import" and arguments[0] == "click":
        print("begun", file=sys.stderr, flush=True)
sys.addaudithook(told)
signal.signal(signal.SIGINT, signal.default_int_handler)
runpy.run_path(sys.argv.pop(1), run_name="__main__")
"""


def command(*words: str | Path) -> list[str]:
    return [sys.executable, "-c", _DRIVER, str(_ROOT / "cli.py"), *map(str, words)]


@pytest.fixture(scope="module")
def worn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cluster with work for some seconds."""
    path = tmp_path_factory.mktemp("worn") / "worn.json"
    subprocess.run(command("generate", "--nodes", "60", "--pods", "500", "--worn", "30", "-o", path), check=True, timeout=60)
    return path


@pytest.fixture(scope="module")
def pending(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pending") / "pending.json"
    subprocess.run(command("generate", "--nodes", "40", "--pods", "600", "--bound", "40", "-o", path), check=True, timeout=60)
    return path


def words(name: str, worn: Path, pending: Path) -> list[str]:
    """A run of some seconds; ``generate`` takes as long as it takes."""
    return {
        "solve": ["solve", str(pending), "--from-scratch", "--time-limit", "2"],
        "rebalance": ["rebalance", str(worn), "--goal", "consolidate", "--goal", "improve", "--time-limit", "2"],
        "explain": ["explain", str(pending), "--include-gated"],
        "audit": ["audit", str(worn), "--fail-on", "never"],
        "report": ["report", str(pending)],
        "generate": ["generate", "--nodes", "300", "--pods", "5000"],
    }[name]


_NAMES = ["solve", "rebalance", "explain", "audit", "report", "generate"]


def strike(arguments: list[str], target: Path, after: float, *signals: int, pause: float = 0.05) -> tuple[int, str]:
    """Exit code and standard error of a run that gets signals, the first after some seconds."""
    process = subprocess.Popen(command(*arguments, "-o", target), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stderr is not None
    assert process.stderr.readline() == b"begun\n"
    time.sleep(after)
    for number in signals:
        process.send_signal(number)
        time.sleep(pause)
    out, err = process.communicate(timeout=60)
    assert out == b""
    return process.returncode, err.decode()


def whole(target: Path, old: bytes | None, name: str) -> bool:
    """Return whether a result was written; it is complete, and no other file remains."""
    assert [each for each in os.listdir(target.parent) if each != target.name] == []
    if not target.exists() or target.read_bytes() == old:
        assert old is None or target.exists()
        return False
    data = target.read_bytes()
    assert data.rstrip().endswith(b"</html>") if name == "report" else json.loads(data)
    return True


def moments(seed: str, count: int) -> list[float]:
    """Dense at first, where modules are read and a signal may meet anything."""
    rng = random.Random(seed)
    return [rng.uniform(0, 0.6) if rng.random() < 0.5 else rng.uniform(0.3, 3) for _ in range(count)]


def interrupted(name: str, after: float, arguments: list[str], folder: Path, *, times: int) -> None:
    target, old = folder / "out" / "result", OLD if after > 1 else None
    target.parent.mkdir(parents=True, exist_ok=True)
    target.unlink(missing_ok=True)
    if old is not None:
        target.write_bytes(old)
    code, said = strike(arguments, target, after, *[signal.SIGINT] * times)
    # The signal itself: a second one met the interpreter on its way out, after the line was said. Shells show it as 130, too.
    assert code in (0, 3, 130) or (times > 1 and code == -signal.SIGINT and said.endswith("interrupted\n")), (after, code, said)
    assert not any(text in said for text in ("Traceback", "Exception", "internal fault")), (after, said)
    written = whole(target, old, name)
    assert written or code not in (0, 3), (after, said)
    if written and name in ("solve", "rebalance"):
        checked = subprocess.run(command("verify", arguments[1], "--result", target), capture_output=True, timeout=60, check=False)
        assert checked.returncode == 0, checked.stdout[-2000:]


@pytest.mark.parametrize(
    ("name", "times"),
    [*((name, 1) for name in _NAMES), ("solve", 2), *(pytest.param(name, 2, marks=pytest.mark.slow) for name in _NAMES[1:])],
)
def test_interrupted_at_some_moment(name: str, times: int, worn: Path, pending: Path, tmp_path: Path) -> None:
    for after in moments(f"{name}-{times}", _FEW):
        interrupted(name, after, words(name, worn, pending), tmp_path, times=times)


@pytest.mark.slow
@pytest.mark.parametrize("times", [1, 2, 5])
@pytest.mark.parametrize("name", _NAMES)
def test_interrupted_at_many_moments(name: str, times: int, worn: Path, pending: Path, tmp_path: Path) -> None:
    for after in moments(f"many-{name}-{times}", _MANY):
        interrupted(name, after, words(name, worn, pending), tmp_path, times=times)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
@pytest.mark.parametrize("name", ["solve", *(pytest.param(name, marks=pytest.mark.slow) for name in _NAMES[1:])])
def test_ended_by_others(name: str, number: int, worn: Path, pending: Path, tmp_path: Path) -> None:
    """Nobody can clean up after SIGKILL; the earlier result stays all the same, or the new one is whole."""
    for after in moments(f"{name}-{number}", 1):
        target = tmp_path / "result"
        target.write_bytes(OLD)
        code, said = strike(words(name, worn, pending), target, after, number)
        assert code in (0, 3, -number)
        assert "Traceback" not in said
        assert target.read_bytes() == OLD or code in (0, 3)
        if number != signal.SIGKILL:
            assert os.listdir(tmp_path) == ["result"]


@pytest.mark.parametrize(
    "where", [lambda: signal.raise_signal(signal.SIGINT), lambda: (_ for _ in ()).throw(MemoryError)], ids=["interrupt", "memory"]
)
def test_interrupted_while_the_file_is_written(where: Callable[[], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The moment that no clock hits: the temporary file is there, and not yet in its place."""
    from kubestow.report.documents import output

    really = os.fdopen

    def late(*arguments: object, **named: object) -> object:
        file = really(*arguments, **named)  # type: ignore[call-overload]
        assert len(os.listdir(tmp_path)) == 2
        where()
        return file

    target = tmp_path / "out"
    target.write_bytes(OLD)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    monkeypatch.setattr(os, "fdopen", late)
    try:
        with pytest.raises((KeyboardInterrupt, MemoryError)):
            output.write_file(str(target), [b"new"])
    finally:
        signal.signal(signal.SIGINT, before)
        monkeypatch.undo()
    assert os.listdir(tmp_path) == ["out"]
    assert target.read_bytes() == OLD
