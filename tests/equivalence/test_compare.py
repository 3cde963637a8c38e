"""The comparison itself: equal runs are the same, doctored documents are not. The whole set runs by name: ``compare.py``."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.equivalence.compare import ROOT, Outcome, Tier, compare_bytes, compare_values, files_of, judge_tier, prepare, run
from tests.equivalence.inputs import INPUTS, MADE, WRITTEN, Input

pytestmark = pytest.mark.full


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> tuple[Outcome, Outcome]:
    """Run a small input on this checkout twice, in two folders."""
    first, second = (tmp_path_factory.mktemp(name) for name in ("first", "second"))
    prepare(ROOT, first, [])
    snapshot = run(ROOT, first, Input("tiny", "generate --nodes 3 --pods 8 --seed 1"), target="tiny.json")
    assert snapshot.document is not None, snapshot.errors
    (second / "tiny.json").write_bytes(snapshot.document)
    entry = Input("solve-tiny", "solve tiny.json --engine greedy")
    return run(ROOT, first, entry), run(ROOT, second, entry)


def doctored(outcome: Outcome, change: Callable[[dict[str, Any]], object]) -> Outcome:
    """Return an outcome whose document was changed."""
    assert outcome.document is not None
    document = json.loads(outcome.document)
    change(document)
    return Outcome(outcome.code, outcome.output, json.dumps(document, indent=2).encode() + b"\n")


def test_two_runs_are_the_same(outcomes: tuple[Outcome, Outcome]) -> None:
    assert compare_bytes(*outcomes).differences == []
    values = compare_values(*outcomes)
    assert (values.differences, values.notes) == ([], [])


def test_a_doctored_document_differs(outcomes: tuple[Outcome, Outcome]) -> None:
    before, after = outcomes
    other = doctored(after, lambda document: document["assignments"][0].update(node="elsewhere"))
    lines = compare_bytes(before, other).differences
    assert any("elsewhere" in line for line in lines)
    assert len(lines) <= 20
    assert compare_values(before, other).differences == []


def test_an_ignored_field_does_not_count(outcomes: tuple[Outcome, Outcome]) -> None:
    before, after = outcomes
    other = doctored(after, lambda document: document.update(engine="other"))
    assert compare_bytes(before, other).differences
    assert compare_bytes(before, other, ignored=["engine"]).differences == []


def test_another_value_of_a_proved_tier_differs(outcomes: tuple[Outcome, Outcome]) -> None:
    before, after = outcomes
    worse = doctored(after, lambda document: document["objective"][0].update(value=1, bound=1))
    assert "both proved" in compare_values(before, worse).differences[0]


def test_other_exit_codes_and_missing_documents_differ() -> None:
    done = Outcome(0, b"", b"{}\n")
    assert compare_bytes(done, Outcome(3, b"", b"{}\n")).differences
    assert compare_bytes(done, Outcome(0, b"spoken", b"{}\n")).differences
    failed = Outcome(1, b"", None, "kubestow: no such file")
    assert "  kubestow: no such file" in compare_bytes(failed, failed).differences
    assert compare_values(failed, failed).differences


@pytest.mark.parametrize(
    ("before", "after", "word", "counts"),
    [
        ((5, 5), (5, 6), "the proof is lost", True),
        ((5, 5), (4, 4), "both proved", True),
        ((5, 7), (4, 4), "a bound below", True),
        ((5, 7), (5, 5), "a proof is gained", False),
        ((5, 7), (4, 7), "worse", False),
        ((5, 7), (6, 7), "better", False),
        ((5, None), (4, None), "worse", False),
    ],
)
def test_tiers(before: tuple[float, float | None], after: tuple[float, float | None], word: str, counts: bool) -> None:
    judged = judge_tier(Tier("soft", *before), Tier("soft", *after))
    assert word in "".join(judged.differences if counts else judged.notes)
    assert bool(judged.differences) == counts


def test_a_tier_below_another_value_is_not_compared() -> None:
    def outcome(soft: int, strategy: int) -> Outcome:
        lines = [{"tier": "soft", "value": soft, "bound": 9}, {"tier": "strategy", "value": strategy, "bound": strategy}]
        return Outcome(0, b"", json.dumps({"objective": lines}).encode())

    assert compare_values(outcome(5, 1), outcome(6, 2)).differences == []
    assert compare_values(outcome(5, 1), outcome(5, 2)).differences


def test_inputs_are_well_formed() -> None:
    assert len({entry.name for entry in INPUTS}) == len(INPUTS) >= 40
    shared = {path for entry in INPUTS for path in files_of(entry.command) if path.startswith("shared/")}
    assert shared == {*MADE, *WRITTEN}


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"has no instances/none\.yaml"):
        prepare(ROOT, tmp_path, [Input("none", "solve instances/none.yaml")])
