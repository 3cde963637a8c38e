"""Comparison of two checkouts of the project, byte for byte: for changes that must not change any answer.

    python tests/equivalence/compare.py --before CHECKOUT [--after CHECKOUT] [--only GLOB] [--jobs 2] [--ignore-field NAME] [--save DIR]
    python tests/equivalence/compare.py --before CHECKOUT --values

Runs ``CHECKOUT/cli.py`` of both sides on the inputs of ``inputs.py``, deterministically where the command can, and compares exit codes,
standard output and documents. One line for each input, with the seconds of either side and the beginning of a diff where they differ;
exit 1 if any does. Standard error is not compared, but shown where a side wrote no document, which never counts as the same.

``--values`` is for changes of the search, which may lead to other placements: exit codes have to be the same, and tiers that were
proved have to be proved again with the same value and bound. Other changes of values are notes and no difference; a tier below one
whose value changed is not compared, as its proof speaks of another set of placements. Commands without tiers are compared by exit code,
with a note where documents differ.

``--save DIR`` works in DIR and leaves everything there: the files that were read, and ``results/`` of either side. The script imports
only its list of inputs from the project, so either side may have been rearranged.
"""

from __future__ import annotations

import argparse
import difflib
import fnmatch
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.equivalence.inputs import INPUTS, MADE, WRITTEN, Input

ROOT: Final = Path(__file__).resolve().parents[2]

#: Commands that take --deterministic, and those that do not take -q.
_DETERMINISTIC: Final = ("solve", "rebalance")
_NEVER_QUIET: Final = ("generate",)
_ENDINGS: Final = {"json": "json", "yaml": "yaml", "junit": "xml", "kubectl": "txt"}
_FILE: Final = re.compile(r"\b(?:instances|tests|shared)/[^\s=]+")
#: Exit codes with which a command has done its work.
_DONE: Final = (0, 3, 4)
_DIFF_LINES: Final = 20
_PATIENCE: Final = 600.0


@dataclass(frozen=True)
class Outcome:
    """Output of a run. ``document`` is None if it wrote none, ``errors`` is standard error."""

    code: int
    output: bytes
    document: bytes | None
    errors: str = ""
    seconds: float = 0.0


@dataclass
class Verdict:
    """How two outcomes compare: lines about what must not differ, and lines about what may."""

    differences: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


class Tier(NamedTuple):
    """A line of a document's objective; more is better in each."""

    name: str
    value: float | None
    bound: float | None

    @property
    def proved(self) -> bool:
        return self.value is not None and self.value == self.bound


# --- running ------------------------------------------------------------------------------------------------------------


def arguments(entry: Input, target: str) -> list[str]:
    """Return the whole command line of an input, behind the program's name."""
    words = shlex.split(entry.command)
    if words[0] in _DETERMINISTIC:
        words.append("--deterministic")
    if words[0] not in _NEVER_QUIET:
        words.append("-q")
    return [*words, "-f", entry.form, "-o", target]


def run(checkout: Path, folder: Path, entry: Input, target: str | None = None) -> Outcome:
    """Run an input on a checkout, inside a folder with the files that it reads."""
    target = target or f"results/{entry.name}.{_ENDINGS[entry.form]}"
    file = folder / target
    file.parent.mkdir(parents=True, exist_ok=True)
    file.unlink(missing_ok=True)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, str(checkout / "cli.py"), *arguments(entry, target)]
    start = time.monotonic()
    try:
        done = subprocess.run(command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=_PATIENCE)
    except subprocess.TimeoutExpired:
        return Outcome(-1, b"", None, f"no answer after {_PATIENCE:.0f} s", _PATIENCE)
    document = file.read_bytes() if file.exists() else None
    return Outcome(done.returncode, done.stdout, document, done.stderr.decode(errors="replace"), time.monotonic() - start)


def files_of(command: str) -> list[str]:
    """Return the paths of the files that a command line reads."""
    return _FILE.findall(command)


def prepare(checkout: Path, folder: Path, entries: Iterable[Input]) -> None:
    """Put all files that the inputs read into a folder: copied, written out, or made by the checkout."""
    wanted = dict.fromkeys(path for entry in entries for path in files_of(entry.command))
    for path in list(wanted):
        wanted.update(dict.fromkeys(files_of(MADE.get(path, ""))))
    for path in (path for path in wanted if path not in MADE):
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if path in WRITTEN:
            target.write_text(WRITTEN[path])
        elif (checkout / path).is_file():
            shutil.copyfile(checkout / path, target)
        else:
            raise SystemExit(f"compare: {checkout} has no {path}")
    for path in (path for path in wanted if path in MADE):
        outcome = run(checkout, folder, Input(path, MADE[path]), target=path)
        if outcome.code not in _DONE or outcome.document is None:
            raise SystemExit(f"compare: {MADE[path]}: exit code {outcome.code}\n{outcome.errors}")


def hand_over(before: Path, after: Path) -> None:
    """Copy the prepared files of one side to the other."""
    after.mkdir(parents=True, exist_ok=True)
    for name in ("instances", "tests", "shared"):
        if (before / name).is_dir():
            shutil.copytree(before / name, after / name, dirs_exist_ok=True)


# --- comparing byte for byte --------------------------------------------------------------------------------------------


def parsed(document: bytes | None, form: str) -> Any:
    """Return the content of a JSON or YAML document; None for other formats and unreadable files."""
    if document is None or form not in ("json", "yaml"):
        return None
    try:
        return json.loads(document) if form == "json" else yaml.safe_load(document)
    except (ValueError, yaml.YAMLError):
        return None


def without(value: Any, ignored: Sequence[str]) -> Any:
    """Return a document without the fields of these names, at any depth."""
    if isinstance(value, dict):
        return {name: without(inner, ignored) for name, inner in value.items() if name not in ignored}
    if isinstance(value, list):
        return [without(inner, ignored) for inner in value]
    return value


def comparable(document: bytes, form: str, ignored: Sequence[str]) -> bytes:
    """Return the bytes that count: all, or those of the document without the ignored fields."""
    said = parsed(document, form) if ignored else None
    return document if said is None else json.dumps(without(said, ignored), indent=2, ensure_ascii=False).encode()


def difference(before: bytes, after: bytes, name: str) -> list[str]:
    """Return the beginning of a unified diff, nothing if the bytes are the same."""
    if before == after:
        return []
    old, new = (text.decode(errors="replace").splitlines() for text in (before, after))
    lines = list(difflib.unified_diff(old, new, f"before/{name}", f"after/{name}", lineterm="", n=1))
    if not lines:
        return [f"{name}: the ends of lines differ"]
    cut = [f"... and {len(lines) - _DIFF_LINES + 1} lines more"] if len(lines) > _DIFF_LINES else []
    return [line[:200] for line in lines[: _DIFF_LINES - len(cut)]] + cut


def unanswered(before: Outcome, after: Outcome) -> list[str]:
    """Return why outcomes cannot count as the same: other exit codes, or a side without a document."""
    lines = [] if before.code == after.code else [f"exit code {before.code} before, {after.code} after"]
    for side, outcome in (("before", before), ("after", after)):
        if outcome.document is None or outcome.code not in _DONE:
            said = outcome.errors.strip().splitlines()[-5:]
            what = "no document" if outcome.document is None else "a failure"
            lines += [f"{side}: {what}, exit code {outcome.code}", *(f"  {line[:200]}" for line in said)]
    return lines


def compare_bytes(before: Outcome, after: Outcome, form: str = "json", ignored: Sequence[str] = ()) -> Verdict:
    """Compare exit codes, standard output and documents; fields of the ignored names do not count."""
    lines = unanswered(before, after) + difference(before.output, after.output, "standard output")
    if before.document is not None and after.document is not None:
        old, new = (comparable(document, form, ignored) for document in (before.document, after.document))
        lines += difference(old, new, "document")
    return Verdict(lines)


# --- comparing values and proofs ----------------------------------------------------------------------------------------


def tiers(document: Any) -> list[Tier]:
    """Return the tiers of a document's objective, none if it has no objective."""
    if not isinstance(document, dict) or not isinstance(document.get("objective"), list):
        return []
    found = []
    for entry in document["objective"]:
        name = entry["tier"] if entry.get("priority") is None else f"{entry['tier']}, priority {entry['priority']}"
        found.append(Tier(name, entry.get("value"), entry.get("bound")))
    return found


def judge_tier(before: Tier, after: Tier) -> Verdict:
    """Compare a tier of both sides, those above being the same."""
    both = f"{before.name}: {before.value} (bound {before.bound}) before, {after.value} (bound {after.bound}) after"
    if before == after:
        return Verdict()
    if before.proved and after.proved:
        return Verdict([f"{both}: both proved"])
    if before.proved:
        return Verdict([f"{both}: the proof is lost"])
    if _contradict(before, after) or _contradict(after, before):
        return Verdict([f"{both}: a bound below a value that was reached"])
    if before.value is None or after.value is None or before.value == after.value:
        return Verdict(notes=[both + (": a proof is gained" if after.proved else "")])
    return Verdict(notes=[f"{both}: {'worse' if after.value < before.value else 'better'}"])


def _contradict(bounded: Tier, reached: Tier) -> bool:
    return bounded.bound is not None and reached.value is not None and bounded.bound < reached.value


def compare_values(before: Outcome, after: Outcome, form: str = "json", ignored: Sequence[str] = ()) -> Verdict:
    """Compare exit codes and proved tiers only."""
    verdict = Verdict(unanswered(before, after))
    old, new = (tiers(parsed(outcome.document, form)) for outcome in (before, after))
    if not old and not new and compare_bytes(before, after, form, ignored).differences:
        verdict.notes.append("no tiers, and the documents differ")
    if [tier.name for tier in old] != [tier.name for tier in new]:
        verdict.differences.append(f"other tiers: {[tier.name for tier in old]} before, {[tier.name for tier in new]} after")
        return verdict
    for position, (left, right) in enumerate(zip(old, new, strict=True), start=1):
        judged = judge_tier(left, right)
        verdict.differences += judged.differences
        verdict.notes += judged.notes
        if left.value != right.value:
            verdict.notes += [f"{tier.name}: not compared, as a tier above differs" for tier in old[position:]]
            break
    return verdict


# --- the command --------------------------------------------------------------------------------------------------------


def both(entry: Input, sides: Sequence[tuple[Path, Path]]) -> tuple[Outcome, Outcome]:
    """Run an input on both sides, each a checkout and its folder, one after the other."""
    (before, old), (after, new) = sides
    return run(before, old, entry), run(after, new, entry)


def report(entry: Input, outcomes: tuple[Outcome, Outcome], verdict: Verdict) -> None:
    """Print the line of an input, and what differs."""
    seconds = " ".join(f"{outcome.seconds:5.1f}" for outcome in outcomes)
    word = "different" if verdict.differences else "same"
    print(f"{word:9}  {entry.name:24}  exit {outcomes[1].code}  {seconds} s", flush=True)
    for line in [*verdict.differences, *(f"note: {note}" for note in verdict.notes)]:
        print(f"    {line}", flush=True)


def compare_all(options: argparse.Namespace, entries: Sequence[Input], folder: Path) -> bool:
    """Run and compare the inputs inside a folder; return whether all are the same."""
    sides = [(options.before, folder / "before"), (options.after, folder / "after")]
    prepare(options.before, folder / "before", entries)
    hand_over(folder / "before", folder / "after")
    judge: Callable[..., Verdict] = compare_values if options.values else compare_bytes
    different = noted = 0
    with ThreadPoolExecutor(options.jobs) as pool:
        for entry, outcomes in zip(entries, pool.map(lambda entry: both(entry, sides), entries), strict=True):
            verdict = judge(*outcomes, entry.form, options.ignore_field)
            report(entry, outcomes, verdict)
            different += bool(verdict.differences)
            noted += bool(verdict.notes)
    notes = f"; {noted} with notes" if options.values else ""
    print(f"{len(entries)} input{'s' * (len(entries) != 1)}: {len(entries) - different} same, {different} different{notes}")
    return not different


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    made = argparse.ArgumentParser(description="Compare what two checkouts answer to fixed inputs.")
    made.add_argument("--before", type=_checkout, required=True, help="checkout before the change")
    made.add_argument("--after", type=_checkout, default=ROOT, help="checkout after it; default: this one")
    made.add_argument("--only", metavar="GLOB", default="*", help="inputs whose names match")
    made.add_argument("--jobs", type=int, default=2, metavar="N", help="inputs at a time, 2 by default")
    made.add_argument("--ignore-field", action="append", default=[], metavar="NAME", help="fields that do not count; repeatable")
    made.add_argument("--save", type=Path, metavar="DIR", help="work here, and leave what was read and written")
    made.add_argument("--values", action="store_true", help="compare exit codes and proved tiers only")
    return made


def _checkout(path: str) -> Path:
    if not (Path(path) / "cli.py").is_file():
        raise argparse.ArgumentTypeError(f"{path} has no cli.py")
    return Path(path).resolve()


def main() -> int:
    """Compare two checkouts as the command line says; return the exit code."""
    command = parser()
    options = command.parse_args()
    entries = [entry for entry in INPUTS if fnmatch.fnmatchcase(entry.name, options.only)]
    if not entries:
        command.error(f"no input matches {options.only}")
    if options.save:
        return 0 if compare_all(options, entries, options.save.resolve()) else 1
    with tempfile.TemporaryDirectory(prefix="equivalence-") as folder:
        return 0 if compare_all(options, entries, Path(folder)) else 1


if __name__ == "__main__":
    sys.exit(main())
