"""The soft tier: points for preferences that a placement honours, by family, in integers.

The families are in :mod:`kubestow.solver.objective.families`. Here is what they share: the rows, terms and constraints of all
families, by class, and the value of a placement. Container affinity needs zones; its points count only if they are given."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property

import numpy as np

from kubestow.models.cluster.cluster import Cluster, Ints
from kubestow.solver.objective import families
from kubestow.solver.objective.families.base import Family
from kubestow.solver.objective.families.container_affinity import ContainerAffinity
from kubestow.solver.objective.shapes import AssignedZones, PreferenceTerm, SoftTally
from kubestow.solver.objective.sparse_placement import SparsePlacement
from kubestow.solver.rules.base import Rule


class Objective:
    """The soft families of a compiled cluster.

    Args:
        rules: Rules in the state of the fixed pods.

    Attributes:
        members: The families, in the order of reports.
        terms: Their terms between pods, in the order of their first owners.
        pairs: Indices of the terms between pending pods.
        owned: Terms that each class owns, by class.
        matching: Terms that match each class, by class.
        tallies: Their soft spread constraints.
        feeds: Constraints that count each class, by class.
        carried: Constraints by their first owner.
        involved: Classes with points of another shape, which need zones.
        containers: The family that the choice of zones serves.
    """

    def __init__(self, cluster: Cluster, rules: Sequence[Rule]) -> None:
        self.cluster = cluster
        self.members = families.build(cluster, rules)
        self.terms: list[PreferenceTerm] = sorted((t for f in self.members for t in f.terms), key=lambda term: term.order)
        self.owned = _by_class(cluster, (term.own for term in self.terms))
        self.matching = _by_class(cluster, (term.matches for term in self.terms))
        self.pairs = [t for t, term in enumerate(self.terms) if term.own and term.matches]
        self._paired = set(self.pairs)
        self.tallies: list[SoftTally] = [tally for family in self.members for tally in family.tallies]
        self.feeds = _by_class(cluster, (tally.matches.tolist() for tally in self.tallies))
        self.carried = _by_class(cluster, ([tally.owners[0]] for tally in self.tallies))
        self.involved = frozenset(g for family in self.members for g in family.involved)
        self.containers = next(family for family in self.members if isinstance(family, ContainerAffinity))
        self._rows: dict[tuple[object, ...], Ints] = {}  # shared by classes with equal keys
        self._row_of: dict[int, Ints] = {}
        self._families_of: dict[int, list[Family]] = {}

    @cached_property
    def empty(self) -> bool:
        """True if no preference concerns the pods to be placed."""
        return not any(family.present for family in self.members)

    def scale(self) -> int:
        """Return the largest weighted points of a single preference, at least 1."""
        return max(1, *(family.multiplier * family.scale() for family in self.members))

    # --- points that depend on one pod and one node --------------------------------------------------------------------------

    def node_points(self, g: int) -> Ints:
        """Return int64[N]: weighted points of one pod of class g on each node, without other pending pods."""
        row = self._row_of.get(g)
        if row is None:
            keys = tuple(family.key(g) for family in self.members)
            if keys not in self._rows:
                row = np.zeros(self.cluster.n_nodes, dtype=np.int64)
                for family in self._with_rows(g):
                    row = row + family.multiplier * family.row(g)
                self._rows[keys] = row
            row = self._row_of[g] = self._rows[keys]
        return row

    def _with_rows(self, g: int) -> list[Family]:
        """Return the families in which single nodes can give points to the class."""
        found = self._families_of.get(g)
        if found is None:
            found = self._families_of[g] = [family for family in self.members if family.key(g) is not None]
        return found

    def shapes_of(self, g: int) -> list[Family]:
        """Return the families that give a class points in a shape of their own."""
        return [family for family in self.members if g in family.involved]

    # --- the value of a placement --------------------------------------------------------------------------------------------

    def families(
        self,
        counts: Ints | SparsePlacement,
        classes: Collection[int] | None = None,
        *,
        zones: AssignedZones | None = None,
        excesses: Mapping[int, int] | None = None,
    ) -> dict[str, int]:
        """Return the raw points per family of a placement (int64[G, N]).

        Args:
            classes: Only these classes, which nothing ties to others.
            zones: The NUMA zones of its containers. Without them, container affinity counts as 0.
            excesses: Result of :meth:`excesses` for all soft spread constraints, if known.
        """
        placed = counts if isinstance(counts, SparsePlacement) else SparsePlacement(counts)
        found = self._node_families(placed, placed.classes if classes is None else classes)
        pairs = self.pairs if classes is None else sorted({t for g in classes for t in self.owned[g]} & self._paired)
        for t in pairs:
            found[self.terms[t].family] += self.terms[t].value(placed)
        if excesses is None:
            chosen = range(len(self.tallies)) if classes is None else sorted({i for g in classes for i in self.carried[g]})
            excesses = self.excesses(placed, chosen)
        for i, above in excesses.items():
            found[self.tallies[i].family] -= self.tallies[i].cost * above
        if zones is not None:
            found[self.containers.name] += zones.points
        return found

    def _node_families(self, placed: SparsePlacement, classes: Collection[int]) -> dict[str, int]:
        """Return the raw points per family that depend on one pod and its node."""
        found = {family.name: 0 for family in self.members}
        for g in classes:
            nodes, pods = placed.of(g)
            for family in self._with_rows(g):
                found[family.name] += int(family.row(g)[nodes] @ pods)
        return found

    def excesses(self, placed: SparsePlacement, tallies: Iterable[int]) -> dict[int, int]:
        """Return the pods above maxSkew of soft spread constraints, by their indices."""
        return {i: self.tallies[i].excess(self.tallies[i].arriving(placed)) for i in tallies}

    def total(self, families: dict[str, int]) -> int:
        """Return the weighted sum of the families."""
        return sum(family.multiplier * families[family.name] for family in self.members)


def _by_class(cluster: Cluster, concerned: Iterable[Iterable[int]]) -> list[list[int]]:
    """Return, for each class, the indices of the entries of ``concerned`` that have it."""
    found: list[list[int]] = [[] for _ in cluster.classes]
    for i, classes in enumerate(concerned):
        for g in classes:
            found[g].append(i)
    return found
