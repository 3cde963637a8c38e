"""A group of classes that is bounded as if it were alone in the cluster, with its bound and best placement."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from kubestow.models.cluster.cluster import Ints
from kubestow.solver.bounds.coarse_model import Coarse
from kubestow.solver.cpsat.linear_sum import Points
from kubestow.solver.cpsat.model import PlacementModel

INITIAL_GROUP_SECONDS = 0.25  #: Time for a group's first solve; doubled on every later solve.


@dataclass
class ClassComponent:
    """A group of classes, or a part of one.

    Attributes:
        classes: Class indices into the cluster.
        bound: Upper bound on the weighted points of the classes.
        whole: Index of the group that this is a part of. None for a group.
        split: True if the group has parts.
        counts: Best placement found for the classes alone, int64[len(classes), N].
        value: Points of ``counts``.
        unverified: True if ``counts`` comes from the coarse model and may break rules that concern single nodes.
        proved: True if a valid placement reaches the bound, or no model can tighten it.
        slice: Seconds for the next solve.
        modelled: True once coarse models were requested.
        turns: Number of solves so far.
        large: True if the full model would be too large.
        fineness: Number of coarse models built.
        other_points: Upper bound on the points that the coarse model omits.
        kinds: Lists of alike nodes.
        pools: Node class of each node, int64[N]; nodes of a class may differ in eligibility and room.
        coarse: Current coarse model. None before the first and after the finest.
    """

    classes: list[int]
    bound: int
    whole: int | None = None
    split: bool = False
    counts: Ints | None = None
    value: int | None = None
    unverified: bool = False
    proved: bool = False
    slice: float = INITIAL_GROUP_SECONDS
    modelled: bool = False
    turns: int = 0
    large: bool = False
    fineness: int = 0
    other_points: int = 0
    kinds: list[Ints] = field(default_factory=list, repr=False)
    pools: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64), repr=False)
    coarse: Coarse | None = field(default=None, repr=False)
    encoding: PlacementModel | None = field(default=None, repr=False)
    points: Points | None = field(default=None, repr=False)

    @property
    def fresh(self) -> bool:
        """True if the group was never solved."""
        return not self.turns
