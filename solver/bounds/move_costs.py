"""Costs of moving running pods to other nodes, for models of a group of classes alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kubestow.models.cluster.cluster import Ints
from kubestow.solver.cpsat.linear_sum import Points
from kubestow.solver.cpsat.model import PlacementModel


@dataclass(frozen=True)
class MoveCosts:
    """Points lost by pods that end on nodes where they do not run today.

    Attributes:
        start: Running pods, int64[G, N].
        each: Points per moved pod, int64[G].
    """

    start: Ints
    each: Ints

    def of(self, classes: Sequence[int], counts: Ints) -> int:
        """Return the cost of a placement int64[len(classes), N]."""
        return int(np.maximum(counts - self.start[classes], 0).sum(axis=1) @ self.each[classes])

    def charge(self, classes: Sequence[int], encoding: PlacementModel, kinds: Sequence[Ints], points: Points) -> None:
        """Subtract from ``points`` a lower bound on the cost of moves, counted per kind of alike nodes."""
        for nodes in kinds:
            for i, g in enumerate(classes):
                here = encoding.variables(i, nodes)
                home = int(self.start[g, nodes].sum())
                upper = sum(encoding.upper(i, n) for n in nodes.tolist() if (i, n) in encoding.x) - home
                if self.each[g] and upper > 0:
                    came = encoding.model.new_int_var(0, upper, "")
                    encoding.model.add(came >= encoding.sum(here) - home)
                    points.add(came, -int(self.each[g]), 0, upper)
