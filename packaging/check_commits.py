"""Check commit messages against docs/style.md: a short imperative subject, and a body that says why.

    python packaging/check_commits.py                  every commit of HEAD since the rule applies
    python packaging/check_commits.py .git/COMMIT_EDITMSG   one message, as the commit-msg hook does

Prints one line for each fault and exits with 1 if there is any. Without a git history there is nothing to check, and it says so.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]

MAX_SUBJECT_CHARACTERS: Final = 72
MAX_BODY_COLUMNS: Final = 72
#: Author dates from this one on are checked: the day on which the rule was written down.
FIRST_DATE: Final = "2026-11-27T15:00:00Z"
#: Messages that git writes itself.
_WRITTEN_BY_GIT: Final = re.compile(r"Merge |Revert \"|fixup! |squash! ")
#: Line that a verbose commit puts above the diff: git drops it and everything below.
_SCISSORS: Final = "# ------------------------ >8"
#: First words that are no imperatives, though they are common in subjects.
_NOT_IMPERATIVE: Final = re.compile(r"(?:\w+ed|\w+ing|The|A|An|That|This|What|Whether|How|When|Where)\b")
_IMPERATIVES_IN_ED_OR_ING: Final = frozenset({"Embed", "Feed", "Need", "Seed", "Shed", "Speed", "Bring", "Ping", "String"})


def faults(message: str) -> Iterator[str]:
    """Yield the violations of docs/style.md by a commit message."""
    lines = [line.rstrip() for line in message.split(_SCISSORS)[0].splitlines() if not line.startswith("#")]
    while lines and not lines[-1]:
        lines.pop()
    if not lines or not lines[0]:
        yield "the subject is empty"
        return
    subject, body = lines[0], lines[1:]
    if _WRITTEN_BY_GIT.match(subject):
        return
    if len(subject) > MAX_SUBJECT_CHARACTERS:
        yield f"the subject has {len(subject)} characters (expected at most {MAX_SUBJECT_CHARACTERS})"
    if subject.endswith("."):
        yield "the subject ends with a full stop"
    first = subject.split()[0]
    if not first[0].isupper() or (_NOT_IMPERATIVE.match(first) and first not in _IMPERATIVES_IN_ED_OR_ING):
        yield f"the subject begins with {first!r} (expected an imperative such as 'Add')"
    if body and body[0]:
        yield "no empty line follows the subject"
    if not any(body):
        yield "there is no body (expected the reason for the change)"
    for line in body:
        if len(line) > MAX_BODY_COLUMNS and " " in line.strip():  # an address cannot be wrapped
            yield f"a line of the body has {len(line)} columns (expected at most {MAX_BODY_COLUMNS}): {line[:40]}"


def history(root: Path = ROOT) -> Iterator[tuple[str, str]]:
    """Yield the abbreviated hashes and messages of the commits that the rule applies to; merges are left out.

    Raises:
        LookupError: there is no git, or no history.
    """
    separator = "\x1e"
    command = ["git", "log", "--no-merges", f"--format=%h%x09%aI%x09%B{separator}"]
    try:
        text = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True, timeout=60).stdout
    except (OSError, subprocess.SubprocessError) as error:
        raise LookupError("no git history") from error
    first = datetime.fromisoformat(FIRST_DATE)
    for record in text.split(separator):
        if record.strip():
            commit, date, message = record.strip("\n").split("\t", 2)
            if datetime.fromisoformat(date) >= first:
                yield commit, message


def main(arguments: list[str]) -> int:
    """Check a message in a file, or the history; return 1 if there are faults."""
    try:
        named = [(name, Path(name).read_text()) for name in arguments] or list(history())
    except LookupError as error:
        print(f"commits are not checked: {error}")
        return 0
    found = [f"{name}: {fault}" for name, message in named for fault in faults(message)]
    print(*found, sep="\n", end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
