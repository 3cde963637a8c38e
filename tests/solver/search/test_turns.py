"""The choice of the next move by gain rate."""

from __future__ import annotations

from kubestow.solver.search.turns import EXPLORE_INTERVAL, GROUPS, TurnScheduler


def test_moves_that_have_not_run_come_first_then_the_best_and_now_and_then_another() -> None:
    turns = TurnScheduler([GROUPS, "a", "b"])
    gains = {"a": 1.0, "b": 2.0}
    taken = []
    for _ in range(2 * EXPLORE_INTERVAL):
        taken.append(turns.next(groups_due=False))
        turns.note(taken[-1], gains[taken[-1]], 1.0)
    assert taken == ["a", "b", "a", "b", "b", "b"]  # the third turn explores the second best, the sixth the best again


def test_groups_run_when_due_and_when_nothing_else_is_left() -> None:
    turns = TurnScheduler([GROUPS, "a"])
    assert turns.next(groups_due=True) == GROUPS
    turns.retire("a")
    assert turns.next(groups_due=False) == GROUPS
    turns.retire(GROUPS)
    assert not turns.rates
