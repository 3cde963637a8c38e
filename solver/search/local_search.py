"""A complete placement whose pods are moved, one by one or in groups: every state obeys all hard rules, the soft objective in step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from kubestow.models.cluster.cluster import Cluster, Ints
from kubestow.models.cluster.image_scores import MAX_SCORE
from kubestow.models.kube.selectors import Bools
from kubestow.solver.objective.incremental_score import SoftState
from kubestow.solver.objective.preferences import (
    IMAGE_LOCALITY,
    NODE_AFFINITY,
    POD_AFFINITY,
    REQUIRED_AFFINITY,
    SKEW_COST,
    TOPOLOGY_SPREAD,
    Objective,
)
from kubestow.solver.objective.sparse_placement import Placed
from kubestow.solver.objective.tie_break import PodCosts
from kubestow.solver.rules.base import Rule
from kubestow.solver.rules.dynamic_resources import DynamicResources
from kubestow.solver.rules.gang_scheduling import GangScheduling
from kubestow.solver.rules.inter_pod_affinity import InterPodAffinity
from kubestow.solver.rules.node_ports import NodePorts
from kubestow.solver.rules.node_resources_fit import NodeResourcesFit
from kubestow.solver.rules.pod_topology_spread import PodTopologySpread

#: Moves between two looks at the clock.
BLOCK = 256
#: Added to random numbers so that no logarithm is infinite.
TINY = np.float32(1e-30)


class LocalSearch:
    """``active``, ``soft``: rules and soft counters in the state of ``counts``; they are kept in step. ``limits``: int64[G, N],
    0 where a rule excludes the pair.
    ``moving``: the classes whose pods may be moved; ``mobile``: those of them that do not provide for the affinity of others. Providers
    move as long as no pod lacks one, alone or with all that stand on them; without ``together`` they stay, and all pods move alone.
    ``ejecting``: while a search is not hot pods also go where there is no room, and others give way. ``block``: moves between two looks at
    the clock."""

    block = BLOCK
    together = True
    ejecting = False

    def __init__(
        self, objective: Objective, active: Sequence[Rule], limits: Ints, counts: Ints, *, seed: int, soft: SoftState | None = None
    ) -> None:
        self.objective, self.active, self.limits = objective, active, limits
        self.cluster: Cluster = objective.cluster
        self.counts = counts.copy()
        self.rng = np.random.default_rng(seed)
        self.soft = soft or SoftState(objective)
        if soft is None:
            for g, n in zip(*np.nonzero(counts), strict=True):
                self.soft.place(int(g), int(n), int(counts[g, n]))
        self.fit = NodeResourcesFit.of(active)
        self.spread = PodTopologySpread.of(active)
        self.pods = InterPodAffinity.of(active)
        self._possible = limits > 0
        self._since: dict[tuple[int, int], int] = {}  # pods more (or fewer) than at the last mark, by (class, node)
        self._dynamic = [self._watchers(g) for g in range(self.cluster.n_classes)]
        movable = [g for g in range(self.cluster.n_classes) if self._movable(g)]
        self.mobile = {g for g in movable if not self.pods.provides(g)}
        self.moving = [g for g in movable if g in self.mobile or self.together]
        self.pairs = self._list()

    def _list(self) -> list[tuple[int, int]]:
        """(class, node) of every pod that may be moved."""
        counts = self.counts
        return [(g, int(n)) for g in self.moving for n in np.flatnonzero(counts[g]) for _ in range(int(counts[g, n]))]

    def _movable(self, g: int) -> bool:
        """Pods that share claims, or whose zones or devices matter, stay where they are."""
        return self.loose(g) and int(np.count_nonzero(self.limits[g])) > 1

    def _watchers(self, g: int) -> list[Rule]:
        """The rules beside resources whose verdict on the class can change."""
        found: list[Rule] = [r for r in (NodePorts.of(self.active), GangScheduling.of(self.active)) if r.concerned(g)]
        if self.pods.concerned(g):
            found.append(self.pods)
        if self.spread.touches(g):
            found.append(self.spread)
        return found

    def put(self, g: int, n: int, k: int) -> None:
        self.soft.place(g, n, k)
        self.fit.place(g, n, k)
        for rule in self._dynamic[g]:
            rule.place(g, n, k)
        self.counts[g, n] += k

    def allowed(self, g: int, home: int | None) -> Bools:
        """bool[N]: where a pod may go; back to the node it was taken from in any case."""
        mask = self._possible[g] & ~self.fit.rejects(g)
        for rule in self._dynamic[g]:
            if rule is self.spread:
                mask &= self.spread.obeyed(g)
            else:
                mask &= ~rule.rejects(g)
        if home is not None:
            if self.pods.provides(g):
                mask &= self.pods.keeping(g, home, self.counts)
            mask[home] = True
        return np.asarray(mask, dtype=bool)

    def possible(self, g: int) -> Bools:
        """Return bool[N]: where pods of a class may ever be."""
        return np.asarray(self._possible[g], dtype=bool)

    def free_of_rules(self, g: int) -> bool:
        """Return whether room alone decides where a pod of the class may go."""
        return not self._dynamic[g]

    def pods_by_class(self) -> dict[int, list[int]]:
        """Return the pods of each class, by their indices in ``pairs``."""
        found: dict[int, list[int]] = {}
        for pod, (g, _) in enumerate(self.pairs):
            found.setdefault(g, []).append(pod)
        return found

    def noise(self, temperature: float) -> NDArray[np.float64]:
        """Return float64[N], Gumbel's distribution: the node with most points together with it is drawn by its points."""
        return np.asarray(np.log(self.rng.standard_exponential(self.cluster.n_nodes) + TINY) * -temperature)

    def scale(self) -> int:
        """Return the largest weight that a single decision can turn on."""
        times = self.objective.multipliers
        found = [1]
        for cls in self.cluster.classes:
            found += [times[NODE_AFFINITY] * abs(w) for _, w in cls.prefers]
            if cls.images is not None:
                found.append(times[IMAGE_LOCALITY] * MAX_SCORE)
            found += [times[REQUIRED_AFFINITY if p.required else POD_AFFINITY] * abs(p.weight) for p in cls.pulls]
        if self.objective.tallies:
            found.append(SKEW_COST * times[TOPOLOGY_SPREAD])
        return max(found)

    def move(self, pod: int, noise: NDArray[np.float32]) -> int:
        """Move a pod, by its index in ``pairs``, to where it has most points together with ``noise``, float32[N]; the points gained."""
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
        """Take note that a pod was moved, by its index in ``pairs``."""
        (g, home), since = self.pairs[pod], self._since
        self.pairs[pod] = (g, target)
        since[g, home] = since.get((g, home), 0) - 1
        since[g, target] = since.get((g, target), 0) + 1

    def mark(self) -> None:
        """Take note that :meth:`go_back` is to come back to this placement."""
        self._since.clear()

    def go_back(self) -> None:
        """Undo what pods were moved since the last mark."""
        for sign in (1, -1):
            for (g, n), k in self._since.items():
                if k * sign > 0:
                    self.put(g, n, -k)
        self._since.clear()
        self.pairs = self._list()

    def even_out(self, costs: PodCosts | None, progress: Callable[[], float], *, domains: bool = False) -> bool:
        """Move pods one by one to where they cost less and no preference loses, until nothing moves or ``progress`` says 1;
        whether anything moved. An emptier domain of a soft spread constraint comes before what ``costs`` says; ``domains``: only pods
        move that find one."""
        moved_ever, moved = False, True
        least: dict[int, int | None] = {}  # by class: the least crowding where there is room; good until a pod moves
        while moved:
            moved = False
            for pod, (g, home) in enumerate(self.pairs):
                if pod % BLOCK == 0 and progress() >= 1:
                    return moved_ever
                if domains:
                    if g not in least:
                        least[g] = self._least_crowded(g)
                    bound = least[g]
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
                    least.clear()
        return moved_ever

    def _least_crowded(self, g: int) -> int | None:
        """Return the least crowding of the nodes that have room for a pod of the class, None if there is none.

        Taking a pod away lowers the crowding of its node by 2 for each constraint that counts it there, and that of a node of other domains
        for one of them by 2 less at least: unless a node is less crowded by more than 2 before, it is not less crowded after.
        """
        roomy = self._possible[g] & ~self.fit.rejects(g)
        return int(self.soft.crowding(g)[roomy].min()) if roomy.any() else None

    def _emptiest(self, g: int, home: int, crowded: Ints, costs: PodCosts | None, *, domains: bool) -> int:
        """Where a pod goes that was taken from its node: where it loses no points, to the least crowded domains, and there to the node of
        least cost; home if nothing is gained."""
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
        """Return whether pods of the class may be moved at all, if those that stand on them move too."""
        cls = self.cluster.classes[g]
        return not cls.claims and cls.containers is None and not DynamicResources.of(self.active).concerned(g)

    def take_out(self, pods: Mapping[tuple[int, int], int]) -> int:
        """Take pods out, by (class, node); gives the weighted points that go with them."""
        points = 0
        for (g, n), k in pods.items():
            for _ in range(k):
                self.put(g, n, -1)
                points += int(self.soft.gain(g)[n])
        return points

    def put_back(self, pods: Mapping[tuple[int, int], int]) -> int:
        """Put pods in, by (class, node), in a state that is known to admit them all; gives the weighted points that come with them."""
        points = 0
        for (g, n), k in pods.items():
            for _ in range(k):
                points += int(self.soft.gain(g)[n])
                self.put(g, n, 1)
        return points

    def relocate(self, classes: Sequence[int], target: Ints, tied: Sequence[int] | None = None) -> int | None:
        """Move all pods of some classes to where they would like to be, int64[len(classes), N], or near it, if that gains points and
        nobody else has to go: the points gained, or None (and nothing changed). The classes must be loose; ``tied``: they and those that
        something ties them to, None: no others."""
        tied = classes if tied is None else tied
        cells = {(g, n): int(self.counts[g, n]) for g in classes for n in np.flatnonzero(self.counts[g]).tolist()}
        before = self._points(tied)
        self._put_all(cells, -1)
        put: dict[tuple[int, int], int] = {}

        def place(g: int, n: int, k: int = 1) -> None:
            self.put(g, n, k)
            put[g, n] = put.get((g, n), 0) + k

        waiting = []
        for g, row in zip(classes, target, strict=True):
            room = self.fit.room(g)
            for n in np.flatnonzero(row).tolist():
                k = min(int(row[n]), int(room[n])) if not self._dynamic[g] else 0
                if k:
                    place(g, n, k)
                waiting += [(g, n)] * (int(row[n]) - k)
        moved = True
        while waiting and moved:  # constraints of spread may admit a pod only after others
            left = []
            for g, n in waiting:
                if self.fit.admits(g, n) and self.allowed(g, None)[n]:
                    place(g, n)
                else:
                    left.append((g, n))
            moved, waiting = len(left) < len(waiting), left
        for g, _ in waiting:
            allowed = self.allowed(g, None)
            if not allowed.any():
                break
            place(g, int(np.argmax(np.where(allowed, self.soft.gain(g), np.iinfo(np.int64).min))))
        else:
            if (gain := self._points(tied) - before) > 0:
                return gain
        self._put_all(put, -1)
        self._put_all(cells, 1)
        return None

    def _points(self, classes: Sequence[int]) -> int:
        """Weighted points of classes that nothing ties to others."""
        return self.objective.total(self.objective.families(Placed(self.counts[list(classes)], classes), classes))

    def _put_all(self, pods: Mapping[tuple[int, int], int], sign: int) -> None:
        for (g, n), k in pods.items():
            self.put(g, n, sign * k)

    def refresh(self) -> None:
        """List the pods again after whole groups have moved."""
        self.pairs = self._list()

    def go_to(self, counts: Ints) -> None:
        """Make the state that of another placement, int64[G, N]."""
        change = counts - self.counts
        for sign in (-1, 1):
            for g, n in zip(*np.nonzero(change * sign > 0), strict=True):
                self.put(int(g), int(n), int(change[g, n]))
        self.pairs = self._list()

    def force(self, classes: Sequence[int], target: Ints) -> bool:
        """Give classes the nodes that they would have if they were alone, int64[len(classes), N]; pods of others that are in the way go
        where they gain most. False (and nothing changed) if someone finds no place."""
        before = self.counts.copy()
        chosen = set(classes)
        for g in classes:
            for n in np.flatnonzero(self.counts[g]).tolist():
                self.put(g, n, -int(self.counts[g, n]))
        for g, row in zip(classes, target, strict=True):
            for n in np.flatnonzero(row).tolist():
                if any(rule is not self.spread and rule.rejects(g)[n] for rule in self._dynamic[g]):
                    self.go_to(before)
                    return False
                self.put(g, n, int(row[n]))
        homeless: list[int] = []
        for n in np.flatnonzero((self.fit.free < 0).any(axis=1) | (self.fit.slots < 0)).tolist():
            homeless += self._evict(n, chosen)
        size = self.cluster.demand / np.maximum(self.cluster.allocatable.max(axis=0), 1)
        for g in sorted(homeless, key=lambda g: -float(size[g].max())):
            allowed = self.allowed(g, None)
            if not allowed.any():
                self.go_to(before)
                return False
            self.put(g, int(np.argmax(np.where(allowed, self.soft.gain(g), np.iinfo(np.int64).min))), 1)
        fits = not (((self.fit.free < 0) & (self.cluster.free >= 0)).any() or (self.fit.slots < 0).any())
        if not (fits and all(self.spread.kept(g) for g in sorted(chosen.union(homeless)))):
            self.go_to(before)
            return False
        self.pairs = self._list()
        return True

    def _evict(self, n: int, keep: set[int]) -> list[int]:
        """Take movable pods off an overfull node until it is none; the largest that is short first."""
        gone: list[int] = []
        while True:
            short = (self.fit.free[n] < 0) & (self.cluster.free[n] >= 0)
            if not short.any() and self.fit.slots[n] >= 0:
                return gone
            weight = np.where(self.counts[:, n] > 0, self.cluster.demand[:, short].sum(axis=1) + 1, 0)
            candidates = [g for g in np.argsort(-weight, kind="stable").tolist() if weight[g] and g not in keep and g in self.mobile]
            if not candidates:
                return gone
            self.put(candidates[0], n, -1)
            gone.append(candidates[0])
