"""Prose of the project, counted by the patterns that docs/style.md forbids: docstrings, comments, messages and documentation.

    python tests/prose.py [--summary] [PATH ...]

prints every hit as file:line: pattern: text. ``--summary`` prints counts per pattern and top-level folder instead.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parents[1]
CODE: Final = ("solver", "models", "checker", "audit", "report", "live", "commands", "packaging", "instances")
MAX_DOCS_COLUMNS: Final = 120
#: The guide itself, which quotes the words that it forbids.
GUIDE: Final = ROOT / "docs" / "style.md"

_NOUNS = r"(?:is|are|they|it|there|a|no|each|others)"


class Pattern(NamedTuple):
    """A way of writing that the guide forbids.

    Attributes:
        name: Name in messages.
        expression: Matches once per hit, in text whose lines were joined.
        goal: Largest number of hits allowed in the whole project.
    """

    name: str
    expression: re.Pattern[str]
    goal: int = 0


def _pattern(name: str, expression: str, goal: int = 0, flags: int = re.IGNORECASE) -> Pattern:
    return Pattern(name, re.compile(expression, flags), goal)


_START = r"(?:^|(?<=[.:;!?] ))"
_END = r"(?=[.](?:\s|$))"

PATTERNS: Final = (
    _pattern("opens with a relative clause", _START + r"(?:What|Whether|How many|Where) (?![^.?]*\?)", flags=0),
    _pattern("Return what, Return how", r"\b(?:Return|Yield) (?:what|how)\b"),
    _pattern("told, tells", r"\b(?:told|tells)\b"),
    _pattern("so many, so much", r"\bso (?:many|much)\b"),
    _pattern("whoever, whatever, whichever", r"\b(?:whoever|whatever|whichever)\b", goal=10),
    _pattern("beside", r"\bbeside\b", goal=10),
    _pattern("anew", r"\banew\b"),
    _pattern("ends with an adverbial", r"\b(?:at most|else|of them|by itself)" + _END),
    _pattern("nothing of, hardly, to be had", r"\b(?:nothing of|hardly|(?:is|can be|be) had|there is to be)\b"),
    _pattern("stand on, give way", r"\b(?:stands? (?:on|in|for)|gives? way)\b"),
    _pattern("of which, of them, of it", r"\bof (?:which|them|it)\b", goal=150),
    _pattern("what is, what they", rf"\bwhat {_NOUNS}\b", goal=150),
)


class Passage(NamedTuple):
    """A piece of prose.

    Attributes:
        file: Path relative to the root.
        line: Line of its first character, from 1.
        kind: docstring, comment, message or docs.
        text: The prose, lines joined by spaces.
    """

    file: str
    line: int
    kind: str
    text: str


class Hit(NamedTuple):
    """A place where a pattern matches."""

    file: str
    line: int
    pattern: str
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.pattern}: {self.text}"


def _joined(lines: Iterable[str]) -> str:
    return " ".join(" ".join(lines).split())


def _docstring_nodes(tree: ast.AST) -> Iterator[ast.Constant]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.body:
            first = node.body[0]
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
                yield first.value


def _paragraphs(text: str, line: int) -> Iterator[tuple[int, str]]:
    """Yield paragraphs and list items with the lines on which they begin; indented blocks of code are left out."""
    block: list[str] = []
    start = line
    for number, each in enumerate(text.splitlines(), line):
        item = re.match(r"\s*(?:[*-] |\w[\w, `.]*: )", each) is not None
        if (not each.strip() or item) and block:
            yield start, _joined(block)
            block = []
        if each.strip():
            start = start if block else number
            block.append(each)
    if block:
        yield start, _joined(block)


def _comments(source: str) -> Iterator[tuple[int, str]]:
    """Yield comments; those of consecutive lines are one."""
    run: list[str] = []
    start = last = 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.COMMENT:
            continue
        line, alone = token.start[0], token.line[: token.start[1]].strip() == ""
        if run and not (alone and line == last + 1):
            yield start, _joined(run)
            run = []
        start = start if run else line
        last = line
        run.append(token.string.lstrip("#:! "))
    if run:
        yield start, _joined(run)


def _literals(tree: ast.AST, skip: set[int]) -> Iterator[tuple[int, str]]:
    """Yield string literals that read like prose: at least three words of letters."""
    parts: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            text = "".join(each.value if isinstance(each, ast.Constant) else "X" for each in node.values)  # type: ignore[misc]
            parts.update(id(each) for each in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in skip and id(node) not in parts:
            text = node.value
        else:
            continue
        if len(re.findall(r"[A-Za-z]{2,}(?: |$)", text)) >= 3:
            yield node.lineno, _joined([text])


def of_code(file: str, source: str) -> Iterator[Passage]:
    """Yield the docstrings, comments and messages of a Python module."""
    tree = ast.parse(source)
    documented = list(_docstring_nodes(tree))
    for node in documented:
        for line, text in _paragraphs(str(node.value), node.lineno):
            yield Passage(file, line, "docstring", text)
    for line, text in _comments(source):
        yield Passage(file, line, "comment", text)
    for line, text in _literals(tree, {id(each) for each in documented}):
        yield Passage(file, line, "message", text)


def running_lines(source: str) -> Iterator[tuple[int, str]]:
    """Yield the lines of a page of documentation outside code blocks and tables; those are empty instead."""
    fence = ""
    for number, line in enumerate(source.splitlines(), 1):
        mark = re.match(r"\s*(```+|~~~+)", line)
        if mark:
            fence = "" if fence else mark.group(1)
        elif not fence and not line.lstrip().startswith("|"):
            yield number, line
            continue
        yield number, ""


def without_html_comments(source: str) -> str:
    """Return the page without its HTML comments, such as ``<!-- show: … -->``. Line numbers stay the same."""
    return re.sub(r"<!--.*?-->", lambda comment: "\n" * comment[0].count("\n"), source, flags=re.DOTALL)


def of_docs(file: str, source: str) -> Iterator[Passage]:
    """Yield the paragraphs of a page of documentation, and the cells of its tables; without blocks of code."""
    source = without_html_comments(source)
    for line, text in _paragraphs("\n".join(text for _, text in running_lines(source)), 1):
        yield Passage(file, line, "docs", re.sub(r"`[^`]*`", "X", text))
    for line, text in enumerate(source.splitlines(), 1):
        if text.lstrip().startswith("|"):
            for cell in text.split("|"):
                yield Passage(file, line, "docs", re.sub(r"`[^`]*`", "X", cell.strip()))


def files(paths: Iterable[str] = ()) -> Iterator[Path]:
    """Yield the files that hold prose of the project: its packages, its pages; CHANGELOG and tests are apart."""
    chosen = [ROOT / path for path in paths] or [*(ROOT / name for name in CODE), ROOT / "docs", *ROOT.glob("*.py"), ROOT / "README.md"]
    chosen = chosen if paths else [*chosen, ROOT / "CONTRIBUTING.md"]
    for path in chosen:
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.suffix in (".py", ".md") and "__pycache__" not in file.parts and file != GUIDE:
                yield file


def passages(paths: Iterable[str] = ()) -> Iterator[Passage]:
    """Yield all prose of the project, or of some of its files and folders."""
    for file in files(list(paths)):
        name = str(file.relative_to(ROOT))
        yield from (of_code if file.suffix == ".py" else of_docs)(name, file.read_text())


def hits(found: Iterable[Passage]) -> Iterator[Hit]:
    """Yield every match of every pattern."""
    for passage in found:
        for pattern in PATTERNS:
            for match in pattern.expression.finditer(passage.text):
                start = max(0, match.start() - 60)
                yield Hit(passage.file, passage.line, pattern.name, passage.text[start : match.end() + 60])


def wide_lines(paths: Iterable[str] = ()) -> Iterator[Hit]:
    """Yield lines of pages that are wider than allowed; tables, code and lines of one long link are exempt."""
    for file in files(list(paths)):
        if file.suffix == ".md":
            for number, line in running_lines(file.read_text()):
                if len(line) > MAX_DOCS_COLUMNS and not re.fullmatch(r"\s*(?:[*-] )?!?\[?\[[^]]*\]\([^)]*\).{0,20}", line):
                    yield Hit(str(file.relative_to(ROOT)), number, f"wider than {MAX_DOCS_COLUMNS} columns", line[:80])


def main(arguments: list[str]) -> int:
    """Print hits; return 1 if there are any."""
    summary = "--summary" in arguments
    paths = [each for each in arguments if not each.startswith("--")]
    found = [*hits(passages(paths)), *wide_lines(paths)]
    if summary:
        folders = sorted({hit.file.split("/")[0] for hit in found})
        print("| pattern | " + " | ".join(folders) + " | all |")
        counts = Counter((hit.pattern, hit.file.split("/")[0]) for hit in found)
        for name in dict.fromkeys([*(pattern.name for pattern in PATTERNS), *(hit.pattern for hit in found)]):
            row = [counts[name, folder] for folder in folders]
            print(f"| {name} | " + " | ".join(map(str, row)) + f" | {sum(row)} |")
    else:
        print(*found, sep="\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
