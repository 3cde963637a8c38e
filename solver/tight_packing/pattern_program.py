"""Upper bound on the pods of a tier, from a linear program over the sets of pods that fill nodes (*patterns*).

The program has a column for every pattern: the number of nodes of a kind that have it. It is solved over few columns; the
others are priced by its multipliers, and the most valuable ones join (column generation). Every step yields a bound that
is exact in integers for any multipliers: no node is worth more than its best pattern.

Sources: Gilmore and Gomory, doi:10.1287/opre.9.6.849; the bound in every step: Farley, doi:10.1287/opre.38.5.922."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from kubestow.models.cluster.cluster import Ints
from kubestow.models.kube.selectors import Bools
from kubestow.solver.bounds.safe_dual_bounds import Floats, Program, optimum
from kubestow.solver.tight_packing.demands import PackingDemands


@dataclass(frozen=True)
class PatternProgramParameters:
    """Parameters of column generation and diving.

    Attributes:
        first_columns: Columns at the start.
        added_columns: Columns that join per step.
        max_steps: Linear programs.
        penalty: Cost, in pods, of a required pod that the columns cannot hold.
        margin: Amount added to each node's price to absorb rounding.
        dive_rounds: Column generation rounds per step of a dive.
        integrality_tolerance: Values this close to an integer count as integral.
    """

    first_columns: int = 1_500
    added_columns: int = 750
    max_steps: int = 60
    penalty: int = 50
    margin: float = 2.0**-28
    dive_rounds: int = 3
    integrality_tolerance: float = 0.05


PARAMETERS = PatternProgramParameters()


class PatternProgram:
    """The linear program of one tier.

    Columns: the patterns, kind by kind; pods of each class that stay out; and slack for required pods, bounded by 0.
    Rows: the pods of every class, as two inequalities; the nodes of each kind; and the pods of each higher priority that
    stay out.

    Args:
        kinds: Nodes of each kind.
        patterns: All patterns of each kind, int64[P, K].
        out: Pods of each priority that may stay out. The lowest priority is the tier to be bounded.
    """

    def __init__(self, demands: PackingDemands, kinds: list[Ints], patterns: list[Ints], out: dict[int, int]) -> None:
        self.demands, self.kinds, self.patterns, self.out = demands, kinds, patterns, out
        self.tier = min(out)
        self.size = [len(listed) for listed in patterns]
        classes, listed = len(demands.classes), sum(self.size)
        counted = np.arange(classes)
        higher = [p for p in sorted(out) if p != self.tier]
        rows, columns, values = [], [], []

        def add(row: Ints, column: Ints, value: Ints) -> None:
            rows.append(row)
            columns.append(column)
            values.append(value)

        # Nonzeros of the patterns: pattern, class, number of pods.
        self._cells = pattern, of, pods = self._listed(patterns)
        self._kind = np.repeat(np.arange(len(kinds)), self.size)
        add(of, pattern, -pods)
        add(classes + of, pattern, pods)
        add(2 * classes + self._kind, np.arange(listed), np.ones(listed, dtype=np.int64))
        for block in (listed, listed + classes):
            add(counted, block + counted, np.full(classes, -1))
            add(classes + counted, block + counted, np.ones(classes, dtype=np.int64))
        for number, p in enumerate(higher):
            members = np.flatnonzero(demands.priority == p)
            add(np.full(len(members), 2 * classes + len(kinds) + number), listed + members, np.ones(len(members), dtype=np.int64))
        limit = np.concatenate([-demands.count, demands.count, [len(nodes) for nodes in kinds], [out[p] for p in higher]])
        may = np.array([out.get(int(p), 0) > 0 for p in demands.priority], dtype=bool)
        upper = [np.full(n, len(nodes)) for n, nodes in zip(self.size, kinds, strict=True)]
        upper += [np.where(may | (demands.priority == self.tier), demands.count, 0), np.zeros(classes, dtype=np.int64)]
        matrix = [np.concatenate(part).astype(np.int64) for part in (rows, columns, values)]
        self.program = Program(matrix[0], matrix[1], matrix[2], limit.astype(np.int64), np.concatenate(upper))
        coefficients = np.zeros(listed + 2 * classes, dtype=np.int64)
        coefficients[listed : listed + classes] = -(demands.priority == self.tier).astype(np.int64)
        coefficients[listed + classes :] = -PARAMETERS.penalty
        self.coefficients = coefficients
        self.pods = int(demands.count[demands.priority == self.tier].sum())
        self._nodes = np.array([len(nodes) for nodes in kinds], dtype=np.int64)
        self._chosen: Bools = np.arange(len(coefficients)) >= listed

    def refutes(self, wanted: int, over: Callable[[], bool]) -> bool:
        """Return whether it is proved that no placement has ``wanted`` pods of the tier. ``over`` is checked before every step."""
        listed = sum(self.size)
        self._chosen[np.random.default_rng(0).permutation(listed)[: PARAMETERS.first_columns]] = True
        for _ in range(PARAMETERS.max_steps):
            solution = None if over() else self._solved(self.demands.count, self._nodes)
            if solution is None:
                break
            gain = self._gain(solution[1])
            if self.program.bound(self.coefficients, self._raised(solution[1], gain)) < wanted - self.pods:
                return True
            if not self._join(gain, np.ones(listed, dtype=bool)):
                break
        return False

    def dive(self, wanted: int, over: Callable[[], bool]) -> Ints | None:
        """Return int64[K, N] with at least ``wanted`` pods of the tier, or None if the dive fails.

        Diving fixes the patterns whose values are nearly integral, or else the largest one, and solves the program again
        for the remaining nodes and pods."""
        count, nodes = self.demands.count.copy(), self._nodes.copy()
        every, kind = np.concatenate(self.patterns), self._kind
        given: list[int] = []
        while nodes.any():
            alive = (nodes > 0)[kind]
            alive[self._cells[0][self._cells[2] > count[self._cells[1]]]] = False
            self._chosen[: len(every)] &= alive
            point = self._point(count, nodes, alive, over)
            if point is None or not (point > PARAMETERS.integrality_tolerance).any():
                break
            fixed = np.flatnonzero(point > 1 - PARAMETERS.integrality_tolerance)
            if not len(fixed):
                fixed = np.array([point.argmax()])
            for j in fixed[np.argsort(-point[fixed], kind="stable")].tolist():
                for _ in range(max(1, int(point[j] + PARAMETERS.integrality_tolerance))):
                    if nodes[kind[j]] and (every[j] <= count).all():
                        given.append(j)
                        nodes[kind[j]] -= 1
                        count -= every[j]
        return self._counts(every, kind, given) if self._done(count, wanted) else None

    def _point(self, count: Ints, nodes: Ints, alive: Bools, over: Callable[[], bool]) -> Floats | None:
        """Return float64[J']: the number of nodes with each pattern, at or near the optimum."""
        solution = None
        for _ in range(PARAMETERS.dive_rounds):
            solution = None if over() else self._solved(count, nodes)
            if solution is None or not self._join(self._gain(solution[1]), alive):
                break
        return None if solution is None else solution[0][: len(alive)]

    @staticmethod
    def _listed(patterns: list[Ints]) -> tuple[Ints, Ints, Ints]:
        """Return the nonzeros of the patterns, int64[C] each: pattern, class, number of pods."""
        entries = [np.nonzero(each) for each in patterns]
        starts = np.cumsum([0, *map(len, patterns)])
        pattern = np.concatenate([start + j for (j, _), start in zip(entries, starts, strict=False)])
        pods = np.concatenate([each[cells] for each, cells in zip(patterns, entries, strict=True)])
        return pattern, np.concatenate([k for _, k in entries]), pods

    def _done(self, unplaced: Ints, wanted: int) -> bool:
        """Return whether no more pods are unplaced than may stay out."""
        of = {p: int(unplaced[self.demands.priority == p].sum()) for p in self.out}
        return self.pods - of[self.tier] >= wanted and all(of[p] <= self.out[p] for p in self.out if p != self.tier)

    def _counts(self, every: Ints, kind: Ints, given: list[int]) -> Ints:
        """Return int64[K, N] for the patterns given to nodes."""
        found = np.zeros(self.demands.allowed.shape, dtype=np.int64)
        free = [nodes.tolist() for nodes in self.kinds]
        for j in given:
            found[:, free[kind[j]].pop()] = every[j]
        return found

    def _solved(self, count: Ints, nodes: Ints) -> tuple[Floats, Floats] | None:
        """Return the optimal point and multipliers over the chosen columns, for ``count`` pods of each class and ``nodes``
        of each kind."""
        program, classes, listed = self.program, len(count), sum(self.size)
        limit, upper = program.limit.copy(), program.upper.copy()
        limit[: 2 * classes + len(nodes)] = np.concatenate([-count, count, nodes])
        upper[:listed] = np.minimum(upper[:listed], nodes.max(initial=0))
        upper[listed : listed + classes] = np.minimum(upper[listed : listed + classes], count)
        upper[listed + classes :] = count
        few, columns = Program(program.rows, program.columns, program.values, limit, upper).only(self._chosen)
        solution = optimum(few, self.coefficients[columns])
        if solution is None:
            return None
        point = np.zeros(len(upper))
        point[columns] = solution[0]
        return point, np.maximum(solution[1], 0.0)

    def _join(self, gain: Floats, alive: Bools) -> bool:
        """Add the ``alive`` patterns with most gain to the columns. Return whether any could be added."""
        better = np.flatnonzero((gain > PARAMETERS.margin) & ~self._chosen[: len(gain)] & alive)
        self._chosen[better[np.argsort(-gain[better], kind="stable")[: PARAMETERS.added_columns]]] = True
        return len(better) > 0

    def _gain(self, multipliers: Floats) -> Floats:
        """Return float64[J']: the reduced cost of each pattern, its pods' worth minus its node's price."""
        classes, (pattern, of, pods) = len(self.demands.classes), self._cells
        prices = multipliers[:classes] - multipliers[classes : 2 * classes]
        gain = np.bincount(pattern, weights=pods * prices[of], minlength=len(self._kind))
        return np.asarray(gain - multipliers[2 * classes + self._kind])

    def _raised(self, multipliers: Floats, gain: Floats) -> Floats:
        """Return the multipliers with each node's price raised to its best pattern, which makes them a valid bound."""
        found, start = multipliers.copy(), 0
        for number, size in enumerate(self.size):
            best = float(gain[start : start + size].max(initial=0.0))
            found[2 * len(self.demands.classes) + number] += max(best, 0.0) + PARAMETERS.margin
            start += size
        return found
