"""All pods on a few nodes: found if and only if brute force finds it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kubestow.solver.tight_packing import last_nodes
from kubestow.solver.tight_packing.last_nodes import LastNodes
from tests.solver.tight_packing.tiny_rooms import fits, problem, reachable
from tests.tiers import sampled


@pytest.mark.parametrize("seed", sampled(range(400), every=20, full=4))
def test_agrees_with_brute_force(seed: int) -> None:
    demands = problem(seed)
    last = LastNodes(demands, rng=np.random.default_rng(seed), over=lambda: False)
    shares = last.run()
    assert last.complete
    assert (shares is not None) == (tuple(demands.count.tolist()) in reachable(demands))
    if shares is not None:
        assert fits(demands, shares)
        assert (shares.sum(axis=1) == demands.count).all()


def test_says_that_not_everything_was_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    seed = next(s for s in range(100) if len(problem(s).room) == 3 and tuple(problem(s).count.tolist()) in reachable(problem(s)))
    for few in (replace(last_nodes.PARAMETERS, max_sets=0), replace(last_nodes.PARAMETERS, max_trials=0)):
        monkeypatch.setattr(last_nodes, "PARAMETERS", few)
        last = LastNodes(problem(seed), rng=np.random.default_rng(0), over=lambda: False)
        assert last.run() is None
        assert not last.complete
    monkeypatch.undo()
    last = LastNodes(problem(seed), rng=np.random.default_rng(0), over=lambda: True)
    assert last.run() is None
    assert not last.complete
