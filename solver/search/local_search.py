"""A complete placement whose pods are moved singly or in groups, with all hard rules obeyed and the soft value kept up to date."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from kubestow.models.cluster.cluster import Cluster, Ids, Ints
from kubestow.models.kube.selectors import Bools
from kubestow.solver.objective.incremental_score import SoftState
from kubestow.solver.objective.preferences import Objective
from kubestow.solver.objective.sparse_placement import SparsePlacement
from kubestow.solver.objective.tie_break import PodCosts
from kubestow.solver.rules.base import CapacityRule, Rule

BLOCK_MOVES = 256  #: Moves between two checks of the clock.
#: Added to random numbers so that no logarithm is infinite.
TINY = np.float32(1e-30)


class LocalSearch:
    """State of a local search.

    ``active`` and ``soft``, the rules and soft counters in the state of ``counts``, are kept in step. ``eligibility`` is
    int64[G, N], 0 if a rule excludes the pair.

    Attributes:
        moving: Classes whose pods may be moved.
        mobile: Those classes in ``moving`` that do not provide for the affinity of others.
        together: Providers move alone or with the pods that depend on them. If False, they stay.
        ejecting: At low temperatures, pods may also go to full nodes and eject others.
        block: Moves between two checks of the clock.
    """

    block = BLOCK_MOVES
    together = True
    ejecting = False

    def __init__(
        self, objective: Objective, active: Sequence[Rule], eligibility: Ints, counts: Ints, *, seed: int, soft: SoftState | None = None
    ) -> None:
        self.objective, self.active, self.eligibility = objective, active, eligibility
        self.cluster: Cluster = objective.cluster
        self.counts = counts.copy()
        self.rng = np.random.default_rng(seed)
        self.soft = soft or SoftState(objective)
        if soft is None:
            for g, n in zip(*np.nonzero(counts), strict=True):
                self.soft.place(int(g), int(n), int(counts[g, n]))
        self.fit = CapacityRule.of(active)
        self._possible = eligibility > 0
        self._since: dict[tuple[int, int], int] = {}  # net change since the last mark, by (class, node)
        moved = [rule for rule in active if rule.tracks_moves and not rule.static]
        #: The rules that movable pods may be under: resources, then those over topology domains.
        self.rules = sorted(moved, key=lambda rule: (rule is not self.fit, not rule.whole_units))
        watchers = [rule for rule in self.rules if rule is not self.fit]
        #: By class, the rules other than resources whose verdict on the class can change.
        self._dynamic = [[rule for rule in watchers if rule.concerned(g)] for g in range(self.cluster.n_classes)]
        self._providing = [[rule for rule in watchers if rule.provides(g)] for g in range(self.cluster.n_classes)]
        movable = [g for g in range(self.cluster.n_classes) if self._movable(g)]
        self.mobile = {g for g in movable if not self._providing[g]}
        self.moving = [g for g in movable if g in self.mobile or self.together]
        self.pairs = self._list()

    def _list(self) -> list[tuple[int, int]]:
        """Return (class, node) of every pod that may be moved."""
        counts = self.counts
        return [(g, int(n)) for g in self.moving for n in np.flatnonzero(counts[g]) for _ in range(int(counts[g, n]))]

    def _movable(self, g: int) -> bool:
        """Return whether pods of a class may move. Pods that share claims, or that depend on zones or devices, may not."""
        return self.loose(g) and int(np.count_nonzero(self.eligibility[g])) > 1

    def put(self, g: int, n: int, k: int) -> None:
        self.soft.place(g, n, k)
        self.fit.place(g, n, k)
        for rule in self._dynamic[g]:
            rule.place(g, n, k)
        self.counts[g, n] += k

    def allowed(self, g: int, home: int | None) -> Bools:
        """Return bool[N]: the nodes where a pod may go, always including ``home``, the node it was taken from."""
        mask = self._possible[g] & ~self.fit.rejects(g)
        for rule in self._dynamic[g]:
            mask &= rule.obeyed(g)
        if home is not None:
            mask &= self.keeping(g, home)
            mask[home] = True
        return np.asarray(mask, dtype=bool)

    def keeping(self, g: int, home: int) -> Bools | bool:
        """Return bool[N], the nodes where a pod taken from ``home`` serves the pods that depend on it. True for all nodes."""
        mask: Bools | bool = True
        for rule in self._providing[g]:
            mask = mask & rule.keeping(g, home, self.counts)
        return mask

    def standing(self, g: int) -> list[int]:
        """Return the class, and those whose pods may depend on it directly or indirectly, ascending."""
        reached, waiting = {g}, [g]
        while waiting:
            h = waiting.pop()
            more = {i for rule in self._providing[h] for i in rule.dependents(h)} - reached
            reached |= more
            waiting += sorted(more)
        return sorted(reached)

    def gathers(self, g: int) -> list[Ids]:
        """Return int32[N], the domain of each node, for each topology key over which others depend on pods of the class."""
        return [codes for rule in self._providing[g] for codes in rule.gathers(g)]

    def possible(self, g: int) -> Bools:
        """Return bool[N]: the nodes eligible for the class in any state."""
        return np.asarray(self._possible[g], dtype=bool)

    def free_of_rules(self, g: int) -> bool:
        """Return whether room alone decides where a pod of the class may go."""
        return not self._dynamic[g]

    def pods_by_class(self) -> dict[int, list[int]]:
        """Return the pods of each class, as indices into ``pairs``."""
        found: dict[int, list[int]] = {}
        for pod, (g, _) in enumerate(self.pairs):
            found.setdefault(g, []).append(pod)
        return found

    def noise(self, temperature: float) -> NDArray[np.float64]:
        """Return Gumbel noise, float64[N]. The maximum of points plus noise is a draw by Boltzmann probabilities."""
        return np.asarray(np.log(self.rng.standard_exponential(self.cluster.n_nodes) + TINY) * -temperature)

    def scale(self) -> int:
        """Return the largest weighted points of a single preference, at least 1."""
        return self.objective.scale()

    def move(self, pod: int, noise: NDArray[np.float32]) -> int:
        """Move a pod (index into ``pairs``) to the node with most points plus ``noise`` (float32[N]). Return the points gained."""
        g, home = self.pairs[pod]
        if self._dynamic[g]:
            self.put(g, home, -1)
            points = self.soft.gain(g)
            draws = points + noise
            draws[~self.allowed(g, home)] = -np.inf
            target = int(draws.argmax())
            self.put(g, target, 1)
        else:
            points = self.soft.away(g, home)
            draws = points + noise
            stay = draws[home]
            draws[~self._possible[g] | self.fit.rejects(g)] = -np.inf
            draws[home] = stay
            target = int(draws.argmax())
            if target != home:
                self.put(g, home, -1)
                self.put(g, target, 1)
        if target != home:
            self.note(pod, target)
        return int(points[target] - points[home])

    def note(self, pod: int, target: int) -> None:
        """Record that a pod (index into ``pairs``) was moved to ``target``."""
        (g, home), since = self.pairs[pod], self._since
        self.pairs[pod] = (g, target)
        since[g, home] = since.get((g, home), 0) - 1
        since[g, target] = since.get((g, target), 0) + 1

    def mark(self) -> None:
        """Make the current placement the one that :meth:`go_back` restores."""
        self._since.clear()

    def go_back(self) -> None:
        """Undo all moves since the last mark."""
        for sign in (1, -1):
            for (g, n), k in self._since.items():
                if k * sign > 0:
                    self.put(g, n, -k)
        self._since.clear()
        self.pairs = self._list()

    def even_out(self, costs: PodCosts | None, over: Callable[[], bool], *, domains: bool = False) -> bool:
        """Move single pods to cheaper nodes without losing preferences. Return whether any pod moved.

        Stop when no pod can move or ``over`` returns True. An emptier domain of a soft spread constraint counts before
        ``costs``. With ``domains``, only pods that find such a domain move."""
        moved_ever, moved = False, True
        least_crowding: dict[int, int | None] = {}  # least crowding of nodes with room, by class; valid until a pod moves
        while moved:
            moved = False
            for pod, (g, home) in enumerate(self.pairs):
                if pod % BLOCK_MOVES == 0 and over():
                    return moved_ever
                if domains:
                    if g not in least_crowding:
                        least_crowding[g] = self._least_crowded(g)
                    bound = least_crowding[g]
                    if bound is None or bound >= self.soft.crowding_at(g, home) - 2:
                        continue
                crowded = self.soft.crowding(g, home)
                emptier = crowded < crowded[home]
                if domains and not (emptier.any() and (emptier & self._possible[g] & ~self.fit.rejects(g)).any()):
                    continue
                self.put(g, home, -1)
                target = self._emptiest(g, home, crowded, costs, domains=domains)
                self.put(g, target, 1)
                if target != home:
                    if costs is not None:
                        costs.put(g, home, -1)
                        costs.put(g, target, 1)
                    self.pairs[pod] = (g, target)
                    moved = moved_ever = True
                    least_crowding.clear()
        return moved_ever

    def _least_crowded(self, g: int) -> int | None:
        """Return the least crowding of the nodes with room for a pod of the class, or None if there are none.

        Removing a pod lowers the crowding of its node by 2 for each constraint that counts it. The crowding of a node in
        another domain of any such constraint falls by at least 2 less. So only a node that is less crowded by more than 2
        before the removal is less crowded after it."""
        roomy = self._possible[g] & ~self.fit.rejects(g)
        return int(self.soft.crowding(g)[roomy].min()) if roomy.any() else None

    def _emptiest(self, g: int, home: int, crowded: Ints, costs: PodCosts | None, *, domains: bool) -> int:
        """Return the node for a pod taken from ``home``: no loss of points, then least crowded domains, then least cost.

        Return ``home`` if no other node is better."""
        points = self.soft.gain(g)
        fine = self.allowed(g, home) & (points >= points[home])
        fine &= crowded == crowded[fine].min()
        if costs is None or (domains and fine[home]):
            return home if fine[home] else int(np.argmax(fine))
        costs.put(g, home, -1)
        cost = costs.of(g)
        costs.put(g, home, 1)
        target = int(np.argmin(np.where(fine, cost, np.iinfo(np.int64).max)))
        return home if fine[home] and cost[target] >= cost[home] and points[target] <= points[home] else target

    # --- whole groups of pods ------------------------------------------------------------------------------------------------

    def loose(self, g: int) -> bool:
        """Return whether pods of the class may be moved at all, if the pods that depend on them move too."""
        return all(rule.movable(g) for rule in self.active)

    def take_out(self, pods: Mapping[tuple[int, int], int]) -> int:
        """Take pods out, given by (class, node). Return the weighted points lost."""
        points = 0
        for (g, n), k in pods.items():
            for _ in range(k):
                self.put(g, n, -1)
                points += int(self.soft.gain(g)[n])
        return points

    def put_back(self, pods: Mapping[tuple[int, int], int]) -> int:
        """Put pods in, given by (class, node), into a state known to admit them. Return the weighted points gained."""
        points = 0
        for (g, n), k in pods.items():
            for _ in range(k):
                points += int(self.soft.gain(g)[n])
                self.put(g, n, 1)
        return points

    def relocate(self, classes: Sequence[int], target: Ints, connected: Sequence[int] | None = None) -> int | None:
        """Move all pods of some classes to ``target`` nodes, or near them. Return the points gained.

        Return None, with nothing changed, if nothing is gained or other pods would have to leave.

        Args:
            classes: The classes, which must be loose.
            target: int64[len(classes), N].
            connected: These classes and all classes tied to them; None if there are no others.
        """
        connected = classes if connected is None else connected
        cells = {(g, n): int(self.counts[g, n]) for g in classes for n in np.flatnonzero(self.counts[g]).tolist()}
        before = self._points(connected)
        self._put_all(cells, -1)
        put: dict[tuple[int, int], int] = {}

        def place(g: int, n: int, k: int) -> None:
            self.put(g, n, k)
            put[g, n] = put.get((g, n), 0) + k

        for g, _ in self._place_at(classes, target, place):
            allowed = self.allowed(g, None)
            if not allowed.any():
                break
            place(g, int(np.argmax(np.where(allowed, self.soft.gain(g), np.iinfo(np.int64).min))), 1)
        else:
            if (gain := self._points(connected) - before) > 0:
                return gain
        self._put_all(put, -1)
        self._put_all(cells, 1)
        return None

    def _place_at(self, classes: Sequence[int], target: Ints, place: Callable[[int, int, int], None]) -> list[tuple[int, int]]:
        """Place pods at their targets, int64[len(classes), N]. Return the (class, node) of those that cannot be there."""
        waiting: list[tuple[int, int]] = []
        for g, row in zip(classes, target, strict=True):
            room = self.fit.room(g)
            for n in np.flatnonzero(row).tolist():
                k = min(int(row[n]), int(room[n])) if not self._dynamic[g] else 0
                if k:
                    place(g, n, k)
                waiting += [(g, n)] * (int(row[n]) - k)
        moved = True
        while waiting and moved:  # spread constraints may admit a pod only after others
            remaining = []
            for g, n in waiting:
                if self.fit.admits(g, n) and self.allowed(g, None)[n]:
                    place(g, n, 1)
                else:
                    remaining.append((g, n))
            moved, waiting = len(remaining) < len(waiting), remaining
        return waiting

    def _points(self, classes: Sequence[int]) -> int:
        """Return the weighted points of classes that nothing ties to others."""
        return self.objective.total(self.objective.families(SparsePlacement(self.counts[list(classes)], classes), classes))

    def _put_all(self, pods: Mapping[tuple[int, int], int], sign: int) -> None:
        for (g, n), k in pods.items():
            self.put(g, n, sign * k)

    def refresh(self) -> None:
        """List the pods again after whole groups have moved."""
        self.pairs = self._list()

    def go_to(self, counts: Ints) -> None:
        """Change the state to another placement, int64[G, N]."""
        change = counts - self.counts
        for sign in (-1, 1):
            for g, n in zip(*np.nonzero(change * sign > 0), strict=True):
                self.put(int(g), int(n), int(change[g, n]))
        self.pairs = self._list()

    def force(self, classes: Sequence[int], target: Ints) -> bool:
        """Put classes on the ``target`` nodes, int64[len(classes), N], and move pods in the way to their best nodes.

        Return False, with nothing changed, if some pod finds no node."""
        before = self.counts.copy()
        chosen = set(classes)
        for g in classes:
            for n in np.flatnonzero(self.counts[g]).tolist():
                self.put(g, n, -int(self.counts[g, n]))
        for g, row in zip(classes, target, strict=True):
            for n in np.flatnonzero(row).tolist():
                if any(not rule.settled and rule.rejects(g)[n] for rule in self._dynamic[g]):
                    self.go_to(before)
                    return False
                self.put(g, n, int(row[n]))
        displaced: list[int] = []
        for n in np.flatnonzero((self.fit.free < 0).any(axis=1) | (self.fit.slots < 0)).tolist():
            displaced += self._evict(n, chosen)
        size = self.cluster.demand / np.maximum(self.cluster.allocatable.max(axis=0), 1)
        for g in sorted(displaced, key=lambda g: -float(size[g].max())):
            allowed = self.allowed(g, None)
            if not allowed.any():
                self.go_to(before)
                return False
            self.put(g, int(np.argmax(np.where(allowed, self.soft.gain(g), np.iinfo(np.int64).min))), 1)
        fits = not (((self.fit.free < 0) & (self.cluster.free >= 0)).any() or (self.fit.slots < 0).any())
        if not (fits and all(rule.kept(g) for g in sorted(chosen.union(displaced)) for rule in self._dynamic[g])):
            self.go_to(before)
            return False
        self.pairs = self._list()
        return True

    def _evict(self, n: int, keep: set[int]) -> list[int]:
        """Take movable pods off an overfull node until it fits, largest first by the scarce resources. Return their classes."""
        evicted: list[int] = []
        while True:
            short = (self.fit.free[n] < 0) & (self.cluster.free[n] >= 0)
            if not short.any() and self.fit.slots[n] >= 0:
                return evicted
            weight = np.where(self.counts[:, n] > 0, self.cluster.demand[:, short].sum(axis=1) + 1, 0)
            candidates = [g for g in np.argsort(-weight, kind="stable").tolist() if weight[g] and g not in keep and g in self.mobile]
            if not candidates:
                return evicted
            self.put(candidates[0], n, -1)
            evicted.append(candidates[0])
