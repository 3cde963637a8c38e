"""A batch whose workers are killed, and one that ^C ends, as a terminal sends it: to all of its processes."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from kubestow import cli
from tests.objects import node, pod
from tests.terminals import heard, on_a_terminal

pytestmark = pytest.mark.full
ROOT = Path(cli.__file__).resolve().parent
PLAN: dict[str, Any] = {"snapshots": ["a.json"], "command": "solve", "options": {"deterministic": True}, "matrix": {"seed": [*range(6)]}}
#: Processes, and the workers of Dask, whose ends tests/solver/executors/test_dask.py looks at in the full tier.
WHERE = [pytest.param(("--jobs", "2"), id="jobs"), pytest.param(("--dask", "local", "--jobs", "2"), id="dask", marks=pytest.mark.slow)]
PATIENCE = 120


def plan(folder: Path) -> None:
    """Write a plan of tasks that keep a worker busy for a while each: what waits is more than the nodes have."""
    nodes = [node(f"n{i}", cpu="7", memory="32Gi") for i in range(10)]
    pods = [pod(f"p{i}", cpu=f"{700 + i * 397 % 1900}m", memory=f"{1 + i * 5 % 7}Gi") for i in range(60)]
    (folder / "a.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [*nodes, *pods]}), encoding="utf-8")
    (folder / "plan.yaml").write_text(json.dumps(PLAN), encoding="utf-8")


def command(*arguments: str) -> list[str]:
    return [sys.executable, str(ROOT / "cli.py"), "batch", "plan.yaml", "-o", "out", *arguments]


def documents(folder: Path) -> dict[str, bytes]:
    """Return the results and the summary of a batch by their names."""
    return {file.name: file.read_bytes() for file in (*folder.glob("results/*"), folder / "summary.json")}


def journal(folder: Path) -> list[str]:
    """Return the ids of the rows of a batch, in the order in which they came."""
    with suppress(FileNotFoundError):
        return [
            json.loads(line)["id"]
            for line in (folder / "out" / "rows.jsonl").read_text("utf-8").splitlines(keepends=True)
            if line[-1] == "\n"
        ]
    return []


def until(holds: Callable[[], Any], what: str) -> None:
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end, what
        time.sleep(0.01)


def told(pid: int, file: str) -> str:
    """Return Linux's status of a process; empty if the process is gone."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/{file}").read_text("utf-8").replace("\0", " ")
    return ""


def descendants(pid: int) -> Iterator[int]:
    """Yield the processes that one has started, and theirs."""
    tasks = os.listdir(f"/proc/{pid}/task") if told(pid, "stat") else []
    for task in tasks:
        for child in map(int, told(pid, f"task/{task}/children").split()):
            yield child
            yield from descendants(child)


def workers(pid: int) -> list[int]:
    return [child for child in descendants(pid) if "spawn_main" in told(child, "cmdline")]


def gone(pid: int) -> bool:
    """Return whether a process is at its end, also where nobody has asked for its exit code."""
    stat = told(pid, "stat")
    return not stat or stat.rpartition(")")[2].split()[0] in "ZX"


@contextmanager
def running(folder: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A batch that has its first row, in a process group of its own."""
    process = subprocess.Popen(
        command(*arguments), cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, preexec_fn=heard, process_group=0
    )
    try:
        until(lambda: journal(folder) or process.poll() is not None, "no task is done")
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(PATIENCE)


@pytest.mark.parametrize("where", WHERE)
def test_an_interrupt_while_workers_start_is_told_in_one_line(where: tuple[str, ...], tmp_path: Path) -> None:
    plan(tmp_path)
    process = subprocess.Popen(
        command(*where), cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, preexec_fn=heard, process_group=0
    )
    until(lambda: workers(process.pid) or process.poll() is not None, "no worker starts")
    started = list(descendants(process.pid))
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=PATIENCE)
    until(lambda: all(map(gone, started)), f"{[told(pid, 'cmdline') for pid in started]} live")
    assert process.returncode == 130, said
    assert "Traceback" not in said
    assert said.splitlines()[-1].startswith("kubestow: interrupted; ")


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("undisturbed")
    plan(folder)
    done = subprocess.run(command("--jobs", "2"), cwd=folder, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    return documents(folder / "out")


@pytest.mark.parametrize("where", WHERE)
def test_a_worker_that_is_killed_loses_nothing_and_does_nothing_twice(
    where: tuple[str, ...], tmp_path: Path, undisturbed: dict[str, bytes]
) -> None:
    plan(tmp_path)
    with running(tmp_path, *where) as process:
        victim = workers(process.pid)[-1]
        os.kill(victim, signal.SIGKILL)
        until(lambda: gone(victim), "the worker lives")
        assert len(journal(tmp_path)) < len(PLAN["matrix"]["seed"])  # it had something to do
        _, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, said
    assert "Traceback" not in said
    ids = journal(tmp_path)
    assert len(ids) == len(set(ids)) == len(PLAN["matrix"]["seed"])
    assert documents(tmp_path / "out") == undisturbed


@pytest.mark.parametrize("where", WHERE)
def test_an_interrupt_leaves_no_process_and_resume_finishes(where: tuple[str, ...], tmp_path: Path, undisturbed: dict[str, bytes]) -> None:
    plan(tmp_path)
    with running(tmp_path, *where) as process:
        started = list(descendants(process.pid))
        assert len(workers(process.pid)) >= 2
        os.killpg(process.pid, signal.SIGINT)
        _, said = process.communicate(timeout=PATIENCE)
        until(lambda: all(map(gone, started)), f"{[told(pid, 'cmdline') for pid in started]} live")
    assert process.returncode == 130, said
    assert "Traceback" not in said
    last = said.splitlines()[-1]
    assert "interrupted" in last
    assert "--resume" in last
    kept = journal(tmp_path)
    assert 1 <= len(kept) < len(PLAN["matrix"]["seed"])
    again = subprocess.run(command(*where, "--resume"), cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert again.returncode == 0, again.stderr
    ids = journal(tmp_path)
    assert ids[: len(kept)] == kept
    assert len(ids) == len(set(ids)) == len(PLAN["matrix"]["seed"])
    assert documents(tmp_path / "out") == undisturbed


def test_the_bar_tells_what_is_done_running_failed_and_left(tmp_path: Path) -> None:
    plan(tmp_path)
    (tmp_path / "bad.json").write_text("{oops", encoding="utf-8")
    (tmp_path / "plan.yaml").write_text(json.dumps(PLAN | {"snapshots": ["bad.json", "a.json"], "matrix": {"seed": [0, 1]}}), "utf-8")
    code, shown = on_a_terminal(command("--jobs", "2"), os.environ | {"TERM": "xterm", "COLUMNS": "120"}, tmp_path)
    assert code == 3, shown
    assert "failed: bad.json: solve: bad.json: JSON is malformed" in shown
    assert re.search(r"[█#]+[·.]+  [123] of 4 done, [12] running, [12] failed, \d+ s left", shown), shown
    assert "4 tasks" in shown
