"""Linear relaxation of the placed tiers over pod classes and groups of nodes.

A column x[k, c] is the number of pods of *kind* k (pod classes that no row distinguishes) on a *group* c of nodes. Every
row sums, over the nodes or domains of a group, a rule that each one obeys. So the program is a relaxation for any
grouping; coarser groups make it looser and smaller."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import gcd

import numpy as np

from kubestow.models.cluster.cluster import Cluster, Ids, Ints
from kubestow.models.kube.selectors import Bools
from kubestow.solver.bounds.aggregation import CrossRules, Exclusion, PodKinds, Skew
from kubestow.solver.bounds.safe_dual_bounds import Program

#: Rounded rows per group and resource: for nodes that hold at most 1, 2, … of the larger pods.
ROUNDED_ROWS = 4
#: Larger coefficients are rounded down on both sides of a row, so that sums of products fit into int64.
_MAX_COEFFICIENT = 2**31


@dataclass
class Relaxation:
    """The program over K kinds and C groups, column j = x[kind[j], group[j]], plus one column for the floor of each
    :class:`Skew`.

    Attributes:
        program: The linear program.
        priority: Priority of a column's pods, int64[J].
        always: bool[J], columns that matter to tiers above their own: floors of spread constraints, and pods that raise
            them.
        tier_rows: Per priority, the row Σ -x ≤ -pods that holds its tier at its value.
    """

    program: Program
    priority: Ints
    always: Bools
    tier_rows: dict[int, int]


@dataclass
class _RelaxationRows:
    """Rows under construction."""

    rows: list[Ints] = field(default_factory=list)
    columns: list[Ints] = field(default_factory=list)
    values: list[Ints] = field(default_factory=list)
    limit: list[Ints] = field(default_factory=list)
    size: int = 0

    def add(self, row: Ints, columns: Ints, values: Ints, limit: Ints, upper: Ints | None = None) -> None:
        """Add rows with a numbering of their own from 0. Skip empty rows and, given ``upper`` of all columns, rows that
        cannot bind."""
        keep = np.bincount(row, minlength=len(limit)) > 0
        if upper is not None:
            max_activity = np.bincount(row, weights=values.astype(np.float64) * upper[columns], minlength=len(limit))
            keep = max_activity > limit
        number = np.cumsum(keep) - 1 + self.size
        kept = keep[row]
        self.rows.append(number[row[kept]])
        self.columns.append(columns[kept])
        self.values.append(values[kept])
        self.limit.append(limit[keep])
        self.size += int(np.count_nonzero(keep))


class _RelaxationBuilder:
    def __init__(self, cluster: Cluster, classes: PodKinds, groups: Ids) -> None:
        self.cluster, self.classes, self.groups = cluster, classes, groups
        self.size = int(groups.max(initial=-1)) + 1
        order = np.argsort(groups, kind="stable")
        starts = np.searchsorted(groups[order], np.arange(self.size))
        room = np.add.reduceat(classes.room[:, order], starts, axis=1) if len(order) else classes.room
        self.kind, self.group = np.nonzero(room)
        self.upper = np.minimum(room[self.kind, self.group], classes.total[self.kind])
        self.rows = _RelaxationRows()
        self.floors: list[int] = []  # upper bounds
        self._blocks: dict[int, Ints] = {}
        # A node's resource counts only if the node takes a kind that requests it.
        takes = classes.room > 0
        self._takes = takes
        self.used = takes.any(axis=0)
        requested = (classes.demand > 0).astype(np.float32).T @ takes.astype(np.float32) > 0
        self.free = np.where(requested.T, np.maximum(cluster.free, 0), 0)

    def per_group(self, values: Ints) -> Ints:
        total = np.zeros(self.size, dtype=np.int64)
        np.add.at(total, self.groups, values)
        return total

    # --- nodes ----------------------------------------------------------------------------------------------------------

    def totals(self) -> None:
        every = np.arange(len(self.kind))
        self.rows.add(self.kind, every, np.ones_like(every), self.classes.total, self.upper)

    def resources(self) -> None:
        """Add Σ ⌊demand / u⌋ · x ≤ Σ over nodes of ⌊free / u⌋.

        For whole pods, the row holds on each node for any unit u > 0 (a Chvátal-Gomory rounding). Units are the gcd of
        the demands and ROUNDED_ROWS larger ones, just above free / 2, free / 3, …: no node takes two pods larger than
        half the node (dual feasible functions, Fekete and Schepers, doi:10.1007/s101070100243)."""
        every = np.arange(len(self.kind))
        slots = self.per_group(np.where(self.used, np.maximum(self.cluster.slots, 0), 0))
        self.rows.add(self.group, every, np.ones_like(every), slots, self.upper)
        for r in range(self.classes.demand.shape[1]):
            unit = gcd(*self.classes.demand[:, r].tolist())
            if not unit:
                continue
            unit *= -(-int(self.classes.demand[:, r].max()) // (unit * _MAX_COEFFICIENT))
            self._resource(r, np.full(self.size, unit, dtype=np.int64))
            largest = np.zeros(self.size, dtype=np.int64)
            np.maximum.at(largest, self.groups, self.free[:, r])
            seen = [np.full(self.size, unit)]
            for parts in range(2, ROUNDED_ROWS + 2):
                rounded = np.maximum(largest // parts + 1, unit)
                if not any((rounded == other).all() for other in seen):
                    seen.append(rounded)
                    self._resource(r, rounded)

    def _resource(self, r: int, unit: Ints) -> None:
        asks = self.classes.demand[self.kind, r] // unit[self.group]
        some = np.flatnonzero(asks)
        self.rows.add(self.group[some], some, asks[some], self.per_group(self.free[:, r] // unit[self.groups]), self.upper)

    # --- domains --------------------------------------------------------------------------------------------------------

    def blocks(self, codes: Ids) -> Ints:
        """Return int64[C]: the block of each group, named by its first group. Groups that share a domain are in one block.

        ``codes`` must be an array that a rule keeps alive, because results are cached by its identity."""
        found = self._blocks.get(id(codes))
        if found is None:
            found = self._blocks[id(codes)] = self._find_blocks(codes)
        return found

    def _find_blocks(self, codes: Ids) -> Ints:
        inside = codes >= 0
        block = np.arange(self.size)
        while True:
            smallest = np.full(int(codes.max(initial=-1)) + 1, self.size)
            np.minimum.at(smallest, codes[inside], block[self.groups[inside]])
            joined = block.copy()
            np.minimum.at(joined, self.groups[inside], smallest[codes[inside]])
            if (joined == block).all():
                return block
            block = joined

    def _alive(self, members: Bools) -> Bools:
        """Return bool[N]: nodes that take pods of some of these kinds (bool[K])."""
        return np.asarray(self._takes[members].any(axis=0))

    def _whole(self, bad: Bools) -> Bools:
        """Return bool[C]: groups without any bad node (bool[N])."""
        whole = np.ones(self.size, dtype=bool)
        whole[self.groups[bad]] = False
        return whole

    def exclude(self, exclusion: Exclusion) -> None:
        """Add Σ x over a block of groups ≤ number of its domains."""
        members = self.classes.holds(exclusion.classes)
        alive = self._alive(members)
        whole = self._whole(alive & (exclusion.codes < 0))
        block = self.blocks(exclusion.codes)
        nodes = np.flatnonzero(alive & whole[self.groups])
        domains, index = np.unique(exclusion.codes[nodes], return_index=True)
        limit = np.bincount(block[self.groups[nodes[index]]], minlength=self.size) if len(domains) else np.zeros(self.size, dtype=np.int64)
        columns = np.flatnonzero(members[self.kind] & whole[self.group])
        self.rows.add(block[self.group[columns]], columns, np.ones_like(columns), limit.astype(np.int64), self.upper)

    def spread(self, skew: Skew) -> None:
        """Add the rows of a spread constraint, summed over blocks.

        A domain that gets pods of the constraint holds at most floor + maxSkew counted pods, fixed ones (base) included.
        So its own new pods are at most (floor - least base) + max(0, least base + maxSkew - base), or 0 if it gets none.
        The floor is 0 if fewer than minDomains domains are eligible; otherwise no eligible domain's count is below it."""
        spread, codes = skew.spread, skew.codes
        eligible = self.cluster.node_sets[spread.eligible] & (codes >= 0)
        domains = np.unique(codes[eligible])
        pinned = len(domains) < max(1, spread.min_domains)
        lowest = 0 if pinned else int(skew.base[domains].min())
        block = self.blocks(codes)
        own = self.classes.holds(skew.own)
        alive = self._alive(own)
        whole = self._whole(alive & ~eligible)
        nodes = np.flatnonzero(alive & whole[self.groups])
        reached, index = np.unique(codes[nodes], return_index=True)
        at = block[self.groups[nodes[index]]]
        limit = np.zeros(self.size, dtype=np.int64)
        np.add.at(limit, at, np.maximum(0, lowest + spread.max_skew - skew.base[reached]))
        width = np.bincount(at, minlength=self.size).astype(np.int64)
        columns = np.flatnonzero(own[self.kind] & whole[self.group])
        row = block[self.group[columns]]
        ones = np.ones_like(columns)
        if pinned:
            self.rows.add(row, columns, ones, limit, self.upper)
            return
        counted = self.classes.holds(skew.counted)
        floor = len(self.kind) + len(self.floors)
        self.floors.append(int(self.classes.total[counted].sum()))
        raised = np.flatnonzero(width)
        everywhere = np.full_like(raised, floor)
        self.rows.add(np.append(row, raised), np.append(columns, everywhere), np.append(ones, -width[raised]), limit)
        # The floor is at most the count of every eligible domain.
        where = np.zeros(self.size, dtype=np.int64)
        size = np.zeros(self.size, dtype=np.int64)
        first = np.unique(codes[eligible], return_index=True)[1]
        home = block[self.groups[np.flatnonzero(eligible)[first]]]
        np.add.at(where, home, skew.base[domains] - lowest)
        np.add.at(size, home, 1)
        some = np.zeros(self.size, dtype=bool)
        some[self.groups[eligible]] = True
        columns = np.flatnonzero(counted[self.kind] & some[self.group])
        raised = np.flatnonzero(size)
        everywhere = np.full_like(raised, floor)
        self.rows.add(
            np.append(block[self.group[columns]], raised), np.append(columns, everywhere),
            np.append(-np.ones_like(columns), size[raised]), where,
        )  # fmt: skip


def relax(cluster: Cluster, classes: PodKinds, rules: CrossRules, groups: Ids, placed: dict[int, int]) -> Relaxation:
    """Return the relaxation over groups of nodes.

    Args:
        groups: Group of each node, int32[N].
        placed: By priority, the number of placed pods at which the tier is held.
    """
    build = _RelaxationBuilder(cluster, classes, groups)
    build.totals()
    build.resources()
    for exclusion in rules.exclusions:
        build.exclude(exclusion)
    for skew in rules.skews:
        build.spread(skew)
    priority = classes.priority[build.kind]
    tier_rows = {}
    for p in sorted(placed):
        columns = np.flatnonzero(priority == p)
        if not len(columns):
            continue
        tier_rows[p] = build.rows.size
        build.rows.add(np.zeros_like(columns), columns, -np.ones_like(columns), np.array([-placed[p]], dtype=np.int64))
    counted = np.zeros(len(classes.total), dtype=bool)
    for skew in rules.skews:
        counted |= classes.holds(skew.counted)
    floors = np.array(build.floors, dtype=np.int64)
    lowest = np.full(len(floors), np.iinfo(np.int64).min)
    program = Program(
        np.concatenate(build.rows.rows), np.concatenate(build.rows.columns), np.concatenate(build.rows.values),
        np.concatenate(build.rows.limit), np.append(build.upper, floors),
    )  # fmt: skip
    always = np.append(counted[build.kind], np.ones(len(floors), dtype=bool))
    return Relaxation(program, np.append(priority, lowest), always, tier_rows)
