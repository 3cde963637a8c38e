"""Families of weighted terms between pods: affinity if the weight is positive, anti-affinity otherwise.

A term scores Σ over domains (Σ owners' weights) · (matched pods), minus each pod with itself. So it needs two counters per
domain instead of a matrix over pairs of classes. Pairs of two fixed pods are left out, because no placement changes them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

import numpy as np

from kubestow.models.cluster.cluster import Cluster, Ids, Ints, Pull, domain_sum
from kubestow.solver.objective.families.base import Family
from kubestow.solver.objective.ledger import Ledger
from kubestow.solver.objective.sparse_placement import SparsePlacement
from kubestow.solver.rules.base import Rule


@dataclass
class PreferenceTerm:
    """A distinct (matched pods, topologyKey) with all its owners.

    Attributes:
        family: Family of the preference.
        multiplier: The family's multiplier.
        order: Place of the first owner among the owners of all terms of all families.
        key: Topology key.
        codes: Domain of each node, [N].
        size: Number of domains, D.
        matches: Matched classes.
        fixed_matched: Matched fixed pods per domain, [D].
        fixed_owned: Weights of owning fixed pods per domain, [D].
        own: Raw points per pod, by owning class.
    """

    family: str
    multiplier: int
    order: int
    key: str
    codes: Ids
    size: int
    matches: frozenset[int]
    fixed_matched: Ints
    fixed_owned: Ints
    own: dict[int, int] = field(default_factory=dict)

    @property
    def fixed(self) -> bool:
        """True if fixed pods take part."""
        return bool(self.fixed_matched.any() or self.fixed_owned.any())

    def static(self, g: int) -> Ints:
        """Return int64[D]: points of one pod of class g with the fixed pods, in both directions."""
        return np.asarray(self.own.get(g, 0) * self.fixed_matched + int(g in self.matches) * self.fixed_owned, dtype=np.int64)

    def value(self, placed: SparsePlacement) -> int:
        """Return the points between pending pods."""
        matched = placed.per_domain(sorted(self.matches), self.codes, self.size)
        total = 0
        for g, weight in self.own.items():
            domains, pods = placed.in_domains(g, self.codes)
            total += weight * (int(pods @ matched[domains]) - int(g in self.matches) * int(pods.sum()))
        return total

    def best(self, cluster: Cluster, placed: Ints) -> int:
        """Return the points of placed pods (int64[G]) with all pulls met and only unavoidable repulsion."""
        total, matched = 0, int(placed[sorted(self.matches)].sum())
        for g, weight in self.own.items():
            pods = int(placed[g])
            if weight > 0:
                total += weight * pods * (matched - int(g in self.matches))
            elif g in self.matches and cluster.nodes.with_keys([self.key]).all():
                each, more = divmod(pods, domains := max(1, self.size))
                total += weight * (each * (each - 1) * (domains - more) + (each + 1) * each * more)
        return total


class PairFamily(Family):
    """A family of the weighted terms that :class:`kubestow.models.cluster.cluster.Pull` has under its name."""

    def __init__(self, cluster: Cluster, rules: Sequence[Rule]) -> None:
        super().__init__(cluster, rules)
        known: dict[tuple[int, str], PreferenceTerm] = {}
        owners = [(g, pull) for g, cls in enumerate(cluster.classes) for pull in cls.pulls]
        for order, (g, pull) in enumerate(owners):
            if pull.family == self.name:
                own = self._term(known, pull, order).own
                own[g] = own.get(g, 0) + pull.weight
        for order, (pull, nodes) in enumerate(cluster.fixed_pulls.items()):
            if pull.family == self.name:
                term = self._term(known, pull, len(owners) + order)
                term.fixed_owned = term.fixed_owned + pull.weight * domain_sum(term.codes, term.size, nodes)
        self._near_fixed: list[list[PreferenceTerm]] = [[] for _ in cluster.classes]
        for term in known.values():
            term.own = {g: weight for g, weight in term.own.items() if weight}
            if term.matches or (term.own and term.fixed_matched.any()):
                self.terms.append(term)
                for g in (term.matches | term.own.keys()) if term.fixed else ():
                    self._near_fixed[g].append(term)

    def _term(self, known: dict[tuple[int, str], PreferenceTerm], pull: Pull, order: int) -> PreferenceTerm:
        key, cluster = (pull.matcher, pull.key), self.cluster
        if key not in known:
            codes, size = cluster.domains(pull.key)
            matches, fixed = frozenset(cluster.matching(pull.matcher).tolist()), cluster.fixed_per_domain(pull.matcher, pull.key)
            known[key] = PreferenceTerm(self.name, self.multiplier, order, pull.key, codes, size, matches, fixed, cluster.none(size))
        return known[key]

    @abstractmethod
    def words(self, pull: Pull) -> str:
        """Return the words for a term in reports."""

    def key(self, g: int) -> Hashable:
        return tuple((term.order, term.own.get(g, 0), g in term.matches) for term in self._near_fixed[g]) or None

    def row(self, g: int) -> Ints:
        row = np.zeros(self.cluster.n_nodes, dtype=np.int64)
        for term in self._near_fixed[g]:
            row += np.append(term.static(g), 0)[term.codes]
        return row

    def scale(self) -> int:
        pulls = (pull for cls in self.cluster.classes for pull in cls.pulls if pull.family == self.name)
        return max((abs(pull.weight) for pull in pulls), default=0)

    def best(self, placed: Ints) -> int:
        return super().best(placed) + sum(term.best(self.cluster, placed) for term in self.terms if term.own and term.matches)

    def losses(self, ledger: Ledger) -> None:
        cluster, placed = self.cluster, ledger.placed
        for g in placed.classes:
            nodes, pods = placed.of(g)
            for pull in cluster.classes[g].pulls:
                if pull.family != self.name:
                    continue
                codes, size = cluster.domains(pull.key)
                matching = cluster.matching(pull.matcher)
                present = placed.per_domain(matching.tolist(), codes, size) + cluster.fixed_per_domain(pull.matcher, pull.key)
                itself = int(g in matching)
                met = np.append(present - itself, 0)[codes[nodes]]
                matching_pods = int(ledger.total[matching].sum()) + int(cluster.fixed_count(pull.matcher).sum()) - itself
                per_pod = pull.weight * (matching_pods - met) if pull.weight > 0 else -pull.weight * met
                ledger.share(self, g, self.words(pull), np.asarray(per_pod * pods, dtype=np.int64))
