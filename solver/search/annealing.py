"""Improve the soft objective of a complete placement: simulated annealing, mostly pod by pod, with heat-bath moves.

Each move takes one pod out and puts it back on a node drawn with probability ∝ exp(gain / temperature), so no move is refused.
Drawing is by the Gumbel-max trick. Between them pods that are tied to each other move together (:mod:`kubestow.solver.search.unit_moves`),
and where nodes are full some make others give way (:mod:`kubestow.solver.search.ejections`).
Who is placed never changes, and every state obeys all hard rules; whether the result has a bind order is for the caller to find out.

Source: Geman and Geman, Gibbs sampling, doi:10.1109/TPAMI.1984.4767596; Kirkpatrick et al., doi:10.1126/science.220.4598.671.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from itertools import islice

import numpy as np

from kubestow.models.cluster.cluster import Ints
from kubestow.solver.search.ejections import Ejections
from kubestow.solver.search.local_search import TINY, LocalSearch
from kubestow.solver.search.unit_moves import UnitMoves

#: Temperature at the start, as a share of the largest weight of the objective.
HOT = 0.5
#: Temperature at the end, as such a share.
COLD = 0.003
#: Temperature below which pods make others give way, as such a share: chains that are drawn by their gains cool a hotter search too early.
WARM = 0.05


def anneal(
    search: LocalSearch,
    progress: Callable[[], float],
    *,
    hot: float = HOT,
    cold: float = COLD,
    only: Collection[int] | None = None,
    on_better: Callable[[int], None] | None = None,
) -> int:
    """Anneal until ``progress`` (0 to 1) says 1, from temperature ``hot`` to ``cold``, and stay at the best placement met.

    Args:
        search: The state, which is changed.
        progress: Asked once for as many moves as ``search.block``.
        hot: The temperature to begin with, as a share of :meth:`LocalSearch.scale`.
        cold: The temperature to end with, as such a share.
        only: Classes whose pods move, of those that can; None: all.
        on_better: Told the points gained so far when they are more.

    Returns:
        The weighted points gained over the start.
    """
    pods = [pod for pod, (g, _) in enumerate(search.pairs) if only is None or g in only]
    if not pods:
        return 0
    units = UnitMoves(search, only)
    ejections = Ejections(search, only) if search.ejecting else None
    best, gained = 0, 0
    scale, order, position = search.scale(), np.array(pods), len(pods)
    warm = scale * WARM
    while (share := progress()) < 1:
        temperature = scale * hot * (cold / hot) ** share
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
            next(islice(moves, together, together), None)  # they count as so many moves
        if gained > best:
            best = gained
            search.mark()
            if on_better is not None:
                on_better(best)
    search.go_back()
    return best


@contextmanager
def charged(search: LocalSearch, charge: Callable[[int], Ints]) -> Iterator[None]:
    """Have pods charged in here for the room that they take: ``charge`` gives int64[N], points by node, for a class."""
    search.soft.room_charge = charge
    try:
        yield
    finally:
        search.soft.room_charge = None
