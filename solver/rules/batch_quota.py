"""How many pods of a class may be placed at once, without asking the rules after each: quotas per topology domain.

A constraint of topology spread that counts the class itself admits, in each domain, as many pods as bring it to a common level; bound in
the order of their levels, every pod passes the filter. Anti-affinity between pods of the class admits one per domain.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from kubestow.models.cluster.cluster import Ids, Ints
from kubestow.models.kube.selectors import Bools


@dataclass(frozen=True)
class Level:
    """A constraint of topology spread that counts a class: its domains' counts and what holds them together. ``counted``: bool[D] that
    set the minimum, ``pinned``: the minimum stays 0; ``eligible``: bool[N], nodes whose pods are counted; ``own``: the class carries it."""

    codes: Ids  # [N]
    counts: Ints  # [D]
    counted: Bools
    max_skew: int
    pinned: bool
    single: bool  # every domain is one node
    own: bool
    eligible: Bools | None = None  # [N], None: the nodes with a domain

    def counts_all(self, nodes: Ints) -> bool:
        """Return whether pods on each of these nodes are counted."""
        return bool((self.codes[nodes] >= 0 if self.eligible is None else self.eligible[nodes]).all())


#: No limit.
FREE = 2**31
#: Up to so many domains are looked through one by one.
FEW = 8
#: So many times as many candidates as are wanted of a domain are looked through first.
AHEAD = 16
#: The largest number of 16 bits.
SHORT = 2**15 - 1


def pour(
    counts: Ints, counted: Bools, room: Ints, wanted: int, skew: int, *, pinned: bool, later: bool, domains: Ids | None = None
) -> Ints:
    """Return int64[D]: pods for each domain, levelling them up from the emptiest.

    Args:
        counts: int64[D], pods counted in each domain today.
        counted: bool[D], domains that set the minimum.
        room: int64[D], pods that each domain can take.
        wanted: Pods to place.
        skew: Pods that a domain may hold above the minimum.
        pinned: The minimum stays 0.
        later: The minimum may rise while pods are bound in the order of their levels. Otherwise it is today's.
        domains: The domain of each candidate node, best candidate first. Where fewer pods remain than there are domains of equal level,
            they go to the domains whose next candidate comes first; without candidates to the domains of the lowest numbers.
    """
    floor = 0 if pinned or not counted.any() else int((counts + room if later else counts)[counted].min())
    highest = floor + skew

    def upto(level: int) -> Ints:
        return np.minimum(np.maximum(level - counts, 0), room)

    low = int(counts.min(initial=0))  # upto(low) holds nothing
    low += bisect_right(range(low + 1, highest + 1), wanted, key=_filling(counts, room))
    pods = upto(low)
    rest = wanted - int(pods.sum())
    if rest > 0 and low + 1 <= highest:
        pods[_remainder(np.flatnonzero(upto(low + 1) > pods), pods, rest, domains)] += 1
    return pods


def _remainder(tied: Ints, pods: Ints, rest: int, domains: Ids | None) -> Ints:
    """Return which of the domains that could take one pod more get the rest; ``pods``, int64[D], are given out already."""
    if domains is None or len(tied) <= rest:
        return tied[:rest]
    if len(pods) > FEW:
        following = np.flatnonzero(np.isin(domains, tied) & (ranks(domains) == pods[domains]))
        return domains[following[:rest]].astype(np.int64)
    places = [int(_first(domains, d, int(pods[d]) + 1)[-1]) for d in tied.tolist()]
    return tied[np.argsort(places, kind="stable")[:rest]]


def _filling(counts: Ints, room: Ints) -> Callable[[int], int]:
    """What tells how many pods bring all domains up to a level, as far as they have room."""
    if len(counts) > FEW:
        return lambda level: int(np.minimum(np.maximum(level - counts, 0), room).sum())
    domains = list(zip(counts.tolist(), room.tolist(), strict=True))  # a tenth of the time
    return lambda level: sum(min(level - count, most) for count, most in domains if level > count)


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
    ``exclusive``, ``shy``: (codes, domains) of the keys over which pods of the class exclude or repel each other; ``flocks``: there are
    keys over which they attract each other. ``per_node``: pods of the class on one node concern each other."""

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
        self._alone = [pair for pair in (*shy, *exclusive) if not single(*pair)]
        self._in_turns = len(self._alone) == 1 and any(not single(*pair) for pair in shy) and not flocks
        self.per_node = len(self._hard) + len(self._soft) + len(self._alone) < len(hard) + len(soft) + len(exclusive) + len(shy)

    def choose(self, nodes: Ints, wanted: int, admitted: Ints) -> Ints:
        """Of candidates (in order of preference, each of which would be accepted now; without ``per_node`` a node may come several times)
        those that can be bound one after the other in the order given. ``admitted``: they, and where pods could go for fewer points."""
        for level in self._soft:
            nodes = self._levelled(level, nodes, wanted, later=True)
        for codes, size in self._alone:
            domains = codes.take(nodes)
            turns = min(wanted, _turns(domains, codes.take(admitted), size)) if self._in_turns else 1
            nodes = _in_turns(nodes, domains, size, turns)
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
        pinned = level.pinned
        found = pour(level.counts, level.counted, room, wanted, level.max_skew, pinned=pinned, later=later, domains=domains)
        return _take(nodes, domains, found if later and found.any() else np.maximum(found, 1))


def single(codes: Ids, size: int) -> bool:
    """Return whether every domain is one node."""
    return bool(size >= np.count_nonzero(codes >= 0))


def _turns(domains: Ids, admitted: Ids, size: int) -> int:
    """How many pods can go to each domain in turn, until another would have the most points: each turn costs all domains the same, but
    those where no candidate is (left), and nodes without a domain. ``admitted``: the domain of each node that takes a pod."""
    if not len(domains) or int(admitted.min()) < 0:
        return 1
    here, there = _count(domains, size), _count(admitted, size)
    return int(here[there > 0].min(initial=len(domains))) or 1


def _in_turns(nodes: Ints, domains: Ids, size: int, turns: int) -> Ints:
    """The first candidates of each domain, then the second ones, and so on."""
    if turns == 1:
        return _take(nodes, domains, np.ones(size, dtype=np.int64))
    rank = ranks(domains)
    order = np.argsort(rank, kind="stable")
    chosen: Ints = nodes.take(order[: int(np.count_nonzero(rank < turns))])
    return chosen


def _count(domains: Ids, size: int) -> Ints:
    return np.bincount(domains + 1, minlength=size + 1)[1:]


def _take(nodes: Ints, domains: Ids, quota: Ints) -> Ints:
    """The first ``quota`` candidates of each domain; those without a domain are free."""
    if len(quota) > FEW:
        return nodes[ranks(domains) < np.append(quota, FREE)[domains]]
    kept = [_first(domains, d, most) for d, most in [(-1, FREE), *enumerate(quota.tolist())] if most]
    chosen: Ints = nodes[np.sort(np.concatenate(kept))]
    return chosen


def _first(domains: Ids, d: int, most: int) -> Ints:
    """The places of a domain, at most so many; they mostly come soon."""
    start = AHEAD * most
    if start < len(domains) and len(found := np.flatnonzero(domains[:start] == d)) >= most:
        return found[:most]
    return np.flatnonzero(domains == d)[:most]
