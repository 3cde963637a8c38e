"""Bind order: a sequence in which every pod of a finished placement passes the filters, one after another.

Resources, ports and anti-affinity hold in every order if they hold at the end. Order matters for required affinity
(providers first, an opener before any other match) and for spread constraints (emptier domains first). It also matters
for static volumes (which claim gets which), NUMA zones chosen by the kubelet, and devices chosen by the scheduler (both
first fit)."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from kubestow.models.cluster.cluster import Cluster, Ints
from kubestow.solver.bind_order.division import ToBind, divide, pods_by_node
from kubestow.solver.bind_order.gang_units import Binder
from kubestow.solver.devices.supply import supply
from kubestow.solver.rules import having
from kubestow.solver.rules.base import Rule

RESTARTS = 20  #: Randomised passes, for small groups.
MAX_STATES = 20_000  #: States visited by the exhaustive search.
REPLAY_COST_FACTOR = 8  #: Cost of a state if kubelets or devices must be replayed, relative to other states.
MAX_GANG_PODS = 8  #: All subsets of the pods of smaller gangs are tried as units.
MAX_ORDERED_GANG_PODS = 4  #: The same if the order inside a unit matters, so that each subset is tried in every order.
Sequence_ = list[tuple[int, int, int]]


@dataclass
class Ordering:
    """Result of a search for a bind order.

    Attributes:
        sequence: (class, node, pods) in bind order, or None.
        stuck: Classes among which no order was found.
        exhausted: True if it is proved that there is no order.
        node: The node, if the failure concerns one node only.
    """

    sequence: Sequence_ | None
    stuck: list[int]
    exhausted: bool = False
    node: int | None = None


def find_order(cluster: Cluster, counts: Ints, *, seed: int = 0, known: dict[int, Sequence_] | None = None) -> Ordering:
    """Search for a bind order of a placement int64[G, N].

    The search consists of a guided pass, random restarts, and an exhaustive search of up to :data:`MAX_STATES` states.

    Args:
        known: Known orders of pods on single nodes that allocate zones or devices first come, first served. New ones are
            added.
    """
    division = divide(cluster, counts)
    grouped = {g for group in division.groups for g in group}.union(*division.alone)
    # (-priority, 1 if the order is free, part): higher priorities first, as far as the rules permit
    pieces: list[tuple[int, int, Sequence_]] = [
        (-int(cluster.priority[g]), 1, [(g, n, k) for n, k in pods_by_node(counts[g]).items()])
        for g in np.argsort(-cluster.priority, kind="stable").tolist()
        if g not in grouped
    ]
    search = _OrderSearch(cluster, division.rules)
    for to_bind in filter(None, ({g: pods_by_node(counts[g]) for g in group if counts[g].any()} for group in division.groups)):
        ordering = _order_group(search, to_bind, seed)
        if ordering.sequence is None:
            return ordering
        pieces.append((-max(int(cluster.priority[g]) for g in to_bind), 0, ordering.sequence))
    orders = {} if known is None else known
    for to_bind in division.alone:
        node = next(n for nodes in to_bind.values() for n in nodes)
        if _pods(orders.get(node, ())) != {g: nodes[node] for g, nodes in to_bind.items()}:
            ordering = _order_node(search, to_bind, seed)
            if ordering.sequence is None:  # an order may exist with pods of another of these classes
                stuck = [g for g in range(cluster.n_classes) if any(rule.concerned(g) for rule in division.firsts)]
                return Ordering(None, stuck, ordering.exhausted, node)
            orders[node] = ordering.sequence
        pieces.append((-max(int(cluster.priority[g]) for g in to_bind), 0, orders[node]))
    pieces.sort(key=lambda p: p[:2])
    return Ordering([step for _, _, part in pieces for step in part], [])


def node_orders(cluster: Cluster, sequence: Iterable[tuple[int, int, int]]) -> dict[int, Sequence_]:
    """Return each node's part of a bind order, restricted to pods that take zones or devices.

    The result serves as ``known`` of :func:`find_order`.
    """
    rules = having(cluster, lambda kind: kind.first_come)
    concerned = {g for g in range(cluster.n_classes) if any(rule.concerned(g) for rule in rules)}
    found: dict[int, Sequence_] = {}
    for g, n, k in sequence if concerned else ():
        if g in concerned:
            found.setdefault(n, []).append((g, n, k))
    return found


def most_in_order(cluster: Cluster, counts: Ints, known: dict[int, Sequence_], *, seed: int = 0) -> tuple[Ints, Ordering]:
    """Return a placement int64[G, N] of most of the given pods, and the search result for its bind order.

    While the pods of a single node have no order, a pod of the lowest priority is left out. The sequence is None
    if no order was found for pods on several nodes.

    Args:
        counts: The placement, int64[G, N]. Not changed.
        known: See :func:`find_order`.
    """
    counts = counts.copy()
    order = np.lexsort((supply(cluster)[0].sum(axis=1), cluster.priority)).tolist()  # classes to leave out first
    while True:
        ordering = find_order(cluster, counts, seed=seed, known=known)
        if ordering.sequence is not None or ordering.node is None:
            return counts, ordering
        counts[next(g for g in order if g in ordering.stuck and counts[g, ordering.node]), ordering.node] -= 1


def _pods(sequence: Iterable[tuple[int, int, int]]) -> Counter[int]:
    found = Counter[int]()
    for g, _, k in sequence:
        found[g] += k
    return found


def order_from(cluster: Cluster, rules: Sequence[Rule], to_bind: ToBind) -> Sequence_ | None:
    """Return a bind order of pods, from the current state of ``rules``, which is restored. None if none was found.

    Args:
        to_bind: Pods to bind, by class and node.
    """
    search = _OrderSearch(cluster, rules)
    for units, late in search.levels(sorted(to_bind)):
        found = search.attempt({g: dict(nodes) for g, nodes in to_bind.items()}, None, units, late=late)
        if found is not None:
            return found
    return None


def _order_node(search: _OrderSearch, to_bind: ToBind, seed: int) -> Ordering:
    """Order the pods of one node: a guided pass, then a search with planned devices, or the general search without devices."""
    node = next(n for nodes in to_bind.values() for n in nodes)
    planners = [rule for rule in search.firsts if rule.supplied and any(rule.concerned(g) for g in to_bind)]
    if not planners:
        ordering = _order_group(search, to_bind, seed)
        return Ordering(ordering.sequence, ordering.stuck, ordering.exhausted, node)
    sequence = search.attempt({g: dict(nodes) for g, nodes in to_bind.items()}, None)
    if sequence is not None:
        return Ordering(sequence, [])
    order, sure = planners[0].node_order(search.firsts, node, {g: nodes[node] for g, nodes in to_bind.items()})
    if order is None:
        return Ordering(None, sorted(to_bind), sure, node)
    return Ordering([(g, node, 1) for g in order], [])


def _order_group(search: _OrderSearch, to_bind: ToBind, seed: int) -> Ordering:
    rng = random.Random(seed)
    sizes = sum(len(nodes) for nodes in to_bind.values())
    levels = search.levels(sorted(to_bind))
    for attempt in range(RESTARTS if sizes < 5000 else 2):
        for units, late in levels:
            sequence = search.attempt({g: dict(nodes) for g, nodes in to_bind.items()}, rng if attempt else None, units, late=late)
            if sequence is not None:
                return Ordering(sequence, [])
    states = MAX_STATES // REPLAY_COST_FACTOR if not search.aligned.isdisjoint(to_bind) else MAX_STATES
    sequence, exhausted = search.exhaustive(to_bind, states)
    return Ordering(sequence, sorted(to_bind), exhausted and sequence is None)


class _OrderSearch:
    def __init__(self, cluster: Cluster, rules: Sequence[Rule]) -> None:
        self.cluster, self.rules = cluster, rules
        self.binder = Binder(cluster, rules)
        self.firsts = [rule for rule in rules if rule.first_come]
        # Classes whose pods get NUMA zones or devices first come, first served.
        self.aligned = {g for g in range(cluster.n_classes) if any(rule.concerned(g) for rule in self.firsts)}
        requested, there = supply(cluster)
        self._share = (requested / np.maximum(there.max(axis=0, initial=1), 1)).sum(axis=1).tolist()

    def levels(self, classes: Sequence[int]) -> list[tuple[list[list[int]], bool]]:
        """Return the units of classes to try, each with whether they bind only when nothing else can.

        For gangs: no units, units of classes that need each other, then all classes of each gang. The late variants bind
        the remaining pods of a gang."""
        gangs: dict[int, list[int]] = {}
        for g in classes:
            gang = self.cluster.classes[g].gang
            if gang is not None:
                gangs.setdefault(gang, []).append(g)
        found: list[tuple[list[list[int]], bool]] = []
        for level, late in ((0, False), (1, False), (2, False), (1, True), (2, True))[: 5 if gangs else 1]:
            units = [unit for _, members in sorted(gangs.items()) for unit in self.binder.units(members, level)]
            if (units, late) not in found and (units or not late):
                found.append((units, late))
        return found

    def _turn(self, g: int) -> tuple[int, float, int]:
        """Return the sort key of a class: priority, then device demand, then demand of aligned classes."""
        return -int(self.cluster.priority[g]), -self._share[g], -int(self.cluster.demand[g].max(initial=0)) * (g in self.aligned)

    def _accepted(self, g: int, nodes: Ints) -> Ints:
        ok = np.ones(len(nodes), dtype=bool)
        for rule in self.rules:
            ok &= ~rule.rejects(g)[nodes]
        return nodes[ok]

    def attempt(
        self, to_bind: ToBind, rng: random.Random | None, units: Sequence[Sequence[int]] = (), *, late: bool = False
    ) -> Sequence_ | None:
        """Return the sequence of one pass: openers first, then class by class as far as each goes, until nothing moves.

        Return None if pods remain. Classes in a unit bind together; with ``late``, their remaining pods bind when nothing
        else moves. The state is restored.
        """
        sequence: Sequence_ = []
        united = set[int]() if late else {g for unit in units for g in unit}
        waiting = [unit for unit in units if any(to_bind[g] for g in unit)]
        queue = sorted((g for g in to_bind if g not in united), key=self._turn)
        if rng is not None:
            rng.shuffle(queue)
        for g, n in (pair for rule in self.rules for pair in rule.openers({g: list(to_bind[g]) for g in queue}, rng)):
            if len(self._accepted(g, np.array([n]))):
                self._take(to_bind, sequence, g, n, 1)
        moved = True
        while moved and any(to_bind.values()):
            moved = not late and self._bind_units(waiting, to_bind, sequence)
            for g in queue:
                moved |= self._bind_class(g, to_bind, sequence, rng)
            moved = moved or (late and self._bind_units(waiting, to_bind, sequence, split=True))
        done = not any(to_bind.values())
        self.binder.take_back(sequence)
        return sequence if done else None

    def _bind_class(self, g: int, to_bind: ToBind, sequence: Sequence_, rng: random.Random | None) -> bool:
        """Bind pods of a class while any is accepted, with ``rng`` sometimes fewer. Return whether any was bound."""
        moved = False
        while to_bind[g]:
            nodes = self._accepted(g, np.array(sorted(to_bind[g]), dtype=np.int64))
            if not len(nodes):
                break
            moved = True
            levels = [level[nodes] for rule in self.rules if (level := rule.level(g)) is not None]
            if not levels and not any(rule.one_by_one(g) for rule in self.rules):
                for n in nodes.tolist():  # pods accepted now cannot be rejected later
                    self._take(to_bind, sequence, g, n, to_bind[g][n])
                continue
            if levels:
                fullest = np.maximum.reduce(levels)
                nodes = nodes[fullest == fullest.min()]
            self._take(to_bind, sequence, g, int(nodes[0]) if rng is None else int(rng.choice(nodes.tolist())), 1)
            if rng is not None and (levels or g in self.aligned) and rng.random() < (0.3 if levels else 0.5):
                break
        return moved

    def _bind_units(self, waiting: list[Sequence[int]], to_bind: ToBind, sequence: Sequence_, *, split: bool = False) -> bool:
        """Bind the remaining pods of each accepted unit, or with ``split`` its first accepted part. Return whether any pod
        was bound."""
        moved = False
        for unit in list(waiting):
            steps = [(g, n, k) for g in unit for n, k in sorted(to_bind[g].items())]
            if not steps:
                waiting.remove(unit)
                continue
            part = next((part for part in (self.binder.parts(steps) if split else [steps]) if self.binder.bind(part)), None)
            if part is not None:
                moved = True
                sequence += part
                for g, n, _ in part:
                    del to_bind[g][n]
        return moved

    def _take(self, to_bind: ToBind, sequence: Sequence_, g: int, n: int, k: int) -> None:
        self.binder.put(g, n, k)
        sequence.append((g, n, k))
        to_bind[g][n] -= k
        if not to_bind[g][n]:
            del to_bind[g][n]

    def exhaustive(self, to_bind: ToBind, states: int) -> tuple[Sequence_ | None, bool]:
        """Search depth-first over single pods, then units of pods of one gang, with a memory of dead states.

        Args:
            to_bind: Pods to bind, by class and node.
            states: Maximum number of states to visit.

        Returns:
            The sequence or None, and True if the search was complete.
        """
        cells = [(g, n) for g, nodes in to_bind.items() for n in nodes]
        remaining = [to_bind[g][n] for g, n in cells]
        dead: set[tuple[object, ...]] = set()
        path: list[Sequence[int]] = []
        choices = [self._choices(cells, remaining)]
        complete, work = self._small_gangs(to_bind), 0
        while True:
            if not any(remaining):
                sequence = [(*cells[i], 1) for chosen in path for i in chosen]
                self.binder.take_back(sequence)
                return sequence, True
            work += 1
            if choices[-1] and work <= 2 * states:
                chosen = choices[-1].pop()
                if len(chosen) == 1:
                    self.binder.put(*cells[chosen[0]], 1)
                elif not self.binder.bind([(*cells[i], 1) for i in chosen]):
                    continue
                for i in chosen:
                    remaining[i] -= 1
                path.append(chosen)
                choices.append([] if self._state(remaining) in dead else self._choices(cells, remaining))
                continue
            complete &= work <= 2 * states
            dead.add(self._state(remaining))
            choices.pop()
            if not path or len(dead) > states:
                self.binder.take_back([(*cells[i], 1) for chosen in path for i in chosen])
                return None, not path and complete
            chosen = path.pop()
            for i in chosen:
                remaining[i] += 1
                self.binder.put(*cells[i], -1)

    def _small_gangs(self, to_bind: ToBind) -> bool:
        """Return True if all ways to bind the gangs are tried, because they are small enough."""
        united, sizes = self.binder.united(to_bind), Counter[int]()
        for g, nodes in to_bind.items():
            gang = self.cluster.classes[g].gang
            if gang is not None and gang in united:
                sizes[gang] += sum(nodes.values())
        ordered = any(self.binder.ordered(g) for g in to_bind)
        return max(sizes.values(), default=0) <= (MAX_ORDERED_GANG_PODS if ordered else MAX_GANG_PODS)

    def _choices(self, cells: list[tuple[int, int]], remaining: list[int]) -> list[Sequence[int]]:
        """Return the possible next bindings as indices of cells, best last: accepted single pods, then units of few pods of
        a gang."""
        gangs: dict[int, list[int]] = {}
        united = self.binder.united(g for g, _ in cells)
        for i, (g, _) in enumerate(cells):
            gang = self.cluster.classes[g].gang
            if gang in united and gang is not None and remaining[i]:
                gangs.setdefault(gang, []).append(i)
        choices: list[Sequence[int]] = []
        for mine in gangs.values():
            if sum(remaining[i] for i in mine) <= MAX_GANG_PODS:
                choices += _units(mine, remaining, ordered=any(self.binder.ordered(cells[i][0]) for i in mine))
        return [*choices, *([i] for i in self._open_cells(cells, remaining))]

    def _state(self, remaining: list[int]) -> tuple[object, ...]:
        """Return the remaining pods and the order-dependent part of the rules' state."""
        return (*remaining, *(path for rule in self.rules if (path := rule.path()) is not None))

    def _open_cells(self, cells: list[tuple[int, int]], remaining: list[int]) -> list[int]:
        nodes: dict[int, list[int]] = {}
        for (g, n), k in zip(cells, remaining, strict=True):
            if k:
                nodes.setdefault(g, []).append(n)
        open_ = {(g, n) for g, mine in nodes.items() for n in self._accepted(g, np.array(mine, dtype=np.int64)).tolist()}
        return [i for i, cell in enumerate(cells) if cell in open_]


def _units(mine: Sequence[int], remaining: list[int], *, ordered: bool) -> list[list[int]]:
    """Return the sets of at least two pods of a gang, as indices of cells; ``ordered``: in each order, if there are few."""
    ways = itertools.product(*(range(remaining[i], -1, -1) for i in mine))
    units = [[i for i, k in zip(mine, picked, strict=True) for _ in range(k)] for picked in ways if sum(picked) > 1]
    if not ordered:
        return units
    few = [unit for unit in units if len(unit) <= MAX_ORDERED_GANG_PODS]
    return [list(way) for unit in few for way in sorted({*itertools.permutations(unit)})] or units
