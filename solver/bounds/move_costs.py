"""What it costs that running pods come to be elsewhere, in models of a group of classes alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kubestow.models.cluster.cluster import Ints
from kubestow.solver.cpsat.linear_sum import Points
from kubestow.solver.cpsat.model import PlacementModel


@dataclass(frozen=True)
class MoveCosts:
    """Points that pods cost which come to be where they do not run. ``start``: int64[G, N], pods that run; ``each``: int64[G]."""

    start: Ints
    each: Ints

    def of(self, classes: Sequence[int], counts: Ints) -> int:
        """Return what a placement int64[len(classes), N] costs."""
        return int(np.maximum(counts - self.start[classes], 0).sum(axis=1) @ self.each[classes])

    def charge(self, classes: Sequence[int], encoding: PlacementModel, kinds: Sequence[Ints], points: Points) -> None:
        """Take off what the model of some classes costs at least, nodes of a kind together."""
        for nodes in kinds:
            for i, g in enumerate(classes):
                here = encoding.variables(i, nodes)
                home = int(self.start[g, nodes].sum())
                most = sum(encoding.upper(i, n) for n in nodes.tolist() if (i, n) in encoding.x) - home
                if self.each[g] and most > 0:
                    came = encoding.model.new_int_var(0, most, "")
                    encoding.model.add(came >= encoding.sum(here) - home)
                    points.add(came, -int(self.each[g]), 0, most)
