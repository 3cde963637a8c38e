"""Write docs/cli.md from the click commands: ``python packaging/make_cli_page.py [--write]``.

The template packaging/cli_page.md has the sections that click cannot know: the preface, links and runs of each command. Its markers are
replaced by usage, help and options of a command, and by the options that several commands share. Without ``--write`` the page is printed.
"""

from __future__ import annotations

import re
import runpy
import sys
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

import click

ROOT: Final = Path(__file__).resolve().parents[1]
# Run as a file, it makes this checkout the package kubestow, installed or not. Only then can the imports below work (E402).
if __name__ == "__main__":
    runpy.run_path(str(ROOT / "cli.py"))

from kubestow import cli  # noqa: E402
from kubestow.commands.common.help_text import OWN_GROUP, grouped  # noqa: E402

PAGE: Final = ROOT / "docs" / "cli.md"
TEMPLATE: Final = Path(__file__).with_name("cli_page.md")
#: Columns of running text.
_TEXT_WIDTH: Final = 100
#: An option that this many commands share, word for word, is in the section of common options.
_MIN_SHARING_COMMANDS: Final = 3
_OPTION_NAME: Final = re.compile(r"(?<![\w`-])(-f [a-z]+|--?[a-z][a-z-]*)(?![\w-])")


class Option(NamedTuple):
    """One row of a table of options.

    Attributes:
        names: All names with the metavar, as in ``--help``.
        meaning: The help, without the default.
        default: The default in words, or "required"; may be empty.
    """

    names: str
    meaning: str
    default: str

    @property
    def row(self) -> str:
        """The row in Markdown."""
        names = ", ".join(f"`{name}`" for name in re.split(r", | / ", self.names))
        return f"| {_cell(names)} | {_cell(_code(self.meaning))} | {_cell(self.default)} |"

    @property
    def short(self) -> str:
        """The longest name without the metavar, in Markdown."""
        return f"`{max(re.findall(r'(?<![^ ,])--?[a-z-]+', self.names), key=len)}`"


class Page(NamedTuple):
    """The material of the page.

    Attributes:
        options: By command, the options by group of ``--help``.
        common: The shared options by group.
    """

    options: dict[str, dict[str, list[Option]]]
    common: dict[str, list[Option]]


def text() -> str:
    """Return the page.

    Raises:
        ValueError: the template's markers are not those of all commands.
    """
    template = TEMPLATE.read_text(encoding="utf-8")
    marked = re.findall(r"^<!-- (?:help|options): (\w+) -->$", template, re.MULTILINE)
    if Counter(marked) != Counter([*cli.main.commands, *cli.main.commands]):
        raise ValueError(f"{TEMPLATE.name}: expected the markers help and options once for each command, found {', '.join(marked)}")
    page = _page(dict.fromkeys(marked))

    def block(found: re.Match[str]) -> str:
        kind, name = found[1], found[2]
        return "\n".join(_help(name) if kind == "help" else _options(page, name) if kind == "options" else _common(page)).strip()

    return re.sub(r"^<!-- (help|options|common)(?:: (\w+))? -->$", block, template, flags=re.MULTILINE)


def _page(names: Iterable[str]) -> Page:
    """Return the options of these commands. Common options are in the order of the commands."""
    with click.Context(cli.main, info_name="kubestow", **cli.main.context_settings) as parent:
        options = {}
        for name in names:
            command = cli.main.commands[name]
            with click.Context(command, info_name=name, parent=parent) as context:
                groups = grouped(command, context)
            # Without --help: click caches its names from the first context that any caller makes.
            options[name] = {group: [_option(*each) for each in records if "--help" not in each[0]] for group, records in groups.items()}
    uses = Counter((group, option) for groups in options.values() for group, listed in groups.items() for option in listed)
    common: dict[str, list[Option]] = {}
    for (group, option), count in uses.items():
        if count >= _MIN_SHARING_COMMANDS and group != OWN_GROUP:
            common.setdefault(group, []).append(option)
    return Page(options, common)


def _option(names: str, text: str) -> Option:
    """Split the help of an option into its meaning and its default."""
    meaning, *extras = re.split(r"  \[", text)
    default = ""
    for extra in "; ".join(part.rstrip("]") for part in extras).split("; ") if extras else ():
        kind, _, value = extra.partition(": ")
        if extra == "required":
            default = extra
        elif kind.startswith("default"):
            place = kind.removeprefix("default").strip()
            value = value.removesuffix(".0") if re.fullmatch(r"\d+\.0", value) else value
            default = f"{place}: {value}".strip(": ") if place else value if " " in value else f"`{value}`"
        else:
            meaning = f"{meaning.rstrip('.')} ({_range(extra)})."
    return Option(names, meaning, default)


def _range(text: str) -> str:
    """Return click's notation of a range in words."""
    if between := re.fullmatch(r"(\d+)<=x<=(\d+)", text):
        return f"{between[1]} to {between[2]}"
    return text.replace("x>=", "at least ")


def _help(name: str) -> Iterator[str]:
    """Yield the help of a command, and its usage line."""
    command = cli.main.commands[name]
    for paragraph in re.split(r"\n\s*\n", (command.help or "").strip()):
        # A line that begins with a hyphen would be an item of a list.
        words = re.sub(r"docs/(\w+\.md)", r"[\1](\1)", _code(" ".join(paragraph.split()))).replace("- ", "-\0")
        yield textwrap.fill(words, _TEXT_WIDTH, break_long_words=False, break_on_hyphens=False).replace("\0", " ") + "\n"
    with click.Context(command, info_name=name) as context:
        yield f"Usage: `kubestow {name} {' '.join(command.collect_usage_pieces(context))}`"


def _options(page: Page, name: str) -> Iterator[str]:
    """Yield the table of a command's own options, and the list of the common ones that it takes."""
    listed = page.options[name].items()
    own = [option for group, options in listed for option in options if option not in page.common.get(group, ())]
    if own:
        yield from _table(own)
    shared = {group: [option.short for option in options if option in page.common.get(group, ())] for group, options in listed}
    yield "\nCommon options:\n"
    for group, names in shared.items():
        if names:
            words = f"* [{group}](#{_anchor(group)}): {', '.join(names)}"
            yield textwrap.fill(words, _TEXT_WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def _common(page: Page) -> Iterator[str]:
    """Yield the sections of common options, one for each group of ``--help``."""
    for group, options in page.common.items():
        yield f"\n### {group}\n"
        yield from _table(options)


def _table(options: list[Option]) -> Iterator[str]:
    yield "| option | meaning | default |\n|---|---|---|"
    yield from (option.row for option in options)


def _anchor(heading: str) -> str:
    return heading.lower().replace(" ", "-")


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _code(text: str) -> str:
    """Put the names of options in backticks, except inside other code."""
    parts = text.split("`")
    return "`".join(part if index % 2 else _OPTION_NAME.sub(r"`\1`", part) for index, part in enumerate(parts))


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        PAGE.write_text(text(), encoding="utf-8")
    elif sys.argv[1:]:
        sys.exit("usage: python packaging/make_cli_page.py [--write]")
    else:
        print(text(), end="")
