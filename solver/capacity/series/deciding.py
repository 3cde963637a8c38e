"""Which snapshots of a series decide what is bought for all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from ortools.sat.python import cp_model

from kubestow.solver.capacity.series.search import PAIRS, Joint

#: Share of the time that is left for one bound.
ASK = 0.1


def deciding(joint: Joint) -> list[int]:
    """Return the snapshots that decide: each that alone needs as much as is proved of all; else as few as are found of
    which it is proved together; none where none are found."""
    alone, bound = [found.bound for found in joint.alone], joint.found.bound
    found = [i for i, each in enumerate(alone) if each >= bound]
    if found:
        return found
    pairs = sum(search.pairs for search in joint.searches)
    needs = partial(_whole, joint) if pairs <= PAIRS else partial(_linear, joint)
    order = sorted(range(len(alone)), key=lambda i: (-alone[i], i))
    return _fewest(order, lambda chosen: needs(chosen) >= bound)


def _fewest(order: Sequence[int], enough: Callable[[Sequence[int]], bool]) -> list[int]:
    """Return as few as will do, none of which can be left out: the shortest beginning of the order that does, then one after the other is
    left out."""
    if not enough(order):
        return []
    low, high = 1, len(order)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(order[:middle]) else (middle + 1, high)
    found = list(order[:high])
    for i in reversed(order[:high]):
        without = [j for j in found if j != i]
        if without and enough(without):
            found = without
    return sorted(found)


def _whole(joint: Joint, chosen: Sequence[int]) -> int:
    """A bound of some snapshots by their relaxation in whole numbers."""
    masters = joint.models(chosen)
    answer = masters[0].cheapest(joint.cpsat, joint.context.deadline.left() * ASK)
    if answer.status == cp_model.INFEASIBLE:
        return joint.found.bound
    return 0 if answer.bound is None else answer.bound * masters[0].unit


def _linear(joint: Joint, chosen: Sequence[int]) -> int:
    return joint.linear(chosen, joint.context.deadline.left() * ASK)
