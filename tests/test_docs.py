"""The runs that the pages about pending pods, gangs and rollouts show are what the commands print now.

``python tests/test_docs.py --write`` puts what they print now into the pages. A comment ``<!-- show: A; B -->`` above a block keeps of the
output only the paragraphs that begin so, in their order, and marks what is left out.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import pytest
from click.testing import CliRunner

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import cli

ROOT = Path(cli.__file__).resolve().parent
PAGES = ("docs/pending.md", "docs/gangs.md", "docs/rollouts.md")
#: Pages of which only the runs with their output are looked at here: another test has the rest.
CAPTURED = (*PAGES, "README.md")

_BLOCK = re.compile(r"(?:<!-- show: (?P<show>[^\n]*?) -->\n)?```console\n(?P<body>.*?)```", re.DOTALL)
_LEFT_OUT = "  …\n"


class Run(NamedTuple):
    """A ``console`` block: where it lies in the page, its command, and what of the output it shows (empty: all)."""

    page: str
    start: int
    end: int
    command: str
    shown: str
    paragraphs: tuple[str, ...]


def captured(page: str, text: str) -> list[Run]:
    """The runs of a page."""
    found = []
    for block in _BLOCK.finditer(text):
        first, _, shown = block["body"].partition("\n")
        paragraphs = tuple(part.strip() for part in (block["show"] or "").split(";") if part.strip())
        found.append(Run(page, block.start("body"), block.end("body"), first.removeprefix("$ "), shown, paragraphs))
    return found


def scripts(text: str) -> list[str]:
    """The commands of a page's ``sh`` blocks."""
    return [line for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL) for line in block.splitlines() if line.strip()]


@contextlib.contextmanager
def workshop() -> Iterator[None]:
    """A directory of its own with the instances in it, as wide as the pages."""
    with tempfile.TemporaryDirectory() as name, mock.patch.dict(os.environ, {"COLUMNS": "100"}), contextlib.chdir(name):
        Path("instances").symlink_to(ROOT / "instances")
        yield


def printed(command: str) -> str:
    """Standard output of a command that ends well, or with pods left."""
    name, *arguments = shlex.split(command)
    assert name == "kubestow", command
    result = CliRunner().invoke(cli.main, arguments)
    assert result.exit_code in (0, 3), f"{command}\n{result.stderr}"
    return result.stdout


def selected(output: str, paragraphs: tuple[str, ...]) -> str:
    """The paragraphs that begin with one of these texts; a sign for those left out between, before and after them."""
    parts = re.split(r"\n{2,}", "\n".join(line.rstrip() for line in output.splitlines()).strip("\n"))
    missed = [start for start in paragraphs if not any(part.startswith(start) for part in parts)]
    assert not missed, f"nothing printed begins with {missed}"
    text = ""
    for part in parts:
        if not paragraphs or part.startswith(paragraphs):
            apart = "\n" if text and not text.endswith(_LEFT_OUT) else ""
            text += f"{apart}{part}\n"
        elif not text.endswith(_LEFT_OUT):
            text += _LEFT_OUT
    return text


def steady(text: str) -> str:
    """Without what differs from run to run: times, and whether CP-SAT had a part before they were over."""
    return re.sub(r"\(\w+ engine, \d+\.\d s\)", "(engine)", text)


RUNS = [run for page in CAPTURED for run in captured(page, (ROOT / page).read_text(encoding="utf-8"))]


@pytest.mark.parametrize("run", RUNS, ids=lambda run: f"{run.page}:{run.command}")
def test_captured_runs_are_current(run: Run) -> None:
    with workshop():
        assert steady(run.shown) == steady(selected(printed(run.command), run.paragraphs))


@pytest.mark.parametrize("page", PAGES)
def test_commands_run_in_their_order(page: str) -> None:
    with workshop():
        for command in scripts((ROOT / page).read_text(encoding="utf-8")):
            printed(command)


@pytest.mark.parametrize("page", PAGES)
def test_every_page_shows_a_run(page: str) -> None:
    assert any(run.page == page and run.shown for run in RUNS)


@pytest.mark.parametrize("page", sorted(p.name for p in (ROOT / "docs").glob("*.md")))
def test_links_lead_somewhere(page: str) -> None:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    for target, heading in re.findall(r"\]\(([^)#:\s]*)(?:#([^)\s]*))?\)", text):
        path = ROOT / "docs" / (target or page)
        assert path.exists(), target
        if heading:
            assert heading in anchors(path.read_text(encoding="utf-8")), f"{target}#{heading}"


def anchors(text: str) -> set[str]:
    """What GitHub makes of a page's headings."""
    found = re.findall(r"^#+ (.*)$", re.sub(r"```.*?```", "", text, flags=re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in found}


def test_left_out_paragraphs_are_marked() -> None:
    output = "one\n  1\n\n\ntwo\n\nthree\n\nfour  \n"
    assert selected(output, ()) == "one\n  1\n\ntwo\n\nthree\n\nfour\n"
    assert selected(output, ("one", "four")) == "one\n  1\n  …\nfour\n"
    assert selected(output, ("three", "two")) == "  …\ntwo\n\nthree\n  …\n"
    with pytest.raises(AssertionError, match="five"):
        selected(output, ("five",))


def write() -> None:
    """Put what the commands print now into the pages, where it differs by more than times."""
    for page in CAPTURED:
        path = ROOT / page
        text = path.read_text(encoding="utf-8")
        for run in reversed(captured(page, text)):
            with workshop():
                now = selected(printed(run.command), run.paragraphs)
            if steady(now) != steady(run.shown):
                text = f"{text[: run.start]}$ {run.command}\n{now}{text[run.end :]}"
                print(f"{page}: {run.command}")
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        sys.exit("usage: python tests/test_docs.py --write")
    write()
