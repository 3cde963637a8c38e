"""Soft topology spread constraints (ScheduleAnyway): points lost for each pod above the allowed skew.

Source: pkg/scheduler/framework/plugins/podtopologyspread/scoring.go for the pods and domains that count; the cost of the skew
is this project's own objective (docs/preferences.md)."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Final

import numpy as np

from kubestow.models.cluster.cluster import Cluster, Ids, SoftSpread
from kubestow.models.kube.selectors import Bools
from kubestow.solver.objective.families.base import Family
from kubestow.solver.objective.ledger import Ledger, workload
from kubestow.solver.objective.shapes import SoftTally
from kubestow.solver.rules.base import Rule, kinds

#: Points lost per pod above maxSkew of a ScheduleAnyway constraint.
SKEW_COST: Final = 100


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
