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
from ortools.sat.python import cp_model

from models.cluster.cluster import Affinity, Cluster, Ids, Ints, PodClass, domain_sum
from models.kube.selectors import Bools
from solver.cpsat.cells import Cells
from solver.cpsat.linear_sum import Points
from solver.cpsat.model import PlacementModel
from solver.cpsat.run import CpSat, add_hint
from solver.objective import encoding as objective_encoding
from solver.objective.preferences import PreferenceTerm
from solver.rules.base import Rule
from solver.rules.batch_quota import single
from solver.rules.gang_scheduling import GangScheduling
from solver.rules.inter_pod_affinity import InterPodAffinity
from solver.rules.node_ports import NodePorts
from solver.rules.placement_model import build_model
from solver.rules.pod_topology_spread import PodTopologySpread
from solver.search.annealing import COLD, HOT, LocalSearch
from solver.search.lns import BUILD

#: Cells (class, domain) of a master model at most, and at least; it grows and shrinks with success between them.
MOST, LEAST = 600.0, 30.0
GROWTH, DECAY = 1.5, 0.6
#: Seconds for one model.
SOLVE = 1.0
#: Deterministic seconds that a round counts at least.
LOOK = 0.01
#: Pods of one class on one node that the estimate tells apart.
DEEP = 3
#: Pieces of the concave estimate of what the pods of a class gain in a cell.
PIECES = 6


@dataclass
class _Layout:
    """One key that groups nodes. ``keys``: it and the coarser ones; ``cell``: int32[N], -1 for nodes without the key; ``nodes``: by cell;
    ``ties``: per class the groups of classes that a term or constraint over the keys binds together; ``rules``: the hard constraints over
    the keys, in the state of ``held`` (nodes and pods of the classes that they ``read``)."""

    keys: frozenset[str]
    cell: Ids
    nodes: list[Ids]
    groups: list[list[int]]
    ties: dict[int, list[int]]
    cluster: Cluster
    rules: list[Rule]
    read: list[int]
    held: dict[int, tuple[Ints, Ints]] = field(default_factory=dict)

    def go_to(self, counts: Ints) -> None:
        """Put the rules in the state of a placement int64[G, N]."""
        nothing = np.zeros(0, dtype=np.int64)
        for g in self.read:
            nodes = np.flatnonzero(counts[g])
            pods, (old, gone) = counts[g, nodes], self.held.get(g, (nothing, nothing))
            if np.array_equal(nodes, old) and np.array_equal(pods, gone):
                continue
            for n, k in [*zip(old.tolist(), (-gone).tolist(), strict=True), *zip(nodes.tolist(), pods.tolist(), strict=True)]:
                for rule in self.rules:
                    rule.place(g, n, k)
            self.held[g] = nodes, pods


class Master:
    """``search``: the state that is improved. ``tried``, ``kept``: rounds so far, and those whose result stayed."""

    def __init__(self, search: LocalSearch, cpsat: CpSat) -> None:
        self.search, self.cpsat = search, cpsat
        self.cluster, self.objective = search.cluster, search.objective
        self.size = MOST
        self.tried = self.kept = 0
        self._free: dict[int, list[int]] = {}
        # Resources come first.
        self._hard = [search.fit, search.pods, NodePorts.of(search.active), GangScheduling.of(search.active)]
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
        sets = {s.eligible for cls in cluster.classes for s in cls.spread if s.key in keys}
        sets |= {s.eligible for cls in cluster.classes for s in cls.soft_spread if s.key in keys}
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
        self.cpsat.deadline.charge(LOOK)
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
                if not closed or (self._stands(g, closed) and any(self._outside(layout, h) for h in closed)):
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
            found = self.search.pods.standing(g)
            fine = all(self.search.loose(h) and not self._kept_together(h) for h in found) and (
                len(found) > 1 or self.search.pods.provides(g) or g in self.search.mobile
            )
            self._free[g] = found if fine else []
        return self._free[g]

    def _kept_together(self, g: int) -> bool:
        """Whether the class is of a gang that keeps to one domain: it does not move pod by pod."""
        gang = self.cluster.classes[g].gang
        return gang is not None and self.cluster.gangs[gang].key is not None

    def _stands(self, g: int, closed: list[int]) -> bool:
        """Whether pods stand on those of the class."""
        return len(closed) > 1 or self.search.pods.provides(g)

    def _outside(self, layout: _Layout, g: int) -> bool:
        return bool(self.search.counts[g][layout.cell < 0].any())

    # --- model -------------------------------------------------------------------------------------------------------------------

    def _solve(self, layout: _Layout, classes: list[int]) -> Ints | None:
        """int64[len(classes), cells]: pods wanted in each cell; None if as many as there are."""
        search = self.search
        inside = layout.cell >= 0
        present = np.where(inside, search.counts[classes], 0)
        have = np.stack([present[:, nodes].sum(axis=1) for nodes in layout.nodes], axis=1)
        self.cpsat.deadline.charge(BUILD * (have.size * PIECES + np.count_nonzero(present)))
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
        encoding = build_model(layout.cluster, layout.rules, Cells(cells, dict(zip(classes, pods.tolist(), strict=True))))
        for left in encoding.left.values():
            encoding.model.add(left == 0)
        points = objective_encoding.encode(encoding, self.objective, search.soft, layout.keys)
        for i, g in enumerate(classes):
            values, pair = finer.points(i)
            for c, nodes in enumerate(layout.nodes):
                if (cell := (g, int(first[c]))) in encoding.x:
                    free = np.minimum(room[i, nodes], most[i, nodes])
                    row = _slots(values[nodes], pair[nodes], present[i, nodes], free, most[i, nodes], encoding.upper(*cell))
                    _concave(encoding, encoding.x[cell], row, points)
        self._room(encoding, layout, first)
        self._move(classes, present, 1)
        encoding.model.maximize(points.expression())
        counts = np.zeros_like(search.counts)
        for i, g in enumerate(classes):
            counts[g, first] = have[i]
        complete = encoding.assignment(counts, **self.cpsat.short(), objective=True)
        if complete is None:
            return None
        add_hint(encoding.model, complete)
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
        """int64[N]: pods of the class that each node takes next to those that stay, whatever their size."""
        most = self.search.limits[g]
        for rule in self._hard[1:]:
            most = np.minimum(most, rule.room(g) if rule.local else rule.most(g))
            if not rule.local:
                most = np.where(rule.closed(g), 0, most)
        return np.asarray(most, dtype=np.int64)

    def _room(self, encoding: PlacementModel, layout: _Layout, first: Ids) -> None:
        """Resources and pod slots of each cell: the sum of what its nodes have left."""
        fit, demand = self.search.fit, self.cluster.demand
        for n, nodes in zip(first.tolist(), layout.nodes, strict=True):
            here = encoding.classes_on(n)
            variables = [encoding.x[g, n] for g in here]
            encoding.model.add(encoding.sum(variables) <= int(np.maximum(fit.slots[nodes], 0).sum()))
            for r in range(demand.shape[1]):
                asks = demand[here, r].tolist()
                if unit := gcd(*asks):
                    free = sum(max(0, f) for f in fit.free[nodes, r].tolist()) // unit
                    encoding.model.add(encoding.weighted_sum(variables, [d // unit for d in asks]) <= free)


def _over(cls: PodClass, keys: frozenset[str]) -> PodClass:
    """The class with its hard constraints over these keys only."""
    affinity = cls.affinity
    if affinity is not None:
        own = tuple(k for k in affinity.keys if k in keys)
        affinity = Affinity(affinity.full, own, affinity.itself) if own else None
    anti, spread = tuple(t for t in cls.anti if t.key in keys), tuple(s for s in cls.spread if s.key in keys)
    return replace(cls, anti=anti, affinity=affinity, spread=spread)


def _slots(values: Ints, pair: Ints, present: Ints, free: Ints, most: Ints, upper: int) -> Ints:
    """int64[upper], falling: what each further pod of a class gains in a cell, the best nodes first. By node: ``values`` of one more pod,
    ``pair``: of two pods of the class for each other; ``present``, ``free``: pods there are and room for more; ``most``: room if
    the others leave, which counts as an average of the nodes."""
    rows = []
    repel = np.minimum(pair, 0)
    alone = values - present * repel - (present > 0) * (pair - repel)
    for j in range(DEEP):
        there = (present > j).astype(np.int64)  # who is there stays, all else equal
        some = np.where(j < DEEP - 1, present + free > j, np.maximum(present + free - j, 0))
        rows.append(np.repeat(alone + j * repel + there, np.minimum(some, upper)))
    row = -np.sort(-np.concatenate(rows))[:upper]
    mean = int(values[most > 0].sum()) // max(1, int(np.count_nonzero(most)))
    worst = min(mean, row[-1]) if len(row) else mean
    return np.append(row, np.full(upper - len(row), worst)).astype(np.int64)


def _concave(encoding: PlacementModel, z: cp_model.IntVar, row: Ints, points: Points) -> None:
    """Points of z pods of which each further one gains less (falling ``row``), in few pieces."""
    upper = len(row)
    model = encoding.model
    if row[0] == row[-1]:
        points.add(z, int(row[0]), 0, upper)
        return
    steps = np.flatnonzero(np.diff(row)) + 1
    edges = [0, *steps[np.unique(np.linspace(0, len(steps) - 1, PIECES - 1).astype(int))].tolist(), upper]
    parts = []
    for a, b in pairwise(edges):
        part = model.new_int_var(0, b - a, "")
        points.add(part, int(row[a:b].sum()) // (b - a), 0, b - a)
        parts.append(part)
    model.add(encoding.sum(parts) == z)


def _of_domain(term: PreferenceTerm, row: Ints) -> Ints:
    """int64[N]: the sum of a row int64[N] over the domain of each node, 0 without the key."""
    return np.append(domain_sum(term.codes, term.size, row), 0)[term.codes]


class _Finer:
    """What chosen pods are worth over keys that the model does not see, where the others are now. ``present``: int64[classes, N]."""

    def __init__(self, search: LocalSearch, keys: frozenset[str], classes: list[int], present: Ints) -> None:
        self.search, self.classes = search, classes
        o = search.objective
        at = {g: i for i, g in enumerate(classes)}
        chosen = {t for g in classes for t in (*o.owned[g], *o.matching[g])}
        self._rows: dict[int, tuple[Ints, Ints]] = {}
        for t in sorted(chosen.intersection(o.pairs)):
            term = o.terms[t]
            if term.key in keys:
                continue
            multiplier, matched, owned = o.multipliers[term.family], np.zeros_like(present[0]), np.zeros_like(present[0])
            for g in sorted(term.matches & at.keys()):
                matched += present[at[g]]
            for g in sorted(term.own.keys() & at.keys()):
                owned += multiplier * term.own[g] * present[at[g]]
            self._rows[t] = _of_domain(term, matched), _of_domain(term, owned)

    def points(self, i: int) -> tuple[Ints, Ints]:
        """int64[N]: points of one more pod of a class on each node, and what two pods of it there are worth to each other."""
        g, o = self.classes[i], self.search.objective
        values, pair = self.search.soft.steady(g), np.zeros(self.search.cluster.n_nodes, dtype=np.int64)
        for t in o.owned[g]:
            if t in self._rows:
                weight = o.multipliers[o.terms[t].family] * o.terms[t].own[g]
                values = values + weight * self._rows[t][0]
                if g in o.terms[t].matches:
                    pair += 2 * weight * (o.terms[t].codes >= 0)
        for t in o.matching[g]:
            if t in self._rows:
                values = values + self._rows[t][1]
        return values, pair


class _Realisation:
    """Moves as few pods as possible to what a master wants; pods of closed groups of affinity are put back provider by provider."""

    def __init__(
        self, search: LocalSearch, hard: Sequence[Rule], layout: _Layout, classes: list[int], wanted: Ints,
        closure: Callable[[int], list[int]],
    ) -> None:  # fmt: skip
        self.search, self.hard, self.cell, self.nodes = search, hard, layout.cell, layout.nodes
        self.classes, self.wanted = classes, wanted
        self.held = {g for g in classes if len(closure(g)) > 1 or search.pods.provides(g)}  # no one else may be moved off from under them
        self.groups = {g: closure(g) for g in self.held}
        self.touched: set[int] = set()
        self.points = 0

    def run(self) -> int | None:
        """The points gained; None (and the state is anyone's) if someone finds no place."""
        homeless = self._take_out()
        evictions = 2 * len(homeless) + 10
        size = (self.search.cluster.demand / np.maximum(self.search.cluster.allocatable.max(axis=0), 1)).max(axis=1)
        homeless.sort(key=lambda pod: -float(size[pod[0]]))
        while homeless:
            waiting = [pod for pod in homeless if not self._put(*pod)]
            if len(waiting) == len(homeless):  # nobody moved: make room for one
                g, c = waiting.pop(0)
                gone = self._make_room(g, c) if evictions > 0 else None
                if gone is None:
                    if not self._put(g, None):
                        return None
                else:
                    evictions -= len(gone)
                    waiting = gone + waiting
            homeless = waiting
        return self.points if all(self.search.spread.kept(g) for g in sorted(self.touched)) else None

    def _take_out(self) -> list[tuple[int, int]]:
        """Take pods out where there are too many; (class, cell) of what is wanted instead."""
        counts = self.search.counts
        have = np.stack([counts[self.classes][:, nodes].sum(axis=1) for nodes in self.nodes], axis=1)
        changed = {g for i, g in enumerate(self.classes) if (have[i] != self.wanted[i]).any()}
        whole = {h for g in changed & self.held for h in self.groups[g]}
        whole = {g for g in self.held if whole & set(self.groups[g])}
        homeless = []
        for i, g in enumerate(self.classes):
            for c, nodes in enumerate(self.nodes):
                less = int(have[i, c]) if g in whole else int(have[i, c] - self.wanted[i, c])
                for _ in range(less):
                    here = nodes[counts[g, nodes] > 0]
                    self._take(g, int(here[np.argmin(self.search.soft.gain(g)[here])]))
                homeless += [(g, c)] * (int(self.wanted[i, c]) if g in whole else -less)
        return homeless

    def _take(self, g: int, n: int) -> None:
        self.points -= self.search.take_out({(g, n): 1})
        self.touched.add(g)

    def _free(self, g: int, c: int | None) -> Bools:
        """bool[N]: where rules but for room admit a pod of the class, in a cell (None: anywhere; -1: where there is no cell)."""
        mask = self.search.limits[g] > 0
        for rule in self.hard:
            if rule is not self.search.fit:
                mask &= ~rule.rejects(g)
        return np.asarray(mask if c is None else mask & (self.cell == c), dtype=bool)

    def _put(self, g: int, c: int | None) -> bool:
        """Put a pod of the class on the node of a cell where it gains most; spread is asked where it can be heard, and at the end."""
        search = self.search
        mask = self._free(g, c) & ~search.fit.rejects(g)
        if search.spread.touches(g) and (obeyed := mask & search.spread.obeyed(g)).any():
            mask = obeyed
        if not mask.any():
            return False
        n = int(np.argmax(np.where(mask, search.soft.gain(g), np.iinfo(np.int64).min)))
        self.points += search.put_back({(g, n): 1})
        self.touched.add(g)
        return True

    def _make_room(self, g: int, c: int) -> list[tuple[int, int]] | None:
        """Take others off the node of a cell that is least short of room, and put a pod of the class there; gives the others."""
        search, demand = self.search, self.search.cluster.demand
        nodes = np.flatnonzero(self._free(g, c))
        if not len(nodes):
            return None
        short = np.maximum(demand[g] - search.fit.free[nodes], 0) * (demand[g] > 0)
        missing = (short / np.maximum(search.cluster.allocatable[nodes], 1)).max(axis=1, initial=0)
        n = int(nodes[np.lexsort((-search.soft.gain(g)[nodes], missing))[0]])
        gone: list[tuple[int, int]] = []
        while search.fit.rejects(g)[n]:
            lacks = np.where(demand[g] > search.fit.free[n], demand[g] - search.fit.free[n], 0)
            there = [h for h in np.flatnonzero(search.counts[:, n]).tolist() if h in search.mobile and h != g]
            if not there:
                for h, home in gone:  # as it was
                    self.points += search.put_back({(h, n): 1})
                    assert home == c
                return None
            h = min(there, key=lambda h: (not (demand[h] >= lacks).all(), int(search.soft.gain(h)[n]), -int(demand[h].sum())))
            self._take(h, n)
            gone.append((h, c))
        self.points += search.put_back({(g, n): 1})
        self.touched.add(g)
        return gone
