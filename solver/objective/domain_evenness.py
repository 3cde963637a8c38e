"""The tier `topologySpread`: even within maxSkew, a domain with fewer of the pods counted by a ScheduleAnyway constraint is
better.

Each constraint costs Σ over its domains (c² - b²), where c is the number of counted pods in a domain and b the number of
those that are fixed. The next pod costs 2c + 1, so emptier domains are cheaper. Pods beyond maxSkew are scored in the
soft tier, above this one.

Source: pkg/scheduler/framework/plugins/podtopologyspread/scoring.go, where a node scores the more the fewer pods its
domains have."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from kubestow.models.cluster.cluster import Ints
from kubestow.solver.cpsat.linear_sum import MAX_MODEL_SUM, Encodes, Points
from kubestow.solver.objective.preferences import Objective
from kubestow.solver.objective.shapes import SoftTally
from kubestow.solver.objective.sparse_placement import SparsePlacement
from kubestow.solver.objective.tie_break import Strategy
from kubestow.solver.rules.eligibility import fits

#: Name of the tier.
DOMAINS: Final = "topologySpread"
#: Pods. Up to here every integer gets a tangent, beyond it fewer and fewer. This only loosens the bound.
_MAX_EXACT_PODS = 64


class DomainEvenness(Strategy):
    """Evenness of the domains of soft spread constraints.

    Args:
        eligibility: Maximum pods of each class on each node, int64[G, N].
    """

    def __init__(self, objective: Objective, eligibility: Ints) -> None:
        self.objective, self.eligibility, self.cluster = objective, eligibility, objective.cluster
        self.tallies = counting(objective)

    def value(self, counts: Ints) -> int:
        placed = SparsePlacement(counts)
        return -sum(_cost(t.base, placed.per_domain(t.matches.tolist(), t.codes, t.size)) for t in self.tallies)

    def bound(self, counts: Ints, *, complete: bool) -> int:
        """Return an upper bound: the value if each constraint could spread its pods evenly, as if it had the cluster to itself.

        Pods that can go to nodes where they are not counted are left out, and so is any subset as large as the unplaced
        pods.
        """
        could = fits(self.cluster, self.eligibility)
        unplaced = 0 if complete else int(could.sum() - counts.sum())
        return -sum(self._poured(tally, could, unplaced) for tally in self.tallies)

    def _poured(self, tally: SoftTally, could: Ints, unplaced: int) -> int:
        room = np.zeros(tally.size + 1, dtype=np.int64)
        pods = -unplaced
        for g in tally.matches.tolist():
            here = np.bincount(tally.codes + 1, weights=np.minimum(self.eligibility[g], could[g]), minlength=tally.size + 1)
            pods += 0 if here[0] else int(could[g])
            room += here.astype(np.int64)  # exact: sums are far below 2**53
        return _least_cost(tally.base, room[1:], pods)

    def encode(self, encoding: Encodes) -> Points:
        """Return the value as a linear expression, with the cost of each domain above its tangents."""
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
            total = sum(int(self.cluster.count[g]) for g in tally.matches.tolist())
            for d, cells in sorted(domains.items()):
                base, variables = int(tally.base[d]), [encoding.x[cell] for cell in cells]
                high = min(total, sum(int(variable.proto.domain[1]) for variable in variables))
                worst = high * (high + 2 * base)
                if points.least - worst < -MAX_MODEL_SUM:
                    raise OverflowError("pods of one domain beyond what CP-SAT can sum")
                more = model.new_int_var(0, high, "")
                model.add(encoding.weighted_sum(variables, [1] * len(variables)) == more)
                cost = model.new_int_var(0, worst, "")
                for k in _tangents(high):
                    model.add(cost >= (2 * (base + k) + 1) * more - k * (k + 1))
                points.add(cost, -1, 0, worst)
        return points


def counting(objective: Objective) -> list[SoftTally]:
    """Return the constraints that count a pending pod, unless the policy gives them no weight.

    The strategy `pack`, which minimises nodes, uses none: pods within maxSkew do not matter then."""
    if objective.cluster.policy.strategy == "pack":
        return []
    return [tally for tally in objective.tallies if tally.multiplier and len(tally.matches)]


def _cost(base: Ints, more: Ints) -> int:
    return int((more * (more + 2 * base)).sum())


def _least_cost(base: Ints, room: Ints, pods: int) -> int:
    """Return the least cost Σ (c² - b²) of pods added to the domains of one constraint.

    Pods for which no domain has room are left out.

    Args:
        base: Fixed pods that count in each domain (b), int64[D].
        room: Maximum number of added pods in each domain, int64[D].
        pods: Number of pods to add.
    """
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
    """Return int64[D]: pods that fill each domain up to ``upto`` pods, as far as it has room.

    Args:
        base: See :func:`_least_cost`.
        room: See :func:`_least_cost`.
    """
    return np.minimum(np.maximum(upto - base, 0), room)


def _tangents(high: int) -> Iterator[int]:
    k = 0
    while k < high:
        yield k
        k += max(1, k // _MAX_EXACT_PODS)
