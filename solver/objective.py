"""The soft tier: what preferences a placement honours, by family, in whole points.

Container affinity needs zones and stands apart (:mod:`solver.container_points`). A weighted term scores
Σ over domains (Σ owners' weights) · (matched pods) less each pod with itself, so a term costs two counters per domain, not a matrix
over pairs of classes. Only what a placement decides counts: pairs of two fixed pods are left out.

Source: pkg/scheduler/framework/plugins/{nodeaffinity,tainttoleration,interpodaffinity,podtopologyspread}/scoring.go for what matches;
the sum over all ordered pairs is this project's own objective (design, "Objective").
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from models.cluster import Cluster, Ids, Ints, Pull, SoftSpread, domain_sum
from models.selectors import Bools, tolerates
from solver.container_points import ContainerPoints
from solver.rules.base import Rule

NODE_AFFINITY: Final = "nodeAffinity"
TAINTS: Final = "taints"
POD_AFFINITY: Final = "podAffinity"
REQUIRED_AFFINITY: Final = "requiredAffinity"
TOPOLOGY_SPREAD: Final = "topologySpread"
CONTAINER_AFFINITY: Final = "containerAffinity"
FAMILIES: Final = (NODE_AFFINITY, TAINTS, POD_AFFINITY, REQUIRED_AFFINITY, TOPOLOGY_SPREAD, CONTAINER_AFFINITY)
#: Points lost per untolerated PreferNoSchedule taint of a pod, and per pod above maxSkew of a ScheduleAnyway constraint.
TAINT_COST: Final = 100
SKEW_COST: Final = 100
#: The rules that say whether a pending pod could ever use a node, for the minimum of a soft spread constraint.
USABLE: Final = ("NodeUnschedulable", "NodeName", "TaintToleration", "NodeAffinity", "NodeResourcesFit")


@dataclass
class Term:
    """One distinct (matched pods, topologyKey) with all that own it. ``own``: int64[G] weight per pod of each class, in raw points."""

    family: str
    key: str
    codes: Ids  # [N]
    size: int
    own: Ints
    matches: Bools  # [G]
    fixed_matched: Ints  # [D]: fixed pods it matches
    fixed_owned: Ints  # [D]: weights of fixed pods that own it

    def static(self, g: int) -> Ints:
        """int64[D]: points of one pod of class g against the fixed pods, both ways."""
        return np.asarray(self.own[g] * self.fixed_matched + int(self.matches[g]) * self.fixed_owned, dtype=np.int64)

    def value(self, per_domain: Ints) -> int:
        """Points between pending pods; ``per_domain``: int64[G, D] pods of each class."""
        matched = per_domain[self.matches].sum(axis=0)
        owned = self.own @ per_domain
        alone = int((self.own * self.matches) @ per_domain.sum(axis=1))
        return int(owned @ matched) - alone


@dataclass
class SoftTally:
    """One distinct ScheduleAnyway constraint."""

    spread: SoftSpread
    codes: Ids  # [N], -1 for nodes that are not eligible
    size: int
    base: Ints  # [D]: fixed pods counted
    counted: Bools  # [D]: eligible domains
    usable: Bools  # [D]: those that set the minimum
    matches: Bools  # [G]

    def excess(self, counts: Ints) -> int:
        """Pods above min + maxSkew; ``counts``: int64[D]."""
        floor = int(counts[self.usable].min()) + self.spread.max_skew
        return int(np.maximum(counts[self.counted] - floor, 0).sum())

    def arriving(self, placed: Ints) -> Ints:
        """int64[D] counts of a placement int64[G, N]."""
        return self.base + domain_sum(self.codes, self.size, placed[self.matches].sum(axis=0))


class Objective:
    """The soft families of a compiled cluster, but for container affinity. ``rules``: in the state of the fixed pods."""

    def __init__(self, cluster: Cluster, rules: Sequence[Rule]) -> None:
        self.cluster = cluster
        weights = cluster.policy.multipliers
        self.multipliers = {family: int(getattr(weights, family)) for family in FAMILIES}
        self.terms: list[Term] = []
        self._term_ids: dict[tuple[int, str, bool], int] = {}
        self._rows: dict[tuple[object, ...], Ints] = {}
        for g, cls in enumerate(cluster.classes):
            for pull in cls.pulls:
                self._term(pull).own[g] += pull.weight
        for pull, nodes in cluster.fixed_pulls.items():
            term = self._term(pull)
            term.fixed_owned = term.fixed_owned + pull.weight * domain_sum(term.codes, term.size, nodes)
        self.terms = [t for t in self.terms if t.matches.any() or (t.own.any() and t.fixed_matched.any())]
        self.owned: list[list[int]] = [[] for _ in cluster.classes]
        self.matching: list[list[int]] = [[] for _ in cluster.classes]
        for t, term in enumerate(self.terms):
            for g in np.flatnonzero(term.own).tolist():
                self.owned[g].append(t)
            for g in np.flatnonzero(term.matches).tolist():
                self.matching[g].append(t)
        self.pairs = [t for t, term in enumerate(self.terms) if term.own.any() and term.matches.any()]
        self.tallies = self._tallies(rules)
        self.feeds: list[list[int]] = [[] for _ in cluster.classes]
        for i, tally in enumerate(self.tallies):
            for g in np.flatnonzero(tally.matches).tolist():
                self.feeds[g].append(i)
        self._taints = self._taint_rows()
        self.containers = ContainerPoints(cluster)

    def _term(self, pull: Pull) -> Term:
        key = (pull.matcher, pull.key, pull.required)
        if key not in self._term_ids:
            cluster = self.cluster
            codes, size = cluster.domains(pull.key)
            self._term_ids[key] = len(self.terms)
            self.terms.append(
                Term(
                    REQUIRED_AFFINITY if pull.required else POD_AFFINITY, pull.key, codes, size,
                    np.zeros(cluster.n_classes, dtype=np.int64), cluster.matches(pull.matcher),
                    domain_sum(codes, size, cluster.fixed_count(pull.matcher)), np.zeros(size, dtype=np.int64),
                )
            )  # fmt: skip
        return self.terms[self._term_ids[key]]

    def _tallies(self, rules: Sequence[Rule]) -> list[SoftTally]:
        cluster = self.cluster
        judges = [rule for rule in rules if rule.name in USABLE]
        reach: dict[SoftSpread, Bools] = {}
        for g, cls in enumerate(cluster.classes):
            if cls.soft_spread:
                never = np.logical_or.reduce([rule.never(g) for rule in judges])
                for spread in cls.soft_spread:
                    reach[spread] = reach.get(spread, np.zeros(cluster.n_nodes, dtype=bool)) | ~never
        found = []
        for spread, nodes in reach.items():
            codes, size = cluster.domains(spread.key)
            eligible = cluster.node_sets[spread.eligible] & (codes >= 0)
            codes = np.where(eligible, codes, -1).astype(np.int32)
            usable, counted = np.zeros(size, dtype=bool), np.zeros(size, dtype=bool)
            usable[codes[nodes & eligible]] = True
            counted[codes[eligible]] = True
            base = domain_sum(codes, size, cluster.fixed_count(spread.matcher, settled=True))
            if usable.any():
                found.append(SoftTally(spread, codes, size, base, counted, usable, cluster.matches(spread.matcher)))
        return found

    def _taint_rows(self) -> dict[int, Ints]:
        """Per toleration set, int64[N]: points lost to PreferNoSchedule taints."""
        cluster = self.cluster
        listed = [[t for t in cluster.nodes.taints(n) if t.effect == "PreferNoSchedule"] for n in range(cluster.n_nodes)]
        soft = [n for n, taints in enumerate(listed) if taints]
        rows: dict[int, Ints] = {}
        if not soft or not self.multipliers[TAINTS]:
            return rows
        for index in {c.tolerations for c in cluster.classes}:
            row = np.zeros(cluster.n_nodes, dtype=np.int64)
            for n in soft:
                row[n] = -TAINT_COST * sum(not any(tolerates(t, taint) for t in cluster.toleration_sets[index]) for taint in listed[n])
            if row.any():
                rows[index] = row
        return rows

    @property
    def taints(self) -> bool:
        """Whether some PreferNoSchedule taint is not tolerated."""
        return bool(self._taints)

    @property
    def empty(self) -> bool:
        """Whether no preference concerns the pods to be placed."""
        listed = self.terms or self.tallies or self._taints or self.containers.involved
        return not (listed or any(c.prefers for c in self.cluster.classes))

    # --- points that depend on one pod and one node --------------------------------------------------------------------------

    def static(self, g: int, family: str) -> Ints:
        """int64[N]: raw points of one pod of class g on each node, without regard to other pending pods."""
        cluster, cls = self.cluster, self.cluster.classes[g]
        row = np.zeros(cluster.n_nodes, dtype=np.int64)
        if family == NODE_AFFINITY:
            for chosen, weight in cls.prefers:
                row += weight * cluster.node_sets[chosen]
        elif family == TAINTS:
            row = self._taints.get(cls.tolerations, row)
        elif family in (POD_AFFINITY, REQUIRED_AFFINITY):
            for t in dict.fromkeys((*self.owned[g], *self.matching[g])):
                term = self.terms[t]
                if term.family == family:
                    row = row + np.append(term.static(g), 0)[term.codes]
        return row

    def node_points(self, g: int) -> Ints:
        """int64[N]: the sum of :meth:`static` over the families, times their multipliers."""
        cls = self.cluster.classes[g]
        touched = tuple((t, int(self.terms[t].own[g]), bool(self.terms[t].matches[g])) for t in sorted({*self.owned[g], *self.matching[g]}))
        key = (cls.prefers, cls.tolerations if cls.tolerations in self._taints else -1, touched)
        if key not in self._rows:
            row = np.zeros(self.cluster.n_nodes, dtype=np.int64)
            for family in (NODE_AFFINITY, TAINTS, POD_AFFINITY, REQUIRED_AFFINITY):
                row = row + self.multipliers[family] * self.static(g, family)
            self._rows[key] = row
        return self._rows[key]

    # --- the value of a placement --------------------------------------------------------------------------------------------

    def families(self, counts: Ints) -> dict[str, int]:
        """Raw points per family of a placement int64[G, N]."""
        found = dict.fromkeys(FAMILIES, 0)
        used = np.flatnonzero(counts.any(axis=1)).tolist()
        for g in used:
            for family in (NODE_AFFINITY, TAINTS, POD_AFFINITY, REQUIRED_AFFINITY):
                found[family] += int(self.static(g, family) @ counts[g])
        grouped: dict[str, Ints] = {}
        for t in self.pairs:
            term = self.terms[t]
            if term.key not in grouped:
                grouped[term.key] = per_domain(counts, term.codes, term.size)
            found[term.family] += term.value(grouped[term.key])
        for tally in self.tallies:
            found[TOPOLOGY_SPREAD] -= SKEW_COST * tally.excess(tally.arriving(counts))
        return found

    def total(self, families: dict[str, int]) -> int:
        """The weighted sum of the families."""
        return sum(self.multipliers[family] * points for family, points in families.items())


def per_domain(counts: Ints, codes: Ids, size: int) -> Ints:
    """int64[G, D]: a placement int64[G, N] summed over the nodes of each domain."""
    found = np.zeros((counts.shape[0], size), dtype=np.int64)
    inside = np.flatnonzero(codes >= 0)
    if size == len(inside):  # one node a domain
        found[:, codes[inside]] = counts[:, inside]
    else:
        for d in range(size):
            found[:, d] = counts[:, codes == d].sum(axis=1)
    return found
