"""Where a group of classes would like to be: annealed as if it were alone in the cluster, starting where it is.

Beside the others it often cannot get there pod by pod, since each node that it would fill has others on it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from solver import rules
from solver.bounds.component_bounds import Component
from solver.objective.preferences import Objective
from solver.search.annealing import LocalSearch

#: Sweeps over the pods of the group.
SWEEPS = 150


def look_alone(
    component: Component, search: LocalSearch, seed: int, clock: Callable[[LocalSearch, float, float], Callable[[], float]]
) -> None:
    """Take note in ``component`` of a better placement for it alone. ``clock``: the progress of a search, given its seconds and sweeps."""
    classes = component.classes
    if component.proved or any(g not in search.mobile for g in classes):
        return
    sub, rows = search.cluster.restricted(classes), search.counts[classes]
    objective = Objective(sub, rules.build(sub))
    active = rules.replay(sub, [(int(g), int(n), int(rows[g, n])) for g, n in zip(*np.nonzero(rows), strict=True)])
    alone = LocalSearch(objective, active, search.limits[classes], rows, seed=seed)
    alone.run(clock(alone, component.slice, SWEEPS))
    value = objective.total(objective.families(alone.counts))
    if component.value is None or value > component.value:
        component.counts, component.value, component.wished = alone.counts, value, False
        component.proved = value >= component.bound
