"""The CP-SAT model of a placement question in which every constraint has an enforcement literal for its fact.

Every class has a variable on every node; exclusions by rules are constraints like all others. A false literal
relaxes the model. A set of facts is a conflict if the model with only these facts is infeasible (minimal
unsatisfiable sets and their extraction by deletion: Marques-Silva, doi:10.1109/ISMVL.2010.11).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kubestow.models.cluster.cluster import Cluster, Ids, Ints
from kubestow.models.cluster.partition import equivalence
from kubestow.models.kube.selectors import Bools
from kubestow.solver import rules as scheduling_rules
from kubestow.solver.cpsat.cells import Cells
from kubestow.solver.cpsat.model import PlacementModel
from kubestow.solver.ortools import cp_model
from kubestow.solver.rules.base import Rule

if TYPE_CHECKING:
    from kubestow.solver.explain.conflict.enforced_model import EnforcedModel

#: Maximum number of domains of a topology key by which facts are distinguished.
MAX_DOMAINS = 64
#: Maximum number of cells of nodes.
MAX_CELLS = 256
#: Maximum number of variables for the pods of a class in a cell.
MAX_TOTALS = 20_000


@dataclass(frozen=True, slots=True)
class Tag:
    """The subject of a constraint.

    Attributes:
        rule: Plugin name.
        topic: Topic within the rule (see ``Rule.bars`` and ``PlacementModel.about``).
        classes: Pod classes concerned.
        cell: Cell of nodes (a value of ``FactEncoding.cell_of``) of a constraint on one node; None otherwise.
    """

    rule: str
    topic: Hashable
    classes: tuple[int, ...]
    cell: int | None = None


class FactEncoding(PlacementModel):
    """The model of all rules over all nodes, with ``needed`` pods to be placed.

    The pods of a class in a cell have a variable of their own, and capacities are also stated over cells.
    These few rows make most proofs short.

    Attributes:
        rules: By name.
        barred: By tag of an exclusion, bool[N] for each class concerned.
        keys: Topology keys of the classes' rules.
        cell_of: int32[N], equal for nodes in the same domains of all ``keys`` with the same exclusions.
    """

    named = True
    model: EnforcedModel

    def __init__(self, cluster: Cluster, rules: Sequence[Rule], needed: int) -> None:
        self.cluster = cluster
        self.rules = {rule.name: rule for rule in rules}
        self.literals: dict[Tag, cp_model.IntVar] = {}
        self.barred: dict[Tag, dict[int, Bools]] = {}
        for rule in rules:
            for g in range(cluster.n_classes):
                self._bar(rule, g)
        self.keys: list[str] = []
        self.cell_of: Ids = np.zeros(cluster.n_nodes, dtype=np.int32)
        self._divide()
        self._rule = ""
        self._totals: dict[tuple[int, int], cp_model.IntVar] = {}  # pods by (class, cell)
        self._home: dict[int, tuple[int, int]] = {}  # by index of each x
        super().__init__(cluster, self._every_cell())
        self._add_totals()
        for rule in rules:
            self._encode(rule)
        self.model.add(self.sum(list(self.unplaced.values())) <= sum(self.fits) - needed)

    def _bar(self, rule: Rule, g: int) -> None:
        for topic, mask in rule.bars(g):
            if mask.any():
                bars = self.barred.setdefault(Tag(rule.name, topic, (g,)), {})
                bars[g] = bars[g] | mask if g in bars else mask

    def _divide(self) -> None:
        """Divide the nodes into cells, first by topology keys and then by exclusions, while there are not too many cells."""
        max_cells = max(1, MAX_TOTALS // max(1, self.cluster.n_classes))
        for key in _keys(self.cluster):
            if self._divided(self.cluster.domains(key)[0], max_cells):
                self.keys.append(key)
        for mask in {m.tobytes(): m for bars in self.barred.values() for m in bars.values()}.values():
            self._divided(mask, max_cells)

    def _divided(self, column: Bools | Ids, max_cells: int) -> bool:
        cells = equivalence(self.cell_of, column)
        if len(cells) > min(max_cells, MAX_CELLS):
            return False
        self.cell_of = cells.of.astype(np.int32)
        return True

    def _new_model(self) -> EnforcedModel:
        from kubestow.solver.explain.conflict.enforced_model import EnforcedModel

        return EnforcedModel()

    def _every_cell(self) -> Cells:
        nodes = np.arange(self.cluster.n_nodes, dtype=np.int32)
        counts = [int(k) for k in self.cluster.count]
        return Cells(
            {g: (nodes, np.full(len(nodes), k, dtype=np.int64)) for g, k in enumerate(counts)}, dict(enumerate(counts)), partial=False
        )

    def _encode(self, rule: Rule) -> None:
        self._rule = rule.name
        for tag, bars in self.barred.items():
            if tag.rule == rule.name:
                for g, mask in bars.items():
                    with self.about(tag.topic, (g,)):
                        self.model.add(self.sum(self.variables(g, np.flatnonzero(mask))) == 0)
        with self.about(None, range(self.cluster.n_classes)):
            rule.encode(self)
        rule.encode_cells(self)

    def _add_totals(self) -> None:
        self._size = np.bincount(self.cell_of)
        for g in range(self.cluster.n_classes):
            parts: dict[int, list[cp_model.IntVar]] = {}
            for n, cell in enumerate(self.cell_of.tolist()):
                variable = self.x[g, n]
                self._home[variable.index] = g, cell
                parts.setdefault(cell, []).append(variable)
            for cell, variables in parts.items():
                total = self.model.new_int_var(0, self.fits[g], "")
                self.model.add(cp_model.LinearExpr.sum(variables) == total)
                self._totals[g, cell] = total
                if self.fits[g] > 1:
                    self._wide.add(total.index)
            # Redundant, because propagation does not see it through the sums.
            self.model.add(cp_model.LinearExpr.sum([*(self._totals[g, cell] for cell in parts), self.unplaced[g]]) == self.fits[g])

    def totals(self) -> Iterator[tuple[Ints, list[cp_model.IntVar]]]:
        """Yield for each cell its nodes, and the pods of each class there."""
        for cell in range(len(self._size)):
            yield np.flatnonzero(self.cell_of == cell), [self._totals[g, cell] for g in range(self.cluster.n_classes)]

    def _with_totals(self, variables: Sequence[cp_model.IntVar]) -> Sequence[cp_model.IntVar]:
        """Return the variables with those of a class on all nodes of a cell replaced by their total."""
        if len(variables) < 2:
            return variables
        parts: dict[tuple[int, int], list[cp_model.IntVar]] = {}
        terms = []
        for variable in variables:
            home = self._home.get(variable.index)
            if home is None:
                terms.append(variable)
            else:
                parts.setdefault(home, []).append(variable)
        for home, members in parts.items():
            terms += [self._totals[home]] if len(members) == self._size[home[1]] else members
        return terms

    def sum(self, variables: Sequence[cp_model.IntVar]) -> cp_model.LinearExprT:
        return super().sum(self._with_totals(variables))

    @contextmanager
    def _under(self, literal: Callable[[], cp_model.IntVar] | None) -> Iterator[None]:
        before, self.model.under = self.model.under, literal
        try:
            yield
        finally:
            self.model.under = before

    def about(self, topic: Hashable, classes: Sequence[int] = (), node: int | None = None) -> AbstractContextManager[None]:
        tag = Tag(self._rule, topic, tuple(classes), None if node is None else int(self.cell_of[node]))
        return self._under(lambda: self._literal(tag))

    def _literal(self, tag: Tag) -> cp_model.IntVar:
        literal = self.literals.get(tag)
        if literal is None:
            literal = self.literals[tag] = self.model.new_bool_var("")
        return literal

    def _new_any(self, variables: Sequence[cp_model.IntVar]) -> cp_model.IntVar:
        with self._under(None):  # shared by constraints of other tags
            return super()._new_any(self._with_totals(variables))


def _keys(cluster: Cluster) -> list[str]:
    """Return the topology keys of the classes' hard rules with few enough domains, in ascending order of domains."""
    size = {key: cluster.domains(key)[1] for kind in scheduling_rules.ALL for key in kind.topology_keys(cluster)}
    return sorted((key for key in size if size[key] <= MAX_DOMAINS), key=lambda key: (size[key], key))
