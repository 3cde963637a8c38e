"""Create the man pages of kubestow and its commands from their ``--help``: ``python packaging/man.py DIRECTORY``.

The build backend runs this for each build, and the wheel contains the pages as ``share/man/man1``. The date is that
of ``SOURCE_DATE_EPOCH``, or else today: https://reproducible-builds.org/specs/source-date-epoch/.
"""

from __future__ import annotations

import os
import re
import runpy
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import click

# Running cli.py makes this checkout the package kubestow, installed or not. The imports below depend on it (E402).
runpy.run_path(str(Path(__file__).resolve().parents[1] / "cli.py"))

from kubestow import cli  # noqa: E402
from kubestow.commands import VERSION  # noqa: E402
from kubestow.commands.common.cluster_choice import PLUGIN  # noqa: E402
from kubestow.commands.common.help_text import grouped  # noqa: E402

_CODES: Final = (
    ("0", "done, complete and valid"),
    ("1", "bad input, or a file that cannot be read or written; one line per problem, no output"),
    ("2", "wrong usage"),
    ("3", "done in part: pods or goals remain, or kinds could not be captured; the result is written"),
    ("4", "violated: the check found problems, or --strict rejected the input"),
    ("130", "interrupted; the best result found is written, if any"),
)
_ENVIRONMENT: Final = (
    ("KUBECONFIG", "kubectl's configuration files, as for kubectl."),
    ("KUBECTL_PATH", "The kubectl to run without --kubectl. kubectl sets it for plugins to its own program."),
    ("NO_COLOR", "If set, tables have no colours."),
)
_PLUGIN: Final = (
    f"As a kubectl plugin it is called `{PLUGIN}`. If a command needs a snapshot and none is named, it captures the cluster of "
    "kubectl's current context."
)
_BREAK: Final = re.compile(r"\s+")


def pages() -> dict[str, str]:
    """Return the text of each page, by file name."""
    with click.Context(cli.main, info_name="kubestow") as context:
        commands = {name: cli.main.commands[name] for name in cli.main.list_commands(context)}
        found = {f"{name}.1": "\n".join(_program(name, context, commands)) + "\n" for name in ("kubestow", "kubectl-stow")}
        for name, command in commands.items():
            with click.Context(command, info_name=name, parent=context) as inner:
                found[f"kubestow-{name}.1"] = "\n".join(_command(inner, command, list(commands))) + "\n"
    return found


def write(folder: Path) -> list[Path]:
    """Write all pages and return their files."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in pages().items():
        (folder / name).write_text(text, encoding="utf-8")
    return [folder / name for name in sorted(pages())]


def _program(name: str, context: click.Context, commands: dict[str, click.Command]) -> Iterator[str]:
    first, rest = _paragraphs(cli.main)
    yield from _head(name, first)
    for index, called in enumerate(("kubestow", PLUGIN)):
        yield from (".br" if index else ".SH SYNOPSIS", rf"\fB{called}\fR [\fIOPTIONS\fR] \fICOMMAND\fR [\fIARGUMENT\fR...]")
    yield from _description([first, *rest, _PLUGIN])
    yield ".SH COMMANDS"
    for each, command in commands.items():
        yield from (".TP", rf"\fBkubestow\-{_escaped(each)}\fR(1)", _text(_paragraphs(command)[0]))
    yield from _options(context, cli.main)
    yield from _tail([f"kubestow-{each}" for each in commands])


def _command(context: click.Context, command: click.Command, names: list[str]) -> Iterator[str]:
    first, rest = _paragraphs(command)
    name = f"kubestow-{context.info_name}"
    yield from _head(name, first)
    pieces = " ".join(_option_names(piece) for piece in command.collect_usage_pieces(context))
    yield from (".SH SYNOPSIS", rf".B kubestow {_escaped(str(context.info_name))}", pieces)
    yield from _description([first, *rest])
    yield from _options(context, command)
    yield from _tail(["kubestow", *(f"kubestow-{other}" for other in names if other != context.info_name)])


def _head(name: str, summary: str) -> Iterator[str]:
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    day = datetime.now(UTC) if epoch is None else datetime.fromtimestamp(int(epoch), UTC)
    yield f'.TH {_escaped(name.upper())} 1 {day:%Y-%m-%d} "kubestow {VERSION}" "kubestow"'
    yield ".ad l"
    yield from (".SH NAME", rf"{_escaped(name)} \- {_text(summary.rstrip('.'))}")


def _description(paragraphs: list[str]) -> Iterator[str]:
    yield ".SH DESCRIPTION"
    for index, paragraph in enumerate(paragraphs):
        yield from (*((".PP",) if index else ()), _text(paragraph))


def _options(context: click.Context, command: click.Command) -> Iterator[str]:
    """Yield the options in the groups of ``--help``."""
    yield ".SH OPTIONS"
    for index, (group, records) in enumerate(grouped(command, context).items()):
        if index:
            yield f".SS {_escaped(group)}"
        for names, text in records:
            yield from (".TP", _option_names(names), _text(text) or r"\&")


def _tail(others: list[str]) -> Iterator[str]:
    yield ".SH EXIT STATUS"
    for code, text in _CODES:
        yield from (".TP", rf"\fB{code}\fR", _text(text))
    yield ".SH ENVIRONMENT"
    for name, text in _ENVIRONMENT:
        yield from (".TP", rf"\fB{name}\fR", _text(text))
    yield ".SH SEE ALSO"
    yield ",\n".join(rf"\fB{_escaped(name)}\fR(1)" for name in sorted(others))


def _paragraphs(command: click.Command) -> tuple[str, list[str]]:
    first, *rest = (_BREAK.sub(" ", part).strip() for part in re.split(r"\n\s*\n", (command.help or "").strip()))
    return first, rest


def _option_names(text: str) -> str:
    """Format options: names in bold, their values in italics."""
    parts = re.split(r"(?<![\w-])(--?[A-Za-z][\w-]*)", text)
    return "".join(rf"\fB{_escaped(part)}\fR" if index % 2 else _taken(part) for index, part in enumerate(parts))


def _taken(text: str) -> str:
    return re.sub(r"[^\s,\[\]|/]+", lambda found: rf"\fI{_escaped(found[0])}\fR", text)


def _text(text: str) -> str:
    """Return one line of running text, with text between backticks in bold."""
    parts = [_escaped(part) for part in _BREAK.sub(" ", text).strip().split("`")]
    line = "".join(rf"\fB{part}\fR" if index % 2 else part for index, part in enumerate(parts))
    return rf"\&{line}" if line.startswith((".", "'")) else line


def _escaped(text: str) -> str:
    return text.replace("\\", r"\e").replace("-", r"\-")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python packaging/man.py DIRECTORY")
    for path in write(Path(sys.argv[1])):
        print(path)
