"""Every set of pods that fills a node well enough, and no other."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from kubestow.solver.tight_packing import node_patterns
from kubestow.solver.tight_packing.node_patterns import NodePatterns, NodeRoom, PatternParameters
from tests.tiers import thinned


def node(seed: int) -> NodeRoom:
    rng = np.random.default_rng(seed)
    classes, resources = int(rng.integers(1, 6)), int(rng.integers(1, 4))
    demand = rng.integers(0, 9, (classes, resources)) * rng.choice((1, 3, 10**6), resources)
    count = rng.integers(0, 4, classes)
    room = (demand.T @ count * rng.choice((0.4, 0.7, 1.0))).astype(np.int64)
    return NodeRoom(room, demand, count, (room * rng.choice((0.0, 0.1, 0.5, 1.0))).astype(np.int64))


def brute(one: NodeRoom) -> set[tuple[int, ...]]:
    """Remaining capacities are compared in units of the pods' requests."""
    here = one.demand[(one.count > 0) & (one.demand <= one.room).all(axis=1)]
    units = [int(np.gcd.reduce(here[:, r])) if len(here) else 0 for r in range(len(one.room))]
    result = set()
    for pods in itertools.product(*(range(int(c) + 1) for c in one.count)):
        residual = one.room - np.array(pods, dtype=np.int64) @ one.demand
        if (residual >= 0).all() and all(
            (n // u <= s // u if u else n <= s) for n, s, u in zip(residual.tolist(), one.spare.tolist(), units, strict=True)
        ):
            result.add(pods)
    return result


@pytest.mark.parametrize("seed", thinned(range(150), 5))
def test_as_brute_force_lists_them(seed: int) -> None:
    one = node(seed)
    result = NodePatterns(one).all(1.0, 1_000_000)
    assert result is not None
    listed = [tuple(row) for row in result.tolist()]
    assert len(set(listed)) == len(listed)
    assert set(listed) == brute(one)
    assert NodePatterns(one).exist() is (len(listed) > 0)
    for pods in range(5):
        few = NodePatterns(one).of_few_pods(pods, 1.0)
        if few is not None:
            assert len({tuple(row) for row in few.tolist()}) == len(few)
            assert {tuple(row) for row in few.tolist()} == {row for row in listed if sum(row) <= pods}
        else:
            assert not NodePatterns(one).fields


def test_too_many_are_not_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    count = np.full(6, 3, dtype=np.int64)
    one = NodeRoom(np.array([100]), np.arange(1, 7, dtype=np.int64)[:, None], count, np.array([100]))
    assert NodePatterns(one).all(1.0, 1_000_000) is not None
    monkeypatch.setattr(node_patterns, "PARAMETERS", PatternParameters(max_states=10, min_listed_states=10, max_listed_states=10))
    assert NodePatterns(one).all(1.0, 1_000_000) is None
    assert NodePatterns(one).exist() is None
    assert NodePatterns(one, lambda: True).all(1.0, 1_000_000) is None


def test_amounts_that_do_not_fit_into_one_integer_are_not_listed() -> None:
    huge = np.array([[2**40 + 1, 2**40 + 3], [2**39 + 5, 2**39 + 1]], dtype=np.int64)
    one = NodeRoom(huge.sum(axis=0) * 2, huge, np.array([2, 2]), np.zeros(2, dtype=np.int64))
    assert NodePatterns(one).all(1.0, 1_000_000) is None
