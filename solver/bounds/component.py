"""A group of classes that is bounded as if it were alone, and what is known of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from kubestow.models.cluster.cluster import Ints

if TYPE_CHECKING:
    from kubestow.solver.bounds.coarse_model import Coarse
    from kubestow.solver.cpsat.linear_sum import Points
    from kubestow.solver.cpsat.model import PlacementModel

#: Seconds that a group gets first; each time it comes up again, twice as many.
GLANCE = 0.25


@dataclass
class Component:
    """``classes``: indices into the cluster. ``bound``: weighted points that they cannot exceed; ``counts``: int64[len(classes), N], the
    best placement found for them alone, and its ``value``; ``wished``: it is what the coarse model would like, which may break rules that
    single nodes see; ``proved``: the bound is the value of one that breaks none, or nothing is left to be asked; ``slice``: seconds that it
    gets next; ``looked``: models of it were asked for; ``turns``: how often it came up; ``beside``: points that the coarse model does not
    see; ``coarse``: None once the finest has said all; ``fineness``: how many there were; ``large``: no full model is made; ``whole``:
    index of the group that it is a part of; ``split``: it has parts."""

    classes: list[int]
    bound: int
    whole: int | None = None
    split: bool = False
    counts: Ints | None = None
    value: int | None = None
    wished: bool = False
    proved: bool = False
    slice: float = GLANCE
    looked: bool = False
    turns: int = 0
    large: bool = False
    fineness: int = 0
    beside: int = 0
    kinds: list[Ints] = field(default_factory=list, repr=False)  # the nodes, in lists of alike ones
    pools: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64), repr=False)
    coarse: Coarse | None = field(default=None, repr=False)
    encoding: PlacementModel | None = field(default=None, repr=False)
    points: Points | None = field(default=None, repr=False)

    @property
    def fresh(self) -> bool:
        """Whether it was not looked at yet."""
        return not self.turns
