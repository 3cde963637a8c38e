"""Measure the time from nothing to a first useful answer on one's own cluster: ``python packaging/first_answer.py [--own]``.

The commands are the first ones of the README. They run in a copy of the checkout with nothing installed, on a
stand-in cluster, or with ``--own`` on the cluster of kubectl's current context. The table shows the seconds of each
command and the README lines read by then.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Step:
    """A command, and the number of its line in the README."""

    command: str
    line: int


def steps(text: str) -> list[Step]:
    """Return the commands that lead to an answer on one's own cluster: installation with an example, then the first cluster command.

    Raises:
        ValueError: the README has no such commands.
    """
    lines = [(number, line.strip()) for number, line in enumerate(text.splitlines(), 1)]
    first = next((Step(line, number) for number, line in lines if line.startswith("python3 -m venv") and "kubestow solve" in line), None)
    then = next((Step(line, number) for number, line in lines if line.startswith(".venv/bin/kubectl-stow ")), None)
    if first is None or then is None:
        raise ValueError("README.md: expected a line that installs and solves an example, and one that begins with .venv/bin/kubectl-stow")
    return [first, then]


def copied(folder: Path) -> Path:
    """Copy the files that git tracks, as in a clone."""
    archive = subprocess.run(["git", "-C", str(ROOT), "ls-files", "-z"], capture_output=True, check=True).stdout
    for name in filter(None, archive.decode().split("\0")):
        source, target = ROOT / name, folder / name
        if source.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(source.read_bytes())
            target.chmod(source.stat().st_mode)
    return folder


def made_cluster(folder: Path) -> str:
    """Install a kubectl for a small stand-in cluster into a folder, and return the folder."""
    sys.path.insert(0, str(ROOT))
    from tests.live.capture_stand_in import Server, install
    from tests.live.test_redact import objects_of

    install(folder, Server(objects_of(ROOT / "instances/rollout-deadlock.yaml")))
    return str(folder)


def walk(found: list[Step], checkout: Path, environment: dict[str, str]) -> list[tuple[Step, float, str]]:
    """Run the commands; return each with its seconds and the last line of its standard error.

    Raises:
        RuntimeError: a command fails.
    """
    timed = []
    for step in found:
        began = time.monotonic()
        done = subprocess.run(
            ["bash", "-c", step.command], cwd=checkout, env=environment, capture_output=True, encoding="utf-8", check=False
        )
        seconds = time.monotonic() - began
        if done.returncode != 0:
            raise RuntimeError(f"{step.command}: exited with code {done.returncode}: {done.stderr.strip()[-500:]}")
        timed.append((step, seconds, (done.stderr.strip().splitlines() or [""])[-1]))
    return timed


def main() -> int:
    """Measure the commands and print the table."""
    if sys.argv[1:] not in ([], ["--own"]):
        print("usage: python packaging/first_answer.py [--own]", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as name:
        environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV", "KUBECTL_PATH")}
        if not sys.argv[1:]:
            environment["PATH"] = os.pathsep.join([made_cluster(Path(name) / "bin"), environment["PATH"]])
        checkout = copied(Path(name) / "kubestow")
        timed = walk(steps((ROOT / "README.md").read_text(encoding="utf-8")), checkout, environment)
    print("| command | seconds | lines of the README by then | ends with |\n|---|---:|---:|---|")
    for step, seconds, said in timed:
        print(f"| `{step.command}` | {seconds:.0f} | {step.line} | {said} |")
    print(f"\n{len(timed)} commands, {sum(seconds for _, seconds, _ in timed):.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
