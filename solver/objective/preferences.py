"""The soft tier: points for preferences that a placement honours, by family, in integers.

Container affinity needs zones and is separate (:mod:`kubestow.solver.objective.container_affinity`). A weighted term
scores Σ over domains (Σ owners' weights) · (matched pods), minus each pod with itself. So a term needs two counters per
domain instead of a matrix over pairs of classes. Pairs of two fixed pods are left out, because no placement changes them.

Source: pkg/scheduler/framework/plugins/{nodeaffinity,tainttoleration,interpodaffinity,podtopologyspread}/scoring.go for
matching; the sum over all ordered pairs is this project's own objective (docs/preferences.md)."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from kubestow.models.cluster.cluster import Cluster, Ids, Ints, Pull, SoftSpread, domain_sum, single
from kubestow.models.kube.selectors import Bools
from kubestow.solver.objective.container_affinity import ContainerPoints
from kubestow.solver.objective.sparse_placement import SparsePlacement
from kubestow.solver.rules.base import Rule, kinds

NODE_AFFINITY: Final = "nodeAffinity"
TAINTS: Final = "taints"
IMAGE_LOCALITY: Final = "imageLocality"
POD_AFFINITY: Final = "podAffinity"
REQUIRED_AFFINITY: Final = "requiredAffinity"
TOPOLOGY_SPREAD: Final = "topologySpread"
CONTAINER_AFFINITY: Final = "containerAffinity"
FAMILIES: Final = (NODE_AFFINITY, TAINTS, IMAGE_LOCALITY, POD_AFFINITY, REQUIRED_AFFINITY, TOPOLOGY_SPREAD, CONTAINER_AFFINITY)
#: Points lost per untolerated PreferNoSchedule taint of a pod, and per pod above maxSkew of a ScheduleAnyway constraint.
TAINT_COST: Final = 100
SKEW_COST: Final = 100


@dataclass
class PreferenceTerm:
    """A distinct (matched pods, topologyKey) with all its owners.

    Attributes:
        family: Family of the preference.
        key: Topology key.
        codes: Domain of each node, [N].
        size: Number of domains, D.
        own: Raw points per pod, by owning class.
        matches: Matched classes.
        fixed_matched: Matched fixed pods per domain, [D].
        fixed_owned: Weights of owning fixed pods per domain, [D].
    """

    family: str
    key: str
    codes: Ids
    size: int
    own: dict[int, int]
    matches: frozenset[int]
    fixed_matched: Ints
    fixed_owned: Ints

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


@dataclass
class SoftTally:
    """A distinct ScheduleAnyway constraint.

    Attributes:
        spread: The constraint.
        codes: Domain of each node, [N]; -1 if the node is not eligible.
        size: Number of domains, D.
        base: Counted fixed pods per domain, [D].
        counted: Eligible domains, [D].
        usable: Domains that set the minimum, [D].
        matches: Counted classes.
        owners: Classes that carry the constraint.
    """

    spread: SoftSpread
    codes: Ids
    size: int
    base: Ints
    counted: Bools
    usable: Bools
    matches: Ids
    owners: list[int]

    @cached_property
    def single(self) -> bool:
        """True if every domain is one node."""
        return single(self.codes, self.size)

    @cached_property
    def _all_usable(self) -> bool:
        return bool(self.usable.all())

    def floor(self, counts: Ints) -> int:
        """Return the minimum of ``counts``, int64[D], over the domains that set it."""
        return int((counts if self._all_usable else counts[self.usable]).min())

    @cached_property
    def _all_counted(self) -> bool:
        return bool(self.counted.all())

    def excess(self, counts: Ints) -> int:
        """Return the number of pods above min + maxSkew, over all domains.

        Args:
            counts: Counted pods in each domain, int64[D].
        """
        limit = self.floor(counts) + self.spread.max_skew
        return int(np.maximum((counts if self._all_counted else counts[self.counted]) - limit, 0).sum())

    def arriving(self, placed: SparsePlacement) -> Ints:
        """Return int64[D]: the counts of a placement."""
        return self.base + placed.per_domain(self.matches.tolist(), self.codes, self.size)


class Objective:
    """The soft families of a compiled cluster, except container affinity.

    Args:
        rules: Rules in the state of the fixed pods.
    """

    def __init__(self, cluster: Cluster, rules: Sequence[Rule]) -> None:
        self.cluster = cluster
        weights = cluster.policy.multipliers
        self.multipliers = {family: int(getattr(weights, family)) for family in FAMILIES}
        self.terms: list[PreferenceTerm] = []
        self._term_ids: dict[tuple[int, str, bool], int] = {}
        self._rows: dict[tuple[object, ...], Ints] = {}
        for g, cls in enumerate(cluster.classes):
            for pull in cls.pulls:
                own = self._term(pull).own
                own[g] = own.get(g, 0) + pull.weight
        for pull, nodes in cluster.fixed_pulls.items():
            term = self._term(pull)
            term.fixed_owned = term.fixed_owned + pull.weight * domain_sum(term.codes, term.size, nodes)
        for term in self.terms:
            term.own = {g: weight for g, weight in term.own.items() if weight}
        self.terms = [t for t in self.terms if t.matches or (t.own and t.fixed_matched.any())]
        self.owned: list[list[int]] = [[] for _ in cluster.classes]
        self.matching: list[list[int]] = [[] for _ in cluster.classes]
        for t, term in enumerate(self.terms):
            for g in term.own:
                self.owned[g].append(t)
            for g in term.matches:
                self.matching[g].append(t)
        self.pairs = [t for t, term in enumerate(self.terms) if term.own and term.matches]
        self._fixed = [term.fixed for term in self.terms]
        self.tallies = self._tallies(rules)
        self.feeds: list[list[int]] = [[] for _ in cluster.classes]
        for i, tally in enumerate(self.tallies):
            for g in tally.matches.tolist():
                self.feeds[g].append(i)
        self.carried: list[list[int]] = [[] for _ in cluster.classes]  # tallies by their first owner
        for i, tally in enumerate(self.tallies):
            self.carried[tally.owners[0]].append(i)
        self._paired = set(self.pairs)
        self._taints = self._taint_rows()
        self.containers = ContainerPoints(cluster)

    def _term(self, pull: Pull) -> PreferenceTerm:
        key = (pull.matcher, pull.key, pull.required)
        if key not in self._term_ids:
            cluster = self.cluster
            codes, size = cluster.domains(pull.key)
            self._term_ids[key] = len(self.terms)
            self.terms.append(
                PreferenceTerm(
                    REQUIRED_AFFINITY if pull.required else POD_AFFINITY, pull.key, codes, size,
                    {}, frozenset(cluster.matching(pull.matcher).tolist()),
                    cluster.fixed_per_domain(pull.matcher, pull.key), cluster.none(size),
                )
            )  # fmt: skip
        return self.terms[self._term_ids[key]]

    def _tallies(self, rules: Sequence[Rule]) -> list[SoftTally]:
        cluster = self.cluster
        judges = [rule for rule in rules if rule.for_good]
        reachable: dict[Hashable, Bools] = {}
        owners: dict[SoftSpread, list[int]] = {}
        for g, cls in enumerate(cluster.classes):
            for spread in dict.fromkeys(cls.soft_spread):
                owners.setdefault(spread, []).append(g)
        eligible: dict[tuple[str, int], tuple[Ids, Bools]] = {}
        known: dict[bytes, Bools] = {}  # shared arrays: most constraints have the same usable domains
        reached: dict[Hashable, Bools] = {}
        tallies = []
        for spread, own in owners.items():
            codes, size = cluster.domains(spread.key)
            where = (spread.key, spread.eligible)
            if where not in eligible:
                inside = cluster.node_sets[spread.eligible] & (codes >= 0)
                counted = np.zeros(size, dtype=bool)
                counted[codes[inside]] = True
                eligible[where] = np.where(inside, codes, -1).astype(np.int32), counted
            codes, counted = eligible[where]
            owning = kinds(judges, own)
            if (who := (where, frozenset(owning))) not in reached:
                reach = np.zeros(cluster.n_nodes, dtype=bool)
                for kind, alike in owning.items():
                    if kind not in reachable:
                        reachable[kind] = ~np.logical_or.reduce([rule.never(alike[0]) for rule in judges])
                    reach |= reachable[kind]
                usable = np.zeros(size, dtype=bool)
                usable[codes[reach & (codes >= 0)]] = True
                reached[who] = known.setdefault(usable.tobytes(), usable)
            usable = reached[who]
            if usable.any():
                base = cluster.fixed_per_domain(spread.matcher, spread.key, settled=True, eligible=spread.eligible)
                tallies.append(SoftTally(spread, codes, size, base, counted, usable, cluster.matching(spread.matcher), own))
        return tallies

    def _taint_rows(self) -> dict[int, Ints]:
        """Return int64[N] per toleration set: points lost to PreferNoSchedule taints."""
        cluster = self.cluster
        listed = [[t for t in cluster.nodes.taints(n) if t.effect == "PreferNoSchedule"] for n in range(cluster.n_nodes)]
        soft = [n for n, taints in enumerate(listed) if taints]
        rows: dict[int, Ints] = {}
        if not soft or not self.multipliers[TAINTS]:
            return rows
        for index in {c.tolerations for c in cluster.classes}:
            row = np.zeros(cluster.n_nodes, dtype=np.int64)
            for n in soft:
                row[n] = -TAINT_COST * sum(not cluster.toleration_sets[index].cover(taint) for taint in listed[n])
            if row.any():
                rows[index] = row
        return rows

    @property
    def taints(self) -> bool:
        """True if some PreferNoSchedule taint is not tolerated."""
        return bool(self._taints)

    @property
    def empty(self) -> bool:
        """True if no preference concerns the pods to be placed."""
        listed = self.terms or self.tallies or self._taints or self.containers.involved
        return not (listed or any(c.prefers or c.images is not None for c in self.cluster.classes))

    # --- points that depend on one pod and one node --------------------------------------------------------------------------

    def static(self, g: int, family: str) -> Ints:
        """Return int64[N]: raw points of one pod of class g on each node, without other pending pods."""
        cluster, cls = self.cluster, self.cluster.classes[g]
        row = np.zeros(cluster.n_nodes, dtype=np.int64)
        if family == NODE_AFFINITY:
            for chosen, weight in cls.prefers:
                row += weight * cluster.node_sets[chosen]
        elif family == TAINTS:
            row = self._taints.get(cls.tolerations, row)
        elif family == IMAGE_LOCALITY and cls.images is not None:
            row = cluster.image_scores[cls.images]
        elif family in (POD_AFFINITY, REQUIRED_AFFINITY):
            for t in dict.fromkeys((*self.owned[g], *self.matching[g])):
                term = self.terms[t]
                if term.family == family and self._fixed[t]:
                    row = row + np.append(term.static(g), 0)[term.codes]
        return row

    def node_points(self, g: int) -> Ints:
        """Return int64[N]: the sum of :meth:`static` over the families, times their multipliers."""
        cls = self.cluster.classes[g]
        concerned = (t for t in sorted({*self.owned[g], *self.matching[g]}) if self._fixed[t])
        touched = tuple((t, self.terms[t].own.get(g, 0), g in self.terms[t].matches) for t in concerned)
        key = (cls.prefers, cls.tolerations if cls.tolerations in self._taints else -1, cls.images, touched)
        if key not in self._rows:
            row = np.zeros(self.cluster.n_nodes, dtype=np.int64)
            for family in (NODE_AFFINITY, TAINTS, IMAGE_LOCALITY, POD_AFFINITY, REQUIRED_AFFINITY):
                row = row + self.multipliers[family] * self.static(g, family)
            self._rows[key] = row
        return self._rows[key]

    # --- the value of a placement --------------------------------------------------------------------------------------------

    def families(
        self, counts: Ints | SparsePlacement, classes: Sequence[int] | None = None, excesses: Sequence[int] | None = None
    ) -> dict[str, int]:
        """Return the raw points per family of a placement (int64[G, N]).

        Args:
            classes: Only these classes, which nothing ties to others.
            excesses: Result of :meth:`excesses` for all tallies, if known.
        """
        placed = counts if isinstance(counts, SparsePlacement) else SparsePlacement(counts)
        found = dict.fromkeys(FAMILIES, 0)
        for g in placed.classes if classes is None else classes:
            nodes, pods = placed.of(g)
            for family in self.static_families(g):
                found[family] += int(self.static(g, family)[nodes] @ pods)
        inside = None if classes is None else set(classes)
        pairs = self.pairs if inside is None else sorted({t for g in inside for t in self.owned[g]} & self._paired)
        for t in pairs:
            found[self.terms[t].family] += self.terms[t].value(placed)
        if excesses is None:
            excesses = self.excesses(placed, None if inside is None else sorted({i for g in inside for i in self.carried[g]}))
        found[TOPOLOGY_SPREAD] -= SKEW_COST * sum(excesses)
        return found

    def excesses(self, placed: SparsePlacement, tallies: Sequence[int] | None = None) -> list[int]:
        """Return the pods above maxSkew of all tallies, or of the given ones."""
        chosen = self.tallies if tallies is None else [self.tallies[i] for i in tallies]
        return [tally.excess(tally.arriving(placed)) for tally in chosen]

    def static_families(self, g: int) -> list[str]:
        """Return the families in which single nodes can give points to the class."""
        cls = self.cluster.classes[g]
        families = [NODE_AFFINITY] if cls.prefers else []
        if cls.tolerations in self._taints:
            families.append(TAINTS)
        if cls.images is not None:
            families.append(IMAGE_LOCALITY)
        return families + sorted({self.terms[t].family for t in (*self.owned[g], *self.matching[g]) if self._fixed[t]})

    def total(self, families: dict[str, int]) -> int:
        """Return the weighted sum of the families."""
        return sum(self.multipliers[family] * points for family, points in families.items())
