"""Admission finds planted moves: greedy alone lets all be placed by as many as are planted, engine auto proves that it takes no fewer."""

from __future__ import annotations

from typing import Literal

import pytest

from kubestow.models.documents.rebalance_plan import RebalancePlan
from kubestow.models.snapshot.snapshot import from_objects
from kubestow.solver.rebalance.problem.options import PlanOptions
from kubestow.solver.rebalance.rebalance import rebalance
from kubestow.solver.runtime.options import Options
from tests.instances.planted.planted_admit import MOST, SHAPES, planted_admit

Engine = Literal["auto", "greedy"]
SEEDS = range(18)


def _plan(seed: int, shape: str, engine: Engine, k: int | None = None) -> tuple[RebalancePlan, int, int]:
    """The plan, its moves of running pods, and the planted number."""
    instance = planted_admit(seed, k=k or 1 + seed % MOST, shape=shape)
    plan = rebalance(from_objects(instance.objects), PlanOptions(goals=("admit",), options=Options(time_limit=20, engine=engine)))
    bound = {move.pod for move in plan.moves if move.source is None}
    assert bound <= {*instance.waiting}
    assert (plan.obstacles == []) == (bound == {*instance.waiting})
    return plan, sum(move.source is not None for move in plan.moves), instance.k


@pytest.mark.full
@pytest.mark.parametrize("shape", SHAPES)
def test_greedy_places_all_by_the_planted_number_of_moves(shape: str) -> None:
    for seed in SEEDS:
        plan, moves, planted = _plan(seed, shape, "greedy")
        assert plan.obstacles == [], seed
        assert moves == planted, seed


@pytest.mark.full
@pytest.mark.parametrize("shape", SHAPES)
def test_auto_proves_that_fewer_moves_do_not_do(shape: str) -> None:
    for seed in range(6):
        plan, moves, planted = _plan(seed, shape, "auto")
        assert plan.obstacles == [], seed
        assert moves == planted, seed
        assert plan.status == "optimal", seed


@pytest.mark.full
@pytest.mark.parametrize(("seed", "k"), [(11, 6), (2, 4)])
def test_a_gang_that_keeps_to_a_zone_of_its_choice(seed: int, k: int) -> None:
    """The cheapest nodes are in two zones, where no order of steps leads to."""
    plan, moves, planted = _plan(seed, "zone", "greedy", k)
    assert plan.obstacles == []
    assert moves == planted
