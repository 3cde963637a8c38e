"""The (class, node) pairs of a placement model."""

from __future__ import annotations

from dataclasses import dataclass

from kubestow.models.cluster.cluster import Ids, Ints


@dataclass
class Cells:
    """The (class, node) pairs that get a variable. :mod:`kubestow.solver.rules.eligibility` computes those of an instance.

    Attributes:
        cells: Per class, the eligible nodes (int32) and the maximum pods on each (int64).
        pods: Pods to place, by class.
        partial: True if other pods stay where they are, as in a neighbourhood.
    """

    cells: dict[int, tuple[Ids, Ints]]
    pods: dict[int, int]
    partial: bool = True
