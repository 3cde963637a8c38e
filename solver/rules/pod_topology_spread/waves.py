"""DoNotSchedule constraints in every phase of a wave: the largest skew that can occur.

The worst case for domain d against domain e has two parts. All pods arriving in d are there and none has left
it. All pods leaving e are gone and none has arrived. Completed steps from e to d do both, so these counts occur
together and the test is exact.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kubestow.models.cluster.cluster import Ints, domain_sum
from kubestow.solver.rules.plan_state import PlanPods, PlanStep
from kubestow.solver.rules.pod_topology_spread.rule import PodTopologySpread, SpreadTally
from kubestow.solver.rules.waves import Keys, SymmetricGuard

#: Exceeds any number of pods; means "no limit" or "no value".
_UNBOUNDED_COUNT = 2**40


@dataclass
class _SkewGuard:
    """One (maxSkew, minDomains) of a tally. Arrays are int64[D].

    Attributes:
        excess: Count above the minimum and maxSkew at the start.
        holders: Pods with the constraint.
        placed: Holders that the plan placed.
        uncounted: Holders on nodes that do not count although they match their own selector.
        allowed: Excess that resident pods may keep.
        landing: Surplus that the filter counts for the wave's replacements (-_UNBOUNDED_COUNT: none).
    """

    max_skew: int
    pinned: bool
    excess: Ints
    holders: Ints
    placed: Ints
    uncounted: Ints
    allowed: Ints
    landing: Ints

    def limit(self, d: int) -> None:
        """Set ``allowed`` of a domain."""
        over = 0 if self.placed[d] > 0 else int(self.excess[d])
        least = max(0, over)
        if self.uncounted[d] > 0:
            least = min(least, max(0, over + 1) - 1 if not self.placed[d] else -1)
        self.allowed[d] = least if self.holders[d] > 0 else _UNBOUNDED_COUNT


class _Skew:
    """One tally in a wave. Arrays are int64[D].

    Attributes:
        high: Most matches in any phase.
        low: Fewest matches in any phase. Domains that do not count are never lowest.
        settled: Fewest matches when no pod is between two nodes.
        even: True if no pod breaks its constraint at the start.
        apart: True if moves inside domains take fewer waves when each wave takes those of one domain only.
        home: That domain in this wave; -1: none yet.
    """

    def __init__(self, tally: SpreadTally) -> None:
        self.tally = tally
        self.guards: dict[tuple[int, int], _SkewGuard] = {}
        self.shut = self.loose = self.apart = False
        self.home = -1
        self.reset()

    @property
    def even(self) -> bool:
        return all(bool(((guard.excess <= 0) | (guard.holders == 0)).all()) for guard in self.guards.values())

    def reset(self) -> None:
        self.high = self.tally.counts.copy()
        self.low = np.where(self.tally.counted, self.high, _UNBOUNDED_COUNT)
        self.settled = self.low.copy()

    def guard(self, max_skew: int, min_domains: int) -> _SkewGuard:
        guard = self.guards.get((max_skew, min_domains))
        if guard is None:
            pinned = int(np.count_nonzero(self.tally.counted)) < max(1, min_domains)
            excess = self.high - self.tally.floor(min_domains) - max_skew
            zeros, full = np.zeros(len(excess), dtype=np.int64), np.full(len(excess), _UNBOUNDED_COUNT, dtype=np.int64)
            guard = self.guards[max_skew, min_domains] = _SkewGuard(
                max_skew, pinned, excess, holders=zeros, placed=zeros.copy(), uncounted=zeros.copy(), allowed=full, landing=-full
            )
        return guard

    def domain(self, g: int, n: int) -> int:
        """Return the domain in which a pod of a class on a node is counted, or -1."""
        tally = self.tally
        return int(tally.codes[n]) if n >= 0 and tally.eligible[n] and tally.matches[g] else -1

    def shift(self, step: PlanStep, sign: int) -> None:
        e, d = self.domain(step.g, step.a), self.domain(step.g, step.b)
        if e >= 0:
            self.low[e] -= sign
        if e != d:
            if e >= 0:
                self.settled[e] -= sign
            if d >= 0:
                self.high[d] += sign

    def fine(self) -> bool:
        """Return True if all landings of the wave and all resident pods are within their limits in every phase."""
        for guard in self.guards.values():
            landings = self.high + guard.landing
            if not _within(landings, self.low, guard) or not _within(self.high - guard.allowed, self.settled, guard):
                return False
        return True


def _within(counts: Ints, low: Ints, guard: _SkewGuard) -> bool:
    """Return True if no domain exceeds the lowest of the others by more than maxSkew; ``counts`` is overwritten."""
    if guard.pinned or not len(low):
        return int(counts.max(initial=-_UNBOUNDED_COUNT)) <= guard.max_skew
    i = int(low.argmin())
    first, own = int(low[i]), int(counts[i])
    counts[i] = -_UNBOUNDED_COUNT
    if int(counts.max()) - first > guard.max_skew:
        return False
    low[i] = 2 * _UNBOUNDED_COUNT
    second = int(low.min())
    low[i] = first
    return own - second <= guard.max_skew


class SkewsOfWave(SymmetricGuard[PodTopologySpread]):
    """All tallies of the DoNotSchedule constraints."""

    def __init__(self, rule: PodTopologySpread, pods: PlanPods, residents: Any) -> None:
        super().__init__(rule, pods, residents)
        self._before: list[tuple[_SkewGuard, int, int]] = []  # landings before the last join
        self._skews = [_Skew(tally) for tally in self.rule.tallies]
        self._known: dict[tuple[int, int], tuple[int, int]] = {}
        for g in range(self.cluster.n_classes):
            start = pods.problem.start[g]
            for spread, index in self.rule.own(g):
                if index is None:
                    continue
                guard, tally = self._skews[index].guard(spread.max_skew, spread.min_domains), self.rule.tallies[index]
                guard.holders += domain_sum(tally.codes, tally.size, start)
                if spread.itself:
                    guard.uncounted += domain_sum(tally.codes, tally.size, np.where(tally.eligible, 0, start))
        self._even = [skew.even for skew in self._skews]
        for skew in self._skews:
            for guard in skew.guards.values():
                for d in np.flatnonzero(guard.holders).tolist():
                    guard.limit(d)

    def inside(self, step: PlanStep) -> dict[int, int]:
        """Return the tallies that a move inside one domain does not change, each with the domain.

        The move is accepted under them before and after any other step. No domain exceeds the others by more
        than allowed, and while the pod is absent its own domain is the lowest.
        """
        found = {}
        for i in self.topics(step.g) if step.a >= 0 and step.b >= 0 else ():
            d = self._skews[i].domain(step.g, step.a)
            if d >= 0 and self._even[i] and d == self._skews[i].domain(step.g, step.b):
                found[i] = d
        return found

    def topics(self, g: int) -> list[int]:
        """Return the tallies through which steps of the class affect others, ascending."""
        own = {index for _, index in self.rule.own(g) if index is not None}
        return sorted(i for i in {*self.rule.feeds(g), *own} if not self._skews[i].loose)

    def class_keys(self, g: int) -> Keys:
        return [("skew", i) for i in self.topics(g)]

    def free_keys(self, step: PlanStep) -> Keys:
        return [("skew", i) for i in self.inside(step)]

    def accepts(self, step: PlanStep, reserved: Sequence[int]) -> bool:
        return True  # join counts landings exactly

    def begin(self, steps: Sequence[PlanStep]) -> None:
        """Mark the tallies that no order of these steps can break. The steps are those of the whole plan."""
        for step in steps:
            for i in self.topics(step.g):
                self._skews[i].shift(step, 1)
            self._land(step)
        for skew in self._skews:
            for low in (skew.low, skew.settled):  # pods on a stopover leave a node where they arrived before
                np.maximum(low, 0, out=low)
            skew.loose = skew.fine()
            skew.reset()
            for guard in skew.guards.values():
                guard.landing.fill(-_UNBOUNDED_COUNT)
        inside: list[Counter[int]] = [Counter() for _ in self._skews]
        for step in steps:
            for i, d in self.inside(step).items():
                inside[i][d] += 1
        for skew, counts in zip(self._skews, inside, strict=True):
            # any number of moves in one domain can share a wave; in several, one each if maxSkew is 1
            skew.apart = max(counts.values(), default=0) > len(counts)

    def join(self, step: PlanStep) -> bool:
        inside = self.inside(step)
        topics = [self._skews[i] for i in self.topics(step.g)]
        if any(skew.shut for skew in topics) or any(self._skews[i].home not in (-1, d) for i, d in inside.items()):
            return False
        for skew in topics:
            skew.shift(step, 1)
        self._before = self._land(step)
        if all(skew.fine() for skew in topics):
            return True
        self.back(step)
        return False

    def back(self, step: PlanStep) -> None:
        for guard, d, value in reversed(self._before):
            guard.landing[d] = value
        for i in self.topics(step.g):
            self._skews[i].shift(step, -1)

    def settle(self, step: PlanStep) -> None:
        """Restrict the wave to the domains of a move inside them."""
        for i, d in self.inside(step).items():
            if self._skews[i].apart:
                self._skews[i].home = d

    def force(self, step: PlanStep) -> None:
        topics = [self._skews[i] for i in self.topics(step.g)]
        for skew in topics:
            skew.shift(step, 1)
        self._land(step)
        for skew in topics:
            skew.shut = not skew.fine()
        self.settle(step)

    def commit(self, steps: Iterable[PlanStep]) -> None:
        for step in steps:
            for n in (step.a, step.b):
                if n >= 0:
                    self._hold(step.g, n)
            for i in self.topics(step.g):
                skew = self._skews[i]
                skew.shut, skew.home = False, -1
                for n in (step.a, step.b):
                    d = int(skew.tally.codes[n]) if n >= 0 else -1
                    if d < 0:
                        continue
                    skew.high[d] = skew.tally.counts[d]
                    if skew.tally.counted[d]:
                        skew.low[d] = skew.settled[d] = skew.high[d]
                    for guard in skew.guards.values():
                        guard.landing[d] = -_UNBOUNDED_COUNT

    def _land(self, step: PlanStep) -> list[tuple[_SkewGuard, int, int]]:
        """Record the landing of a step under its constraints; return the previous records."""
        before = []
        for spread, index in self.rule.own(step.g) if step.b >= 0 else ():
            if index is None or self._skews[index].loose:
                continue
            skew = self._skews[index]
            guard, d = skew.guard(spread.max_skew, spread.min_domains), int(skew.tally.codes[step.b])
            if d < 0:
                continue
            before.append((guard, d, int(guard.landing[d])))
            counted = d in (skew.domain(step.g, step.a), skew.domain(step.g, step.b))
            guard.landing[d] = max(int(guard.landing[d]), int(spread.itself) - int(counted))
        return before

    def _hold(self, g: int, n: int) -> None:
        """Update the holders of constraints from the state."""
        now = int(self.pods.counts[g, n]), int(self.pods.arrived[g, n])
        before = self._known.get((g, n), (int(self.pods.problem.start[g, n]), 0))
        self._known[g, n] = now
        for spread, index in self.rule.own(g) if now != before else ():
            if index is None:
                continue
            skew = self._skews[index]
            guard, d = skew.guard(spread.max_skew, spread.min_domains), int(skew.tally.codes[n])
            if d >= 0:
                guard.holders[d] += now[0] - before[0]
                guard.placed[d] += now[1] - before[1]
                if spread.itself and not skew.tally.eligible[n]:
                    guard.uncounted[d] += now[0] - before[0]
                guard.limit(d)
