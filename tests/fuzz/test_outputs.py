"""An output that cannot be written: one line, no partial or other file, and an earlier result stays. Real processes."""

from __future__ import annotations

import json
import os
import resource
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fuzz.cases import OLD
from tests.tiers import thinned

pytestmark = pytest.mark.full

_ROOT = Path(__file__).resolve().parents[2]
Done = subprocess.CompletedProcess[bytes]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A snapshot whose results exceed the buffer of a pipe."""
    path = tmp_path_factory.mktemp("cluster") / "s.json"
    done = run("generate", "--nodes", "20", "--pods", "200", "--bound", "50", "-o", path)
    assert done.returncode == 0, done.stderr
    return path


def command(*words: str | Path) -> list[str]:
    return [sys.executable, str(_ROOT / "cli.py"), *map(str, words)]


def run(*words: str | Path, **how: object) -> Done:
    given: dict[str, object] = {"capture_output": True, "timeout": 60, "check": False, **how}
    return subprocess.run(command(*words), **given)  # type: ignore[call-overload, no-any-return]


def asked(name: str, cluster: Path) -> list[str]:
    """A short run of every command that writes a result."""
    quick = ["--engine", "greedy", "--time-limit", "5", "-q"]
    return {
        "solve": ["solve", str(cluster), *quick],
        "rebalance": ["rebalance", str(cluster), "--goal", "consolidate", *quick],
        "explain": ["explain", str(cluster), "--per-node", "-q"],
        "audit": ["audit", str(cluster), "--fail-on", "never", "-q"],
        "report": ["report", str(cluster), "-q", "--time-limit", "1"],
        "generate": ["generate", "--nodes", "60", "--pods", "900"],
    }[name]


#: All that write go the same way: one of them in CI.
_COMMANDS = thinned(["audit", "report", "solve", "rebalance", "explain", "generate"], 6)


def refused(done: Done, *texts: str) -> None:
    """One line that says why, and no result."""
    said = done.stderr.decode()
    assert (done.returncode, done.stdout or b"") == (1, b""), said
    assert said.startswith("kubestow: ")
    assert said.count("\n") == 1
    assert any(text in said for text in texts), said


@pytest.mark.parametrize("name", _COMMANDS)
def test_a_full_device(name: str, cluster: Path) -> None:
    refused(run(*asked(name, cluster), "-o", "/dev/full"), "No space left on device")
    with open("/dev/full", "wb") as full:
        done = run(*asked(name, cluster), capture_output=False, stdout=full, stderr=subprocess.PIPE)
    refused(done, "No space left on device")


@pytest.mark.parametrize("name", _COMMANDS)
def test_a_file_that_may_not_grow(name: str, cluster: Path, tmp_path: Path) -> None:
    """As on a disk that gets full while it is written."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))

    target = tmp_path / "out"
    for before in (None, OLD):
        if before is not None:
            target.write_bytes(before)
        refused(run(*asked(name, cluster), "-o", target, preexec_fn=limit), "File too large")
        assert os.listdir(tmp_path) == ([] if before is None else ["out"])
        assert before is None or target.read_bytes() == before


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(folder)], capture_output=True, check=False).returncode:
        pytest.skip("nothing can be mounted here")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.parametrize("name", thinned(["report", "explain", "generate"], 3))
def test_a_full_disk(name: str, cluster: Path, small_disk: Path) -> None:
    (small_disk / "out").write_bytes(OLD)
    refused(run(*asked(name, cluster), "-o", small_disk / "out"), "No space left on device")
    assert os.listdir(small_disk) == ["out"]
    assert (small_disk / "out").read_bytes() == OLD


@pytest.mark.parametrize("name", _COMMANDS)
def test_places_where_no_file_can_be(name: str, cluster: Path, tmp_path: Path) -> None:
    """Known before the work begins. Root may write to read-only files, but nobody can write to these places."""
    (tmp_path / "file").write_bytes(OLD)
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "folder").mkdir()
    (tmp_path / "gone").symlink_to(tmp_path / "none" / "out")
    before = sorted(os.listdir(tmp_path))
    for target in ("file/out", "folder", "loop/out", "gone", "x" * 300):
        refused(
            run(*asked(name, cluster), "-o", tmp_path / target), os.strerror(20), os.strerror(21), os.strerror(2), os.strerror(36), "loop"
        )
    refused(run(*asked(name, cluster), "-o", "/proc/self/none"), "No such file", "not permitted", "denied")
    assert sorted(os.listdir(tmp_path)) == before
    assert (tmp_path / "file").read_bytes() == OLD


@pytest.mark.parametrize("name", _COMMANDS)
def test_a_reader_that_leaves(name: str, cluster: Path) -> None:
    process = subprocess.Popen(command(*asked(name, cluster)), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.read(1)
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait(60) in (0, 3)


@pytest.mark.parametrize("name", _COMMANDS)
def test_closed_streams(name: str, cluster: Path, tmp_path: Path) -> None:
    words = command(*asked(name, cluster))
    done = subprocess.run(["sh", "-c", 'exec "$@" >&-', "sh", *words], capture_output=True, timeout=60, check=False)
    refused(done, "standard output is closed")
    target = tmp_path / "out"
    for closing in ("2>&-", ">&- 2>&- <&-"):
        script = f'exec "$@" {closing}'
        done = subprocess.run(["sh", "-c", script, "sh", *words, "-o", str(target)], capture_output=True, timeout=60, check=False)
        assert done.returncode in (0, 3), (closing, done.stderr)
        assert os.listdir(tmp_path) == ["out"]
        assert len(target.read_bytes()) > 1000
        target.unlink()


@pytest.mark.parametrize("name", thinned(["audit", "solve", "explain", "report"], 4))
def test_standard_input_that_is_none(name: str, cluster: Path) -> None:
    words = [word if word != str(cluster) else "-" for word in asked(name, cluster)]
    done = subprocess.run(["sh", "-c", 'exec "$@" <&-', "sh", *command(*words)], capture_output=True, timeout=60, check=False)
    refused(done, "standard input is closed")
    with open(os.devnull, "rb") as nothing:
        refused(run(*words, stdin=nothing), "stdin")


def test_links_pipes_and_the_input_itself(cluster: Path, tmp_path: Path) -> None:
    words = asked("solve", cluster)
    link, real = tmp_path / "link", tmp_path / "real"
    link.symlink_to("real")  # which is not there yet
    assert run(*words, "-o", link).returncode in (0, 3)
    assert link.is_symlink()
    assert json.loads(real.read_bytes())["kind"] == "Placement"

    pipe, heard = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: heard.append(pipe.read_bytes()))
    reader.start()
    assert run(*words, "-o", pipe).returncode in (0, 3)
    reader.join(30)
    assert json.loads(heard[0])["kind"] == "Placement"
    assert stat.S_ISFIFO(pipe.stat().st_mode)

    own = tmp_path / "own.json"
    own.write_bytes(cluster.read_bytes())
    assert run("solve", own, "-q", "--engine", "greedy", "-o", own).returncode == 2
    assert own.read_bytes() == cluster.read_bytes()
    assert sorted(os.listdir(tmp_path)) == ["link", "own.json", "pipe", "real"]


def test_a_snapshot_from_a_pipe_and_from_a_device(cluster: Path, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_bytes(cluster.read_bytes()))
    writer.start()
    assert run("explain", pipe, "-q").returncode == 0
    writer.join(30)
    refused(run("explain", os.devnull, "-q"), "holds no objects")
