"""The status of a result: what was asked for and is not proved makes it feasible, a tie-break that nobody asked for does not."""

from __future__ import annotations

from typing import Any

import pytest

from checker.placement import verify
from models.documents.placement import Placement
from models.documents.policy import Policy, Strategy
from models.snapshot.snapshot import Snapshot, from_objects
from solver.runtime.options import Options
from solver.solve import place
from tests.objects import node, pod


def uneven() -> Snapshot:
    """Pods that no placement spreads, or packs, as well as the engine greedy can prove."""
    return from_objects([*(node(f"n{i}", cpu="4") for i in range(5)), *(pod(f"p{i}", cpu=cpu) for i, cpu in enumerate("33332"))])


def greedy(snapshot: Snapshot, **options: Any) -> Placement:
    result = place(snapshot, Options(engine="greedy", **options))
    assert [t.value == t.bound for t in result.objective] == [True, False]
    assert result.objective[1].tier == "strategy"
    return result


def test_an_open_tie_break_that_nobody_asked_for_leaves_the_answer_optimal() -> None:
    snapshot = uneven()
    result = greedy(snapshot)
    assert result.status == "optimal"
    assert verify(snapshot, result) == []


@pytest.mark.parametrize(("strategy", "asked"), [("spread", True), ("pack", False), ("pack", True)])
def test_one_that_was_asked_for_makes_it_feasible(strategy: Strategy, asked: bool) -> None:
    snapshot = uneven()
    result = greedy(snapshot, policy=Policy(strategy=strategy), search_strategy=asked)
    assert result.status == "feasible"
    result.status = "optimal"
    # That `--strategy spread` was given is not in the document; it equals the default there.
    told = [violation.why for violation in verify(snapshot, result)]
    assert bool(told) == (strategy == "pack")
    assert all(why.startswith("the status is optimal, and tier strategy has value ") for why in told)
