"""Runs cases, and judges what came of them: ``python -m tests.fuzz.run --first 0 --count 1000`` (``--keep DIR`` for the input of those that
fail, ``--process`` for real processes). The number of a case is all that it takes to repeat it."""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

import yaml
from click.testing import CliRunner

from kubestow import cli
from tests.fuzz import cases
from tests.fuzz.cases import CODES, OLD, Case

#: Seconds that a case may take; a limit of the search is far below.
LIMIT: Final = 20
_ROOT: Final = Path(__file__).resolve().parents[2]
#: Commands whose documents verify must take.
_PROVED: Final = ("solve", "rebalance", "fit", "size", "survive", "upgrade")
#: Messages for unforeseen errors: no file, no object.
_VAGUE: Final = ("internal fault", "Traceback", "out of memory", "the input is nested too deeply", "text that cannot be encoded")


class Hang(BaseException):
    """The limit is over; no handler of the program takes it."""


@dataclass
class Outcome:
    """Output of a run: exit code, both streams, and the traceback of an uncaught exception."""

    code: int
    out: bytes
    err: str
    trace: str = ""


@contextlib.contextmanager
def _limited() -> Iterator[None]:
    """Raise :class:`Hang` after the limit; where even that is not heard, end the process with the stacks of its threads."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    began, rings = time.process_time(), 0

    def ring(number: int, frame: object) -> None:
        nonlocal rings
        rings += 1
        if rings < 3 and time.process_time() - began < LIMIT / 4:  # it may be the machine that is busy
            signal.alarm(LIMIT)
            return
        raise Hang

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(LIMIT)
    faulthandler.dump_traceback_later(LIMIT * 6, exit=True)
    try:
        yield
    finally:
        signal.alarm(0)
        faulthandler.cancel_dump_traceback_later()
        signal.signal(signal.SIGALRM, before)


def here(words: list[str], given: bytes | None = None) -> Outcome:
    """The command line run in this process."""
    try:
        with _limited():
            done = CliRunner().invoke(cli.main, words, input=given)
    except Hang:
        return Outcome(-1, b"", "", f"no end after {LIMIT} s\n" + traceback.format_exc()[-1500:])
    trace = ""
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        trace = "".join(traceback.format_exception(done.exception))
    return Outcome(done.exit_code, done.stdout_bytes, done.stderr_bytes.decode("utf-8", "surrogateescape"), trace)


def apart(words: list[str], given: bytes | None = None) -> Outcome:
    """The command line as a process of its own."""
    command = [sys.executable, str(_ROOT / "cli.py"), *words]
    try:
        done = subprocess.run(command, input=given or b"", capture_output=True, timeout=LIMIT + 10, check=False)
    except subprocess.TimeoutExpired:
        return Outcome(-1, b"", "", f"no end after {LIMIT} s")
    return Outcome(done.returncode, done.stdout, done.stderr.decode("utf-8", "surrogateescape"))


def faults(case: Case, done: Outcome) -> list[str]:
    """Return the forbidden effects of a run."""
    found = [f"traceback: {done.trace}"] if done.trace else []
    allowed = (*CODES[case.command], 2) if case.loose else CODES[case.command]
    if done.code not in allowed:
        found.append(f"exit code {done.code}")
    vague = _VAGUE[:-1] if case.loose else _VAGUE  # no file is at fault for what an argument holds
    found += [f"says {text!r}: {done.err[-600:]}" for text in vague if text in done.err]
    lines = done.err.split("\n")
    if done.code != 2:  # usage texts wrap their lines
        found += [f"a control in {line!r}" for line in lines if not line.isprintable()]
    if done.code == 1:
        heard = [line for line in lines if line and not line.startswith(("warning: ", "note: "))]
        if "-v" in case.arguments:  # says how far it came
            heard = heard[-1:]
        if not heard or not all(line.startswith("kubestow: ") for line in heard):
            found.append("does not say what is wrong")
        if "-q" in case.arguments and any(line.startswith("warning: ") for line in lines):
            found.append("-q is not heard")
    if done.code in (1, 2):
        found += ["output in spite of bad input"] if done.out else []
        found += ["no error line"] if not done.err.strip() else []
    return found + _left(case, done)


def _left(case: Case, done: Outcome) -> list[str]:
    """Return the faults of the files."""
    if case.output is None:
        return []
    before = case.output.parent
    names = os.listdir(before)
    found = [f"left {name!r}" for name in names if name != case.output.name]
    if done.code in (0, 3, 4):
        if not case.output.exists() or case.output.read_bytes() == OLD:
            # --strict ends with 4 and writes nothing.
            return found if done.code == 4 and "not modelled" in done.err else [*found, "wrote no file"]
        return found + (["both a file and output"] if done.out else [])
    if case.output.exists() and case.output.read_bytes() != OLD:
        found.append("wrote a file in spite of bad input")
    return found


class _Page(HTMLParser):
    """Finds elements that no page of ours has."""

    def __init__(self) -> None:
        super().__init__()
        self.odd: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        outside = tag == "link" and not (dict(attrs).get("href") or "").startswith("data:")
        if tag in ("iframe", "object", "embed", "base") or outside or any(name.startswith("on") for name, _ in attrs):
            self.odd.append(tag)


def shown(case: Case, data: bytes) -> list[str]:
    """Return the faults in the form of a result."""
    try:
        text = data.decode()
        match case.form:
            case "json" | "sarif" | "gitlab":
                json.loads(text)
            case "yaml":
                yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
            case "junit":
                ElementTree.fromstring(text)
            case "html":
                page = _Page()
                page.feed(text)
                return [f"odd element {tag}" for tag in page.odd] + ([] if text.rstrip().endswith("</html>") else ["no end of the page"])
            case "kubectl":
                [json.loads(line) for line in text.split("\n") if line]
    except (ValueError, yaml.YAMLError, ElementTree.ParseError) as error:
        return [f"the {case.form} cannot be read: {error}"]
    bad = {c for c in text if c != "\n" and unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp")}
    if case.form in ("table", "junit", "github"):
        bad |= {c for c in text if unicodedata.bidirectional(c) in ("RLE", "LRE", "PDF", "RLO", "LRO", "LRI", "RLI", "FSI", "PDI")}
    elif case.form != "html":  # for programs: escaped as JSON and YAML ask for
        bad = {c for c in bad if ord(c) < 0x20}
    return [f"holds {c!r}" for c in sorted(bad)]


def judge(case: Case, folder: Path, *, process: bool = False) -> list[str]:
    """Run a case, and return its forbidden effects; empty if there are none."""
    done = apart(case.words(), case.given) if process else here(case.words(), case.given)
    found = faults(case, done)
    if found or done.code not in (0, 3, 4):
        return found
    data = case.output.read_bytes() if case.output is not None and case.output.exists() else done.out
    if done.code == 4 and "not modelled" in done.err:
        return []
    found = shown(case, data)
    if case.command in _PROVED and case.form in ("json", "yaml") and not case.loose:
        (folder / "answer").write_bytes(data)
        inputs = list(case.inputs)
        if "--rollout" in case.arguments:
            _, _, template = case.arguments[case.arguments.index("--rollout") + 1].partition("=")
            inputs += ["-w", template] if template else []
        checked = here(["verify", *inputs, "--result", str(folder / "answer"), "-q", "-f", "json"], case.given)
        if checked.code != 0:
            found.append(f"verify refuses: {checked.code} {checked.err[:1000]} {checked.out.decode()[:1500]} {checked.trace}")
    return found


def made(make: Callable[[int, Path], Case], seed: int, folder: Path) -> tuple[list[str], dict[Path, bytes]]:
    """Return the words and the files of a case, without the name of the folder, which is new."""
    folder.mkdir()
    words = [word.replace(str(folder), "") for word in make(seed, folder).words()]
    return words, {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def run(seed: int, folder: Path, *, process: bool = False) -> tuple[Case, list[str]]:
    """The case of a number, run with ``folder``, which is empty and stays filled."""
    case = cases.make(seed, folder)
    return case, judge(case, folder, process=process)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--process", action="store_true")
    asked = parser.parse_args()
    failed = 0
    codes: dict[str, int] = {}
    for seed in range(asked.first, asked.first + asked.count):
        folder = Path(tempfile.mkdtemp(prefix="fuzz-"))
        began = time.monotonic()
        try:
            case, found = run(seed, folder, process=asked.process)
            took = time.monotonic() - began
            codes[case.command] = codes.get(case.command, 0) + 1
            if took > LIMIT / 4:
                print(f"case {seed}: slow, {took:.1f} s: {case.command}", flush=True)
            if found:
                failed += 1
                kept = asked.keep / str(seed) if asked.keep else None
                print(f"case {seed}: {' '.join(case.words())!r}", *found, sep="\n  ", flush=True)
                if kept is not None:
                    shutil.rmtree(kept, ignore_errors=True)
                    shutil.copytree(folder, kept)
        finally:
            shutil.rmtree(folder)
    print(f"{asked.count} cases from {asked.first}: {failed} failed; {codes}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
