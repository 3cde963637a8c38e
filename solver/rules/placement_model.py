"""The CP-SAT model of an instance with the constraints of its rules."""

from __future__ import annotations

from collections.abc import Sequence

from kubestow.models.cluster.cluster import Cluster, Ints
from kubestow.solver.cpsat.cells import Cells
from kubestow.solver.cpsat.model import PlacementModel
from kubestow.solver.rules.base import Rule
from kubestow.solver.rules.eligibility import cells_within, possible
from kubestow.solver.rules.facts import Leavers


def build_model(
    cluster: Cluster,
    rules: Sequence[Rule],
    cells: Cells | None = None,
    *,
    eligibility: Ints | None = None,
    leavers: Leavers | None = None,
) -> PlacementModel:
    """Return the model of a cluster under rules, which are in the state of all pods that keep their nodes.

    Args:
        cluster: The compiled instance with G classes and N nodes.
        rules: The rules to encode.
        cells: The cells of a neighbourhood; by default every eligible pair of class and node.
        eligibility: int64[G, N], tighter caps on the pods of each class on each node.
        leavers: Pods of the instance that run already and may leave.
    """
    if cells is None:
        cells = cells_within(cluster, possible(cluster, rules) if eligibility is None else eligibility)
    model = PlacementModel(cluster, cells)
    for rule in rules:
        if leavers is None:
            rule.encode(model)
        else:
            rule.encode_leaving(model, leavers)
    return model
