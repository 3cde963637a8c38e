"""Upper bound from a linear program over the domains of one topology key, such as zones.

Columns: u[g, d, k], domain d holds k ≥ 1 pods of class g; m[g, h, d, k, j], it holds k pods of g and j of h. See
docs/algorithms/groups-and-shared-room.md (Models of one group)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from kubestow.models.cluster.cluster import Cluster, Ints, Spread, single
from kubestow.solver.bounds.safe_dual_bounds import MAX_COLUMNS, Program
from kubestow.solver.objective.preferences import Objective

Pair = tuple[int, int]


@dataclass
class _GrowingProgram:
    """A linear program under construction.

    Attributes:
        points: Objective coefficient of each column.
        upper: Upper bound of each column.
        limit: Right-hand side of each row.
        rows: Row of each nonzero.
        columns: Column of each nonzero.
        values: Value of each nonzero.
    """

    points: list[int] = field(default_factory=list)
    upper: list[int] = field(default_factory=list)
    limit: list[int] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    columns: list[int] = field(default_factory=list)
    values: list[int] = field(default_factory=list)

    def add(self, points: int, upper: int = 1) -> int:
        """Add a column and return its index."""
        self.points.append(points)
        self.upper.append(upper)
        return len(self.points) - 1

    def row(self, columns: Sequence[int], values: Sequence[int], limit: int) -> None:
        """Add the row values · columns ≤ limit."""
        self.rows += [len(self.limit)] * len(columns)
        self.columns += columns
        self.values += values
        self.limit.append(limit)


@dataclass
class _Star:
    """A class that attracts several others on the nodes of one domain.

    Attributes:
        nodes_with: Number of nodes that hold a pods of the class: column by a.
        leaves: For each other class, its index and a list of (pods of the centre, pods of the other class, column).
    """

    nodes_with: dict[int, int]
    leaves: list[tuple[int, list[tuple[int, int, int]]]]


class DomainProgram:
    """Builder of the program for some classes.

    Args:
        cluster: Cluster with the hard rules that count. These may be fewer than in the objective's own cluster.
        eligibility: int64[G, N].
        unplaced: Per priority, pods that may stay unplaced.
        classes: Classes to bound. No preference attracts them to other classes.

    Attributes:
        other_points: Upper bound on the points that the program does not see. Add it to the program's bound.
    """

    def __init__(self, cluster: Cluster, objective: Objective, eligibility: Ints, unplaced: dict[int, int], classes: Sequence[int]) -> None:
        self.cluster, self.objective, self.eligibility, self.unplaced, self.classes = (
            cluster,
            objective,
            eligibility,
            unplaced,
            list(classes),
        )
        self.other_points = 0
        self._inside = set(classes)
        touched = {t for g in classes for t in objective.owned[g]} & {t for g in classes for t in objective.matching[g]}
        self._terms = [objective.terms[t] for t in sorted(touched.intersection(objective.pairs))]
        self._fit = np.minimum(self.cluster.count, eligibility.sum(axis=1))
        self._key = self._main_key()
        codes = self.cluster.domains(self._key)[0] if self._key is not None else np.full(self.cluster.n_nodes, -1, dtype=np.int32)
        self._nodes = [np.flatnonzero(codes == d) for d in np.unique(codes).tolist()]
        self._keyed = [bool(codes[nodes[0]] >= 0) for nodes in self._nodes]
        self._made = _GrowingProgram()
        self._stars: dict[Pair, _Star] = {}  # by class and domain

    def _main_key(self) -> str | None:
        """Return the key that spans several nodes and whose terms can yield most points. None if there is none."""
        weights: dict[str, int] = {}
        for term in self._terms:
            if not single(term.codes, term.size):
                matched = int(self._fit[sorted(term.matches & self._inside)].sum())
                owned = sum(max(0, weight) * int(self._fit[g]) for g, weight in term.own.items() if g in self._inside)
                weights[term.key] = weights.get(term.key, 0) + owned * matched * term.multiplier
        return max(sorted(weights), key=lambda key: weights[key], default=None)

    def program(self) -> tuple[Program, Ints] | None:
        """Return the program and the objective coefficients of its columns (int64[J]).

        Return None if the program would be too large, or if the classes gain points of a shape that it does not know."""
        if not self._inside.isdisjoint(self.objective.involved):
            return None
        wide, near = self._pairs()
        if self._size({*wide, *near}) > MAX_COLUMNS:
            return None
        made = self._made
        states = {g: self._states(g, wide.get((g, g), 0), near.get((g, g), 0)) for g in self.classes}
        attracted = [pair for pair, points in near.items() if points > 0 and pair[0] != pair[1]]
        for g in self.classes:
            for d in range(len(self._nodes)) if sum(g in pair for pair in attracted) > 1 else ():
                if states[g][d]:
                    self._stars[g, d] = self._star(g, d, states[g][d])
        self._connect(states, wide, near)
        for (g, d), star in self._stars.items():
            self._room_of_star(g, d, star)
        self._room(states)
        arrays = [np.array(x, dtype=np.int64) for x in (made.rows, made.columns, made.values, made.limit, made.upper, made.points)]
        return Program(*arrays[:5]), arrays[5]

    def _connect(self, states: dict[int, list[dict[int, int]]], wide: dict[Pair, int], near: dict[Pair, int]) -> None:
        """Add the pairs of different classes in each domain (results of :meth:`_states` and :meth:`_pairs`)."""
        for pair in sorted({pair for pair in (*wide, *near) if pair[0] != pair[1]}):
            for d, keyed in enumerate(self._keyed):
                points = wide.get(pair, 0) if keyed else 0, near.get(pair, 0)
                if max(points) > 0 and states[pair[0]][d] and states[pair[1]][d]:
                    self._pair(pair, d, (states[pair[0]][d], states[pair[1]][d]), points)

    def _pairs(self) -> tuple[dict[Pair, int], dict[Pair, int]]:
        """Return the points of an unordered pair of classes in a domain of the main key, and on one node.

        Terms of other keys are added to ``other_points``."""
        wide: dict[Pair, int] = {}
        near: dict[Pair, int] = {}
        for term in self._terms:
            alone = single(term.codes, term.size)
            for g, weight in term.own.items() if alone or term.key == self._key else ():
                points, into = weight * term.multiplier, near if alone else wide
                for h in term.matches & self._inside if g in self._inside else ():
                    missing = bool((term.codes[self.eligibility[g] > 0] < 0).any())  # pods there do not meet
                    if points > 0 or (g == h and not missing):
                        pair = min(g, h), max(g, h)
                        into[pair] = into.get(pair, 0) + points
            for g, weight in term.own.items() if not alone and term.key != self._key else ():
                points = max(0, weight * term.multiplier) if g in self._inside else 0
                self.other_points += points * sum(int(self._fit[g] * (self._fit[h] - (g == h))) for h in term.matches & self._inside)
        return wide, near

    def _size(self, pairs: set[Pair]) -> int:
        """Return the approximate number of columns."""
        fit, domains = self._fit, len(self._nodes)
        return domains * int(fit[self.classes].sum() + sum(int(fit[g] * fit[h]) for g, h in pairs if g != h))

    def _states(self, g: int, wide: int, near: int) -> list[dict[int, int]]:
        """Return, for each domain, the columns of a class by its number of pods.

        Args:
            wide: Points of an ordered pair of its pods in a domain.
            near: Points of an ordered pair of its pods on one node.
        """
        fit = int(self._fit[g])
        min_total = max(0, fit - self.unplaced.get(int(self.cluster.priority[g]), 0))
        together = self._together(g)
        states: list[dict[int, int]] = []
        for d, nodes in enumerate(self._nodes):
            low, high = self._range(g, d, fit, min_total)
            points = np.repeat(self.objective.node_points(g)[nodes], np.minimum(self.eligibility[g, nodes], fit))
            points = np.cumsum(np.sort(points)[::-1])
            low = fit if together and min_total == fit else low
            columns: dict[int, int] = {}
            for k in range(max(1, low), min(high, len(points)) + 1):
                pairs = wide * k * (k - 1) if self._keyed[d] else 0
                columns[k] = self._made.add(int(points[k - 1]) + pairs + near * self._meet_alone(g, nodes, k, upper=near > 0))
            states.append(columns)
            self._made.row([*columns.values()], [1] * len(columns), 1)
            if low > 0 and not together:
                self._made.row([*columns.values()], [-1] * len(columns), -1)
        pods = [k for columns in states for k in columns]
        every = [column for columns in states for column in columns.values()]
        self._made.row(every, pods, fit)
        self._made.row(every, [-k for k in pods], -min_total)
        if together:
            self._made.row(every, [1] * len(every), 1)
        return states

    def _together(self, g: int) -> bool:
        """Return whether all pods of a class must share a domain because each requires another one there."""
        affinity = self.cluster.classes[g].affinity
        if affinity is None or self._key not in affinity.keys:
            return False
        return self.cluster.matching(affinity.full).tolist() == [g] and not self.cluster.fixed_count(affinity.full).any()

    def _range(self, g: int, d: int, fit: int, min_total: int) -> Pair:
        """Return the fewest and the most pods of a class that hard constraints allow in a domain, if ``min_total`` to ``fit``
        pods are placed in total."""
        low, high = 0, fit
        for spread in self.cluster.classes[g].spread:
            counted = self._counted(g, spread)
            if counted is None or not counted[d]:
                continue
            domains, skew = sum(counted), spread.max_skew
            high = min(high, (fit + (domains - 1) * skew) // domains)  # every other domain holds at most maxSkew fewer
            if all(counted):
                low = max(low, -(((domains - 1) * skew - min_total) // domains))
        return low, high

    def _counted(self, g: int, spread: Spread) -> list[bool] | None:
        """Return the domains that a constraint counts. None if it also depends on other pods or nodes."""
        if spread.matcher is None or spread.key != self._key or self.cluster.matching(spread.matcher).tolist() != [g]:
            return None
        eligible = self.cluster.node_sets[spread.eligible]
        if self.eligibility[g, ~eligible].any() or self.cluster.fixed_count(spread.matcher).any():
            return None
        counted = [keyed and bool(eligible[nodes].any()) for nodes, keyed in zip(self._nodes, self._keyed, strict=True)]
        return counted if spread.min_domains <= sum(counted) else None

    def _meet_alone(self, g: int, nodes: Ints, k: int, *, upper: bool) -> int:
        """Return the most (or, without ``upper``, the fewest) ordered pairs of k pods of a class on the same nodes."""
        if upper:
            full, remainder = divmod(k, int(self.eligibility[g, nodes].max()))
            high = int(self.eligibility[g, nodes].max())
            return full * high * (high - 1) + remainder * (remainder - 1)
        size = int(np.count_nonzero(self.eligibility[g, nodes]))
        each, more = divmod(k, size)
        return each * (each - 1) * (size - more) + (each + 1) * each * more

    def _needs(self, g: int, h: int, nodes: Ints) -> tuple[tuple[int, int, int], ...]:
        """Return triples (room of the largest of the nodes, demand of g, demand of h) per resource; pod slots come last."""
        free, demand = self.cluster.free[nodes].max(axis=0), self.cluster.demand
        needs = [(max(0, int(free[r])), int(demand[g, r]), int(demand[h, r])) for r in np.flatnonzero(demand[[g, h]].any(axis=0))]
        return (*needs, (max(0, int(self.cluster.slots[nodes].max())), 1, 1))

    def _pair(self, pair: Pair, d: int, states: tuple[dict[int, int], dict[int, int]], points: Pair) -> None:
        """Add two classes that attract each other in a domain.

        Args:
            pair: The classes.
            d: The domain.
            states: Per class of the pair, the columns of its numbers of pods in the domain; see :meth:`_states`.
            points: Points of one pod of each in the domain, and the further points if they share a node.
        """
        (g, h), nodes, (wide, near), (first, second) = pair, self._nodes[d], points, states
        starred = [centre for centre in pair if (centre, d) in self._stars] if near > 0 else []
        per_node = int(self.eligibility[g, nodes].max()), int(self.eligibility[h, nodes].max())
        table = meetings((max(first), max(second)), per_node, self._needs(g, h, nodes) if near > 0 else ((0, 1, 1),))
        made = {
            (k, j): self._made.add(wide * k * j + (0 if starred else near * int(table[k, j])))
            for k in first
            for j in second
        }  # fmt: skip
        for k, column in first.items():
            self._made.row([*(made[k, j] for j in second), column], [1] * len(second) + [-1], 0)
        for j, column in second.items():
            self._made.row([*(made[k, j] for k in first), column], [1] * len(first) + [-1], 0)
        if starred:
            met = self._made.add(near, int(table.max()))
            self._made.row([met, *made.values()], [1, *(-int(table[cell]) for cell in made)], 0)
            for centre in starred:
                leaf, leaf_states = (h, second) if centre == g else (g, first)
                self._leaf(self._stars[centre, d], (centre, leaf), d, leaf_states, met)

    def _star(self, g: int, d: int, states: dict[int, int]) -> _Star:
        nodes = self._nodes[d]
        size, per_node = int(np.count_nonzero(self.eligibility[g, nodes])), min(int(self.eligibility[g, nodes].max()), max(states))
        nodes_with = {a: self._made.add(0, size) for a in range(1, per_node + 1)}
        self._made.row([*nodes_with.values()], [1] * per_node, size)
        self._made.row([*nodes_with.values(), *states.values()], [*nodes_with, *(-k for k in states)], 0)
        return _Star(nodes_with, [])

    def _leaf(self, star: _Star, pair: Pair, d: int, states: dict[int, int], met: int) -> None:
        """Tie the pairs of pods that share a node to the pods of a star's centre on each node.

        A column for each a and b counts the nodes with a pods of the centre and b of the other class.

        Args:
            star: The star of the centre in the domain. The new columns are added to its leaves.
            pair: The centre, and the other class.
            d: The domain.
            states: Columns of the other class by its number of pods in the domain.
            met: Column of the number of pairs that share a node.
        """
        (g, h), nodes = pair, self._nodes[d]
        per_node, needs = min(int(self.eligibility[h, nodes].max()), max(states)), self._needs(g, h, nodes)
        size = int(np.count_nonzero((self.eligibility[g, nodes] > 0) & (self.eligibility[h, nodes] > 0)))
        both = [
            (a, b, self._made.add(0, size))
            for a in star.nodes_with
            for b in range(1, per_node + 1)
            if all(a * x + b * y <= free for free, x, y in needs)
        ]
        columns = [column for _, _, column in both]
        self._made.row([met, *columns], [1, *(-a * b for a, b, _ in both)], 0)
        self._made.row([*columns, *states.values()], [*(b for _, b, _ in both), *(-k for k in states)], 0)
        for a, node_column in star.nodes_with.items():
            here = [column for x, _, column in both if x == a]
            self._made.row([*here, node_column], [1] * len(here) + [-1], 0)
        star.leaves.append((h, both))

    def _room_of_star(self, g: int, d: int, star: _Star) -> None:
        """Limit all attracted classes together to the room that a pods of the centre class leave on a node."""
        nodes, cluster = self._nodes[d], self.cluster
        room = [(int(cluster.free[nodes, r].max()), cluster.demand[:, r]) for r in range(len(cluster.resources))]
        room.append((int(cluster.slots[nodes].max()), np.ones(cluster.n_classes, dtype=np.int64)))
        for free, demand in room:
            unit = int(np.gcd.reduce(demand[self.classes]))
            for a, node_column in star.nodes_with.items() if unit else ():
                partners = [(b * int(demand[h]) // unit, column) for h, both in star.leaves for x, b, column in both if x == a]
                residual = max(0, (free - a * int(demand[g])) // unit)
                self._made.row([*(column for _, column in partners), node_column], [*(need for need, _ in partners), -residual], 0)

    def _room(self, states: dict[int, list[dict[int, int]]]) -> None:
        """Add the capacity rows of each domain."""
        cluster = self.cluster
        for d, nodes in enumerate(self._nodes):
            terms = [(g, k, column) for g in self.classes for k, column in states[g][d].items()]
            columns = [column for _, _, column in terms]
            self._made.row(columns, [k for _, k, _ in terms], int(np.maximum(cluster.slots[nodes], 0).sum()))
            for r in range(len(cluster.resources)):
                unit = int(np.gcd.reduce(cluster.demand[self.classes, r]))
                free = sum(np.maximum(cluster.free[nodes, r], 0).tolist())
                if unit and sum(int(cluster.demand[g, r]) * max(states[g][d], default=0) for g in self.classes) > free:
                    self._made.row(columns, [k * int(cluster.demand[g, r]) // unit for g, k, _ in terms], free // unit)


@lru_cache(maxsize=2_000)
def meetings(pods: Pair, per_node: Pair, needs: tuple[tuple[int, int, int], ...]) -> Ints:
    """Return int64[k + 1, j + 1]: the most pairs that k and j pods of two classes can form on any number of nodes.

    Of the nodes with a given number of pods of the first class, or fewer, at most one needs room for another pod of the
    second. Otherwise a pod of the second class could move to a node where it forms at least as many pairs. So each node
    is filled up, and the last one takes the remainder.

    Args:
        pods: Pods of each class, (k, j).
        per_node: Maximum pods of each class on one node.
        needs: (room, demand of a pod of the first class, of the second) per resource.
    """
    fills: list[Pair] = []
    for a in range(1, min(pods[0], per_node[0]) + 1):
        residual = [(free - a * x) // y for free, x, y in needs if y]
        if all(a * x <= free for free, x, _ in needs):
            fills.append((a, min([per_node[1], *residual])))
    best = np.zeros((pods[0] + 1, pods[1] + 1), dtype=np.int64)
    for k in range(1, pods[0] + 1):
        for j in range(1, pods[1] + 1):
            ways = ((a, min(b, j)) for a, b in fills if a <= k and b > 0)
            best[k, j] = max((int(best[k - a, j - b]) + a * b for a, b in ways), default=0)
    return best
