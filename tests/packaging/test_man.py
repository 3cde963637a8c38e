"""The man pages: one for each command with all its options, without a warning by programs that read such pages, and in the installation."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest

from kubestow import cli

ROOT = Path(cli.__file__).resolve().parent
SCRIPT = ROOT / "packaging" / "man.py"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pages for a given date."""
    made = tmp_path_factory.mktemp("man")
    environment = {**os.environ, "SOURCE_DATE_EPOCH": "1767225600"}
    subprocess.run([sys.executable, str(SCRIPT), str(made)], env=environment, capture_output=True, check=True, timeout=120)
    return made


def test_every_command_has_a_page_and_is_on_that_of_the_program(folder: Path) -> None:
    names = {f"kubestow-{name}" for name in cli.main.commands}
    assert {path.stem for path in folder.iterdir()} == {*names, "kubestow", "kubectl-stow"}
    for name in ("kubestow", "kubectl-stow"):
        text = _shown(folder / f"{name}.1")
        assert {f"kubestow-{found}" for found in re.findall(r"kubestow-([a-z]+)\\fR\(1\)", text)} == names
        assert text.startswith(f".TH {name.upper()} 1 2026-01-01 ")


@pytest.mark.parametrize("name", cli.main.commands)
def test_every_option_is_on_its_page(name: str, folder: Path) -> None:
    text = _shown(folder / f"kubestow-{name}.1")
    command = cli.main.commands[name]
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            assert all(f"\\fB{spelt}\\fR" in text for spelt in parameter.opts), parameter.opts
    assert "None" not in text


def _shown(path: Path) -> str:
    return path.read_text(encoding="utf-8").replace("\\-", "-")


@pytest.mark.full
@pytest.mark.parametrize(
    "reader", [["mandoc", "-T", "lint", "-W", "warning"], ["groff", "-man", "-Tutf8", "-ww", "-z", "-b"]], ids=lambda reader: str(reader[0])
)
def test_readers_of_man_pages_warn_of_nothing(reader: list[str], folder: Path) -> None:
    if shutil.which(reader[0]) is None:
        pytest.skip(f"no {reader[0]} here")
    for path in sorted(folder.iterdir()):
        done = subprocess.run([*reader, str(path)], capture_output=True, text=True, timeout=60, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", ""), path.name


@pytest.mark.full
def test_man_shows_them(folder: Path) -> None:
    if shutil.which("man") is None:
        pytest.skip("no man here")
    environment = {**os.environ, "MANWIDTH": "80", "LC_ALL": "C.UTF-8"}
    done = subprocess.run(
        ["man", "--warnings", "-l", str(folder / "kubestow-solve.1")],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    if not done.stdout.strip() or "minimized" in done.stdout:
        pytest.skip("man is a stand-in here, as in images that leave documentation out")
    assert done.stderr == ""
    assert re.search(r"(?m)^ +-o, --output FILE$", done.stdout)
