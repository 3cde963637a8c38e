"""The CP-SAT model of an instance with the constraints of its rules."""

from __future__ import annotations

from collections.abc import Sequence

from kubestow.models.cluster.cluster import Cluster, Ints
from kubestow.solver.cpsat.cells import Cells
from kubestow.solver.cpsat.model import PlacementModel
from kubestow.solver.rules.base import Rule
from kubestow.solver.rules.eligibility import cells_within, possible


def build_model(cluster: Cluster, rules: Sequence[Rule], cells: Cells | None = None, *, limits: Ints | None = None) -> PlacementModel:
    """Return the model of a cluster under rules, which are in the state of all pods that stay where they are.

    Args:
        cluster: the compiled instance, G classes and N nodes.
        rules: those whose constraints are added.
        cells: a neighbourhood; by default every pair of class and node that the rules leave.
        limits: int64[G, N], how many pods of each class each node may get, where it is fewer than the rules say.
    """
    if cells is None:
        cells = cells_within(cluster, possible(cluster, rules) if limits is None else limits)
    model = PlacementModel(cluster, cells)
    for rule in rules:
        rule.encode(model)
    return model
