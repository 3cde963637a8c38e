"""Families of weighted terms between pods: affinity if the weight is positive, anti-affinity otherwise.

A term scores Σ over domains (Σ owners' weights) · (matched pods), minus each pod with itself. So it needs two counters per
domain instead of a matrix over pairs of classes. Pairs of two fixed pods are left out, because no placement changes them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Sequence

import numpy as np

from kubestow.models.cluster.cluster import Cluster, Ints, Pull, domain_sum
from kubestow.solver.objective.families.base import Family
from kubestow.solver.objective.ledger import Ledger
from kubestow.solver.objective.shapes import PreferenceTerm
from kubestow.solver.rules.base import Rule


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
