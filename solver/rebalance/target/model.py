"""The CP-SAT model of a plan's end state: x[g, n], pods of class g on node n at the end, staying pods included.

It is a relaxation: every state that accepted steps can reach is a solution. Volumes and zones are left to the
order of the steps. See docs/model.md (The plan) and docs/algorithms/plans.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd

import numpy as np

from kubestow.models.cluster.cluster import Ints
from kubestow.models.kube.selectors import Bools
from kubestow.solver.cpsat.cells import Cells
from kubestow.solver.ortools import cp_model
from kubestow.solver.rebalance.problem.problem import RebalanceProblem
from kubestow.solver.rebalance.problem.reachable_nodes import reach
from kubestow.solver.rules import plan_face
from kubestow.solver.rules.base import Rule
from kubestow.solver.rules.end_states import EndStateModel

#: Values of one table of end states. CP-SAT expands a table; beyond this size a single clause is cheaper.
MAX_TABLE_VALUES = 60_000


class TargetModel(EndStateModel):
    """The CP-SAT model of a plan's end state, of the whole cluster or of a part.

    Attributes:
        unplaced: Per pending class, pods that get no node; per running class, pods that are evicted.

    Args:
        rules: The rules, in the state of the fixed pods.
        part: The free cells, each with the most pods that it may hold at the end. ``part.pods`` are the pods in
            them.
        base: Pods outside the part, int64[G, N]: the state to improve, which breaks no more rules than the
            start.
        room: Result of :func:`reach`, if known.
    """

    problem: RebalanceProblem

    def __init__(
        self,
        problem: RebalanceProblem,
        rules: Sequence[Rule],
        part: Cells | None = None,
        base: Ints | None = None,
        *,
        room: Ints | None = None,
    ) -> None:
        self.problem = problem
        self.room = reach(problem, rules) if room is None else room
        self.unmoved = np.zeros_like(problem.start)
        if part is not None:
            self.unmoved = (problem.start if base is None else base).copy()
            for g, (nodes, _) in part.cells.items():
                self.unmoved[g, nodes] = 0
        super().__init__(problem.cluster, part if part is not None else self._all())
        self.y: dict[tuple[int, int], cp_model.IntVar] = {}
        self.unmoved_arrived = np.maximum(self.unmoved - problem.start, 0)
        self._clear: dict[tuple[int, int], cp_model.IntVar] = {}  # (node, resource or -1): not overcommitted
        self._over: set[tuple[int, int]] = set()  # the same where the model moves no pod that requests the resource
        self._met: dict[tuple[int, int, int], cp_model.IntVar | None] = {}  # (node, resource, largest total request)
        self._arrivals()
        for g, variable in self.unplaced.items():
            if not (problem.pending[g] or problem.evictable[g]):
                self.model.add(variable == 0)
        for rule in rules:
            plan_face(rule).encode_always(self)
        for n in self.nodes():
            self._capacity(n)
        self._limits()

    def _all(self) -> Cells:
        """Return every cell where pods are or can be; immovable pods are fixed by their number."""
        problem, cells, pods = self.problem, {}, {}
        for g in range(problem.cluster.n_classes):
            upper = np.maximum(problem.start[g], self.room[g])
            nodes = np.flatnonzero(upper)
            if len(nodes):
                running = int(problem.start[g].sum())
                cells[g] = nodes.astype(np.int32), np.minimum(upper, problem.cluster.count[g])[nodes]
                pods[g] = running or int(min(problem.cluster.count[g], upper.sum()))
        return Cells(cells, pods, partial=False)

    def _arrivals(self) -> None:
        """Add y ≥ x - start. A cell that can hold no more pods than at the start needs no y."""
        for (g, n), variable in self.x.items():
            start, upper = int(self.problem.start[g, n]), self.upper(g, n)
            if not start:
                self.y[g, n] = variable
            elif upper > start and self.room[g, n]:
                came = self.y[g, n] = self.model.new_int_var(0, upper, "")
                if upper > 1:
                    self._wide.add(came.index)
                self.model.add(came >= variable - start)
                self.model.add(came <= variable)

    # --- queries of the rules
    # -----------------------------------------------------------------------------------------------------

    def confine(self, classes: Sequence[int], reachable: Sequence[Ints], detours: Sequence[int]) -> cp_model.IntVar | None:
        """Restrict some classes to the states that steps can reach.

        Args:
            classes: Classes whose pods the model all moves.
            reachable: The reachable states, int64[len(classes), N] each.
            detours: For each of these the moves beyond those that its counts require.

        Returns:
            The moves beyond those that the counts require. None if the table would be too large; the model is
            then unchanged.
        """
        cells = [(i, g, n) for i, g in enumerate(classes) for n in self.nodes_of(g).tolist()]
        if len(cells) * len(reachable) > MAX_TABLE_VALUES:
            return None
        inside = np.zeros((len(classes), self.cluster.n_nodes), dtype=np.int64)
        for i, g, n in cells:
            inside[i, n] = self.upper(g, n)
        rows = [
            [*(int(each[i, n]) for i, _, n in cells), extra]
            for each, extra in zip(reachable, detours, strict=True)
            if (each <= inside).all()
        ]  # fmt: skip
        extra = self.model.new_int_var(0, max(detours, default=0), "")
        self.model.add_allowed_assignments([*(self.x[g, n] for _, g, n in cells), extra], rows)
        return extra

    def limit_moves(self, detours: Sequence[cp_model.IntVar]) -> None:
        """Count detours under the limit of moves. No two may concern the same class."""
        max_moves = self.problem.limits.maxMoves
        if max_moves is not None:
            self.model.add(
                self.sum([*(v for _, v in self.moved), *detours]) <= max_moves - int(self.unmoved_arrived[self.problem.movable].sum())
            )

    # --- capacity and limits ------------------------------------------------------------------------------------------------

    def fits_on(self, n: int, g: int) -> list[cp_model.IntVar]:
        problem, demand = self.problem, self.cluster.demand
        found = []
        for r in (-1, *np.flatnonzero(demand[g]).tolist()):
            own = int(problem.extra[g, r]) if r >= 0 else 0
            capacity = 0 if r < 0 else int(problem.room[n, r] + problem.reserve[n, r]) + (min(own, 0) if problem.movable[g] else own)
            literal = self._at_most(n, r, capacity) if own else self._clear.get((n, r))
            if literal is not None:
                found.append(literal)
            elif not own and (n, r) in self._over:
                return []
        return found or [self.true]

    def _at_most(self, n: int, r: int, capacity: int) -> cp_model.IntVar | None:
        """Return a literal that limits the requests of a resource on the node to ``capacity``; None if they never exceed it."""
        key = n, r, capacity
        if key not in self._met:
            here, demand = self.classes_on(n), self.cluster.demand[:, r]
            unmoved = int(self.unmoved[:, n] @ demand)
            self._met[key] = None
            if max(int(self.problem.room[n, r]), int(self.problem.start[:, n] @ demand)) > capacity:
                literal = self._met[key] = self.model.new_bool_var("")
                used = self.weighted_sum([self.x[g, n] for g in here], [int(demand[g]) for g in here])
                self.model.add(used <= capacity - unmoved).only_enforce_if(literal)
        return self._met[key]

    def staying(self, g: int, n: int) -> cp_model.IntVar:
        """Return the number of pods of class g that never left the node, counted as high as possible."""
        start = int(self.problem.start[g, n])
        if self.upper(g, n) <= start:
            return self.x[g, n]
        pods = self.model.new_int_var(0, start, "")
        self.model.add_min_equality(pods, [self.x[g, n], start])
        return pods

    def _capacity(self, n: int) -> None:
        here = self.classes_on(n)
        variables = [self.x[g, n] for g in here]
        upper = [self.upper(g, n) for g in here]
        columns = [(-1, [1] * len(here), int(self.cluster.slots[n]), int(self.problem.start[:, n].sum()), int(self.unmoved[:, n].sum()))]
        for r in range(len(self.cluster.resources)):
            demand = self.cluster.demand[:, r]
            loads = int(self.problem.start[:, n] @ demand), int(self.unmoved[:, n] @ demand)
            columns.append((r, [int(demand[g]) for g in here], int(self.problem.room[n, r]), *loads))
        for r, weights, free, start, unmoved in columns:
            unit = gcd(*weights)
            if not unit:
                if unmoved > free:
                    self._over.add((n, r))
                continue
            if self.problem.limits.maxWaves == 1:  # leaving pods free no capacity in time
                came = int(self.unmoved_arrived[:, n].sum() if r < 0 else self.unmoved_arrived[:, n] @ self.cluster.demand[:, r])
                arriving = {g: w // unit for g, w in zip(here, weights, strict=True) if (g, n) in self.y}
                arrived = self.weighted_sum([self.y[g, n] for g in arriving], list(arriving.values()))
                self.model.add(arrived <= max(0, free - start - came) // unit)
            used = self.weighted_sum(variables, [w // unit for w in weights])
            least = sum(w * u for w, u in zip(weights, upper, strict=True))
            if least + unmoved > max(free, start):
                self.model.add(used <= (max(free, start) - unmoved) // unit)
            if start > free:
                clear = self._clear[n, r] = self.model.new_bool_var("")
                self.model.add(used <= (free - unmoved) // unit).only_enforce_if(clear)
                for literal in self.arriving([g for g, w in zip(here, weights, strict=True) if w], np.array([n])):
                    self.model.add_implication(literal, clear)

    def _limits(self) -> None:
        problem, limits = self.problem, self.problem.limits
        groups: list[tuple[int | None, list[Bools]]] = [
            (limits.maxMoves, [problem.movable]),
            (limits.maxMovesPerNamespace, [problem.namespaces == i for i in np.unique(problem.namespaces[problem.movable])]),
            (limits.maxMovesPerWorkload, [problem.workloads == i for i in np.unique(problem.workloads[problem.movable])]),
        ]
        for limit, masks in groups:
            for mask in masks if limit is not None else ():
                chosen = mask & problem.movable
                moved = [v for (g, _), v in self.y.items() if chosen[g]]
                self.model.add(self.sum(moved) <= (limit or 0) - int(self.unmoved_arrived[chosen].sum()))
        self._limit_waves()
        if limits.maxEvictions is not None:
            self._at_most_gone(problem.evictable, limits.maxEvictions)
        for b, budget in enumerate(problem.budgets):  # evicted pods count as missing from then on
            guarded = (problem.guarded == b) & problem.movable
            if (guarded & problem.evictable).any():
                self._at_most_gone(guarded, budget.allowed)
            if not budget.allowed:
                for (g, n), variable in self.x.items():
                    if guarded[g]:
                        self.model.add(variable == int(problem.start[g, n]))

    def _at_most_gone(self, chosen: Bools, limit: int) -> None:
        """Limit the evictions among some classes (bool[G]) to ``limit``."""
        here = [g for g in self.unplaced if chosen[g]]
        before = int((self.problem.start - self.unmoved)[chosen].sum()) - sum(self.fits[g] for g in here)
        self.model.add(self.sum([self.unplaced[g] for g in here]) <= limit - before)

    def _limit_waves(self) -> None:
        """Limit the pods of each budget that leave a node, moved or evicted, to the allowance over the plan's waves."""
        problem, leaving = self.problem, dict[int, list[cp_model.IntVar]]()
        for g, variable in (*((g, v) for (g, _), v in self.y.items()), *self.unplaced.items()) if problem.eviction_limits else ():
            if problem.movable[g] and problem.guarded[g] >= 0:
                leaving.setdefault(int(problem.guarded[g]), []).append(variable)
        pods = problem.start.sum(axis=1)
        for b, variables in leaving.items():
            chosen, limit = (problem.guarded == b) & problem.movable, problem.eviction_limits[b]
            if int(pods[chosen].sum()) > limit:
                gone = int((problem.start - self.unmoved)[chosen].sum()) - sum(self.fits[g] for g in self.unplaced if chosen[g])
                self.model.add(self.sum(variables) <= limit - int(self.unmoved_arrived[chosen].sum()) - gone)

    @property
    def moved(self) -> list[tuple[int, cp_model.IntVar]]:
        """(class, arrivals) of running pods. Moves are counted from these."""
        return [(g, v) for (g, _), v in self.y.items() if self.problem.movable[g]]
