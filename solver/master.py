"""The zone-level master of large-neighbourhood search: how many pods of each class go to which domain of one topology key.

Annealing moves one pod at a time and a neighbourhood a few; whole workloads that hold each other in the wrong domain need a move that
sees domains alone. Here nodes that nothing over the key (and coarser ones) can tell apart are one cell, and z[g, cell] is solved by
CP-SAT: terms and constraints over these keys exactly, room as the sum over the nodes, the rest as what each pod would gain at present.
The answer is a wish: it is realised pod by pod under all rules, the others settle around it, and it stays only if the soft tier gains.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import gcd

import numpy as np

from models.cluster import Affinity, Cluster, Ids, Ints, PodClass
from models.selectors import Bools
from solver import soft_encoding
from solver.cpsat import CpSat
from solver.encoding import Encoding, Part
from solver.local_search import COLD, HOT, LocalSearch
from solver.lns import BUILD
from solver.quotas import single
from solver.rules.base import Rule
from solver.rules.inter_pod_affinity import InterPodAffinity
from solver.rules.pod_topology_spread import PodTopologySpread
from solver.soft_points import Points

#: Cells (class, domain) of a master model at most, and at least; it grows and shrinks with success between them.
MOST, LEAST = 2_000.0, 30.0
GROWTH, DECAY = 1.5, 0.6
#: Seconds for one model.
SOLVE = 2.0
#: Pieces of the concave estimate of what the pods of a class gain in a cell.
PIECES = 6


@dataclass
class _Layout:
    """One key that groups nodes. ``keys``: it and the coarser ones; ``cell``: int32[N], -1 for nodes without the key; ``nodes``: by cell;
    ``ties``: per class the groups of classes that a term or constraint over the keys binds together; ``rules``: the hard constraints over
    the keys, in the state of ``counts`` (of the classes ``read``)."""

    keys: frozenset[str]
    cell: Ids
    nodes: list[Ids]
    groups: list[list[int]]
    ties: dict[int, list[int]]
    cluster: Cluster
    rules: list[Rule]
    read: list[int]
    counts: Ints = field(init=False)

    def __post_init__(self) -> None:
        self.counts = np.zeros((len(self.read), len(self.cell)), dtype=np.int64)

    def go_to(self, counts: Ints) -> None:
        """Put the rules in the state of a placement int64[G, N]."""
        wanted = counts[self.read]
        change = wanted - self.counts
        for i, n in zip(*np.nonzero(change), strict=True):
            for rule in self.rules:
                rule.place(self.read[i], int(n), int(change[i, n]))
        self.counts = wanted


class Master:
    """``search``: the state that is improved. ``tried``, ``kept``: rounds so far, and those whose result stayed."""

    def __init__(self, search: LocalSearch, cpsat: CpSat) -> None:
        self.search, self.cpsat = search, cpsat
        self.cluster, self.objective = search.cluster, search.objective
        self.size = MOST
        self.tried = self.kept = 0
        self._free: dict[int, list[int]] = {}
        self._hard = [search.fit, search.pods, *(r for r in search.active if r.name == "NodePorts")]
        self.layouts = [layout for key in self._keys() if (layout := self._layout(key)).groups]

    # --- keys ------------------------------------------------------------------------------------------------------------------

    def _keys(self) -> list[str]:
        """Keys that some preference or constraint reads and that group nodes."""
        found = {self.objective.terms[t].key for t in self.objective.pairs} | {t.spread.key for t in self.objective.tallies}
        for cls in self.cluster.classes:
            found |= {s.key for s in cls.spread} | {t.key for t in cls.anti} | set(cls.affinity.keys if cls.affinity else ())
        sizes = {key: self.cluster.domains(key) for key in sorted(found)}
        return [key for key, (codes, size) in sizes.items() if size > 1 and not single(codes, size)]

    def _layout(self, key: str) -> _Layout:
        cluster = self.cluster
        codes, _ = cluster.domains(key)
        keys = frozenset({key, *(k for k in self._keys() if k != key and self._coarser(k, key))})
        sets = {s.eligible for cls in cluster.classes for s in (*cls.spread, *cls.soft_spread) if s.key in keys}
        columns = [cluster.domains(k)[0] for k in sorted(keys)] + [cluster.node_sets[i].astype(np.int32) for i in sorted(sets)]
        _, inverse = np.unique(np.stack(columns, axis=1), axis=0, return_inverse=True)
        cell = np.where(codes >= 0, inverse.reshape(-1), -1)
        cell = np.where(cell >= 0, np.searchsorted(np.unique(cell[cell >= 0]), cell), -1).astype(np.int32)
        nodes = [np.flatnonzero(cell == c).astype(np.int32) for c in range(int(cell.max()) + 1)]
        coarse = replace(cluster, classes=[_over(cls, keys) for cls in cluster.classes], _by_profile=None)
        spread, pods = PodTopologySpread(coarse), InterPodAffinity(coarse)
        read = [g for g in range(cluster.n_classes) if spread.touches(g) or pods.touches(g)]
        groups = [*spread.order_links(), *pods.order_links()]
        groups += [sorted({*t.own, *t.matches}) for i in self.objective.pairs if (t := self.objective.terms[i]).key in keys]
        groups += [t.matches.tolist() for t in self.objective.tallies if t.spread.key in keys]
        ties: dict[int, list[int]] = {}
        for i, group in enumerate(groups):
            for g in group:
                ties.setdefault(g, []).append(i)
        return _Layout(keys, cell, nodes, groups, ties, coarse, [spread, pods], read)

    def _coarser(self, key: str, than: str) -> bool:
        """Whether every domain of the second key lies in one of the first (or has none of it as a whole)."""
        outer, inner = self.cluster.domains(key)[0], self.cluster.members(than)
        return all(bool((outer[nodes] == outer[nodes[0]]).all()) for nodes in inner if len(nodes))

    # --- one round ---------------------------------------------------------------------------------------------------------------

    def round(self, settle: Callable[[], Callable[[], float]]) -> int:
        """Solve one master and realise it; the points gained. If it gains nothing, the state is what it was. ``settle``: makes the
        progress of a short anneal (see :meth:`LocalSearch.run`)."""
        search = self.search
        if not self.layouts:
            return 0
        self.tried += 1
        layout = self.layouts[int(search.rng.integers(len(self.layouts)))]
        classes = self._choose(layout)
        wanted = self._solve(layout, classes) if classes else None
        gain = 0
        if wanted is not None:
            before = search.counts.copy()
            points = _Realisation(search, self._hard, layout, classes, wanted, self._closure).run()
            if points is not None:
                search.refresh()
                gain = points + search.run(settle(), hot=HOT / 10, cold=COLD)
            if gain <= 0:
                search.go_to(before)
                gain = 0
        self.kept += gain > 0
        if gain > 0:
            self.size = min(MOST, self.size * GROWTH)
        else:
            self.size = self.size * DECAY if self.size > LEAST else MOST
        return gain

    def _choose(self, layout: _Layout) -> list[int]:
        """Classes that something over the keys concerns: all if they are few, else a connected part of them from a random one on."""
        rng, found, cells = self.search.rng, dict[int, None](), len(layout.nodes)
        starts = [g for g in sorted(layout.ties) if self.search.counts[g].any()]
        for start in rng.permutation(starts).tolist():
            waiting = [start]
            for g in waiting:
                if g in found or (len(found) + 1) * cells > self.size:
                    continue
                closed = self._closure(g)
                if not closed or any(self._outside(layout, h) for h in closed if len(closed) > 1):
                    continue
                found.update(dict.fromkeys(closed))
                near = sorted({h for i in layout.ties.get(g, ()) for h in layout.groups[i]} - found.keys())
                waiting += rng.permutation(near).tolist()
            if (len(found) + 1) * cells > self.size:
                break
        return sorted(g for g in found if self.search.counts[g].any())

    def _closure(self, g: int) -> list[int]:
        """The class and those that may stand on it, which have to move with it; empty if some cannot."""
        if g not in self._free:
            found, waiting = {g}, [g]
            while waiting:
                more = set(self.search.pods.dependents(waiting.pop())) - found
                found |= more
                waiting += sorted(more)
            fine = all(self.search.loose(h) for h in found) and (len(found) > 1 or self.search.pods.provides(g) or g in self.search.mobile)
            self._free[g] = sorted(found) if fine else []
        return self._free[g]

    def _outside(self, layout: _Layout, g: int) -> bool:
        return bool(self.search.counts[g][layout.cell < 0].any())

    # --- model -------------------------------------------------------------------------------------------------------------------

    def _solve(self, layout: _Layout, classes: list[int]) -> Ints | None:
        """int64[len(classes), cells]: pods wanted in each cell; None if as many as there are."""
        search = self.search
        inside = layout.cell >= 0
        present = np.where(inside, search.counts[classes], 0)
        have = np.stack([present[:, nodes].sum(axis=1) for nodes in layout.nodes], axis=1)
        pods = present.sum(axis=1)
        finer = _Finer(search, layout.keys, classes, present)
        room = np.minimum.reduce([np.stack([rule.room(g) for g in classes]) for rule in self._hard])
        self._move(classes, present, -1)
        layout.go_to(search.counts)
        most = np.stack([self._most(g) for g in classes])
        cells: dict[int, tuple[Ids, Ints]] = {}
        first = np.array([nodes[0] for nodes in layout.nodes], dtype=np.int32)  # stands for its cell
        for i, g in enumerate(classes):
            caps = np.maximum(np.minimum([int(most[i, nodes].sum()) for nodes in layout.nodes], pods[i]), have[i])
            cells[g] = first[caps > 0], caps[caps > 0]
        encoding = Encoding(layout.cluster, layout.rules, Part(cells, dict(zip(classes, pods.tolist(), strict=True))))
        for left in encoding.left.values():
            encoding.model.add(left == 0)
        points = soft_encoding.encode(encoding, self.objective, search.soft, layout.keys)
        for i, g in enumerate(classes):
            values, again = finer.points(i)
            for c, nodes in enumerate(layout.nodes):
                if (g, int(first[c])) in encoding.x:
                    free = np.minimum(room[i, nodes], most[i, nodes])
                    slots = [*zip((values + again)[nodes].tolist(), present[i, nodes].tolist(), strict=True)]
                    slots += zip(values[nodes].tolist(), free.tolist(), strict=True)
                    _concave(encoding, encoding.x[g, int(first[c])], slots, encoding.upper(g, int(first[c])), points)
        self._room(encoding, layout, first)
        self._move(classes, present, 1)
        if self.cpsat.options.deterministic:
            self.cpsat.budget.charge(BUILD * len(points.variables))
        encoding.model.maximize(points.expression())
        for i, g in enumerate(classes):
            for c, n in enumerate(first.tolist()):
                if (g, n) in encoding.x:
                    encoding.model.add_hint(encoding.x[g, n], int(have[i, c]))
        answer = self.cpsat.run(encoding.model, SOLVE, quick=True)
        if answer.solution is None:
            return None
        wanted = np.zeros_like(have)
        at, of = {g: i for i, g in enumerate(classes)}, {n: c for c, n in enumerate(first.tolist())}
        for (g, n), k in encoding.placed(answer.solution).items():
            wanted[at[g], of[n]] = k
        return None if (wanted == have).all() else wanted

    def _move(self, classes: Sequence[int], pods: Ints, sign: int) -> None:
        for i, n in zip(*np.nonzero(pods), strict=True):
            self.search._put(classes[i], int(n), sign * int(pods[i, n]))

    def _most(self, g: int) -> Ints:
        """int64[N]: pods of the class that each node takes next to those that stay."""
        most = self.search.limits[g].copy()
        for rule in self._hard:
            most = np.minimum(most, rule.room(g) if rule.local else rule.most(g))
            if not rule.local:
                most[rule.closed(g)] = 0
        return most

    def _room(self, encoding: Encoding, layout: _Layout, first: Ids) -> None:
        """Resources and pod slots of each cell: the sum of what its nodes have left."""
        fit, demand = self.search.fit, self.cluster.demand
        for n, nodes in zip(first.tolist(), layout.nodes, strict=True):
            here = encoding.classes_on(n)
            variables = [encoding.x[g, n] for g in here]
            encoding.model.add(encoding.sum(variables) <= int(np.maximum(fit.slots[nodes], 0).sum()))
            for r in range(demand.shape[1]):
                asks = demand[here, r].tolist()
                if unit := gcd(*asks):
                    free = sum(max(0, f) // unit for f in fit.free[nodes, r].tolist())
                    encoding.model.add(encoding.weighted_sum(variables, [d // unit for d in asks]) <= free)


def _over(cls: PodClass, keys: frozenset[str]) -> PodClass:
    """The class with its hard constraints over these keys only."""
    affinity = cls.affinity
    if affinity is not None:
        own = tuple(k for k in affinity.keys if k in keys)
        affinity = Affinity(affinity.full, own, affinity.itself) if own else None
    anti, spread = tuple(t for t in cls.anti if t.key in keys), tuple(s for s in cls.spread if s.key in keys)
    return replace(cls, anti=anti, affinity=affinity, spread=spread)


def _concave(encoding: Encoding, z: object, slots: list[tuple[int, int]], upper: int, points: Points) -> None:
    """Points of z pods, the best (points, pods) slots first, in few pieces; pods beyond the slots count as the worst."""
    row = np.repeat(*np.array(sorted(slots, reverse=True), dtype=np.int64).T)[:upper] if slots else np.zeros(0, dtype=np.int64)
    row = np.append(row, np.full(upper - len(row), row[-1] if len(row) else 0))
    model = encoding.model
    if row[0] == row[-1]:
        points.add(z, int(row[0]), 0, upper)  # type: ignore[arg-type]
        return
    steps = np.flatnonzero(np.diff(row)) + 1
    edges = [0, *steps[np.unique(np.linspace(0, len(steps) - 1, PIECES - 1).astype(int))].tolist(), upper]
    parts = []
    for a, b in pairwise(edges):
        part = model.new_int_var(0, b - a, "")
        points.add(part, int(row[a:b].sum()) // (b - a), 0, b - a)
        parts.append(part)
    model.add(encoding.sum(parts) == z)  # type: ignore[arg-type]
