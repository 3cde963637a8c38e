"""Repair of a placement with pending pods: squeeze them in, or eject a few other pods to make room.

The ejection pool of Nagata and Bräysy; a route there is a node here, and penalties are per class. See
docs/algorithms/repair.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kubestow.models.cluster.cluster import Cluster, Ints
from kubestow.solver.construction.repair_state import RepairState
from kubestow.solver.rules.base import Rule
from kubestow.solver.rules.eligibility import fits
from kubestow.solver.runtime.time_slice import TimeSlice

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class RepairParameters:
    """Limits of the search.

    Attributes:
        sampled_nodes: Nodes among which an exchange is sought.
        max_exchanges: Exchanges to remove an excess.
        shakes: Random exchanges after an insertion that ejected pods or failed.
        failure_pause: Insertions that a class skips after one of its pods found no place.
        stale_insertions: Insertions without gain after which the choice of victims switches (see ``_thrifty``).
        max_ejected: Pods of one priority that may leave for another such pod.
        max_trials: Sets of such pods that are tried.
    """

    sampled_nodes: int = 24
    max_exchanges: int = 12
    shakes: int = 8
    failure_pause: int = 50
    stale_insertions: int = 1000
    max_ejected: int = 4
    max_trials: int = 8


PARAMETERS = RepairParameters()


class EjectionRepair:
    """Search by insertion and ejection.

    Every state between two insertions obeys capacity, ports, anti-affinity, required affinity and spread constraints.
    Providers of affinity, pods that share claims and pods with NUMA zones never leave their nodes. The caller must check
    that the result has a bind order (``kubestow.solver.bind_order.order.find_order``) and keep the old placement
    otherwise. ``active``: rules in the state of ``counts``, taken over; ``eligibility``: int64[G, N], 0 if a rule excludes the
    pair."""

    def __init__(self, cluster: Cluster, active: Sequence[Rule], eligibility: Ints, counts: Ints, *, seed: int) -> None:
        self.cluster = cluster
        self.state = RepairState(cluster, active, eligibility, counts)
        self.rng = np.random.default_rng(seed)
        self.hopeless = cluster.count - fits(cluster, eligibility)
        for gang in cluster.gangs:  # a gang is placed whole, never pod by pod
            classes = list(gang.classes)
            self.hopeless[classes] = cluster.count[classes] - counts[classes].sum(axis=1)
        levels = np.unique(-cluster.priority)
        self.level = np.searchsorted(levels, -cluster.priority)
        self.levels = len(levels)
        self._weigh(eligibility)
        self.penalty = np.ones(cluster.n_classes)
        self.order = self.rng.permutation(cluster.n_nodes)
        self.insertions = 0
        self._rests = np.zeros(cluster.n_classes, dtype=np.int64)
        self._journal: list[tuple[int, int, int]] = []
        self._since: dict[tuple[int, int], int] = {}  # net change since the best state

    def _weigh(self, eligibility: Ints) -> None:
        """Set up weights that guide choices.

        ``weight``, float64[C], makes the average pod 1 in every column. ``size``, float64[G], sums the scarce columns,
        whose demand exceeds capacity. ``_thrifty`` is True if there are such columns: small pods then go before large
        ones."""
        state, goal = self.state, self.cluster.count - self.hopeless
        demand = state.demand[:-1]
        self.weight = max(1, int(goal.sum())) / np.maximum((demand.T @ goal).astype(np.float64), 1.0)
        offered = state.room[eligibility.any(axis=0)].sum(axis=0) + demand.T @ state.counts.sum(axis=1)
        scarce = demand.T @ goal > offered
        self._thrifty = bool(scarce.any())
        self.size: Floats = demand @ np.where(scarce | (not self._thrifty), self.weight, 0.0) + 1e-3

    def run(self, time: TimeSlice, bounds: Mapping[int, int] | None = None) -> Ints:
        """Insert pods until all that can fit are placed, ``time`` is over, or all ``bounds`` on placed pods by priority are
        reached. Return the best placement found, int64[G, N].

        Placements compare by pods placed, higher priorities first. The active rules are left in the state of the result."""
        state = self.state
        best, goal = self._pending(state.unplaced), self._pending(self.hopeless)
        enough: tuple[int, ...] | None = None
        if bounds is not None:
            wanted = self.cluster.per_priority(self.cluster.count)
            enough = tuple(wanted[p] - bounds[p] for p in sorted(bounds, reverse=True))
        gained_at = 0
        while best != goal and not time.is_over() and best != enough:
            self.insertions += 1
            g = self._pick()
            before = int(state.unplaced.sum())
            if not self._insert(g):
                self._rests[g] = self.insertions + PARAMETERS.failure_pause
            if int(state.unplaced.sum()) >= before:
                for _ in range(PARAMETERS.shakes):
                    self._exchange(int(self.rng.integers(len(self.order))), within=True)
            now = self._pending(state.unplaced)
            if now < best:
                best, gained_at = now, self.insertions
                self._since.clear()
                self._journal.clear()
                time.improved()
            elif self.insertions - gained_at > PARAMETERS.stale_insertions:
                self._thrifty, gained_at = not self._thrifty, self.insertions
            self._note()
        self._note()
        for (g, n), k in self._since.items():
            if k:
                state.put(g, n, -k)
        state.settle()
        return state.counts

    def _pending(self, unplaced: Ints) -> tuple[int, ...]:
        """Return the pending pods per priority, highest first. Smaller is better."""
        return tuple(np.bincount(self.level, weights=unplaced, minlength=self.levels).astype(np.int64).tolist())

    def _note(self) -> None:
        for g, n, k in self._journal:
            self._since[g, n] = self._since.get((g, n), 0) + k
        self._journal.clear()

    def _put(self, g: int, n: int, k: int) -> None:
        self.state.put(g, n, k)
        self._journal.append((g, n, k))

    def _undo(self, mark: int) -> None:
        while len(self._journal) > mark:
            g, n, k = self._journal.pop()
            self.state.put(g, n, -k)

    def _pick(self) -> int:
        """Return the class of a random pending pod of the highest priority, preferably a small one if capacity is short.

        Classes that recently found no place come last, even those of a higher priority.
        """
        unplaced = self.state.unplaced - self.hopeless
        wanted = np.flatnonzero(unplaced > 0)
        awake = wanted[self._rests[wanted] <= self.insertions]
        wanted = awake if len(awake) else wanted
        wanted = wanted[self.level[wanted] == self.level[wanted].min()]
        chance = unplaced[wanted] / (self.size[wanted] ** 2 if self._thrifty else 1.0)
        return int(self.rng.choice(wanted, p=chance / chance.sum()))

    # --- insertion --------------------------------------------------------------------------------------------------------

    def _insert(self, g: int) -> bool:
        """Place a pod of class g, ejecting others if necessary. Return False, with nothing changed, if that fails."""
        nodes = np.flatnonzero(self.state.verdict(g))
        if len(nodes) and (self._force(g, self._choose(g, nodes)) or self._force(g, int(self.rng.choice(nodes)))):
            return True
        mark = len(self._journal)
        n = self._clear(g)
        if n is not None and self._force(g, n):
            return True
        self._undo(mark)
        return False

    def _choose(self, g: int, nodes: Ints) -> int:
        """Return the node that stays most useful with one more pod: little residual capacity, even over the resources.

        If the pod fits nowhere, return the node that it overfills least, with some noise."""
        room = self.state.room[nodes]
        after = room - self.state.demand[g]
        fine = (after >= 0).all(axis=1)
        if fine.any():
            cost = self._uneven(after) - self._uneven(room) + 0.1 * (after @ self.weight)
            return int(nodes[np.argmin(np.where(fine, cost, np.inf))])
        return int(nodes[np.argmin(self._excess(after) * self.rng.uniform(0.7, 1.3, size=len(nodes)))])

    def _uneven(self, room: Ints) -> Floats:
        share = room[..., : max(1, room.shape[-1] - 1)] * self.weight[: max(1, room.shape[-1] - 1)]
        return np.asarray(share.max(axis=-1) - share.min(axis=-1))

    def _excess(self, room: Ints) -> Floats:
        """Return the missing capacity in average pods; exactly 0 if nothing is missing."""
        return np.asarray(np.minimum(room, 0) @ -self.weight)

    def _overfull(self) -> Ints:
        return np.flatnonzero((self.state.room < 0).any(axis=1))

    def _force(self, g: int, n: int) -> bool:
        """Put a pod on a node and make room for it. Return False, with nothing changed, if that fails."""
        mark = len(self._journal)
        self._put(g, n, 1)
        if (self.state.room[n] >= 0).all():
            if self.state.served(n):
                return True
            self._undo(mark)
            return self._trade(g, n)
        over = np.array([n])
        for _ in range(PARAMETERS.max_exchanges):
            if not self._exchange(int(over[self.rng.integers(len(over))]), within=False):
                break
            over = self._overfull()
            if not len(over):
                return True
        self.penalty[g] += 1
        if all(self._eject(m, g) for m in over.tolist()):
            return True
        self._undo(mark)
        return False

    # --- exchanges --------------------------------------------------------------------------------------------------------

    def _partners(self, n: int) -> Ints:
        size = len(self.order)
        start = int(self.rng.integers(size))
        nodes = self.order[np.arange(start, start + min(PARAMETERS.sampled_nodes, size)) % size]
        return np.asarray(nodes[nodes != n], dtype=np.int64)

    def _exchange(self, n: int, *, within: bool) -> bool:
        """Exchange a pod of node n, or nothing, with a pod of another node, or nothing. Return whether an exchange was
        found.

        With ``within``, choose at random such that both nodes stay within their room. Otherwise choose the largest
        reduction of excess."""
        state = self.state
        ours = state.on[n]
        ours = ours[state.mobile[ours] & (within | (ours != state.nothing))]
        nodes = self._partners(n)
        if not len(ours) or not len(nodes):
            return False
        table = state.on[nodes]
        listed = state.mobile[table]
        theirs, where = table[listed], np.repeat(nodes, np.count_nonzero(listed, axis=1))
        more = state.demand[theirs] - state.demand[ours][:, None]
        excess = self._excess(state.room[n] - more) + self._excess(state.room[where] + more)
        fine = (state.blocked(ours, n, where) == 0) & (state.block[theirs, n] == 0)
        if within:
            fine &= excess == 0
            score = self.rng.random(excess.shape)
        else:
            gain = self._excess(state.room[n]) + self._excess(state.room[where]) - excess
            fine &= gain > 1e-9
            score = self.rng.random(excess.shape) * 0.02 - gain
        score = np.where(fine, score, np.inf).ravel()
        for _ in range(4):  # spread constraints may forbid the best ones
            i = int(np.argmin(score))
            if not np.isfinite(score[i]):
                return False
            if self._swap(int(ours[i // len(theirs)]), n, int(theirs[i % len(theirs)]), int(where[i % len(theirs)])):
                return True
            score[i] = np.inf
        return False

    def _swap(self, a: int, n: int, b: int, m: int) -> bool:
        if a == b:
            return False
        mark = len(self._journal)
        for g, node, k in ((a, n, -1), (b, m, -1), (b, n, 1), (a, m, 1)):
            if g != self.state.nothing:
                self._put(g, node, k)
        if self.state.kept((a, b)) and self.state.served(n) and self.state.served(m):
            return True
        self._undo(mark)
        return False

    def _trade(self, g: int, n: int) -> bool:
        """Put a pod of class g on a node whose devices suffice in sum but not together: one of the pods there moves.

        Return False, with nothing changed, if no exchange was found.
        """
        state = self.state
        here = state.on[n]
        here = here[state.mobile[here] & (here != state.nothing) & (here != g)]
        here = here[state.lonely[here] & (self.level[here] >= self.level[g])]
        for h in self.rng.permutation(here)[: PARAMETERS.max_trials].tolist():
            mark = len(self._journal)
            self._put(h, n, -1)
            self._put(g, n, 1)
            if (state.room[n] >= 0).all() and state.served(n) and state.kept((g, h)):
                fine = np.flatnonzero(state.verdict(h) & (state.room >= state.demand[h]).all(axis=1))
                for m in fine[fine != n][: PARAMETERS.max_trials].tolist():
                    self._put(h, m, 1)
                    if state.served(m) and state.kept((h,)):
                        return True
                    self._undo(len(self._journal) - 1)
            self._undo(mark)
        return False

    # --- ejection ---------------------------------------------------------------------------------------------------------

    def _eject(self, n: int, p: int) -> bool:
        """Eject pods from an overfull node, none of a higher priority than class p and none of that class.

        Return False, with nothing changed, if no set was found that may leave.
        """
        state = self.state
        lack = np.maximum(-state.room[n], 0)
        here = state.on[n]
        here = here[state.mobile[here] & (here != state.nothing) & (here != p)]
        here = here[self.level[here] >= self.level[p]]
        here = np.repeat(here, np.minimum(state.counts[here, n], PARAMETERS.max_ejected))
        if not len(here):
            return False
        cost = self.penalty[here] + self.rng.random(len(here)) * 0.5
        candidates = [
            (self._price(here[list(chosen)], cost[list(chosen)], p), chosen) for chosen in self._sets(state.demand[here], lack, cost)
        ]
        return any(
            price < np.inf and self._leave([(int(here[i]), n) for i in chosen])
            for price, chosen in sorted(candidates)[: PARAMETERS.max_trials]
        )

    def _leave(self, pods: Sequence[tuple[int, int]]) -> bool:
        """Eject (class, node) pods.

        Return False, with nothing changed, if that breaks a spread constraint or leaves other pods of these nodes without devices.
        """
        mark = len(self._journal)
        for g, n in pods:
            self._put(g, n, -1)
        if self.state.kept([g for g, _ in pods]) and all(self.state.served(n) for n in {n for _, n in pods}):
            return True
        self._undo(mark)
        return False

    def _price(self, pods: Ints, cost: Floats, p: int) -> float:
        """Return the cost of ejecting pods (given by class) for one of class p. Infinity if they must stay.

        If capacity is short, at most one ejected pod has p's priority. It is not smaller than p; large ones are preferred.
        """
        equal = self.level[pods] == self.level[p]
        if self._thrifty and equal.any():
            size = float(self.size[pods[equal]].sum())
            return np.inf if np.count_nonzero(equal) > 1 or size < self.size[p] else 1.0 - size * float(self.rng.random())
        if np.count_nonzero(equal) > PARAMETERS.max_ejected:
            return np.inf
        return float(cost.sum()) - (1e6 if self._thrifty else 0.0)

    def _sets(self, demand: Ints, lack: Ints, cost: Floats) -> Iterator[tuple[int, ...]]:
        """Yield sets of pods (positions in ``demand``) that cover a lack: all single ones, the cheapest pairs, or else a greedy set."""
        single = np.flatnonzero((demand >= lack).all(axis=1))
        yield from ((i,) for i in single.tolist())
        size = len(demand)
        if 1 < size <= 64:
            one, other = np.triu_indices(size, 1)
            fine = np.flatnonzero((demand[one] + demand[other] >= lack).all(axis=1))
            fine = fine[np.argsort(cost[one[fine]] + cost[other[fine]], kind="stable")[: PARAMETERS.max_trials]]
            yield from zip(one[fine].tolist(), other[fine].tolist(), strict=True)
            if len(single) or len(fine):
                return
        chosen: list[int] = []
        uncovered = lack.copy()
        for i in np.argsort(cost / (np.minimum(demand, lack) @ self.weight + 1e-9), kind="stable").tolist():
            if (np.minimum(demand[i], uncovered) > 0).any():
                chosen.append(i)
                uncovered = np.maximum(uncovered - demand[i], 0)
        if not uncovered.any():
            yield tuple(chosen)

    def _clear(self, g: int) -> int | None:
        """Eject the few pods that block class g on some node, none of a higher priority than g.

        Return that node, which then accepts a pod of g apart from room. Return None, with nothing changed, if there is none.
        """
        state = self.state
        nodes = np.flatnonzero(state.clearable(g))
        for n in self.rng.permutation(nodes)[: PARAMETERS.max_trials].tolist():
            against = state.against(g, n, PARAMETERS.max_ejected)
            if against is None or any(self.level[h] < self.level[g] for h, _ in against):
                continue
            mark = len(self._journal)
            if self._leave(against):
                if bool(state.verdict(g)[n]):
                    return int(n)
                self._undo(mark)
        return None
