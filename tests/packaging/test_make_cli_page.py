"""docs/cli.md is what packaging/make_cli_page.py writes from the click commands."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Final

import click
import pytest

from kubestow import cli

ROOT: Final = Path(cli.__file__).resolve().parent


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_cli_page", ROOT / "packaging" / "make_cli_page.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_the_page_is_what_the_script_writes(script: ModuleType) -> None:
    """Out of date: python packaging/make_cli_page.py --write"""
    assert script.PAGE.read_text(encoding="utf-8") == script.text()


def test_a_command_without_a_marker_is_an_error(script: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "cli_page.md"
    path.write_text(script.TEMPLATE.read_text(encoding="utf-8").replace("<!-- options: fit -->\n", ""), encoding="utf-8")
    monkeypatch.setattr(script, "TEMPLATE", path)
    with pytest.raises(ValueError, match="expected the markers help and options once for each command"):
        script.text()


@pytest.mark.parametrize(
    ("record", "row"),
    [
        (("-w, --manifests FILE", "Add pods."), "| `-w`, `--manifests FILE` | Add pods. |  |"),
        (("--time-limit SECONDS", "Time limit.  [default: 60.0]"), "| `--time-limit SECONDS` | Time limit. | `60` |"),
        (("--at-once K", "Failures.  [default: 1; x>=1]"), "| `--at-once K` | Failures (at least 1). | `1` |"),
        (("--workers N", "Searches.  [default: one per core]  [1<=x<=9]"), "| `--workers N` | Searches (1 to 9). | one per core |"),
        (("--gate [a|b]", "With --yes or -f table.  [required]"), "| `--gate [a\\|b]` | With `--yes` or `-f table`. | required |"),
        (("--rollout NAME", "Roll out.  [default FILE: its own]"), "| `--rollout NAME` | Roll out. | FILE: its own |"),
    ],
)
def test_rows(script: ModuleType, record: tuple[str, str], row: str) -> None:
    assert script._option(*record).row == row


def test_lines_are_short_enough_to_read(script: ModuleType) -> None:
    assert [line for line in script.text().splitlines() if len(line) > 120 and not line.startswith("|")] == []


def test_every_option_has_one_line_of_help() -> None:
    for name, command in cli.main.commands.items():
        for option in command.params:
            if isinstance(option, click.Option):
                assert option.help, (name, option.name)
                assert len(option.help) <= 140, (name, option.name)
                assert "\n" not in option.help, (name, option.name)


def test_every_command_has_a_one_sentence_summary() -> None:
    for name, command in cli.main.commands.items():
        summary = " ".join((command.help or "").partition("\n\n")[0].split())
        assert re.fullmatch(r"[A-Z][^.]*\.", summary), (name, summary)
