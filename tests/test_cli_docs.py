"""The commands that docs/cli.md shows run as shown, and its tables name the options that exist."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

import cli

_ROOT = Path(cli.__file__).resolve().parent
_TEXT = (_ROOT / "docs" / "cli.md").read_text()
_BLOCKS = re.findall(r"```console\n(.*?)```", _TEXT, re.DOTALL)
_LINES = [line.removeprefix("$ ") for block in _BLOCKS for line in block.splitlines()]


def test_the_shown_commands_run_in_their_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "instances").symlink_to(_ROOT / "instances")
    monkeypatch.chdir(tmp_path)
    for line in _LINES:
        name, *arguments = shlex.split(line)
        result = CliRunner().invoke(cli.main, arguments)
        assert name == "kubestow"
        assert result.exit_code == 0, f"{line}\n{result.stderr}"


def test_every_command_and_option_is_described_and_no_other() -> None:
    commands = cli.main.commands
    shown = {shlex.split(line)[1] for line in _LINES}
    assert shown == set(commands)
    options = {o for command in commands.values() for p in command.params for o in p.opts if o.startswith("--")}
    assert set(re.findall(r"--[a-z][a-z-]+", _TEXT)) - {"--help"} == options - {"--verbose", "--quiet"}
