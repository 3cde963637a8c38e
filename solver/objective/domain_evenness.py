"""The tier `topologySpread`: within maxSkew, too, a domain with fewer of the pods that a ScheduleAnyway constraint counts is better.

Each constraint costs Σ over its domains (c² - b²), with c the pods counted there and b those of them that stay: the pod that comes
next costs 2c + 1, the less the emptier the domain. What it allows and what lies beyond maxSkew is scored in the soft tier, above this one.

Source: pkg/scheduler/framework/plugins/podtopologyspread/scoring.go, where a node scores the more the fewer pods its domains have.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import numpy as np

from kubestow.models.cluster.cluster import Ints
from kubestow.solver.objective.preferences import TOPOLOGY_SPREAD, Objective, SoftTally
from kubestow.solver.objective.sparse_placement import Placed
from kubestow.solver.objective.tie_break import Strategy
from kubestow.solver.rules.eligibility import fits

if TYPE_CHECKING:
    from kubestow.solver.cpsat.linear_sum import Encodes, Points

#: The name of the tier.
DOMAINS: Final = "topologySpread"
#: Sums stay below this, so that CP-SAT can hold them.
_LARGEST = 2**58
#: Up to so many pods in a domain every whole number gets its tangent; then ever fewer do, which only loosens the bound.
_EACH = 64


class DomainEvenness(Strategy):
    """``limits``: int64[G, N], pods of each class that a node can take at most."""

    def __init__(self, objective: Objective, limits: Ints) -> None:
        self.objective, self.limits, self.cluster = objective, limits, objective.cluster
        self.tallies = counting(objective)

    def value(self, counts: Ints) -> int:
        placed = Placed(counts)
        return -sum(_cost(t.base, placed.per_domain(t.matches.tolist(), t.codes, t.size)) for t in self.tallies)

    def bound(self, counts: Ints, *, complete: bool) -> int:
        """Return the value with the pods of each constraint poured over its domains evenly, as if it had the cluster to itself. Pods that
        can go where they are not counted are left out, and so are as many as are left unplaced, whichever they are."""
        could = fits(self.cluster, self.limits)
        left = 0 if complete else int(could.sum() - counts.sum())
        return -sum(self._poured(tally, could, left) for tally in self.tallies)

    def _poured(self, tally: SoftTally, could: Ints, left: int) -> int:
        room = np.zeros(tally.size + 1, dtype=np.int64)
        pods = -left
        for g in tally.matches.tolist():
            here = np.bincount(tally.codes + 1, weights=np.minimum(self.limits[g], could[g]), minlength=tally.size + 1)
            pods += 0 if here[0] else int(could[g])
            room += here.astype(np.int64)  # sums of far less than 2**53
        return _least(tally.base, room[1:], pods)

    def encode(self, encoding: Encodes) -> Points:
        """Return the value as a linear expression: the cost of each domain lies above its tangents."""
        from kubestow.solver.cpsat.linear_sum import Points

        points, model = Points(), encoding.model
        at: dict[int, list[int]] = {}
        for g, n in encoding.x:
            at.setdefault(g, []).append(n)
        for tally in self.tallies:
            domains: dict[int, list[tuple[int, int]]] = {}
            for g in tally.matches.tolist():
                for n in at.get(g, ()):
                    if tally.codes[n] >= 0:
                        domains.setdefault(int(tally.codes[n]), []).append((g, n))
            most = sum(int(self.cluster.count[g]) for g in tally.matches.tolist())
            for d, cells in sorted(domains.items()):
                base, variables = int(tally.base[d]), [encoding.x[cell] for cell in cells]
                high = min(most, sum(int(variable.proto.domain[1]) for variable in variables))
                worst = high * (high + 2 * base)
                if points.least - worst < -_LARGEST:
                    raise OverflowError("pods of one domain beyond what CP-SAT can sum")
                more = model.new_int_var(0, high, "")
                model.add(encoding.weighted_sum(variables, [1] * len(variables)) == more)
                cost = model.new_int_var(0, worst, "")
                for k in _tangents(high):
                    model.add(cost >= (2 * (base + k) + 1) * more - k * (k + 1))
                points.add(cost, -1, 0, worst)
        return points


def counting(objective: Objective) -> list[SoftTally]:
    """Return the constraints that count a pending pod, where the policy counts them at all. The strategy `pack`, which is for few nodes,
    leaves them what they are beyond maxSkew."""
    policy = objective.cluster.policy
    if not objective.multipliers[TOPOLOGY_SPREAD] or policy.strategy == "pack":
        return []
    return [tally for tally in objective.tallies if len(tally.matches)]


def _cost(base: Ints, more: Ints) -> int:
    return int((more * (more + 2 * base)).sum())


def _least(base: Ints, room: Ints, pods: int) -> int:
    """Return the least cost of so many pods; ``room``: int64[D], how many each domain can take."""
    pods = min(pods, int(room.sum()))
    if pods <= 0:
        return 0
    low, high = int(base.min()), int(base.max()) + pods + 1
    if np.count_nonzero((room > 0) & (base == low)) >= pods:
        return pods * (2 * low + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if int(_level(base, room, middle).sum()) <= pods else (low, middle)
    level = _level(base, room, low)
    return _cost(base, level) + (pods - int(level.sum())) * (2 * low + 1)


def _level(base: Ints, room: Ints, upto: int) -> Ints:
    """int64[D]: pods that bring each domain to a level, as far as it has room."""
    return np.minimum(np.maximum(upto - base, 0), room)


def _tangents(high: int) -> Iterator[int]:
    k = 0
    while k < high:
        yield k
        k += max(1, k // _EACH)
