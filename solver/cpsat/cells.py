"""The (class, node) pairs of a placement model."""

from __future__ import annotations

from dataclasses import dataclass

from kubestow.models.cluster.cluster import Ids, Ints


@dataclass
class Cells:
    """The (class, node) pairs that get a variable: :mod:`kubestow.solver.rules.eligibility` computes those of an instance.

    ``cells``: per class the nodes (int32) that its pods may get and how many pods each takes at most (int64); ``pods``: how many of the
    class are to be placed; ``partial``: whether pods stay where they are beside those, as in a neighbourhood."""

    cells: dict[int, tuple[Ids, Ints]]
    pods: dict[int, int]
    partial: bool = True
