"""The runs that the pages show are what the commands print now, all commands on them run, and links lead somewhere.

``python tests/test_docs.py --write`` puts what they print now into the pages. A comment ``<!-- show: A; B -->`` above a block keeps of the
output only the paragraphs that begin so, in their order, and marks omissions. A block may have several commands, of which only the
last prints; a block that shows no output only runs. A command may end with ``2>&1``, which shows standard error as well, and with
``; echo $?``, which shows the exit code; otherwise the code is one of those that say something about the answer (0, 3, 4).
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple, get_args
from unittest import mock

import pytest
from click.testing import CliRunner

from tests.tiers import quick_where

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from kubestow import cli
from kubestow.models.documents import rebalance_plan
from kubestow.solver.rebalance import search
from kubestow.solver.rebalance.tiers import improvement

ROOT = Path(cli.__file__).resolve().parent
#: Pages whose commands other tests run (tests/test_docs_complete.py says which); of these, runs with their output are looked at here.
ELSEWHERE = (
    "README.md", "docs/capture.md", "docs/cli.md", "docs/policy.md", "docs/preferences.md", "docs/quickstart.md", "docs/schema/README.md",
)  # fmt: skip
ALL = ("README.md", *sorted(str(path.relative_to(ROOT)) for folder in ("docs", "instances") for path in (ROOT / folder).rglob("*.md")))
PAGES = tuple(page for page in ALL if page not in ELSEWHERE)
CAPTURED = (*PAGES, "README.md")

_BLOCK = re.compile(r"(?:<!-- show: (?P<show>[^\n]*?) -->\n)?```console\n(?P<body>.*?)```", re.DOTALL)
_LEFT_OUT = "  …\n"


class Run(NamedTuple):
    """A ``console`` block: where it lies in the page, its commands, and what of the last one's output it shows (empty: all)."""

    page: str
    start: int
    end: int
    commands: tuple[str, ...]
    shown: str
    paragraphs: tuple[str, ...]


def captured(page: str, text: str) -> list[Run]:
    """The runs of a page."""
    found = []
    for block in _BLOCK.finditer(text):
        lines = block["body"].splitlines(keepends=True)
        commands = tuple(line.removeprefix("$ ").strip() for line in takewhile(lambda line: line.startswith("$ "), lines))
        paragraphs = tuple(part.strip() for part in (block["show"] or "").split(";") if part.strip())
        found.append(Run(page, block.start("body"), block.end("body"), commands, "".join(lines[len(commands) :]), paragraphs))
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


_OPERATORS = {"|", "||", "&&", ";", ">"}
#: A command as a page shows it: standard error as well, the exit code as well.
_COMMAND = re.compile(r"(?P<line>.*?)(?P<errors> 2>&1)?(?P<code>; echo \$\?)?")


def printed(command: str) -> str:
    """Return the output of a command, as a terminal would show it."""
    parts = _COMMAND.fullmatch(command)
    assert parts is not None
    name, *arguments = shlex.split(parts["line"])
    if name == "kubestow" and not _OPERATORS & set(arguments):
        result = CliRunner().invoke(cli.main, arguments, prog_name="kubestow")
        code, output, errors = result.exit_code, result.output if parts["errors"] else result.stdout, result.stderr
    else:
        code, output, errors = in_a_shell(parts["line"], with_errors=parts["errors"] is not None)
    if parts["code"]:
        return f"{output}{code}\n"
    assert code in (0, 3, 4), f"{command}\n{errors}"
    return output


def in_a_shell(line: str, *, with_errors: bool) -> tuple[int, str, str]:
    """Exit code, output and errors of a script that is more than one command of kubestow."""
    Path("bin").mkdir(exist_ok=True)
    script = Path("bin/kubestow")
    script.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {shlex.quote(cli.__file__)} "$@"\n', encoding="utf-8")
    script.chmod(0o755)
    path = os.pathsep.join([str(Path("bin").absolute()), os.environ.get("PATH", os.defpath)])
    done = subprocess.run(
        ["bash", "-c", line], env={**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT if with_errors else subprocess.PIPE, encoding="utf-8", timeout=120,
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr or ""


def shown_by(run: Run) -> str:
    """Return the current output of a block's commands; of the last one, the selected paragraphs."""
    with workshop():
        outputs = [printed(command) for command in run.commands]
    assert not any(outputs[:-1]) or not run.shown, run.commands
    return selected(outputs[-1], run.paragraphs)


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
    return re.sub(r"\b\d+\.\d s$", "… s", re.sub(r"\(\w+\s+engine,\s+\d+\.\d\s+s\)", "(engine)", text), flags=re.MULTILINE)


def text_of(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


RUNS = [run for page in CAPTURED for run in captured(page, text_of(page))]


@pytest.mark.parametrize("run", quick_where(RUNS, lambda run: run.page == "README.md"), ids=lambda run: f"{run.page}:{run.commands[-1]}")
def test_captured_runs_are_current(run: Run) -> None:
    now = shown_by(run)
    assert steady(run.shown) == steady(now if run.shown or run.paragraphs else "")


@pytest.mark.parametrize("page", quick_where([page for page in PAGES if scripts(text_of(page))], lambda page: page == "README.md"))
def test_commands_run_in_their_order(page: str) -> None:
    with workshop():
        for command in scripts(text_of(page)):
            printed(command)


def test_the_page_about_plans_names_what_there_is() -> None:
    text = (ROOT / "docs/rebalance.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([a-z-]+)` \|", text.split("## What may not move")[1].split("\n## ")[0], re.MULTILINE)
    assert tuple(rows) == get_args(rebalance_plan.Exclusion)
    document = text.split("## The RebalancePlan document")[1].split("\n## ")[0]
    for section in (
        rebalance_plan.RebalancePlan,
        rebalance_plan.Limits,
        rebalance_plan.Move,
        rebalance_plan.Eviction,
        rebalance_plan.Summary,
        rebalance_plan.Excluded,
        rebalance_plan.Obstacle,
    ):
        assert {f"`{name}`" for name in section.__struct_encode_fields__} <= set(re.findall("`[A-Za-z0-9]+`", document)), section
    for phrase in (f"up to {search.MAX_EXACT_CELLS:,} (class, node) pairs", f"improve = {improvement.BALANCE_PER_POINT} · soft + balance"):
        assert phrase in text


@pytest.mark.parametrize("page", [*ALL, "CHANGELOG.md"])
def test_links_lead_somewhere(page: str) -> None:
    for target, heading in re.findall(
        r"\]\(([^)#:\s]*)(?:#([^)\s]*))?\)", re.sub(r"^```.*?^```$", "", text_of(page), flags=re.MULTILINE | re.DOTALL)
    ):
        path = (ROOT / page).parent / target if target else ROOT / page
        assert path.exists(), target
        if heading:
            assert heading in anchors(path.read_text(encoding="utf-8")), f"{target}#{heading}"


def anchors(text: str) -> set[str]:
    """Return GitHub's anchors for a page's headings; a repeated heading gets a number."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL), re.MULTILINE)
    names = [re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings]
    return {name if name not in names[:i] else f"{name}-{names[:i].count(name)}" for i, name in enumerate(names)}


def test_left_out_paragraphs_are_marked() -> None:
    output = "one\n  1\n\n\ntwo\n\nthree\n\nfour  \n"
    assert selected(output, ()) == "one\n  1\n\ntwo\n\nthree\n\nfour\n"
    assert selected(output, ("one", "four")) == "one\n  1\n  …\nfour\n"
    assert selected(output, ("three", "two")) == "  …\ntwo\n\nthree\n  …\n"
    with pytest.raises(AssertionError, match="five"):
        selected(output, ("five",))


def write() -> None:
    """Put what the commands print now into the pages, where it differs by more than times. A block that is to show all of what its last
    command prints has a first line of it already, such as ``…``."""
    for page in CAPTURED:
        path = ROOT / page
        text = path.read_text(encoding="utf-8")
        for run in reversed(captured(page, text)):
            now = shown_by(run)
            if (run.shown or run.paragraphs) and steady(now) != steady(run.shown):
                commands = "".join(f"$ {command}\n" for command in run.commands)
                text = f"{text[: run.start]}{commands}{now}{text[run.end :]}"
                print(f"{page}: {run.commands[-1]}")
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        sys.exit("usage: python tests/test_docs.py --write")
    write()
