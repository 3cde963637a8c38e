"""docs/cli.md: its commands run as shown, and each section names all options and choices of its command, and no others."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from kubestow import cli
from kubestow.models.snapshot.snapshot import load
from tests.live.capture_stand_in import Server, install
from tests.live.test_redact import objects_of

_ROOT = Path(cli.__file__).resolve().parent
_TEXT = (_ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
_BLOCKS = re.findall(r"```console\n(.*?)```", _TEXT, re.DOTALL)
LINES = [line.removeprefix("$ ") for block in _BLOCKS for line in block.splitlines()]
_SECTIONS = dict(re.findall(r"^## ([^\n]*)\n(.*?)(?=^## |\Z)", _TEXT, re.MULTILINE | re.DOTALL))


@pytest.mark.full
def test_the_shown_commands_run_in_their_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``capture`` calls a stand-in for kubectl."""
    (tmp_path / "instances").symlink_to(_ROOT / "instances")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
    shop = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}
    install(tmp_path / "bin", Server([*objects_of(_ROOT / "instances/quickstart.yaml"), shop]))
    for line in LINES:
        name, *arguments = shlex.split(line)
        result = CliRunner().invoke(cli.main, arguments)
        assert name == "kubestow"
        refused = "--expect-no-exemptions" in line  # shown for its refusal
        assert result.exit_code == (4 if refused else 0), f"{line}\n{result.stderr}"
    assert load(["shop.json"]).counts()["Pod"] == 15


def options(command: click.Command) -> dict[str, set[str]]:
    """The names of each option."""
    return {p.name or "": {*p.opts, *p.secondary_opts} for p in command.params if isinstance(p, click.Option)}


@pytest.mark.parametrize("name", cli.main.commands)
def test_each_command_has_a_section_with_its_options(name: str) -> None:
    """One of an option's names is enough: in the section's table, or in its list of common options."""
    section = _SECTIONS[name]
    assert any(shlex.split(line)[1] == name for line in LINES if line in section), "no run of it"
    said = set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", section))
    missing = [sorted(names) for names in options(cli.main.commands[name]).values() if not names & said]
    assert missing == []


@pytest.mark.parametrize("name", cli.main.commands)
def test_no_row_of_a_command_names_an_option_that_it_lacks(name: str) -> None:
    known = {spelt for names in options(cli.main.commands[name]).values() for spelt in names}
    for cell in re.findall(r"^\| (`-.*?) \| ", _SECTIONS[name], re.MULTILINE):
        assert set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", cell)) <= known, cell


def test_no_other_option_is_described_anywhere_on_the_page() -> None:
    known = {spelt for command in cli.main.commands.values() for names in options(command).values() for spelt in names}
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", _TEXT)) - {"--help"} <= known


@pytest.mark.parametrize("name", cli.main.commands)
def test_choices_are_all_named(name: str) -> None:
    """Each value of an option with a choice of values is in its section, or in that of the common options."""
    text = _SECTIONS[name] + _SECTIONS["Common options"]
    for parameter in cli.main.commands[name].params:
        if isinstance(parameter.type, click.Choice):
            for value in parameter.type.choices:
                assert re.search(rf"(?<![\w-]){re.escape(str(value))}(?![\w-])", text), (parameter.name, value)


def _groups(name: str) -> dict[str, set[str]]:
    """Return the options in ``--help`` of a command by heading."""
    text = CliRunner().invoke(cli.main, [name, "--help"], terminal_width=200).stdout
    parts = re.split(r"^(\S[^\n]*):\n", text, flags=re.MULTILINE)[1:]
    return {
        title: set(re.findall(r"^  (?:-\w, )?(--[a-z-]+|-\w)", body, re.MULTILINE))
        for title, body in zip(parts[::2], parts[1::2], strict=True)
    }


def test_help_is_in_groups_and_leaves_no_option_out() -> None:
    groups = _groups("solve")
    assert list(groups) == ["Options", "Manifests and what-if", "Rules and preferences", "Search", "Cluster", "Input", "Output"]
    assert groups["Options"] == {"--rollout", "--from-scratch"}
    assert groups["Search"] == {"--time-limit", "--engine", "--seed", "--deterministic", "--workers"}
    for name, command in cli.main.commands.items():
        shown = set().union(*_groups(name).values())
        assert all(names & shown for names in options(command).values()), name


@pytest.mark.parametrize("width", [60, 80, 120])
def test_summaries_are_not_cut(width: int) -> None:
    text = CliRunner().invoke(cli.main, ["--help"], terminal_width=width).stdout
    text = text.partition("\nCommands:\n")[2]
    assert "..." not in text
    said = " ".join(text.split())
    for name, command in cli.main.commands.items():
        assert f" {name} {' '.join((command.help or '').partition(chr(10) + chr(10))[0].split())}" in f" {said}"


def test_w_means_manifests_wherever_it_is_taken() -> None:
    """And -n the namespace of what names none, where the command does not read a cluster itself."""
    taken = {name: [p for p in command.params if "-w" in p.opts] for name, command in cli.main.commands.items()}
    assert {p.name for found in taken.values() for p in found} == {"manifests"}
    assert all("--manifests" in p.opts for found in taken.values() for p in found)
    assert {name for name, found in taken.items() if found} == {
        "solve", "fit", "size", "survive", "apply", "verify", "explain", "audit", "check", "report", "simulate",
    }  # fmt: skip
