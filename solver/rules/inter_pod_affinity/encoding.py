"""The encoding of required affinity and anti-affinity between pods, for :mod:`kubestow.solver.rules.inter_pod_affinity.rule`.

The encoding of affinity is foundedness in answer-set programming: a pod needs a provider that can be bound
before it (Lin and Zhao, ASSAT, doi:10.1016/j.artint.2004.04.004). If providers need each other in a cycle,
ranks order them.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

import numpy as np

from kubestow.models.cluster.cluster import AffinityTerm, Ids, Ints, RequiredAffinity
from kubestow.models.kube.selectors import Bools
from kubestow.solver.cpsat.model import PlacementModel
from kubestow.solver.ortools import cp_model
from kubestow.solver.runtime.graph import strongly_connected


@dataclass
class Attraction:
    """One distinct set of required affinity terms.

    Attributes:
        full: Matcher of all terms together.
        keys: Topology keys of the terms.
        codes: int32[N] for each key, the domain of each node.
        sizes: Number of domains of each key.
        counts: int64[D] for each key, full matches per domain.
        any_key: bool[N], nodes with any of the keys.
        total: Full matches on nodes with any key.
        matches: bool[G], pending classes that match all terms.
    """

    full: int
    keys: tuple[str, ...]
    codes: list[Ids]
    sizes: list[int]
    counts: list[Ints]
    any_key: Bools
    total: int
    matches: Bools

    @property
    def topic(self) -> RequiredAffinity:
        """The topic of all classes with these terms, whether or not they match them."""
        return RequiredAffinity(self.full, self.keys, False)

    def add(self, n: int, k: int) -> None:
        if self.any_key[n]:
            self.total += k
            for codes, count in zip(self.codes, self.counts, strict=True):
                if codes[n] >= 0:
                    count[codes[n]] += k


@dataclass
class Repulsion:
    """One distinct anti-affinity term.

    Attributes:
        term: The term.
        codes: int32[N], the domain of each node.
        size: Number of domains.
        matching: int64[D], the pods it matches.
        owners: int64[D], the pods that carry it.
        matches: bool[G], the pending classes it matches.
    """

    term: AffinityTerm
    codes: Ids
    size: int
    matching: Ints
    owners: Ints
    matches: Bools


class AffinityEncoder:
    """Required affinity: every class in a domain has an earlier provider there, an existing match, or opens the domain.

    Args:
        attractions: The distinct sets of terms, with counts in the state in which the model is built.
        attraction_of: By class, an index into them; None without affinity.
    """

    def __init__(self, encoding: PlacementModel, attractions: Sequence[Attraction], attraction_of: Sequence[int | None]) -> None:
        self._e = encoding
        self._cluster = encoding.cluster
        self._attractions = attractions
        self._counts = [a.counts for a in attractions]
        self._totals = [a.total for a in attractions]
        self._of = [i if not encoding.partial or len(encoding.nodes_of(g)) else None for g, i in enumerate(attraction_of)]
        self._owners: dict[int, list[int]] = {}
        for g, i in enumerate(self._of):
            if i is not None:
                self._owners.setdefault(i, []).append(g)
        self._closed = {i for i in self._owners if self._totals[i] == 0 and self._among_themselves(i)}
        self._component = self._components()
        self._opens: dict[tuple[int, tuple[int, ...]], cp_model.IntVar] = {}
        self._cells: dict[int, dict[tuple[int, ...], list[int]]] = {}
        self._rank: dict[tuple[int, tuple[int, ...]], cp_model.IntVar] = {}
        self._active: dict[tuple[int, tuple[int, ...]], cp_model.IntVar] = {}

    def run(self) -> None:
        self._bootstrap()
        for closed in sorted(self._closed):
            with self._about(closed):
                self._one_domain(closed)
        for g, i in enumerate(self._of):
            if i is not None and i not in self._closed:
                with self._about(i):
                    if self._component[g] is None:
                        self._acyclic(g, i)
                    else:
                        self._ranked(g, i)

    def _about(self, i: int) -> AbstractContextManager[None]:
        return self._e.about(self._attractions[i].topic, self._owners[i])

    def _among_themselves(self, i: int) -> bool:
        """Return True if the classes with these terms are the only matches, and some match. Then all their pods join the first one."""
        providers = [int(h) for h in np.flatnonzero(self._attractions[i].matches) if len(self._e.nodes_of(int(h)))]
        return bool(providers) and all(self._of[h] == i for h in providers)

    def _one_domain(self, i: int) -> None:
        """Allow at most one domain of each key, which a class that matches the terms opens."""
        a = self._attractions[i]
        providers = np.flatnonzero(a.matches).tolist()
        for key, codes in zip(a.keys, a.codes, strict=True):
            members, used = self._cluster.members(key), []
            for d in self._e.domains(self._owners[i], codes):
                here = self._e.any_of(self._e.cells(providers, members[d]))
                cells = [(g, self._e.variables(g, members[d])) for g in self._owners[i]]
                if here is None:
                    self._e.model.add(self._e.sum([v for _, mine in cells for v in mine]) == 0)
                    continue
                used.append(here)
                for g, mine in cells:
                    if mine:
                        self._e.model.add(self._e.sum(mine) <= self._e.fits[g] * here)
            self._e.model.add_at_most_one(used)

    # Cycles of classes that need each other; None for a class on no cycle with another one.
    def _components(self) -> list[tuple[int, ...] | None]:
        needs = {g: [int(h) for h in np.flatnonzero(self._attractions[i].matches) if h != g and self._of[h] is not None]
                 for g, i in enumerate(self._of) if i is not None and i not in self._closed}  # fmt: skip
        components: list[tuple[int, ...] | None] = [None] * self._cluster.n_classes
        for members in strongly_connected(needs):
            if len(members) > 1:
                for g in members:
                    components[g] = tuple(sorted(members))
        return components

    def _bootstrap(self) -> None:
        """Add open[g, cell]: the first pod of g opens its domains.

        At most one opens per set of terms, and none if a match exists. Two openers exclude each other if each
        would have ended the other's bootstrap.
        """
        per_group: dict[int, list[cp_model.IntVar]] = {}
        openers: list[int] = []
        for g, i in enumerate(self._of):
            affinity = self._cluster.classes[g].affinity
            if i is None or affinity is None or not affinity.itself or self._totals[i] > 0 or i in self._closed:
                continue
            openers.append(g)
            with self._about(i):
                self._open(g, i, per_group)
        for i, literals in per_group.items():
            with self._about(i):
                self._e.model.add_at_most_one(literals)
        for a, g in enumerate(openers):
            for h in openers[a + 1 :]:
                self._exclude(g, h)

    def _gangmates(self, g: int, h: int) -> bool:
        """Return True if pods of the two classes may bind as a unit."""
        gang = self._cluster.classes[g].gang
        return gang is not None and gang == self._cluster.classes[h].gang

    def _open(self, g: int, i: int, per_group: dict[int, list[cp_model.IntVar]]) -> None:
        """Add a literal for each cell that the class may open."""
        for cell, nodes in self._cells_of(g, self._attractions[i]).items():
            present = self._e.any_of(self._e.cells([g], np.array(nodes)))
            if present is None:
                continue
            literal = self._e.model.new_bool_var("")
            self._e.model.add_implication(literal, present)
            self._opens[g, cell] = literal
            per_group.setdefault(i, []).append(literal)

    def _exclude(self, g: int, h: int) -> None:
        """Exclude openers of different groups that match each other's terms, each on a node that the other's terms see."""
        i, j = self._of[g], self._of[h]
        if i is None or j is None or i == j:
            return
        first, second = self._attractions[i], self._attractions[j]
        if not (first.matches[h] and second.matches[g]):
            return
        seen_by_second = [lit for (c, cell), lit in self._opens.items() if c == g and self._sees(second, self._nodes(g, first, cell))]
        seen_by_first = [lit for (c, cell), lit in self._opens.items() if c == h and self._sees(first, self._nodes(h, second, cell))]
        if seen_by_second and seen_by_first:
            one, other = self._e.any_of(seen_by_second), self._e.any_of(seen_by_first)
            if one is not None and other is not None:
                self._e.model.add_bool_or([~one, ~other])

    def _nodes(self, g: int, attraction: Attraction, cell: tuple[int, ...]) -> list[int]:
        return self._cells_of(g, attraction)[cell]

    @staticmethod
    def _sees(attraction: Attraction, nodes: list[int]) -> bool:
        """Return True if a match on each of these nodes would end the group's bootstrap. Nodes of a cell may differ in other keys."""
        return bool(attraction.any_key[nodes].all())

    def _cells_of(self, g: int, attraction: Attraction) -> dict[tuple[int, ...], list[int]]:
        """Return the class's possible nodes by their domains under the keys of its terms."""
        if g not in self._cells:
            cells: dict[tuple[int, ...], list[int]] = {}
            for n in self._e.nodes_of(g):
                cells.setdefault(tuple(int(codes[n]) for codes in attraction.codes), []).append(int(n))
            self._cells[g] = cells
        return self._cells[g]

    def _open_in(self, i: int, key_index: int, domain: int) -> list[cp_model.IntVar]:
        """Return the literals of classes with these terms that open the domain."""
        return [
            self._opens[g, cell]
            for g in self._owners[i]
            for cell in self._cells.get(g, {})
            if cell[key_index] == domain and (g, cell) in self._opens
        ]

    def _acyclic(self, g: int, i: int) -> None:
        """Require for a class in a domain that another class matching all its terms is there, which can bind
        first, or that the domain is opened."""
        a = self._attractions[i]
        providers = [int(h) for h in np.flatnonzero(a.matches) if h != g]
        for key_index, codes in enumerate(a.codes):
            for d in np.unique(codes[self._e.nodes_of(g)]):
                if d < 0 or self._counts[i][key_index][d] > 0:
                    continue
                nodes = self._cluster.members(a.keys[key_index])[d]
                present = self._e.any_of(self._e.cells([g], nodes))
                if present is None:
                    continue
                support = self._e.cells(providers, nodes)
                provided = self._e.any_of(support)
                literals = [provided] if provided is not None else []
                self._e.model.add_bool_or([~present, *literals, *self._open_in(i, key_index, int(d))])

    # --- cycles -----------------------------------------------------------------------------------------------------------

    def _units(self, members: tuple[int, ...]) -> list[tuple[int, tuple[int, ...]]]:
        """Return the (class, cell) pairs of a cycle, with cells over the keys of the whole cycle."""
        keys = sorted({k for h in members if (j := self._of[h]) is not None for k in self._attractions[j].keys})
        columns = [self._cluster.domains(k)[0] for k in keys]
        units: dict[tuple[int, tuple[int, ...]], list[int]] = {}
        for h in members:
            for n in self._e.nodes_of(h):
                units.setdefault((h, tuple(int(c[n]) for c in columns)), []).append(int(n))
        for unit, nodes in units.items():
            if unit not in self._rank:
                present = self._e.any_of(self._e.cells([unit[0]], np.array(nodes)))
                assert present is not None
                self._active[unit] = present
                self._rank[unit] = self._e.model.new_int_var(0, len(units), "")
        self._keys = keys
        return list(units)

    def _ranked(self, g: int, i: int) -> None:
        """Require that a provider on a cycle has a smaller rank than its dependents.

        In a gang that binds as a unit, classes with different terms may have the same rank. Classes with the
        same terms cannot found each other.
        """
        members = self._component[g]
        assert members is not None
        a = self._attractions[i]
        units = self._units(members)
        outside = [int(h) for h in np.flatnonzero(a.matches) if h not in members]
        for unit in [u for u in units if u[0] == g]:
            present = self._active[unit]
            for key_index, key in enumerate(a.keys):
                position = self._keys.index(key)
                d = unit[1][position]
                if d < 0 or self._counts[i][key_index][d] > 0:
                    continue
                support = self._open_in(i, key_index, d)
                provided = self._e.any_of(self._e.cells(outside, self._cluster.members(key)[d]))
                if provided is not None:
                    support.append(provided)
                for other in units:
                    if other != unit and a.matches[other[0]] and other[1][position] == d:
                        literal = self._e.model.new_bool_var("")
                        self._e.model.add_implication(literal, self._active[other])
                        before = 0 if self._gangmates(g, other[0]) and self._of[other[0]] != i else 1
                        self._e.model.add(self._rank[other] + before <= self._rank[unit]).only_enforce_if(literal)
                        support.append(literal)
                self._e.model.add_bool_or([~present, *support])


def encode_repulsion(encoding: PlacementModel, r: Repulsion, owners: list[int]) -> None:
    """Allow in each domain at most one kind of pods.

    The kinds are: a single pod that carries the term and matches it, any pods that only carry it, and any
    pods that only match it.
    """
    both = [g for g in owners if r.matches[g]]
    carriers = [g for g in owners if not r.matches[g]]
    targets = [int(g) for g in np.flatnonzero(r.matches) if g not in owners]
    members = encoding.cluster.members(r.term.key)
    for d in encoding.domains([*owners, *targets], r.codes):
        nodes = members[d]
        single = [v for g in both for v in encoding.variables(g, nodes)]
        sides = [encoding.any_of(encoding.cells(group, nodes)) for group in (carriers, targets)]
        literals = [side for side in sides if side is not None]
        if not single and len(literals) < 2:
            continue
        encoding.model.add(encoding.sum([*single, *literals]) <= 1)
