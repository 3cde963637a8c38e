"""``kubestow batch`` as a process with processes: the same documents, ^C, and memory that a task may take."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from kubestow import cli
from tests.commands.batch.conftest import snapshot
from tests.terminals import heard

ROOT = Path(cli.__file__).resolve().parent
BATCH = [sys.executable, str(ROOT / "cli.py"), "batch"]


def summary(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    return found


@pytest.mark.full
def test_processes_write_what_the_command_alone_prints(tmp_path: Path) -> None:
    for i in range(3):
        snapshot(tmp_path, f"{i}.json", i + 3)
    command = [*BATCH, "-o", "out", "--jobs", "2", "solve", "--deterministic", "*.json"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, timeout=120)
    for row in summary(tmp_path / "out")["rows"]:
        alone = [sys.executable, str(ROOT / "cli.py"), "solve", "--deterministic", *row["snapshot"], "-q", "-f", "json"]
        done = subprocess.run(alone, cwd=tmp_path, capture_output=True, timeout=120, check=False)
        assert (tmp_path / "out" / row["result"]).read_bytes() == done.stdout
        assert row["exit"] == done.returncode


@pytest.mark.full
def test_interrupted_ends_the_processes_and_keeps_what_is_done(tmp_path: Path) -> None:
    for i in range(40):
        snapshot(tmp_path, f"{i:02}.json", i)
    command = [*BATCH, "-o", "out", "--jobs", "1", "solve", "--deterministic", "*.json"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=heard)
    journal = tmp_path / "out" / "rows.jsonl"
    deadline = time.monotonic() + 60
    while (not journal.exists() or not journal.read_bytes()) and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    found = summary(tmp_path / "out")
    assert process.returncode == (130 if found["left"] else 0)
    assert "Traceback" not in said
    assert len(found["rows"]) >= 1
    again = subprocess.run([*command[:5], "--resume", *command[5:]], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert again.returncode == 0, again.stderr
    assert (summary(tmp_path / "out")["tasks"], summary(tmp_path / "out")["left"]) == (40, 0)


@pytest.mark.full
def test_a_task_that_takes_too_much_memory_is_a_row(tmp_path: Path) -> None:
    snapshot(tmp_path, "small.json", 1)
    items = [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"c{i}"}, "data": {"x": "y" * 1000}} for i in range(60_000)]
    (tmp_path / "large.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}), encoding="utf-8")
    command = [*BATCH, "-o", "out", "--jobs", "1", "--memory", "50M", "explain", "small.json", "large.json"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 3, done.stderr
    rows = {row["snapshot"][0]: row for row in summary(tmp_path / "out")["rows"]}
    assert rows["small.json"]["exit"] == 0
    assert "memory" in rows["large.json"]["reason"]


@pytest.mark.full
def test_workers_of_dask_write_the_same(tmp_path: Path) -> None:
    for i in range(3):
        snapshot(tmp_path, f"{i}.json", i + 3)
    (tmp_path / "bad.json").write_text("{oops", encoding="utf-8")
    for folder, where in (("jobs", ("--jobs", "2")), ("dask", ("--dask", "local", "--jobs", "2"))):
        command = [*BATCH, "-o", folder, *where, "solve", "--deterministic", "*.json"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 3, done.stderr
    for file in ("summary.json", "summary.csv", *(row["result"] for row in summary(tmp_path / "jobs")["rows"] if "result" in row)):
        assert (tmp_path / "jobs" / file).read_bytes() == (tmp_path / "dask" / file).read_bytes()


def test_a_scheduler_that_does_not_answer_is_one_line(tmp_path: Path) -> None:
    snapshot(tmp_path, "a.json")
    (tmp_path / "scheduler.json").write_text("{}", encoding="utf-8")
    command = [*BATCH, "-o", "out", "--dask", "scheduler.json", "solve", "a.json"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "kubestow: scheduler.json: not a file that a Dask scheduler writes (--scheduler-file)\n"
