"""For any input and arguments: an exit code of the contract, one line per problem, results that hold, no file left behind, soon.

A few hundred cases run here. The long run takes about half an hour on two cores, in pieces on as many as there are::

    pytest -m slow tests/fuzz

and more of them, from any number on, with ``python -m tests.fuzz.run --first 50000 --count 10000``, which prints what each wrong case did
and keeps its input (``--keep DIR``). A case is repeated by its number: ``python -m tests.fuzz.run --first NUMBER --count 1``.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.fuzz import cases, mutate, run, seeds
from tests.fuzz.cases import Case
from tests.fuzz.run import Outcome
from tests.tiers import thinned

pytestmark = pytest.mark.full

_ROOT = Path(__file__).resolve().parents[2]
#: Numbers of cases in one test, in one process of the long run, and in all of it.
PIECE, CHUNK, LONG = 20, 500, 12_000


@pytest.mark.parametrize("first", thinned(range(0, 10 * PIECE, PIECE), 3))
def test_spoiled_input(first: int, tmp_path: Path) -> None:
    for seed in range(first, first + PIECE):
        folder = tmp_path / str(seed)
        folder.mkdir()
        case, found = run.run(seed, folder)
        assert not found, (seed, case.words(), found)


@pytest.mark.parametrize("seed", thinned(range(9_000_000, 9_000_003), 3))
def test_spoiled_input_of_real_processes(seed: int, tmp_path: Path) -> None:
    case, found = run.run(seed, tmp_path, process=True)
    assert not found, (seed, case.words(), found)


@pytest.mark.slow
def test_spoiled_input_at_length() -> None:
    def piece(first: int) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "tests.fuzz.run", "--first", str(first), "--count", str(CHUNK)]
        return subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, timeout=3600, check=False)

    starts = range(100_000, 100_000 + LONG, CHUNK)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        wrong = [done.stdout[-4000:] + done.stderr[-4000:] for done in pool.map(piece, starts) if done.returncode]
    assert not wrong, "\n".join(wrong)


@pytest.mark.slow
def test_spoiled_input_of_many_real_processes() -> None:
    command = [sys.executable, "-m", "tests.fuzz.run", "--first", "9100000", "--count", "200", "--process"]
    done = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, timeout=3600, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]


# --- that the suite itself can find something ---------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(500, 510))
def test_a_number_gives_the_same_case(seed: int, tmp_path: Path) -> None:
    assert run.made(cases.make, seed, tmp_path / "a") == run.made(cases.make, seed, tmp_path / "b")


def test_most_cases_get_past_the_reader(tmp_path: Path) -> None:
    """All commands, all forms and all exit codes of the contract are met, else the suite would prove little."""
    codes: dict[str, set[int]] = {}
    forms = set()
    for seed in range(700, 840):
        folder = tmp_path / str(seed)
        folder.mkdir()
        case = cases.make(seed, folder)
        codes.setdefault(case.command, set()).add(run.here(case.words(), case.given).code)
        forms.add((case.command, case.form))
    assert {*codes, "capture", "check"} == set(cases.CODES), "those two have tests of their own"
    assert all(1 in found and found & {0, 3, 4} for found in codes.values()), codes
    assert {3, 4} <= set().union(*codes.values())
    assert {"json", "yaml", "table", "wide", "csv", "junit", "sarif", "github", "gitlab", "html", "kubectl"} == {form for _, form in forms}


def test_wrong_outcomes_are_seen(tmp_path: Path) -> None:
    output = tmp_path / "out" / "result"
    output.parent.mkdir()
    output.write_bytes(cases.OLD)
    case = Case("solve", inputs=["x"], arguments=["-q"], output=output)
    good = Outcome(1, b"", "kubestow: x: is no snapshot\n")
    assert not run.faults(case, good)
    for bad in (
        Outcome(1, b"{}", good.err),
        Outcome(1, b"", ""),
        Outcome(1, b"", "x: is no snapshot\n"),
        Outcome(1, b"", "kubestow: a\x1b[2Jb\n"),
        Outcome(1, b"", "kubestow: a\u2028b\n"),
        Outcome(1, b"", "kubestow: internal fault, please report it: x\n"),
        Outcome(1, b"", good.err, trace="Traceback"),
        Outcome(0, b"{}", ""),
        Outcome(2, b"", "Error: x\n"),
        Outcome(-11, b"", ""),
        Outcome(130, b"", "kubestow: interrupted\n"),
    ):
        assert run.faults(case, bad), bad
    (output.parent / ".kubestow-abc").write_bytes(b"")
    assert run.faults(case, good) == ["left '.kubestow-abc'"]
    os.unlink(output.parent / ".kubestow-abc")
    output.write_bytes(b"{")
    assert run.faults(case, good) == ["wrote a file in spite of bad input"]


@pytest.mark.parametrize(
    ("form", "data"),
    [
        ("json", b"{"),
        ("yaml", b"a: [1"),
        ("junit", b"<testsuites>"),
        ("html", b"<!doctype html><p onclick='x()'></p></html>"),
        ("html", b"<!doctype html>"),
        ("table", b"a\x1b[31mb"),
        ("table", "a\u202eb".encode()),
        ("json", b"\xff"),
    ],
)
def test_wrong_results_are_seen(form: str, data: bytes) -> None:
    assert run.shown(Case("solve", form=form), data)


def test_a_run_without_end_is_ended(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(run, "LIMIT", 1)
    monkeypatch.setattr("kubestow.models.snapshot.snapshot.load", lambda paths: time.sleep(30))  # asleep, it is given more time
    done = run.here(["solve", str(tmp_path)])
    assert done.code == -1
    assert run.faults(Case("solve"), done)


def test_every_change_leaves_data_that_can_be_written() -> None:
    rng = random.Random(1)
    value = seeds.snapshot(rng)
    for _ in range(300):
        value = mutate.structure(rng, value)
        assert len(json.dumps(value)) < 10**8
        if not isinstance(value, list) or len(value) > 60:
            value = seeds.snapshot(rng)
