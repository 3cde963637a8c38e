"""Points that pods on the same node gain from each other, for a coarse model over lists of alike nodes.

Variables: u[g, a], the number of these nodes that hold a ≥ 1 pods of class g; w[g, h, a, b], the number that hold a pods
of g and b of h, where g and h attract or repel each other. See docs/algorithms/groups-and-shared-room.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from kubestow.models.cluster.cluster import Ids, Ints, single
from kubestow.models.cluster.partition import equivalence
from kubestow.models.kube.selectors import Bools
from kubestow.solver.cpsat.linear_sum import Points
from kubestow.solver.cpsat.model import PlacementModel
from kubestow.solver.objective.domain_sums import DomainGraph, DomainSum
from kubestow.solver.objective.preferences import Objective
from kubestow.solver.ortools import cp_model
from kubestow.solver.runtime.graph import connected

#: Parts with more variables are omitted, even if their nodes are merged as far as possible. The limit is high because most points of
#: attraction come from single nodes.
MAX_PART_VARIABLES = 20_000
#: Variables per part in the successive coarse models of a group. Nodes are merged until a model is small enough, or as far as possible.
#: Small models are solved fast and rarely lose points.
PART_VARIABLE_LIMITS = (1_200, 5_000, MAX_PART_VARIABLES)
#: Longer sums are not written in unary.
MAX_UNARY_PODS = 200

Pair = tuple[int, int]


@dataclass
class Alike:
    """Nodes that are alike for the classes of one part.

    Attributes:
        firsts: First node of each kind that these nodes belong to.
        nodes: All nodes, int64[n].
        own: Points of a pair of pods of a class.
        cross: Points of a pair of pods of two classes.
        nodes_with: Variables u by (class, pods).
        both: Variables w by (pair of classes, pods of each).
    """

    firsts: list[int]
    nodes: Ints
    own: dict[int, int]
    cross: dict[Pair, int]
    nodes_with: dict[tuple[int, int], cp_model.IntVar] = field(default_factory=dict)
    both: dict[tuple[Pair, int, int], cp_model.IntVar] = field(default_factory=dict)


@dataclass
class MergedNodes:
    """The merged nodes of a coarse model.

    Attributes:
        kinds: Lists of alike nodes by their first node, which has the variables.
        pools: int64[N], equal numbers for nodes that differ only in eligibility and room.
    """

    kinds: Mapping[int, Ints]
    pools: Ints


@dataclass
class PatternPart:
    """Classes that terms over single nodes tie together.

    Attributes:
        classes: Class indices.
        alike: Lists of alike nodes. None if the model would be too large; it then ignores these terms.
    """

    classes: list[int]
    alike: list[Alike] | None


class CoarseNodePatterns:
    """Adds pods per node to a coarse model.

    Args:
        eligibility: int64[G, N].
        max_variables: Maximum number of variables of a part.
    """

    def __init__(self, encoding: PlacementModel, objective: Objective, eligibility: Ints, nodes: MergedNodes, max_variables: int) -> None:
        self.encoding, self.cluster, self.eligibility, self.max_variables = encoding, objective.cluster, eligibility, max_variables
        self.terms = _terms(objective)
        self._kinds, self._pools = nodes.kinds, nodes.pools
        self._ruled, self._wide = self._domains(rules=True), self._domains(rules=False)
        links: list[Sequence[int]] = [pair for _, _, cross in self.terms for pair in cross]
        members = {g for _, own, cross in self.terms for g in (*own, *(g for pair in cross for g in pair))}
        self.parts = [PatternPart(part, self._fine_enough(part)) for part in connected(links, members)]

    @property
    def omitted(self) -> list[int]:
        """Classes of the parts that are too large."""
        return [g for part in self.parts if part.alike is None for g in part.classes]

    def _domains(self, *, rules: bool) -> Ints:
        """Return int64[N]: equal numbers for nodes in the same domains of every key of terms that spans nodes.

        With ``rules``, keys of hard rules count as well. Without them, the model may lose those rules."""
        columns: list[Ids] = [np.zeros(self.cluster.n_nodes, dtype=np.int32)]
        keys = {p.key for cls in self.cluster.classes for p in cls.pulls}
        for cls in self.cluster.classes if rules else ():
            keys.update(term.key for term in cls.anti)
            keys.update(spread.key for spread in cls.spread)
            keys.update(cls.affinity.keys if cls.affinity is not None else ())
        for key in sorted(keys):
            codes, size = self.cluster.domains(key)
            columns.append((codes >= 0).astype(np.int32) if single(codes, size) else codes)
        return equivalence(*columns).of

    def _fine_enough(self, part: list[int]) -> list[Alike] | None:
        """Merge kinds of nodes that are equal for these classes.

        If that yields too many variables, merge kinds that differ in points, then in room, then in domains of hard rules.
        Return None if even the last merge is too large."""
        fits = [self.encoding.fits[g] for g in part]
        need = np.array(fits) @ self.cluster.demand[part]
        room = np.minimum(self.cluster.free, need)[:, need > 0]
        room = np.concatenate([room, np.minimum(self.cluster.slots, sum(fits))[:, None], self.eligibility[part].T], axis=1)
        ruled, wide = self._ruled[:, None], self._wide[:, None]
        found: list[Alike] = []
        size = 0
        for rows in (np.column_stack([self._pools, room]), np.column_stack([ruled, room]), ruled, wide):
            found = self._alike(part, rows)
            size = sum(self._size(alike) for alike in found)
            if size <= self.max_variables:
                return found
        return found if size <= MAX_PART_VARIABLES else None

    def _alike(self, part: Sequence[int], rows: Ints) -> list[Alike]:
        """Return one list of alike nodes for each distinct row int64[N, *]."""
        merged: dict[tuple[int, ...], list[int]] = {}
        for n in self._kinds:
            if self.eligibility[part, n].any():
                merged.setdefault(tuple(rows[n].tolist()), []).append(n)
        return [self._between(firsts, set(part)) for firsts in merged.values()]

    def _between(self, firsts: list[int], part: set[int]) -> Alike:
        """Return alike nodes with the points of pairs of pods on these nodes."""
        own: dict[int, int] = {}
        cross: dict[Pair, int] = {}
        for where, mine, between in self.terms:
            if where[firsts[0]]:
                for g, points in mine.items():
                    own[g] = own.get(g, 0) + points
                for pair, points in between.items():
                    cross[pair] = cross.get(pair, 0) + points
        return Alike(
            firsts,
            np.concatenate([self._kinds[n] for n in firsts]),
            {g: points for g, points in own.items() if points and g in part},
            {pair: points for pair, points in cross.items() if points and pair[0] in part},
        )

    def deal(self, solution: Sequence[int], points: Ints, placed: Ints, free: Ints) -> Ints:
        """Return int64[G, N]: the pods of a solution dealt to single nodes as far as there is room.

        The largest sets come first, each on the node where it scores most.

        Args:
            solution: Value of each variable of the coarse model, by its index.
            points: Points of one pod of each class on each node, int64[G, N].
            placed: Pods on each node, int64[N]. Updated.
            free: Residual capacity, int64[N, R]. Updated.
        """
        found = np.zeros_like(self.eligibility)
        for part in self.parts:
            for alike in part.alike or ():
                assigned = np.zeros(self.cluster.n_nodes, dtype=bool)
                slots = _unfold(part.classes, alike, solution)
                for slot in sorted(slots, key=lambda slot: -sum(slot.values())):
                    classes, pods = np.array(list(slot)), np.array(list(slot.values()))
                    need = pods @ self.cluster.demand[classes]
                    nodes = alike.nodes[~assigned[alike.nodes]]
                    fits = ((free[nodes] >= need) | (need == 0)).all(axis=1) & (placed[nodes] + pods.sum() <= self.cluster.slots[nodes])
                    nodes = nodes[fits & (self.eligibility[np.ix_(classes, nodes)] >= pods[:, None]).all(axis=0)]
                    if len(nodes):
                        n = int(nodes[np.argmax(pods @ points[np.ix_(classes, nodes)])])
                        found[classes, n] += pods
                        assigned[n] = True
                        placed[n] += pods.sum()
                        free[n] -= need
        return found

    def _high(self, alike: Alike, g: int) -> int:
        """Return the maximum number of pods of a class on one of these nodes."""
        return min(int(self.eligibility[g, alike.firsts].max()), self.encoding.fits[g])

    def _size(self, alike: Alike) -> int:
        high = {g: self._high(alike, g) for g in {*alike.own, *(g for pair in alike.cross for g in pair)}}
        return sum(high.values()) + sum(high[g] * high[h] for g, h in alike.cross)

    def encode(self, points: Points) -> None:
        """Add the variables, their rows and their points."""
        for part in self.parts:
            for alike in part.alike or ():
                for g in part.classes:
                    self._add_node_counts(alike, g, points)
                for pair, weight in alike.cross.items():
                    self._both(alike, pair, weight, points)
                for g in part.classes:
                    self._room(alike, g)

    def join(self, key: str, graphs: Sequence[DomainGraph]) -> None:
        """Tie the pods on single nodes to the pods in their domain of a wider key.

        Do so only for classes whose pods repel each other there, or attract other classes.

        Args:
            key: The wider topology key.
            graphs: The graph of each domain of the key, in the order of domains.
        """
        codes, _ = self.cluster.domains(key)
        for part in self.parts:
            for d, graph in enumerate(graphs):
                inside = [alike for alike in part.alike or () if codes[alike.nodes[0]] == d]
                for g in part.classes:
                    own = frozenset([g])
                    total = graph.sums.get(own)
                    if inside and total is not None and total.high <= MAX_UNARY_PODS and (own in graph.repels or total.steps):
                        self._step(inside, g, total, graph.repels.get(own))

    def _step(self, inside: Sequence[Alike], g: int, total: DomainSum, repels: tuple[int, cp_model.IntVar] | None) -> None:
        model = self.encoding.model
        units = total.units()
        if repels is not None:
            square = repels[1]
            model.add(cp_model.LinearExpr.weighted_sum([square, *units], [1, *(-(2 * k + 1) for k in range(len(units)))]) >= 0)
        for j in range(2, total.high + 1):
            holding = [variable for alike in inside for (h, a), variable in alike.nodes_with.items() if h == g and a >= j]
            if holding:  # each such node contributes j pods to the domain
                steps = units[j - 1 :: j]
                model.add(cp_model.LinearExpr.weighted_sum([*holding, *steps], [1] * len(holding) + [-1] * len(steps)) <= 0)
        size = sum(len(alike.nodes) for alike in inside)
        if total.high > size:  # more pods than nodes: some pairs on nodes are unavoidable
            terms = [(variable, a * (a - 1)) for alike in inside for (h, a), variable in alike.nodes_with.items() if h == g and a > 1]
            steps = units[size:]
            weights = [w for _, w in terms] + [-2 * ((size + k) // size) for k in range(len(steps))]
            model.add(cp_model.LinearExpr.weighted_sum([*(v for v, _ in terms), *steps], weights) >= 0)

    def _add_node_counts(self, alike: Alike, g: int, points: Points) -> None:
        model, size, high = self.encoding.model, len(alike.nodes), self._high(alike, g)
        if not high:
            return
        for a in range(1, high + 1):
            alike.nodes_with[g, a] = variable = model.new_int_var(0, min(size, self.encoding.fits[g] // a), "")
            points.add(variable, alike.own.get(g, 0) * a * (a - 1), 0, size)
        variables = [alike.nodes_with[g, a] for a in range(1, high + 1)]
        if sum(self.encoding.fits[g] // a for a in range(1, high + 1)) > size:
            model.add(cp_model.LinearExpr.sum(variables) <= size)
        placed = self.encoding.variables(g, alike.firsts)
        model.add(cp_model.LinearExpr.weighted_sum(variables, list(range(1, high + 1))) == cp_model.LinearExpr.sum(placed))

    def _both(self, alike: Alike, pair: Pair, weight: int, points: Points) -> None:
        model, (g, h) = self.encoding.model, pair
        free, slots = self.cluster.free[alike.nodes].max(axis=0), int(self.cluster.slots[alike.nodes].max())
        rows: dict[int, list[cp_model.IntVar]] = {}
        columns: dict[int, list[cp_model.IntVar]] = {}
        for a in range(1, self._high(alike, g) + 1):
            for b in range(1, self._high(alike, h) + 1):
                used = a * self.cluster.demand[g] + b * self.cluster.demand[h]
                if a + b > slots or ((used > free) & (used > 0)).any():
                    break
                upper = min(len(alike.nodes), self.encoding.fits[g] // a, self.encoding.fits[h] // b)
                alike.both[pair, a, b] = variable = model.new_int_var(0, upper, "")
                points.add(variable, weight * a * b, 0, upper)
                rows.setdefault(a, []).append(variable)
                columns.setdefault(b, []).append(variable)
        for a, variables in rows.items():
            model.add(cp_model.LinearExpr.sum(variables) <= alike.nodes_with[g, a])
        for b, variables in columns.items():
            model.add(cp_model.LinearExpr.sum(variables) <= alike.nodes_with[h, b])
        either = [variable for (k, _), variable in alike.nodes_with.items() if k in pair]
        both = [variable for variables in rows.values() for variable in variables]
        if either:  # nodes with pods of either class
            weights = [1] * len(either) + [-1] * len(both)
            model.add(cp_model.LinearExpr.weighted_sum([*either, *both], weights) <= len(alike.nodes))

    def _room(self, alike: Alike, g: int) -> None:
        """Limit all partners of g together to the room that a pods of g leave on a node."""
        partners = [pair for pair in alike.cross if g in pair]
        if len(partners) < 2:
            return
        resources = [(self.cluster.free[alike.nodes, r].max(), self.cluster.demand[:, r]) for r in np.flatnonzero(self.cluster.demand[g])]
        resources.append((self.cluster.slots[alike.nodes].max(), np.ones(self.cluster.n_classes, dtype=np.int64)))
        for a in range(1, self._high(alike, g) + 1):
            shared = [
                (variable, q if pair[0] == g else p, pair[1] if pair[0] == g else pair[0])
                for (pair, p, q), variable in alike.both.items()
                if (p if pair[0] == g else q if pair[1] == g else -1) == a
            ]
            for free, demand in resources:
                weights = [k * int(demand[h]) for _, k, h in shared]
                residual = int(free) - a * int(demand[g])
                if sum(self._high(alike, h) * int(demand[h]) for h in {h for _, _, h in shared}) > residual:
                    self.encoding.model.add(
                        cp_model.LinearExpr.weighted_sum([*(v for v, _, _ in shared), alike.nodes_with[g, a]], [*weights, -residual]) <= 0
                    )


def _terms(objective: Objective) -> list[tuple[Bools, dict[int, int], dict[Pair, int]]]:
    """Return the preference terms whose domains are single nodes, in weighted points.

    Returns:
        One entry a term. Its first item is the nodes where the term counts, bool[N]. The second item maps a class to the points
        of an ordered pair of its pods. The third maps a pair of classes (lower index first) to the points of one pod of each.
    """
    found = []
    for t in objective.pairs:
        term = objective.terms[t]
        if not single(term.codes, term.size):
            continue
        own: dict[int, int] = {}
        cross: dict[Pair, int] = {}
        for g, weight in sorted(term.own.items()):
            points = weight * term.multiplier
            for h in sorted(term.matches):
                if g == h:
                    own[g] = own.get(g, 0) + points
                else:
                    pair = min(g, h), max(g, h)
                    cross[pair] = cross.get(pair, 0) + points
        found.append((term.codes >= 0, own, cross))
    return found


def _unfold(classes: Sequence[int], alike: Alike, solution: Sequence[int]) -> list[dict[int, int]]:
    """Return the pods of each alike node that is not empty, as {class: pods}.

    Args:
        classes: Classes of the part. Pairs are followed from class to class, starting with the first one.
        solution: Value of each variable of the coarse model, by its index.
    """
    nodes: list[dict[int, int]] = []
    done: set[int] = set()
    for root in classes:
        waiting: list[tuple[int, int | None]] = [(root, None)]
        while waiting:
            g, before = waiting.pop()
            if g in done:
                continue
            done.add(g)
            remaining = {a: solution[variable.index] for (h, a), variable in alike.nodes_with.items() if h == g}
            for node in list(nodes) if before is not None else ():
                pair = (min(g, before), max(g, before)) if before is not None else (g, g)
                for a in sorted(remaining, reverse=True):
                    held_before = node.get(before, 0) if before is not None else 0
                    key = (pair, a, held_before) if pair[0] == g else (pair, held_before, a)
                    both = alike.both.get(key)
                    used = sum(1 for other in nodes if other.get(g) == a and other.get(before or 0) == held_before)
                    if held_before and remaining[a] and both is not None and used < solution[both.index]:
                        node[g] = a
                        remaining[a] -= 1
                        break
            nodes += [{g: a} for a, k in remaining.items() for _ in range(k)]
            waiting += [(p if h == g else h, g) for p, h in alike.cross if g in (p, h)]
    return nodes
