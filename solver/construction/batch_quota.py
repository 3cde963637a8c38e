"""Batch quotas per topology domain: the pods of a class that may be placed at once, without checking the rules after each pod.

A spread constraint that counts the class itself admits in each domain as many pods as bring it to a common
level. If they bind in the order of their levels, every pod passes the filter. Anti-affinity between pods of
the class admits one pod per domain.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence

import numpy as np

from kubestow.models.cluster.cluster import Ids, Ints, single
from kubestow.solver.rules.base import UNLIMITED_PODS
from kubestow.solver.rules.batch_limits import Level

#: Number of domains up to which they are processed one by one.
MAX_LISTED_DOMAINS = 8
#: Search this multiple of a domain's wanted candidates first, before the whole list.
LOOKAHEAD_RATIO = 16


def pour(level: Level, room: Ints, wanted: int, *, later: bool, domains: Ids | None = None) -> Ints:
    """Return int64[D], the pods for each domain, levelled up from the emptiest.

    Args:
        level: The constraint on the domains.
        room: int64[D], pods that each domain can take.
        wanted: Pods to place.
        later: True if the minimum may rise while pods bind in the order of their levels. Otherwise it is
            today's.
        domains: The domain of each candidate node, best candidate first. If fewer pods remain than there are
            domains of equal level, they go to the domains whose next candidate comes first. Without candidates,
            they go to the domains with the lowest numbers.
    """
    counts, counted = level.counts, level.counted
    floor = 0 if level.pinned or not counted.any() else int((counts + room if later else counts)[counted].min())
    highest = floor + level.max_skew

    def upto(height: int) -> Ints:
        return np.minimum(np.maximum(height - counts, 0), room)

    low = int(counts.min(initial=0))  # upto(low) is zero
    low += bisect_right(range(low + 1, highest + 1), wanted, key=_filling(counts, room))
    pods = upto(low)
    remaining = wanted - int(pods.sum())
    if remaining > 0 and low + 1 <= highest:
        pods[_remainder(np.flatnonzero(upto(low + 1) > pods), pods, remaining, domains)] += 1
    return pods


def _remainder(candidates: Ints, pods: Ints, remaining: int, domains: Ids | None) -> Ints:
    """Return the domains, among those that could take one more pod, that get the remaining ones.

    Args:
        pods: int64[D], the pods already assigned.
    """
    if domains is None or len(candidates) <= remaining:
        return candidates[:remaining]
    if len(pods) > MAX_LISTED_DOMAINS:
        following = np.flatnonzero(np.isin(domains, candidates) & (ranks(domains) == pods[domains]))
        return domains[following[:remaining]].astype(np.int64)
    places = [int(_first(domains, d, int(pods[d]) + 1)[-1]) for d in candidates.tolist()]
    return candidates[np.argsort(places, kind="stable")[:remaining]]


def _filling(counts: Ints, room: Ints) -> Callable[[int], int]:
    """Return a function that counts the pods which bring all domains up to a level, within their room."""
    if len(counts) > MAX_LISTED_DOMAINS:
        return lambda level: int(np.minimum(np.maximum(level - counts, 0), room).sum())
    domains = list(zip(counts.tolist(), room.tolist(), strict=True))  # ten times as fast for few domains
    return lambda level: sum(min(level - count, limit) for count, limit in domains if level > count)


def ranks(domains: Ids) -> Ints:
    """Return int64, the rank of each entry within its domain, from 0."""
    sortable = domains.astype(np.int16) if len(domains) and int(domains.max()) <= np.iinfo(np.int16).max else domains
    order = np.argsort(sortable, kind="stable")  # ten times as fast with 16-bit numbers
    sorted_ = domains[order]
    starts = np.flatnonzero(np.append(True, sorted_[1:] != sorted_[:-1])) if len(sorted_) else np.zeros(0, dtype=np.int64)
    rank = np.empty(len(domains), dtype=np.int64)
    rank[order] = np.arange(len(domains)) - np.repeat(starts, np.diff(np.append(starts, len(sorted_))))
    return rank


class BatchQuota:
    """The pods of a class that the current state admits.

    Attributes:
        per_node: True if pods of the class on one node affect each other.

    Args:
        hard: Levels of the class's DoNotSchedule constraints.
        soft: Levels of its ScheduleAnyway constraints.
        exclusive: (codes, domains) of the keys over which pods of the class exclude each other.
        shy: (codes, domains) of the keys over which they repel each other.
        flocks: True if there are keys over which they attract each other.
    """

    def __init__(
        self,
        hard: Sequence[Level],
        soft: Sequence[Level],
        exclusive: Sequence[tuple[Ids, int]],
        shy: Sequence[tuple[Ids, int]],
        *,
        flocks: bool = False,
    ) -> None:
        self._hard, self._soft = [v for v in hard if not v.single], [v for v in soft if not v.single]
        self._repelling_keys = [pair for pair in (*shy, *exclusive) if not single(*pair)]
        self._by_turns = len(self._repelling_keys) == 1 and any(not single(*pair) for pair in shy) and not flocks
        self.per_node = len(self._hard) + len(self._soft) + len(self._repelling_keys) < len(hard) + len(soft) + len(exclusive) + len(shy)

    def choose(self, nodes: Ints, wanted: int, admitted: Ints) -> Ints:
        """Return the candidates that can be bound one after another in the order given.

        Args:
            nodes: Candidates in order of preference, each accepted now. Without ``per_node`` a node may occur
                several times.
            admitted: The candidates, and nodes to which pods could go with a lower score.
        """
        for level in self._soft:
            nodes = self._levelled(level, nodes, wanted, later=True)
        for codes, size in self._repelling_keys:
            domains = codes.take(nodes)
            turns = min(wanted, _turns(domains, codes.take(admitted), size)) if self._by_turns else 1
            nodes = _by_turns(nodes, domains, size, turns)
        rising = len(self._hard) == 1 and self._hard[0].own and self._hard[0].counts_all(nodes)
        for level in self._hard:
            nodes = self._levelled(level, nodes, wanted, later=rising)
        if rising:
            domains = self._hard[0].codes[nodes]
            nodes = nodes[np.argsort(self._hard[0].counts[domains] + ranks(domains), kind="stable")]
        return nodes[:wanted]

    def _levelled(self, level: Level, nodes: Ints, wanted: int, *, later: bool) -> Ints:
        domains = level.codes.take(nodes)
        room = _count(domains, len(level.counts))
        quota = pour(level, room, wanted, later=later, domains=domains)
        return _take(nodes, domains, quota if later and quota.any() else np.maximum(quota, 1))


def _turns(domains: Ids, admitted: Ids, size: int) -> int:
    """Return the number of pods that can go to each domain in turn before another domain would score best.

    Each turn costs all domains the same, except domains without candidates and nodes without a domain.

    Args:
        admitted: The domain of each node that accepts a pod.
    """
    if not len(domains) or int(admitted.min()) < 0:
        return 1
    here, there = _count(domains, size), _count(admitted, size)
    return int(here[there > 0].min(initial=len(domains))) or 1


def _by_turns(nodes: Ints, domains: Ids, size: int, turns: int) -> Ints:
    """Return the first candidates of each domain, then the second ones, and so on."""
    if turns == 1:
        return _take(nodes, domains, np.ones(size, dtype=np.int64))
    rank = ranks(domains)
    order = np.argsort(rank, kind="stable")
    chosen: Ints = nodes.take(order[: int(np.count_nonzero(rank < turns))])
    return chosen


def _count(domains: Ids, size: int) -> Ints:
    return np.bincount(domains + 1, minlength=size + 1)[1:]


def _take(nodes: Ints, domains: Ids, quota: Ints) -> Ints:
    """Return the first ``quota`` candidates of each domain. Those without a domain are unlimited."""
    if len(quota) > MAX_LISTED_DOMAINS:
        return nodes[ranks(domains) < np.append(quota, UNLIMITED_PODS)[domains]]
    kept = [_first(domains, d, limit) for d, limit in [(-1, UNLIMITED_PODS), *enumerate(quota.tolist())] if limit]
    chosen: Ints = nodes[np.sort(np.concatenate(kept))]
    return chosen


def _first(domains: Ids, d: int, limit: int) -> Ints:
    """Return the positions of a domain, up to ``limit``. They usually come early."""
    start = LOOKAHEAD_RATIO * limit
    if start < len(domains) and len(positions := np.flatnonzero(domains[:start] == d)) >= limit:
        return positions[:limit]
    return np.flatnonzero(domains == d)[:limit]
