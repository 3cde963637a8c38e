"""The manifests and commands of docs/fleets.md do what the page says, as far as one machine can tell."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.commands.batch.conftest import Batch, snapshot

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "fleets.md").read_text(encoding="utf-8")
PLAN = {"snapshots": ["snapshots/*.json"], "command": "solve", "options": {"deterministic": True}, "matrix": {"seed": [1, 2]}}


def manifests() -> dict[tuple[str, str], dict[str, Any]]:
    """Return the objects of the page by kind and name."""
    found = [each for block in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL) for each in yaml.safe_load_all(block)]
    return {(each["kind"], each["metadata"]["name"]): each for each in found if isinstance(each, dict) and "kind" in each}


def container(kind: str, name: str) -> dict[str, Any]:
    (found,) = manifests()[kind, name]["spec"]["template"]["spec"]["containers"]
    return dict(found)


def fleet(folder: Path, snapshots: int = 5) -> None:
    for i in range(snapshots):
        snapshot(folder, f"snapshots/{i}.json", i + 1)
    (folder / "plan.yaml").write_text(json.dumps(PLAN), encoding="utf-8")


def summary(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "summary.json").read_bytes())
    return found


@pytest.mark.full
def test_the_pods_of_the_job_do_the_plan_together_each_task_once(here: Path, batch: Batch, monkeypatch: pytest.MonkeyPatch) -> None:
    fleet(here / "fleet")
    job = manifests()["Job", "fleet-audit"]["spec"]
    volume = str(here / "fleet")
    program, command, *arguments = [each.replace("/fleet", volume, 1) for each in container("Job", "fleet-audit")["args"]]
    assert (program, command, job["completionMode"]) == ("kubestow", "batch", "Indexed")
    assert int(arguments[arguments.index("--shards") + 1]) == job["completions"]
    for again in range(2):  # a pod that replaces another has the same arguments
        for index in range(job["completions"]):
            monkeypatch.setenv("JOB_COMPLETION_INDEX", str(index))
            assert batch(*arguments, "-q").exit_code == 0, again
    out = here / "fleet" / "out"
    assert len(list(out.iterdir())) == job["completions"]
    assert batch("--merge", str(out), "-o", str(here / "all"), "-q").exit_code == 0
    rows = summary(here / "all")["rows"]
    assert len({row["id"] for row in rows}) == len(rows) == 10
    assert all((here / "all" / row["result"]).exists() for row in rows)


def test_the_commands_for_ssh_do_the_plan_together(here: Path, batch: Batch) -> None:
    fleet(here)
    lines = [line.strip() for line in PAGE.splitlines() if line.startswith(("    ssh ", "    kubestow batch --merge"))]
    assert len(lines) == 4
    for line in lines:
        words = shlex.split(line.replace("/srv/fleet", str(here)))
        words = words[2:] if words[0] == "ssh" else words
        assert words[:2] == ["kubestow", "batch"]
        assert batch(*words[2:], "-q").exit_code == 0, line
    assert (len(summary(here / "all")["rows"]), summary(here / "all")["left"]) == (10, 0)


def test_the_service_is_of_the_scheduler_and_workers_know_its_name() -> None:
    service, scheduler = manifests()["Service", "dask-scheduler"], manifests()["Deployment", "dask-scheduler"]
    labels = scheduler["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["selector"] == labels == scheduler["spec"]["selector"]["matchLabels"]
    address = f"tcp://dask-scheduler:{service['spec']['ports'][0]['port']}"
    assert address in container("Deployment", "dask-workers")["args"]
    assert f"--dask {address}" in PAGE


@pytest.fixture
def started() -> Iterator[list[subprocess.Popen[bytes]]]:
    found: list[subprocess.Popen[bytes]] = []
    yield found
    for process in reversed(found):
        process.terminate()
        process.wait(60)


@pytest.mark.slow
def test_the_commands_of_scheduler_and_workers_run_a_batch(tmp_path: Path, started: list[subprocess.Popen[bytes]]) -> None:
    pytest.importorskip("distributed")
    fleet(tmp_path)
    file, environment = tmp_path / "scheduler.json", os.environ | {"PYTHONPATH": str(ROOT)}
    loopback = ["--host", "127.0.0.1"]

    def start(arguments: list[str]) -> None:
        assert arguments[0] == "dask"
        with (tmp_path / "log").open("ab") as log:
            process = subprocess.Popen([sys.executable, "-m", *arguments, *loopback], cwd=tmp_path, env=environment, stdout=log, stderr=log)
        started.append(process)

    start([*_with_free_port(container("Deployment", "dask-scheduler")["args"]), "--scheduler-file", str(file)])
    until = time.monotonic() + 60
    while not file.exists() and time.monotonic() < until:
        time.sleep(0.1)
    address = json.loads(file.read_bytes())["address"]
    for _ in range(2):
        start([address if argument.startswith("tcp://") else argument for argument in container("Deployment", "dask-workers")["args"]])
    command = [sys.executable, str(ROOT / "cli.py"), "batch", "plan.yaml", "-o", "out", "--dask", address, "-q"]
    assert subprocess.run(command, cwd=tmp_path, env=environment, stdout=subprocess.DEVNULL, timeout=300, check=False).returncode == 0
    assert [row["exit"] for row in summary(tmp_path / "out")["rows"]].count(None) == 0
    assert len(summary(tmp_path / "out")["rows"]) == 10


def _with_free_port(arguments: list[str]) -> list[str]:
    """Return the arguments with any port that is free in place of the one that a pod has for itself."""
    at = arguments.index("--port") + 1
    return [*arguments[:at], "0", *arguments[at + 1 :]]
