"""A thousand lies: each changes a true document so that one of its claims is false, and none is accepted without a word.

``verify`` answers a lie in one of two ways: there are violations, or what the document says for itself (exemptions, policy, edits) differs
from what the original says. A lie of the first kind must be reported as a violation.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from random import Random

import click
import pytest

from kubestow.checker.claims.statement import assumptions
from kubestow.commands.common.options import Streams
from kubestow.commands.running import judging
from kubestow.models.documents.placement import Placement
from kubestow.models.documents.rebalance_plan import RebalancePlan
from kubestow.models.snapshot.snapshot import InputError
from kubestow.report.documents.results import read_result
from tests.checker.mutations import originals, placements, plans
from tests.checker.mutations.originals import Document, Original

#: Clusters of each kind that the mutations are drawn from.
_CLUSTERS = 60
#: Documents that a mutation is tried on until it applies.
_TRIES = 25
#: Claims that only the document itself can make.
_OWN = (placements.exemptions, placements.scope, placements.edits)


def _read(document: Document, folder: Path) -> Placement | RebalancePlan:
    """The document by way of a file, as a reader gets it."""
    path = folder / "result.json"
    path.write_text(json.dumps(document))
    found = read_result(str(path))
    assert isinstance(found, Placement | RebalancePlan)
    return found


def _answer(document: Document, original: Original, folder: Path) -> tuple[bool, list[str]]:
    """Return whether there are violations, and the document's own claims. A document that cannot be read, or edits that cannot be made,
    are refused."""
    try:
        result = _read(document, folder)
        found = judging.judge(original.snapshot, result, Streams(snapshots=()))
    except (InputError, SystemExit, click.exceptions.Exit):
        return True, []
    return bool(found.violations), assumptions(result)


def _lies(first: int, count: int, folder: Path) -> tuple[list[str], Counter[str]]:
    """Return the mutations that are accepted silently, and the number of trials by kind."""
    accepted: list[str] = []
    tried: Counter[str] = Counter()
    number = first
    while sum(tried.values()) < count:
        rng = Random(f"lie-{number}")
        table, make = ((placements.MUTATIONS, originals.placement), (plans.MUTATIONS, originals.plan))[number % 3 == 2]
        mutation = table[number // 3 % len(table)]
        for _ in range(_TRIES):
            original = make(rng.randrange(_CLUSTERS))
            document = original.document()
            claim = mutation(rng, document, original)
            if claim is not None and document != original.document():
                break
        else:
            claim = None
        if claim is not None:
            tried[mutation.__module__.rpartition(".")[2] + "." + mutation.__name__] += 1
            broken, says = _answer(document, original, folder)
            told = mutation in _OWN and says != assumptions(_read(original.document(), folder))
            if not broken and not told:
                accepted.append(f"{number}: {mutation.__name__}: {claim}")
        number += 1
    return accepted, tried


def _truths(folder: Path, count: int) -> list[str]:
    """The originals, which are all valid."""
    wrong = []
    for make in (originals.placement, originals.plan):
        for number in range(count):
            original = make(number)
            judged = judging.judge(original.snapshot, _read(original.document(), folder), Streams(snapshots=()))
            wrong += [f"{make.__name__} {number}: {violation}" for violation in judged.violations]
    return wrong


def test_originals_are_valid_a_few(tmp_path: Path) -> None:
    assert _truths(tmp_path, 6) == []


def test_no_lie_is_accepted_a_few(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[__name__], "_CLUSTERS", 12)
    assert _lies(0, 120, tmp_path)[0] == []


@pytest.mark.slow
def test_originals_are_valid(tmp_path: Path) -> None:
    assert _truths(tmp_path, _CLUSTERS) == []


@pytest.mark.full
def test_no_lie_of_a_thousand_is_accepted(tmp_path: Path) -> None:
    accepted, tried = _lies(1000, 1000, tmp_path)
    assert accepted == []
    assert len(tried) == len({*placements.MUTATIONS, *plans.MUTATIONS})
    assert min(tried.values()) >= 5, tried


if __name__ == "__main__":
    import sys
    import tempfile

    with tempfile.TemporaryDirectory() as made:
        silent, each = _lies(int(sys.argv[1]), int(sys.argv[2]), Path(made))
    print(*silent, f"{sum(each.values())} lies, {len(silent)} accepted", sep="\n")
    sys.exit(bool(silent))
