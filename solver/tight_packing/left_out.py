"""Which pods stay out, so that those that stay have as much room to spare as can be: all nodes of a kind taken together."""

from __future__ import annotations

import numpy as np
from ortools.sat.python import cp_model

from kubestow.models.cluster.cluster import Ints
from kubestow.solver.cpsat.run import CpSat
from kubestow.solver.tight_packing.demands import Demands

#: Sets of nodes that are told apart by what may be on them; where there are more, all nodes are taken together.
GROUPS = 12
#: Room to spare is counted in such parts of all room, ...
PARTS = 100_000
#: ... and amounts, where they are larger, in units in which all room is about this.
LARGEST = 2**42


class LeftOut:
    """Choices of the pods to be placed, one after the other, best first. ``wanted``: pods to be placed, by priority; of priorities that
    it does not name, none."""

    def __init__(self, demands: Demands, wanted: dict[int, int], cpsat: CpSat) -> None:
        self.demands, self.cpsat = demands, cpsat
        model = self.model = cp_model.CpModel()
        pods: list[list[cp_model.IntVar]] = [[] for _ in demands.classes]
        spare = self.spare = model.new_int_var(0, PARTS, "")
        for nodes in self._groups():
            room = demands.room[nodes].sum(axis=0)
            here = np.flatnonzero(demands.allowed[:, nodes[0]] if len(nodes) < len(demands.room) else np.ones(len(pods), dtype=bool))
            of = {int(k): model.new_int_var(0, int(demands.count[k]), "") for k in here}
            for k, variable in of.items():
                pods[k].append(variable)
            for r, total in enumerate(room.tolist()):
                unit = max(1, total // LARGEST)
                asked = [min(-(-int(demands.demand[k, r]) // unit), total // unit + 1) * PARTS for k in of]  # more than all is all the same
                load = cp_model.LinearExpr.weighted_sum(list(of.values()), asked)
                model.add(load + (total // unit) * spare <= (total // unit) * PARTS)
        self.left: list[cp_model.IntVar] = []
        for k, parts in enumerate(pods):
            left = model.new_int_var(0, int(demands.count[k]), "")
            model.add(cp_model.LinearExpr.sum([*parts, left]) == int(demands.count[k]))
            self.left.append(left)
        for p in sorted(set(demands.priority.tolist())):
            members = np.flatnonzero(demands.priority == p)
            most = int(demands.count[members].sum()) - wanted.get(p, 0)
            model.add(cp_model.LinearExpr.sum([self.left[k] for k in members]) == most)
        model.maximize(spare)

    def _groups(self) -> list[Ints]:
        """Nodes by what may be on them."""
        kinds = np.unique(self.demands.allowed.T, axis=0, return_inverse=True)[1].reshape(-1)
        if int(kinds.max(initial=0)) >= GROUPS:
            kinds = np.zeros_like(kinds)
        return [np.flatnonzero(kinds == k) for k in range(int(kinds.max(initial=-1)) + 1)]

    def next(self, seconds: float) -> Ints | None:
        """Return int64[K], pods of each class to be placed, another choice each time. None where there is none, or not in time."""
        answer = self.cpsat.run(self.model, seconds, workers=1)
        if answer.solution is None:
            return None
        left = [answer.solution[variable.index] for variable in self.left]
        less = []
        for variable, value in zip(self.left, left, strict=True):
            if value:
                less.append(self.model.new_bool_var(""))
                self.model.add(variable <= value - 1).only_enforce_if(less[-1])
        self.model.add_bool_or(less)  # any other choice of as many leaves out fewer of one of these
        return np.asarray(self.demands.count - np.array(left, dtype=np.int64))
