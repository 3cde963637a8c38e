"""Journals that somebody has tampered with: refused, or judged, and never more than that."""

from __future__ import annotations

import json
import random
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from kubestow.checker.journal.judge import judge_journal
from kubestow.live.apply.progress import progress_of
from kubestow.models.documents.journal import Record, parse
from kubestow.models.snapshot.snapshot import InputError
from tests.checker.journal.runs import DIGEST, a_plan, whole

SNAPSHOT, PLAN = a_plan()
RUN = whole(PLAN)
LINES = [json.loads(msgspec.json.encode(line)) for line in RUN.lines]
END = RUN.end
VALUES: list[Any] = [
    None,
    True,
    0,
    -1,
    2**70,
    1.5,
    "",
    "n1",
    "\x00\u202e",
    "default/web-0",
    [],
    [1],
    {},
    {"key": 1},
    [{"key": "kubestow.dev/let-in"}],
]


def spoiled(seed: int) -> bytes:
    """The journal with one to three places changed."""
    chance = random.Random(seed)
    lines: list[Any] = json.loads(json.dumps(LINES))
    for _ in range(chance.randint(1, 3)):
        kind = chance.choice([0, 1, *[2] * 10])
        at = chance.randrange(len(lines))
        if kind == 0:
            del lines[at]
        elif kind == 1:
            lines.insert(chance.randrange(len(lines) + 1), lines[at])
        else:
            found: Any = lines[at].get("body") or lines[at]
            while True:
                key = chance.choice(list(found) if isinstance(found, dict) else list(range(len(found))))
                if not isinstance(found[key], dict | list) or not found[key] or chance.random() < 0.2:
                    break
                found = found[key]
            found[key] = chance.choice(VALUES)
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


@given(st.integers(0, 2**32))
def test_spoiled_journals_are_refused_or_judged(seed: int) -> None:
    record: Record | None
    try:
        record = parse(spoiled(seed), "j")
    except InputError as error:
        (problem,) = error.problems
        complete = problem.startswith("j: line ") and "\n" not in problem
        record = None
    else:
        complete = True
    assert complete
    if record is not None and record.lines:
        progress_of(record.lines)
        judge_journal(record, PLAN, SNAPSHOT, digest=DIGEST, end=END)
