"""Soft topology spread constraints (ScheduleAnyway): points lost for each pod above the allowed skew.

Source: pkg/scheduler/framework/plugins/podtopologyspread/scoring.go for the pods and domains that count; the cost of the skew
is this project's own objective (docs/preferences.md)."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from kubestow.models.cluster.cluster import Cluster, Ids, Ints, SoftSpread, single
from kubestow.models.kube.selectors import Bools
from kubestow.solver.objective.families.base import Family
from kubestow.solver.objective.ledger import Ledger, workload
from kubestow.solver.objective.sparse_placement import SparsePlacement
from kubestow.solver.rules.base import Rule, kinds

#: Points lost per pod above maxSkew of a ScheduleAnyway constraint.
SKEW_COST: Final = 100


@dataclass
class SoftTally:
    """A distinct ScheduleAnyway constraint.

    Attributes:
        family: Family of the constraint.
        multiplier: The family's multiplier.
        cost: Raw points lost per pod above min + maxSkew.
        spread: The constraint.
        codes: Domain of each node, [N]; -1 if the node is not eligible.
        size: Number of domains, D.
        base: Counted fixed pods per domain, [D].
        counted: Eligible domains, [D].
        usable: Domains that set the minimum, [D].
        matches: Counted classes.
        owners: Classes that carry the constraint.
    """

    family: str
    multiplier: int
    cost: int
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


class TopologySpread(Family):
    """ScheduleAnyway constraints. Their losses belong to many pods, and are entered for the first owner."""

    name = "topologySpread"

    def __init__(self, cluster: Cluster, rules: Sequence[Rule]) -> None:
        super().__init__(cluster, rules)
        judges = [rule for rule in rules if rule.for_good]
        reachable: dict[Hashable, Bools] = {}
        owners: dict[SoftSpread, list[int]] = {}
        for g, cls in enumerate(cluster.classes):
            for spread in dict.fromkeys(cls.soft_spread):
                owners.setdefault(spread, []).append(g)
        eligible: dict[tuple[str, int], tuple[Ids, Bools]] = {}
        known: dict[bytes, Bools] = {}  # shared arrays: most constraints have the same usable domains
        reached: dict[Hashable, Bools] = {}
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
                matches = cluster.matching(spread.matcher)
                self.tallies.append(
                    SoftTally(self.name, self.multiplier, SKEW_COST, spread, codes, size, base, counted, usable, matches, own)
                )

    def scale(self) -> int:
        return SKEW_COST if self.tallies else 0

    def losses(self, ledger: Ledger) -> None:
        for tally, over in ledger.skewed(self):
            owner = self.cluster.classes[tally.owners[0]].pods[0]
            text = f"ScheduleAnyway maxSkew {tally.spread.max_skew} over {tally.spread.key}"
            ledger.enter(self, workload(self.cluster.snapshot.pods[owner]), text, over, tally.cost * over)
