"""Choice of the pods that stay out, so that the remaining pods leave as much spare room as possible on pooled nodes."""

from __future__ import annotations

import numpy as np

from kubestow.models.cluster.cluster import Ints
from kubestow.models.cluster.partition import equivalence
from kubestow.solver.cpsat.run import CpSat
from kubestow.solver.ortools import cp_model
from kubestow.solver.tight_packing.demands import PackingDemands

#: Groups of nodes with the same eligible classes. If there are more, all nodes form one group.
MAX_NODE_GROUPS = 12
#: Resolution of spare room: units per total capacity.
SPARE_UNITS = 100_000
#: Larger total capacities are scaled down to about this many units.
MAX_TOTAL_UNITS = 2**42


class LeftOut:
    """Choices of the pods to be placed, best first.

    Args:
        wanted: Pods to be placed, by priority. Priorities that are not named place none.
    """

    def __init__(self, demands: PackingDemands, wanted: dict[int, int], cpsat: CpSat) -> None:
        self.demands, self.cpsat = demands, cpsat
        model = self.model = cp_model.CpModel()
        pods: list[list[cp_model.IntVar]] = [[] for _ in demands.classes]
        spare = self.spare = model.new_int_var(0, SPARE_UNITS, "")
        for nodes in self._groups():
            room = demands.room[nodes].sum(axis=0)
            here = np.flatnonzero(demands.allowed[:, nodes[0]] if len(nodes) < len(demands.room) else np.ones(len(pods), dtype=bool))
            of = {int(k): model.new_int_var(0, int(demands.count[k]), "") for k in here}
            for k, variable in of.items():
                pods[k].append(variable)
            for r, total in enumerate(room.tolist()):
                unit = max(1, total // MAX_TOTAL_UNITS)
                loads = [
                    min(-(-int(demands.demand[k, r]) // unit), total // unit + 1) * SPARE_UNITS for k in of
                ]  # capped: any demand above the capacity is equally impossible
                load = cp_model.LinearExpr.weighted_sum(list(of.values()), loads)
                model.add(load + (total // unit) * spare <= (total // unit) * SPARE_UNITS)
        self.unplaced: list[cp_model.IntVar] = []
        for k, parts in enumerate(pods):
            unplaced = model.new_int_var(0, int(demands.count[k]), "")
            model.add(cp_model.LinearExpr.sum([*parts, unplaced]) == int(demands.count[k]))
            self.unplaced.append(unplaced)
        for p in sorted(set(demands.priority.tolist())):
            members = np.flatnonzero(demands.priority == p)
            allowed = int(demands.count[members].sum()) - wanted.get(p, 0)
            model.add(cp_model.LinearExpr.sum([self.unplaced[k] for k in members]) == allowed)
        model.maximize(spare)

    def _groups(self) -> list[Ints]:
        """Return the nodes grouped by eligible classes."""
        groups = equivalence(self.demands.allowed.T)
        return groups.members if len(groups) <= MAX_NODE_GROUPS else [np.arange(len(groups.of))]

    def next(self, seconds: float) -> Ints | None:
        """Return the next choice int64[K]: pods of each class to be placed. None if there is none, or not in time."""
        answer = self.cpsat.run(self.model, seconds)
        if answer.solution is None:
            return None
        unplaced = [answer.solution[variable.index] for variable in self.unplaced]
        smaller = []
        for variable, value in zip(self.unplaced, unplaced, strict=True):
            if value:
                smaller.append(self.model.new_bool_var(""))
                self.model.add(variable <= value - 1).only_enforce_if(smaller[-1])
        self.model.add_bool_or(smaller)  # every other choice leaves out fewer pods of one of these classes
        return np.asarray(self.demands.count - np.array(unplaced, dtype=np.int64))
