"""Every module of report/writers registers a format that commands offer and a page describes."""

from __future__ import annotations

import pkgutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest

from kubestow import cli
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.report import writers as package
from kubestow.report.writers import Writer, WrittenResult, writers, writers_of

DOCS = Path(cli.__file__).resolve().parent / "docs"
TESTS = Path(__file__).resolve().parents[2]
#: Command by kind of the document that it prints.
COMMANDS = {
    "Audit": "audit",
    "Check": "check",
    "Fit": "fit",
    "NodeTable": "nodes",
    "Placement": "solve",
    "RebalancePlan": "rebalance",
    "Sizing": "size",
    "Survival": "survive",
    "Upgrade": "upgrade",
}
every_writer = pytest.mark.parametrize("writer", writers(), ids=lambda writer: writer.name)


def choices(command: str) -> list[str]:
    """Return the formats that a command offers."""
    (option,) = (each for each in cli.main.commands[command].params if each.name == "forms")
    assert isinstance(option.type, click.Choice)
    return list(option.type.choices)


def test_every_module_registers_a_writer() -> None:
    modules = {f"{package.__name__}.{found.name}" for found in pkgutil.iter_modules(package.__path__)}
    assert modules == {each.write.__module__ for each in writers()}


@every_writer
def test_the_commands_of_its_kinds_offer_a_format(writer: Writer) -> None:
    assert writer.kinds
    for kind in writer.kinds:
        assert writer.name in choices(COMMANDS[kind]), kind


@pytest.mark.parametrize("kind", COMMANDS)
def test_a_command_offers_no_format_without_a_writer(kind: str) -> None:
    assert set(choices(COMMANDS[kind])) == {"table", "wide", "json", "yaml", *writers_of(kind)}


@every_writer
def test_its_page_names_a_format(writer: Writer) -> None:
    text = (DOCS / writer.page).read_text()
    assert f"`{writer.name}`" in text or f"-f {writer.name}" in text, writer.page


@every_writer
def test_a_test_names_a_format(writer: Writer) -> None:
    quoted = f'"{writer.name}"'
    tests = [path for path in TESTS.rglob("test_*.py") if path != Path(__file__)]
    assert any(quoted in path.read_text() for path in tests)


def test_writers_are_found_without_importing_documents() -> None:
    code = "import sys; from kubestow.report.writers import writers; writers(); print({'msgspec', 'numpy', 'yaml'} & {*sys.modules})"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"


def test_findings_are_reported_once_for_all_formats() -> None:
    made: list[Any] = []

    def report() -> Any:
        made.append(object())
        return made[-1]

    result = WrittenResult(None, Snapshot(), report=report)
    assert result.findings is result.findings
    assert len(made) == 1
