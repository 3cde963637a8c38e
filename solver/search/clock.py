"""Progress of an annealing run, from 0 to 1: by the clock, or by moves alone in a deterministic run."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count

from kubestow.solver.runtime.run_context import RunContext
from kubestow.solver.search.local_search import LocalSearch


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
