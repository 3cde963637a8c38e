"""The shapes in which families give points between pods, and the zones of containers."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from kubestow.models.cluster.cluster import Cluster, Ids, Ints, SoftSpread, single
from kubestow.models.kube.selectors import Bools
from kubestow.solver.objective.sparse_placement import SparsePlacement

Pools = tuple[int | None, ...]  # one per container; None: anywhere on the node


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

    def attracted(self, g: int) -> set[int]:
        """Return the classes whose pods gain points by meeting pods of class g, or the other way round."""
        owners = {h for h, weight in self.own.items() if weight > 0} if g in self.matches else set()
        return owners | self.matches if self.own.get(g, 0) > 0 else owners

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


@dataclass
class AssignedZones:
    """NUMA zones of a placement.

    Attributes:
        pools: Per (class, node), for each pod there in bind order, the pool of each container.
        points: Raw points of container affinity.
        elsewhere: Nodes where the kubelet would take other zones than those chosen.
        zoneless: (class, container) with hints but without zones, because there were too many patterns.
    """

    pools: dict[tuple[int, int], list[Pools]] = field(default_factory=dict)
    points: int = 0
    elsewhere: list[int] = field(default_factory=list)
    zoneless: set[tuple[int, int]] = field(default_factory=set)
