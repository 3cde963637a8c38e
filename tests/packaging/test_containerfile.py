"""The Containerfile: linted, and its steps carried out without a builder."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kubestow import cli

ROOT = Path(cli.__file__).resolve().parent
TEXT = (ROOT / "Containerfile").read_text(encoding="utf-8")
#: Unpacked size of python:3.13-slim in bytes, rounded up.
BASE_SIZE = 130_000_000
LIMIT = 400_000_000


def steps() -> list[tuple[str, str]]:
    """The instructions with their arguments, lines that go on joined."""
    joined = re.sub(r"\\\n", " ", re.sub(r"^#.*\n", "", TEXT, flags=re.M))
    return [(line.split(" ", 1)[0], line.split(" ", 1)[1].strip()) for line in joined.splitlines() if line.strip()]


def test_it_has_two_stages_a_base_that_can_be_pinned_and_no_root() -> None:
    found = steps()
    assert [argument for word, argument in found if word == "FROM"] == ["${BASE} AS build", "${BASE}"]
    assert found[0][0] == "ARG"
    assert found[0][1].startswith("BASE=")
    last = found[[i for i, (word, _) in enumerate(found) if word == "FROM"][-1] :]
    assert [argument for word, argument in last if word == "USER"] == ["65532:65532"]
    assert not [word for word, _ in last if word == "RUN"], "what runs in the last stage makes a layer as root"
    assert dict(last)["ENTRYPOINT"] == '["kubestow"]'
    assert "PYTHONDONTWRITEBYTECODE=1" in dict(last)["ENV"]


def test_hadolint_finds_nothing() -> None:
    program = shutil.which("hadolint", path=f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}")
    if program is None:
        pytest.skip("no hadolint here")
    done = subprocess.run([program, str(ROOT / "Containerfile")], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.slow
def test_its_steps_make_a_program_below_the_limit(tmp_path: Path) -> None:
    """The RUN of the first stage with a folder in place of /opt, then the program with the environment of the last one. Takes the index of
    packages that pip has here."""
    source = tmp_path / "src"
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    for name in listed:
        if (ROOT / name).is_file() and not name.startswith("tests/"):
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, source / name)
    place = tmp_path / "opt/kubestow"
    (run,) = (argument.replace("/opt/kubestow", str(place)) for word, argument in steps() if word == "RUN")
    environment = {**os.environ, "EXTRAS": "", "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-ec", run], cwd=source, env=environment, capture_output=True, text=True, timeout=1800, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    size = sum(path.lstat().st_size for path in place.rglob("*") if not path.is_dir())
    print(f"kubestow and what it needs: {size / 1e6:.0f} MB")
    assert size + BASE_SIZE < LIMIT
    command = [str(place / "bin/kubestow"), "solve", str(source / "instances/quickstart.yaml"), "-q", "-f", "table"]
    clean = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "PYTHONDONTWRITEBYTECODE": "1"}
    solved = subprocess.run(command, cwd="/", env=clean, capture_output=True, text=True, timeout=300, check=False)
    assert solved.returncode == 0, solved.stderr
    assert "15 of 15 pods placed" in solved.stdout


@pytest.mark.slow
def test_a_builder_builds_it() -> None:
    """Runs only if a builder is available."""
    for builder in ("docker", "podman", "buildah"):
        if shutil.which(builder) and subprocess.run([builder, "info"], capture_output=True, timeout=60, check=False).returncode == 0:
            break
    else:
        pytest.skip("no docker, podman or buildah runs here")
    build = [builder, "build" if builder != "buildah" else "bud", "-f", "Containerfile", "-t", "kubestow-test", "."]
    assert subprocess.run(build, cwd=ROOT, timeout=1800, check=False).returncode == 0
    mount = f"{ROOT / 'instances'}:/work:ro"
    if builder != "buildah":
        run = [builder, "run", "--rm", "--read-only", "-v", mount, "kubestow-test", "solve", "quickstart.yaml", "-q", "-f", "table"]
        assert b"15 of 15 pods placed" in subprocess.run(run, capture_output=True, timeout=300, check=True).stdout
