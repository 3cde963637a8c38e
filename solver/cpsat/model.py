"""The CP-SAT model to which rules add their constraints: x[g, n] pods of class g on node n, and unplaced[g].

One equation per class (Σ x + unplaced = pods that fit anywhere) is equivalent to a bound per class and a sum over the tier,
but solves a hundred times faster. Only eligible (class, node) pairs get a variable, bounded by the maximum pods on the
node."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext

import numpy as np

from kubestow.models.cluster.cluster import Cluster, Ids, Ints
from kubestow.solver.cpsat.cells import Cells
from kubestow.solver.cpsat.solver import new_solver
from kubestow.solver.numa.zone_patterns import NodeZones, chosen_items
from kubestow.solver.ortools import cp_model

NOWHERE: Ids = np.zeros(0, dtype=np.int32)
_NOTHING: AbstractContextManager[None] = nullcontext()


class PlacementModel:
    """Variables, and literals that rules share. :mod:`kubestow.solver.rules.placement_model` adds the constraints of the rules."""

    named = False  # whether constraints are labelled by the facts they come from

    def __init__(self, cluster: Cluster, part: Cells) -> None:
        self.cluster = cluster
        self.model = self._new_model()
        self.partial = part.partial
        self.fits = [0] * cluster.n_classes  # pods per class: the sum of its variables
        self._upper: dict[tuple[int, int], int] = {}
        self.x: dict[tuple[int, int], cp_model.IntVar] = {}
        self._nodes: dict[int, Ids] = {}
        self._on: dict[int, list[int]] = {}
        self._any: dict[tuple[int, ...], cp_model.IntVar] = {}
        self._wide: set[int] = set()
        self.unplaced: dict[int, cp_model.IntVar] = {}
        self.zones: dict[int, NodeZones] = {}
        self.zoneless: set[tuple[int, int]] = set()  # (class, container) with hints but no zones: too many patterns
        for g, (nodes, caps) in part.cells.items():
            self._nodes[g] = nodes
            self.fits[g] = part.pods[g]
            for n, upper in zip(nodes.tolist(), caps.tolist(), strict=True):
                variable = self.x[g, n] = self.model.new_int_var(0, upper, "")
                self._upper[g, n] = upper
                if upper > 1:
                    self._wide.add(variable.index)
                self._on.setdefault(n, []).append(g)
            self.unplaced[g] = self.model.new_int_var(0, self.fits[g], "")
            self.model.add(self.sum([*self.variables(g, nodes), self.unplaced[g]]) == self.fits[g])

    def _new_model(self) -> cp_model.CpModel:
        return cp_model.CpModel()

    def about(self, topic: Hashable, classes: Sequence[int] = (), node: int | None = None) -> AbstractContextManager[None]:
        """Return a context that labels the constraints added in it.

        The label is a topic of the current rule, and the classes and node concerned. Only a model of named facts uses it."""
        return _NOTHING

    def upper(self, g: int, n: int) -> int:
        """Return the maximum number of pods of class g on node n."""
        return self._upper.get((g, n), 0)

    def nodes_of(self, g: int) -> Ids:
        """Return the nodes for which class g has a variable."""
        return self._nodes.get(g, NOWHERE)

    def nodes(self) -> list[int]:
        """Return the nodes for which any class has a variable."""
        return sorted(self._on)

    def domains(self, classes: Iterable[int], codes: Ids) -> list[int]:
        """Return the domains (``codes``: int32[N]) in which any of the classes has a variable."""
        numbers: set[int] = set()
        for g in classes:
            if g in self._nodes:
                numbers.update(codes[self._nodes[g]].tolist())
        return sorted(numbers - {-1})

    def classes_on(self, n: int) -> list[int]:
        """Return the classes that have a variable on node n."""
        return self._on.get(n, [])

    def variables(self, g: int, nodes: Iterable[int] | Ids) -> list[cp_model.IntVar]:
        """Return the existing variables x[g, n] over these nodes."""
        candidates = (self.x.get((g, n)) for n in (nodes.tolist() if isinstance(nodes, np.ndarray) else nodes))
        return [v for v in candidates if v is not None]

    def cells(self, classes: Iterable[int], nodes: Iterable[int] | Ids) -> list[cp_model.IntVar]:
        """Return the existing variables x[g, n] over several classes and nodes."""
        listed = nodes.tolist() if isinstance(nodes, np.ndarray) else list(nodes)
        return [v for g in classes for v in self.variables(g, listed)]

    def any_of(self, variables: Sequence[cp_model.IntVar]) -> cp_model.IntVar | None:
        """Return a literal that is true iff the sum of these variables is at least 1. None if there are no variables."""
        if not variables:
            return None
        if len(variables) == 1 and self._is_bool(variables[0]):
            return variables[0]
        key = tuple(sorted({v.index for v in variables}))
        found = self._any.get(key)
        if found is None:
            found = self._any[key] = self._new_any(variables)
        return found

    def _new_any(self, variables: Sequence[cp_model.IntVar]) -> cp_model.IntVar:
        found = self.model.new_bool_var("")
        if all(self._is_bool(v) for v in variables):
            self.model.add_bool_or(variables).only_enforce_if(found)
            for v in variables:
                self.model.add_implication(v, found)
        else:
            total = self.sum(variables)
            self.model.add(total >= 1).only_enforce_if(found)
            self.model.add(total == 0).only_enforce_if(~found)
        return found

    def _is_bool(self, variable: cp_model.IntVar) -> bool:
        return variable.index not in self._wide

    def at_most_one_per_node(self, classes: Sequence[int]) -> None:
        """Require Σ x[g, n] ≤ 1 over these classes on every node."""
        for n in self.nodes():
            here = self.cells(classes, [n])
            if len(here) > 1 or (here and not self._is_bool(here[0])):
                self.model.add(self.sum(here) <= 1)

    def add_zones(self) -> None:
        """Add choices of NUMA zones on every node with zones, for the containers that need them."""
        if not self.cluster.trees:
            return
        hints = bool(self.cluster.policy.multipliers.containerAffinity)
        for n, tree in self.cluster.trees.items():
            zones = NodeZones(self.model, tree)
            for g in self.classes_on(n):
                cls = self.cluster.classes[g].containers
                if cls is not None:
                    zones.add(g, cls, self.x[g, n], self.upper(g, n), hints=hints)
                    self.zoneless.update((g, i) for i in chosen_items(cls, tree, hints=hints)[1])
            if zones.layouts:
                with self.about(None, list(zones.layouts), n):
                    zones.close()
                self.zones[n] = zones

    def counts(self, solution: Sequence[int]) -> Ints:
        """Return the placement int64[G, N] in a solution (values by variable index)."""
        found = np.zeros((self.cluster.n_classes, self.cluster.n_nodes), dtype=np.int64)
        for cell, k in self.placed(solution).items():
            found[cell] = k
        return found

    def placed(self, solution: Sequence[int]) -> dict[tuple[int, int], int]:
        """Return pods by (class, node) in a solution (values by variable index)."""
        return {cell: k for cell, variable in self.x.items() if (k := solution[variable.index])}

    def hold(self, unplaced: Mapping[int, int]) -> None:
        """Require that at most ``unplaced[priority]`` eligible pods of each priority stay unplaced (0 if not given)."""
        tiers: dict[int, list[cp_model.IntVar]] = {}
        for g, variable in self.unplaced.items():
            tiers.setdefault(int(self.cluster.priority[g]), []).append(variable)
        for priority, members in sorted(tiers.items()):
            self.model.add(self.sum(members) <= unplaced.get(priority, 0))

    def hint(self, pods: Mapping[tuple[int, int], int]) -> None:
        """Replace the hint by these pods, given by (class, node)."""
        self.model.clear_hints()  # type: ignore[no-untyped-call]  # ortools has no types for it
        for cell, variable in self.x.items():
            self.model.add_hint(variable, pods.get(cell, 0))

    def forbid(self, counts: Ints, classes: Sequence[int], node: int | None = None) -> None:
        """Cut off this assignment int64[G, N] of some classes on all nodes, or on one node."""
        differs = []
        for g in classes:
            for n in self.nodes_of(g).tolist() if node is None else [node] * ((g, node) in self.x):
                variable, value = self.x[g, n], int(counts[g, n])
                for side in (variable <= value - 1, variable >= value + 1):
                    literal = self.model.new_bool_var("")
                    self.model.add(side).only_enforce_if(literal)
                    differs.append(literal)
        self.model.add_bool_or(differs)

    def sum(self, variables: Sequence[cp_model.IntVar]) -> cp_model.LinearExprT:
        return cp_model.LinearExpr.sum(variables)

    @staticmethod
    def weighted_sum(variables: Sequence[cp_model.IntVar], weights: Sequence[int]) -> cp_model.LinearExprT:
        return cp_model.LinearExpr.weighted_sum(variables, weights)

    def assignment(
        self, counts: Ints | Mapping[tuple[int, int], int], *, seconds: float = 10.0, deterministic: bool = False, objective: bool = False
    ) -> list[int] | None:
        """Return the value of every variable under a placement: a complete hint. None if the model rejects the placement.

        Args:
            counts: int64[G, N], or the pods by (class, node).
            seconds: Time limit, by the clock or, if ``deterministic``, by CP-SAT's own time.
            objective: Choose the values that are best for the model's objective.
        """
        model = self.model.clone()
        if not objective:
            model.proto.clear_objective()
        for (g, n), variable in self.x.items():
            k = counts[g, n] if isinstance(counts, np.ndarray) else counts.get((g, n), 0)
            model.add(model.get_int_var_from_proto_index(variable.index) == int(k))
        solver = new_solver()
        solver.parameters.num_workers = 1
        if deterministic:
            solver.parameters.max_deterministic_time = min(seconds, 2.0)
        else:
            solver.parameters.max_time_in_seconds = seconds
        solver.parameters.catch_sigint_signal = False
        status = solver.solve(model)
        if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            return None
        return list(solver.response_proto.solution)
