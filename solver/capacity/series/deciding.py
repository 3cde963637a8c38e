"""The deciding snapshots of a series: a minimal subset that already needs the purchase made for all snapshots."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from kubestow.solver.capacity.series.search import MAX_JOINT_PAIRS, Joint
from kubestow.solver.ortools import cp_model

#: Fraction of the remaining time for one bound.
BOUND_TIME_FRACTION = 0.1


def deciding(joint: Joint) -> list[int]:
    """Return the snapshots that decide the purchase.

    A snapshot decides alone if its own lower bound reaches the joint one. If there is none, return a minimal
    set of snapshots whose joint bound reaches it. The list is empty if no such set is found.
    """
    alone, bound = [outcome.bound for outcome in joint.alone], joint.incumbent.bound
    candidates = [i for i, each in enumerate(alone) if each >= bound]
    if candidates:
        return candidates
    pairs = sum(search.pairs for search in joint.searches)
    needs = partial(_integer_bound, joint) if pairs <= MAX_JOINT_PAIRS else partial(_linear_bound, joint)
    order = sorted(range(len(alone)), key=lambda i: (-alone[i], i))
    return _fewest(order, lambda chosen: needs(chosen) >= bound)


def _fewest(order: Sequence[int], enough: Callable[[Sequence[int]], bool]) -> list[int]:
    """Return a minimal sufficient subset: no element can be removed.

    Bisect for the shortest sufficient prefix of the order, then drop its elements one by one.
    """
    if not enough(order):
        return []
    low, high = 1, len(order)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(order[:middle]) else (middle + 1, high)
    chosen = list(order[:high])
    for i in reversed(order[:high]):
        without = [j for j in chosen if j != i]
        if without and enough(without):
            chosen = without
    return sorted(chosen)


def _integer_bound(joint: Joint, chosen: Sequence[int]) -> int:
    """Return the lower bound of some snapshots by their integer relaxation."""
    masters = joint.models(chosen)
    answer = masters[0].cheapest(joint.cpsat, joint.context.deadline.remaining() * BOUND_TIME_FRACTION)
    if answer.status == cp_model.INFEASIBLE:
        return joint.incumbent.bound
    return 0 if answer.bound is None else answer.bound * masters[0].unit


def _linear_bound(joint: Joint, chosen: Sequence[int]) -> int:
    return joint.linear(chosen, joint.context.deadline.remaining() * BOUND_TIME_FRACTION)
