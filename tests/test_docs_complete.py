"""Nothing on the pages is left out of the tests: every command that a page shows is run by one of them, and what is said of rules, of what
is not modelled, of pages and of files is all there is.

A page that no test claims belongs to tests/test_docs.py, which finds it without a list.
"""

from __future__ import annotations

import ast
import functools
import pkgutil
import re
import shlex
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

import click
import pytest
from click.testing import CliRunner

from kubestow import cli
from kubestow.models.cluster import unmodelled
from kubestow.models.gangs.declarations import OF_GANGS
from kubestow.solver import rules
from tests import test_docs, test_policy_docs, test_quickstart, test_readme
from tests.commands import test_capture, test_help
from tests.report.documents import test_schemas
from tests.test_docs import ALL, ELSEWHERE, PAGES, ROOT, anchors, text_of

#: Kinds of fenced blocks that show no commands.
_NO_COMMANDS: Final = ("json", "math", "python", "text", "yaml")
_RULES: Final = text_of("docs/rules.md")


class Block(NamedTuple):
    """A fenced block. ``body``: with the comment lines and the output that it shows."""

    page: str
    language: str
    body: str

    @property
    def commands(self) -> list[str]:
        """All of an ``sh`` block, else the lines after a prompt."""
        lines = [line.strip() for line in self.body.splitlines() if line.strip()]
        return lines if self.language == "sh" else [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]


def blocks(page: str) -> Iterator[Block]:
    for language, body in re.findall(r"^```(\w*)\n(.*?)^```$", text_of(page), re.MULTILINE | re.DOTALL):
        yield Block(page, language, body)


BLOCKS = [block for page in ALL for block in blocks(page)]


# --- every command is run -----------------------------------------------------------------------------------------------


def _of_the_readme() -> list[str]:
    """Lines of the README's scripts, as a whole and part by part, and the runs in its blocks."""
    scripts = [line for block in blocks("README.md") if block.language == "sh" for line in block.commands]
    # test_readme takes comments off and lines apart.
    whole = [line for line in scripts if {part.strip() for part in line.split("  #")[0].split("&&")} <= set(test_readme.shell_lines())]
    runs = [command for run in test_docs.RUNS if run.page == "README.md" for command in run.commands]
    return [*whole, *runs, *(command for block in UNNAMED for command in block.commands)]


#: Blocks without a language, of which the test below runs the commands.
UNNAMED = [block for block in BLOCKS if not block.language]
#: By page, the commands that its own test runs.
RUN_BY: Final[dict[str, Callable[[], list[str]]]] = {
    "README.md": _of_the_readme,
    "docs/capture.md": lambda: test_capture._LINES,
    "docs/cli.md": lambda: test_help.LINES,
    "docs/policy.md": lambda: test_policy_docs.commands("docs/policy.md"),
    "docs/preferences.md": lambda: test_policy_docs.commands("docs/preferences.md"),
    "docs/quickstart.md": lambda: test_quickstart.SCRIPT.splitlines(),
    "docs/schema/README.md": lambda: [
        line.removeprefix("$ ") for block in test_schemas.blocks("console") for line in block.splitlines() if line.startswith("$ ")
    ],
}


def _by_default(page: str) -> list[str]:
    runs = [command for run in test_docs.RUNS if run.page == page for command in run.commands]
    return [*runs, *test_docs.scripts(text_of(page)), *(command for block in UNNAMED if block.page == page for command in block.commands)]


def test_every_page_has_somebody_who_runs_it() -> None:
    assert set(RUN_BY) == set(ELSEWHERE)
    assert {*PAGES, *ELSEWHERE} == set(ALL)
    assert len(ALL) == len(set(ALL))
    assert all((ROOT / page).exists() for page in ALL)


@pytest.mark.parametrize("page", ALL)
def test_every_command_that_is_shown_is_run(page: str) -> None:
    shown = [command for block in blocks(page) if block.language not in _NO_COMMANDS for command in block.commands]
    run = set(RUN_BY[page]() if page in RUN_BY else _by_default(page))
    assert [command for command in shown if command.strip() not in {line.strip() for line in run}] == []


@pytest.mark.parametrize("page", ALL)
def test_no_command_hides_in_a_block_of_another_kind(page: str) -> None:
    """But for runs of snapshots that are not in this repository, which ``text`` blocks show: their options are checked below."""
    for block in blocks(page):
        if block.language in _NO_COMMANDS:
            for command in re.findall(r"^(?:\$ )?(kubestow .*)", block.body, re.MULTILINE):
                assert block.language == "text", command
                assert not any((ROOT / word).exists() for word in shlex.split(command)), command
        else:
            assert block.language in ("", "console", "sh"), block.language


@pytest.mark.parametrize("block", UNNAMED, ids=lambda block: f"{block.page}:{(block.commands or ['no command'])[-1]}")
def test_blocks_without_a_language_show_what_is_printed(block: Block, monkeypatch: pytest.MonkeyPatch) -> None:
    """The commands run, and the passages between signs of omissions are printed by the command above them, in that order, on a
    terminal."""
    assert block.commands
    monkeypatch.setenv("COLUMNS", "100")
    with test_docs.workshop():
        for part in re.split(r"^\$ ", block.body, flags=re.MULTILINE)[1:]:
            command, _, shown = part.partition("\n")
            on_a_terminal = command if " -f " in command or not shown.strip() else f"{command} -f table"
            rest = _steady(test_docs.printed(on_a_terminal))
            for passage in re.split(r"^ *…$", shown, flags=re.MULTILINE):
                if passage.strip():
                    _, found, rest = rest.partition(_steady(passage).strip("\n"))
                    assert found, passage


def _steady(text: str) -> str:
    return test_docs.steady("\n".join(line.rstrip() for line in text.splitlines()))


# --- commands that only a cluster could run, and those in sentences -----------------------------------------------------


def _spoken(page: str) -> Iterator[str]:
    """Commands of kubestow in indented blocks and between backticks."""
    text = re.sub(r"^```.*?^```$", "", text_of(page), flags=re.MULTILINE | re.DOTALL)
    elsewhere = [command for block in blocks(page) if block.language == "text" for command in block.commands]
    for line in elsewhere + re.findall(r"^ {4}(\S.*)$", text, re.MULTILINE) + re.findall(r"`([^`]+)`", text):
        yield from (part.strip() for part in re.split(r"&&|\|(?!\w)|;", line) if part.strip().startswith("kubestow "))


@pytest.mark.parametrize("page", ALL)
def test_commands_in_sentences_have_options_that_exist(page: str) -> None:
    for command in _spoken(page):
        words = shlex.split(command, comments=True)
        if len(words) < 2 or words[1] in ("COMMAND", "--version"):
            continue
        assert words[1] in cli.main.commands, command
        known = {name for parameter in cli.main.commands[words[1]].params for name in (*parameter.opts, *parameter.secondary_opts)}
        assert {word.partition("=")[0] for word in words[2:] if re.match("--?[a-z]", word)} - {"--help"} <= known, command


def test_options_named_anywhere_exist() -> None:
    """But for those of kubectl, of other tools, and of this project's scripts."""
    known = {
        name
        for command in cli.main.commands.values()
        for parameter in command.params
        for name in (*parameter.opts, *parameter.secondary_opts)
    }
    known |= {"--help", "--version", *_OF_OTHERS}
    for page in ALL:
        for code in re.findall(r"`(--[a-z][a-z-]+)[^`]*`", re.sub(r"^```.*?^```$", "", text_of(page), flags=re.MULTILINE | re.DOTALL)):
            assert code in known, f"{page}: {code}"


#: Options of pytest and of scripts under tests/, which pages speak of.
_OF_OTHERS: Final = ("--write", "--runs", "--sizes", "--most", "--cpu", "--seeds")


# --- the index ----------------------------------------------------------------------------------------------------------


def test_the_index_lists_every_page_once() -> None:
    text = text_of("docs/README.md")
    listed = re.findall(r"^\| \[[^\]]+\]\(([^)#]+)\) \|", text, re.MULTILINE)
    there = {page.removeprefix("docs/") for page in ALL if page.startswith("docs/")} - {"README.md"}
    assert sorted(listed) == sorted({*there, "../CONTRIBUTING.md", "../instances/README.md"})


def test_the_readme_leads_to_the_index_or_to_every_page() -> None:
    linked = set(re.findall(r"\]\(docs/([^)#]+)", text_of("README.md")))
    there = {page.removeprefix("docs/") for page in ALL if page.startswith("docs/")} - {"README.md"}
    assert linked & {"README.md", ""} or there <= linked


def test_every_instance_is_on_the_page_of_instances() -> None:
    """Those of audit codes are on the page of these."""
    text, audit = text_of("instances/README.md"), text_of("docs/audit.md")
    for path in (ROOT / "instances").rglob("*.yaml"):
        name = str(path.relative_to(ROOT / "instances"))
        assert f"`{name}`" in text or (name.startswith("audit/") and f"instances/{name}" in audit), name


# --- names of the code --------------------------------------------------------------------------------------------------

PACKAGES: Final = ("audit", "checker", "commands", "instances", "live", "models", "report", "solver", "tests")
#: The changelog names what was moved, too.
ABOUT_THE_CODE: Final = [page for page in (*ALL, "CONTRIBUTING.md") if (ROOT / page).exists()]


def _prose(page: str) -> str:
    return re.sub(r"^```.*?^```$", "", text_of(page), flags=re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", ABOUT_THE_CODE)
def test_paths_that_pages_name_exist(page: str) -> None:
    """Paths in any words, except those in capitals, which are placeholders. tests/test_docs.py checks the targets of links."""
    for path in re.findall(rf"(?<![\w/.-])((?:{'|'.join(PACKAGES)})/[\w/.*-]*[\w/*])", _prose(page)):
        if not path.rstrip("/").rpartition("/")[2].isupper():
            assert list(ROOT.glob(path.rstrip("/"))) or (ROOT / f"{path}.py").exists(), f"{page}: {path}"


@pytest.mark.parametrize("page", ABOUT_THE_CODE)
def test_modules_that_pages_name_exist(page: str) -> None:
    for name in re.findall(rf"`((?:{'|'.join(PACKAGES)})(?:\.\w+)+)`", _prose(page)):
        assert name.endswith(".html") or pkgutil.resolve_name(name), f"{page}: {name}"


@pytest.mark.parametrize("page", ABOUT_THE_CODE)
def test_names_that_link_to_a_module_are_in_it(page: str) -> None:
    for name, target in re.findall(r"\[`(\w+)`\]\(([^)#]+\.py)\)", _prose(page)):
        source = ast.parse(((ROOT / page).parent / target).read_text(encoding="utf-8"))
        assert name in {node.name for node in source.body if isinstance(node, ast.ClassDef | ast.FunctionDef)}, f"{page}: {name}"


def test_every_package_has_its_place_in_the_architecture() -> None:
    listed = set(re.findall(r"^\| \**`([\w/]+)/`\** \|", text_of("docs/architecture.md"), re.MULTILINE))
    there = {str(path.parent.relative_to(ROOT)) for top in PACKAGES for path in (ROOT / top).rglob("__init__.py")}
    commands = {f"commands/{name}" for name in cli.main.commands}
    assert {name for name in there - commands if not name.startswith("tests/")} | {"commands/NAME"} == listed


# --- rules --------------------------------------------------------------------------------------------------------------

SECTIONS: Final = dict(re.findall(r"^## ([^\n]*)\n(.*?)(?=^## |\Z)", _RULES, re.MULTILINE | re.DOTALL))
NAMES: Final = [*(rule.name for rule in rules.ALL), "SchedulingGates"]
#: Commands that show the words of a rule, if these differ from ``explain`` on the example.
_LIMITS: Final = ["explain", "instances/rules/namespace-limits.yaml", "-w", "instances/rules/namespace-limits-workload.yaml"]
_ANNOTATIONS: Final = [
    *("explain", "instances/rules/namespace-annotations.yaml", "-w", "instances/rules/namespace-annotations-workload.yaml"),
    *("--policy", "instances/rules/namespace-annotations-policy.yaml"),
]
_SHOWN_BY: Final = {
    "PodNodeSelector": _ANNOTATIONS,
    "PodTolerationRestriction": _ANNOTATIONS,
    "LimitRanger": _LIMITS,
    "ResourceQuota": _LIMITS,
    "NodeName": ["explain", "instances/rules/node-name.yaml", "--pod", "kube-system/etcd-n1"],
    "SchedulingGates": ["solve", "instances/rules/scheduling-gates.yaml"],
    "GangScheduling": [
        *("solve", "instances/gang-mutual.yaml", "-w", "instances/gang-mutual-workload.yaml"),
        *(word for node in ("a2", "b1", "b2", "c2") for word in ("--remove-node", node)),
    ],
}


@pytest.mark.parametrize("name", NAMES)
def test_each_rule_has_its_section_in_the_common_form(name: str) -> None:
    section = SECTIONS[name]
    for part in ("Reads", "Says", "Example", "Source"):
        assert re.search(rf"\n\* \*\*{part}\*\*\s", section), part
    examples = re.findall(r"\(\.\./(instances/[^)]*\.yaml)\)", section)
    assert examples
    for example in examples:
        assert f"`{example.removeprefix('instances/')}`" in text_of("instances/README.md")


@functools.cache
def _said(arguments: tuple[str, ...]) -> str:
    with test_docs.workshop():
        result = CliRunner().invoke(cli.main, [*arguments, "-f", "table", "-q"], env={"COLUMNS": "400"})
    assert result.exit_code in (0, 3), result.stderr
    return result.stdout


@pytest.mark.full
@pytest.mark.parametrize("name", NAMES)
def test_the_words_of_each_rule_are_those_that_are_printed(name: str) -> None:
    (line,) = re.findall(r"^\* \*\*Says\*\*((?:.|\n  )*)$", SECTIONS[name], re.MULTILINE)
    examples = re.findall(r"\(\.\./(instances/[^)]*\.yaml)\)", SECTIONS[name])
    runs = [tuple(_SHOWN_BY[name])] if name in _SHOWN_BY else [("explain", example) for example in examples]
    words = [text for text in re.findall(r"`([^`]+)`", " ".join(line.split())) if text != "solve"]
    assert words
    for text in words:
        assert any(text in _said(run) for run in runs), text


def test_every_family_of_preferences_is_there_with_its_page() -> None:
    from kubestow.models.documents.policy import Multipliers

    page = (ROOT / "docs" / "preferences.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \|", page.partition("\n## What scores\n")[2].partition("\n**")[0], re.MULTILINE)
    assert tuple(rows) == Multipliers.__struct_fields__
    assert "preferences.md#what-scores" in SECTIONS["Preferences"]


def _texts(node: ast.AST) -> list[str]:
    """The fixed parts of a text, also of one with values in it."""
    return [part.value for part in ast.walk(node) if isinstance(part, ast.Constant) and isinstance(part.value, str)]


def _effects() -> Iterator[str]:
    """The longest fixed part of each effect that can be listed under ``unmodelled``, as the code has them."""
    for name in (
        "models/cluster/unmodelled.py",
        "models/gangs/declarations.py",
        "models/workloads/claims.py",
        "solver/solve.py",
        "solver/rebalance/rebalance.py",
    ):
        for node in ast.walk(ast.parse((ROOT / name).read_text(encoding="utf-8"))):
            effect: ast.expr | None = None
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
                called = node.func.id if isinstance(node.func, ast.Name) else node.func.attr
                effect = node.args[{"Note": 1, "Unmodelled": 2}[called]] if called in ("Note", "Unmodelled") else None
            elif isinstance(node, ast.Yield) and isinstance(node.value, ast.Tuple):
                effect = node.value.elts[1]
            elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name | ast.Subscript):
                target = node.targets[0]
                named = target.id if isinstance(target, ast.Name) else target.value.id if isinstance(target.value, ast.Name) else ""
                effect = node.value if named in ("effect", "effects", "_TAKEN") else None
            texts = _texts(effect) if effect is not None else []
            if texts:
                yield max(texts, key=len)


def test_what_is_not_modelled_is_listed_completely() -> None:
    section = SECTIONS["What is not modelled"]
    said = " ".join(section.split())
    effects = {text.strip(" :,(") for text in _effects()} - {"ignored"}
    assert len(effects) >= 15
    assert {text for text in effects if text not in said} == set()
    fields = {f"`{key}`" for key in OF_GANGS} | {f"`{kind}`" for kind in unmodelled._IN_TREE[1:]}
    fields |= {
        "`minResources`",
        "`minTaskMember`",
        "`subGroupPolicy`",
        "`parentCompositePodGroupName`",
        "`spec.resourceClaims`",
        "`spec.schedulerName`",
    }
    assert {field for field in fields if field not in section} == set()
    assert f"`spec.volumes[…].{unmodelled._IN_TREE[0]}`" in section


def test_headings_are_told_apart() -> None:
    """So that an anchor means the same to every site generator."""
    for page in ALL:
        headings = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```$", "", text_of(page), flags=re.MULTILINE | re.DOTALL), re.MULTILINE)
        assert len(anchors(text_of(page))) == len(headings) == len(set(headings)), page


def test_pages_are_plain_markdown() -> None:
    """No HTML but comments; one title, first; what opens a block closes it."""
    for page in ALL:
        text = text_of(page)
        prose = re.sub(r"`[^`\n]*`", "", re.sub(r"^```.*?^```$|^ {4}.*?$|<!--.*?-->", "", text, flags=re.MULTILINE | re.DOTALL))
        assert not re.search(r"</?[a-z]+[^>\n]*>", prose), page
        assert text.startswith("# "), page
        assert len(re.findall(r"^# ", re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL), re.MULTILINE)) == 1, page
        assert len(re.findall(r"^```", text, re.MULTILINE)) % 2 == 0, page


def test_every_command_is_a_click_command_that_the_pages_know() -> None:
    assert isinstance(cli.main, click.Group)
    for name in cli.main.commands:
        assert f"`{name}`" in text_of("docs/exit-codes.md"), name
