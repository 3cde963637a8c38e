"""How many pods of a class may be placed at once, without asking the rules after each: quotas per topology domain.

A constraint of topology spread that counts the class itself admits, in each domain, as many pods as bring it to a common level; bound in
the order of their levels, every pod passes the filter. Anti-affinity between pods of the class admits one per domain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from models.cluster.cluster import Ids, Ints
from models.kube.selectors import Bools


@dataclass(frozen=True)
class Level:
    """A constraint of topology spread that counts a class: its domains' counts and what holds them together. ``counted``: bool[D] that
    set the minimum, ``pinned``: the minimum stays 0; ``eligible``: bool[N], nodes whose pods are counted; ``own``: the class carries it."""

    codes: Ids  # [N]
    counts: Ints  # [D]
    counted: Bools
    max_skew: int
    pinned: bool
    eligible: Bools
    own: bool

    @property
    def single(self) -> bool:
        return single(self.codes, len(self.counts))


#: No limit.
FREE = 2**31
#: Up to so many domains are looked through one by one.
FEW = 8
#: The largest number of 16 bits.
SHORT = 2**15 - 1


def pour(counts: Ints, counted: Bools, room: Ints, wanted: int, skew: int, *, pinned: bool, later: bool) -> Ints:
    """Return int64[D]: pods for each domain, levelling them up from the emptiest. ``room``: what each can take; ``pinned``: the minimum
    stays 0; ``later``: the minimum may rise on the way (pods are bound in the order of their levels), else it is today's."""
    floor = 0 if pinned or not counted.any() else int((counts + room if later else counts)[counted].min())
    highest = floor + skew

    def upto(level: int) -> Ints:
        return np.minimum(np.maximum(level - counts, 0), room)

    low = int(counts.min(initial=0))  # upto(low) holds nothing
    if highest > low and int((pods := upto(highest)).sum()) <= wanted:
        low = highest
    else:
        high = highest
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if int(upto(middle).sum()) <= wanted else (low, middle)
        pods = upto(low)
    rest = wanted - int(pods.sum())
    if rest > 0 and low + 1 <= highest:
        pods += (np.cumsum(more := upto(low + 1) - pods) <= rest) * more
    return pods


def ranks(domains: Ids) -> Ints:
    """Return int64: the how-manieth each entry is among those of its domain."""
    sortable = domains.astype(np.int16) if len(domains) and int(domains.max()) <= SHORT else domains
    order = np.argsort(sortable, kind="stable")  # a tenth of the time with numbers of 16 bits
    sorted_ = domains[order]
    starts = np.flatnonzero(np.append(True, sorted_[1:] != sorted_[:-1])) if len(sorted_) else np.zeros(0, dtype=np.int64)
    found = np.empty(len(domains), dtype=np.int64)
    found[order] = np.arange(len(domains)) - np.repeat(starts, np.diff(np.append(starts, len(sorted_))))
    return found


class BatchQuota:
    """What the current state admits for a class. ``hard``, ``soft``: the levels of its DoNotSchedule and ScheduleAnyway constraints;
    ``exclusive``, ``shy``: (codes, domains) of the keys over which pods of the class exclude or repel each other. ``per_node``: pods of
    the class on one node concern each other."""

    def __init__(
        self, hard: Sequence[Level], soft: Sequence[Level], exclusive: Sequence[tuple[Ids, int]], shy: Sequence[tuple[Ids, int]]
    ) -> None:
        self._hard, self._soft = [v for v in hard if not v.single], [v for v in soft if not v.single]
        self._alone = [pair for pair in (*shy, *exclusive) if not single(*pair)]
        self.per_node = len(self._hard) + len(self._soft) + len(self._alone) < len(hard) + len(soft) + len(exclusive) + len(shy)

    def choose(self, nodes: Ints, wanted: int) -> Ints:
        """Of candidates (in order of preference, each of which would be accepted now; without ``per_node`` a node may come several times)
        those that can be bound one after the other in the order given."""
        for level in self._soft:
            nodes = _take(nodes, level.codes, self._levelled(level, nodes, wanted, later=True))
        for codes, size in self._alone:
            nodes = _take(nodes, codes, np.ones(size, dtype=np.int64))
        rising = len(self._hard) == 1 and self._hard[0].own and bool(self._hard[0].eligible[nodes].all())
        for level in self._hard:
            nodes = _take(nodes, level.codes, self._levelled(level, nodes, wanted, later=rising))
        if rising:
            domains = self._hard[0].codes[nodes]
            nodes = nodes[np.argsort(self._hard[0].counts[domains] + ranks(domains), kind="stable")]
        return nodes[:wanted]

    def _levelled(self, level: Level, nodes: Ints, wanted: int, *, later: bool) -> Ints:
        room = _count(level.codes[nodes], len(level.counts))
        found = pour(level.counts, level.counted, room, wanted, level.max_skew, pinned=level.pinned, later=later)
        return found if later and found.any() else np.maximum(found, 1)


def single(codes: Ids, size: int) -> bool:
    """Return whether every domain is one node."""
    return bool(size >= np.count_nonzero(codes >= 0))


def _count(domains: Ids, size: int) -> Ints:
    return np.bincount(domains[domains >= 0], minlength=size).astype(np.int64)


def _take(nodes: Ints, codes: Ids, quota: Ints) -> Ints:
    """The first ``quota`` candidates of each domain; those without a domain are free."""
    domains = codes.take(nodes)
    if len(quota) > FEW:
        return nodes[ranks(domains) < np.append(quota, FREE)[domains]]
    kept = [np.flatnonzero(domains == d)[:most] for d, most in enumerate(quota.tolist()) if most]
    chosen: Ints = nodes[np.sort(np.concatenate([np.flatnonzero(domains < 0), *kept]))]
    return chosen
