"""Simulated annealing of the soft objective of a complete placement, mostly pod by pod, with heat-bath moves.

The set of placed pods never changes, and every state obeys all hard rules. The caller must check that the result has a
bind order. See docs/algorithms/annealing.md."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count, islice

import numpy as np

from kubestow.models.cluster.cluster import Ints
from kubestow.solver.runtime.run_context import RunContext
from kubestow.solver.search.ejections import Ejections
from kubestow.solver.search.local_search import TINY, LocalSearch
from kubestow.solver.search.unit_moves import UnitMoves

#: Start temperature, as a fraction of the largest weight of the objective.
START_TEMPERATURE = 0.5
#: Start temperature where most pods are in good places already.
WARM_TEMPERATURE = START_TEMPERATURE / 10
MAX_SWEEPS = 400  #: Sweeps over the pods after which annealing ends.
#: End temperature, as a fraction of the same weight.
END_TEMPERATURE = 0.003
#: Highest temperature for ejections, as a fraction of the same weight. Ejections would cool a hotter search too early.
MAX_EJECTION_TEMPERATURE = 0.05


def anneal(
    search: LocalSearch,
    progress: Callable[[], float],
    *,
    hot: float = START_TEMPERATURE,
    only: Collection[int] | None = None,
    on_better: Callable[[int], None] | None = None,
) -> int:
    """Anneal from temperature ``hot`` to END_TEMPERATURE until ``progress`` returns 1, and end at the best placement found.

    Args:
        search: The state, which is changed.
        progress: Returns the progress from 0 to 1. Called once per ``search.block`` moves.
        hot: Start temperature, as a fraction of :meth:`LocalSearch.scale`.
        only: Classes whose pods may move; None for all.
        on_better: Called with the points gained so far when they increase.

    Returns:
        The weighted points gained.
    """
    pods = [pod for pod, (g, _) in enumerate(search.pairs) if only is None or g in only]
    if not pods:
        return 0
    units = UnitMoves(search, only)
    ejections = Ejections(search, only) if search.ejecting else None
    best, gained = 0, 0
    scale, order, position = search.scale(), np.array(pods), len(pods)
    warm = scale * MAX_EJECTION_TEMPERATURE
    while (share := progress()) < 1:
        temperature = scale * hot * (END_TEMPERATURE / hot) ** share
        exponential = search.rng.standard_exponential((search.block, search.cluster.n_nodes), dtype=np.float32)
        moves = iter(np.log(exponential + TINY) * -temperature)  # Gumbel's distribution
        for noise in moves:
            if position == len(order):
                search.rng.shuffle(order)
                position = 0
            pod = int(order[position])
            position += 1
            together, gain = units.draw(pod, temperature) if search.together else (0, 0)
            if not together and ejections is not None and temperature <= warm:
                together, gain = ejections.draw(pod, temperature)
            if not together:
                gain = search.move(pod, noise)
            gained += gain
            next(islice(moves, together, together), None)  # a joint move counts as several
        if gained > best:
            best = gained
            search.mark()
            if on_better is not None:
                on_better(best)
    search.go_back()
    return best


@contextmanager
def charged(search: LocalSearch, charge: Callable[[int], Ints]) -> Iterator[None]:
    """Charge pods for the room that they take while in this context; ``charge`` maps a class to points by node, int64[N]."""
    search.soft.room_charge = charge
    try:
        yield
    finally:
        search.soft.room_charge = None


class SearchClock:
    """Source of progress functions.

    Args:
        nodes: Number of nodes of the cluster.
        move: Deterministic seconds charged for one move on a small cluster.
    """

    def __init__(self, context: RunContext, nodes: int, move: float) -> None:
        self.context, self._move = context, move * (1 + nodes / 500)

    def of(self, search: LocalSearch, seconds: float, sweeps: float) -> Callable[[], float]:
        """Return a function that yields the progress of a search, given its limits in seconds and in sweeps over the pods."""
        planned_blocks = max(1.0, sweeps * len(search.pairs) / search.block)
        return partial(self._progress, time.monotonic(), count(), max(seconds, 1e-3), planned_blocks, search.block * self._move)

    def _progress(self, started: float, blocks: Iterator[int], seconds: float, planned_blocks: float, cost: float) -> float:
        """Charge one block of moves. Return the progress before it, from 0 to 1."""
        done = next(blocks)
        spent = time.monotonic() - started
        if self.context.options.deterministic:
            spent = done * cost
            self.context.deadline.charge(cost)
        return 1.0 if self.context.stop.is_set() else max(done / planned_blocks, spent / seconds)
