"""Bind order: a sequence in which every pod of a finished placement passes the filters one after the other.

Resources, ports and anti-affinity hold in every order if they hold in the end. Order matters to required affinity (providers first,
an opener before any other match), to spread constraints (emptier domains first), to static volumes (which claim takes which) and to the
kubelet's choice of NUMA zones (first fit).
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from models.cluster import Cluster, Ints
from solver.gang_units import Binder
from solver.partition import connected
from solver.rules.base import Rule
from solver.rules.inter_pod_affinity import InterPodAffinity
from solver.rules.numa import NodeResourceTopologyMatch
from solver.rules.pod_topology_spread import PodTopologySpread
from solver.rules.volumes import NodeVolumeLimits, VolumeBinding

#: Replaying kubelets makes a state of the exhaustive search this many times dearer.
ALIGNED = 8
Sequence_ = list[tuple[int, int, int]]
_Left = dict[int, dict[int, int]]  # class -> node -> pods still to bind


@dataclass
class Ordering:
    """``sequence``: (class, node, pods) in bind order, or None. ``stuck``: the classes among which no order was found;
    ``exhausted``: it is proved that there is none."""

    sequence: Sequence_ | None
    stuck: list[int]
    exhausted: bool = False


def find_order(cluster: Cluster, counts: Ints, *, restarts: int = 20, states: int = 20_000, seed: int = 0) -> Ordering:
    """Search a bind order of a placement int64[G, N]: a guided pass, random restarts, then an exhaustive search up to ``states``."""
    rules: list[Rule] = [InterPodAffinity(cluster), PodTopologySpread(cluster), VolumeBinding(cluster), NodeVolumeLimits(cluster)]
    groups = _groups(rules)
    numa = NodeResourceTopologyMatch(cluster)
    aligned = [g for g in range(cluster.n_classes) if numa.touches(g) and counts[g].any()]
    alone: list[_Left] = []
    if aligned:
        rules.append(numa)
        if {g for group in groups for g in group}.isdisjoint(aligned):
            alone = _per_node(numa, aligned, counts)  # the kubelets of different nodes have nothing to do with each other
        else:
            groups = _groups(rules)
    tied = {g for group in groups for g in group}.union(aligned if alone else ())
    by_priority = np.argsort(-cluster.priority, kind="stable").tolist()
    # (-priority, whether order is free, part): higher priorities first, as far as the rules leave a choice
    pieces: list[tuple[int, int, Sequence_]] = [
        (-int(cluster.priority[g]), 1, [(g, int(n), int(counts[g, n])) for n in np.flatnonzero(counts[g])])
        for g in by_priority
        if g not in tied
    ]
    for group in groups:
        left = {g: {int(n): int(counts[g, n]) for n in np.flatnonzero(counts[g])} for g in group if counts[g].any()}
        if not left:
            continue
        found = _order_group(cluster, rules, left, restarts, states, seed)
        if found.sequence is None:
            return found
        pieces.append((-max(int(cluster.priority[g]) for g in left), 0, found.sequence))
    for left in alone:
        found = _order_group(cluster, rules, left, restarts, states, seed)
        if found.sequence is None:
            return found
        pieces.append((-max(int(cluster.priority[g]) for g in left), 0, found.sequence))
    pieces.sort(key=lambda p: p[:2])
    return Ordering([step for _, _, part in pieces for step in part], [])


def order_from(cluster: Cluster, rules: Sequence[Rule], left: _Left) -> Sequence_ | None:
    """A bind order of pods, by class and node, from the state that ``rules`` (affinity and spread among them) are in, which is kept."""
    affinity = next(r for r in rules if isinstance(r, InterPodAffinity))
    spread = next(r for r in rules if isinstance(r, PodTopologySpread))
    search = _Search(cluster, rules, affinity, spread)
    for units in search.levels(sorted(left)):
        found = search.attempt({g: dict(nodes) for g, nodes in left.items()}, None, units)
        if found is not None:
            return found
    return None


def _per_node(numa: NodeResourceTopologyMatch, aligned: Sequence[int], counts: Ints) -> list[_Left]:
    """The pods of aligned classes, node by node."""
    found: dict[int, _Left] = {}
    for g in aligned:
        for n in np.flatnonzero(counts[g]).tolist():
            found.setdefault(n, {})[g] = {n: int(counts[g, n])}
    return [left for _, left in sorted(found.items())]


def _groups(rules: Sequence[Rule]) -> list[list[int]]:
    """The classes whose order matters to each other."""
    links = [link for rule in rules for link in rule.order_links() if link]
    return connected(links, {g for link in links for g in link})


def _order_group(cluster: Cluster, rules: Sequence[Rule], left: _Left, restarts: int, states: int, seed: int) -> Ordering:
    affinity, spread = rules[0], rules[1]
    assert isinstance(affinity, InterPodAffinity)
    assert isinstance(spread, PodTopologySpread)
    search = _Search(cluster, rules, affinity, spread)
    rng = random.Random(seed)
    sizes = sum(len(nodes) for nodes in left.values())
    levels = search.levels(sorted(left))
    for attempt in range(restarts if sizes < 5000 else 2):
        for units in levels:
            sequence = search.attempt({g: dict(nodes) for g, nodes in left.items()}, rng if attempt else None, units)
            if sequence is not None:
                return Ordering(sequence, [])
    if any(search.aligned(g) for g in left):
        states //= ALIGNED
    sequence, exhausted = search.exhaustive(left, states)
    # Pods of a gang could bind together in more ways than were tried.
    return Ordering(sequence, sorted(left), exhausted and sequence is None and len(levels) == 1)


class _Search:
    def __init__(self, cluster: Cluster, rules: Sequence[Rule], affinity: InterPodAffinity, spread: PodTopologySpread) -> None:
        self.cluster, self.rules, self.affinity, self.spread = cluster, rules, affinity, spread
        self.binder = Binder(cluster, rules)

    def levels(self, classes: Sequence[int]) -> list[list[list[int]]]:
        """Units of classes to try: none, and for gangs those whose pods need each other, then all of each gang."""
        gangs: dict[int, list[int]] = {}
        for g in classes:
            gang = self.cluster.classes[g].gang
            if gang is not None:
                gangs.setdefault(gang, []).append(g)
        found: list[list[list[int]]] = []
        for level in range(3 if gangs else 1):
            units = [unit for _, members in sorted(gangs.items()) for unit in self.binder.units(members, level)]
            if units not in found:
                found.append(units)
        return found

    def aligned(self, g: int) -> bool:
        """Whether kubelets have a say on pods of the class."""
        return any(isinstance(rule, NodeResourceTopologyMatch) and rule.touches(g) for rule in self.rules)

    def _put(self, g: int, n: int, k: int) -> None:
        for rule in self.rules:
            rule.place(g, n, k) if k > 0 else rule.remove(g, n, -k)

    def _accepted(self, g: int, nodes: Ints) -> Ints:
        ok = np.ones(len(nodes), dtype=bool)
        for rule in self.rules:
            ok &= ~rule.rejects(g)[nodes]
        return nodes[ok]

    def attempt(self, left: _Left, rng: random.Random | None, units: Sequence[Sequence[int]] = ()) -> Sequence_ | None:
        """One pass: openers first, then class after class as far as each goes, until nothing moves; the pods of classes that are a unit
        at once. The state is left as it was."""
        sequence: Sequence_ = []
        united = {g for unit in units for g in unit}
        waiting = [unit for unit in units if any(left[g] for g in unit)]
        queue = sorted(left, key=lambda g: (-int(self.cluster.priority[g]), -int(self.cluster.demand[g].max(initial=0)) * self.aligned(g)))
        queue = [g for g in queue if g not in united]
        if rng is not None:
            rng.shuffle(queue)
        for g, n in self.affinity.openers({g: list(left[g]) for g in queue}, rng):
            if len(self._accepted(g, np.array([n]))):
                self._take(left, sequence, g, n, 1)
        moved = True
        while moved and any(left.values()):
            moved = False
            for unit in list(waiting):
                steps = [(g, n, k) for g in unit for n, k in sorted(left[g].items())]
                if self.binder.bind(steps):
                    moved = True
                    waiting.remove(unit)
                    sequence += steps
                    for g in unit:
                        left[g].clear()
            for g in queue:
                while left[g]:
                    nodes = self._accepted(g, np.array(sorted(left[g]), dtype=np.int64))
                    if not len(nodes):
                        break
                    moved = True
                    if self.spread.touches(g):
                        level = self.spread.level(g)[nodes]
                        best = nodes[level == level.min()]
                        n = int(best[0]) if rng is None else int(rng.choice(best.tolist()))
                        self._take(left, sequence, g, n, 1)
                        if rng is not None and rng.random() < 0.3:
                            break
                    elif self.affinity.opening(g) or self.cluster.classes[g].claims or self.aligned(g):
                        self._take(left, sequence, g, int(nodes[0]) if rng is None else int(rng.choice(nodes.tolist())), 1)
                        if rng is not None and self.aligned(g) and rng.random() < 0.5:
                            break
                    else:  # nothing that is accepted now can be refused later
                        for n in nodes.tolist():
                            self._take(left, sequence, g, n, left[g][n])
        done = not any(left.values())
        for g, n, k in reversed(sequence):
            self._put(g, n, -k)
        return sequence if done else None

    def _take(self, left: _Left, sequence: Sequence_, g: int, n: int, k: int) -> None:
        self._put(g, n, k)
        sequence.append((g, n, k))
        left[g][n] -= k
        if not left[g][n]:
            del left[g][n]

    def exhaustive(self, left: _Left, states: int) -> tuple[Sequence_ | None, bool]:
        """Depth-first over single pods with memory of dead states: (sequence or None, whether the search was complete)."""
        cells = [(g, n) for g, nodes in left.items() for n in nodes]
        remaining = [left[g][n] for g, n in cells]
        dead: set[tuple[object, ...]] = set()
        path: list[int] = []
        choices = [self._open_cells(cells, remaining)]
        while True:
            if not any(remaining):
                for i in path:
                    self._put(*cells[i], -1)
                return [(*cells[i], 1) for i in path], True
            if choices[-1]:
                i = choices[-1].pop()
                self._put(*cells[i], 1)
                remaining[i] -= 1
                path.append(i)
                if self._state(remaining) in dead:
                    choices.append([])
                else:
                    choices.append(self._open_cells(cells, remaining))
                continue
            dead.add(self._state(remaining))
            choices.pop()
            if not path or len(dead) > states:
                for i in path:
                    self._put(*cells[i], -1)
                return None, not path
            i = path.pop()
            remaining[i] += 1
            self._put(*cells[i], -1)

    def _state(self, remaining: list[int]) -> tuple[object, ...]:
        """What is still to bind, and what of the rules' state depends on the order so far."""
        return (*remaining, *(path for rule in self.rules if (path := rule.path()) is not None))

    def _open_cells(self, cells: list[tuple[int, int]], remaining: list[int]) -> list[int]:
        masks: dict[int, set[int]] = {}
        found = []
        for i, (g, n) in enumerate(cells):
            if remaining[i]:
                if g not in masks:
                    nodes = np.array([m for h, m in cells if h == g], dtype=np.int64)
                    masks[g] = set(self._accepted(g, nodes).tolist())
                if n in masks[g]:
                    found.append(i)
        return found
