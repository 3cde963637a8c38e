"""Class-level construction: a valid placement and its bind order at once, most constrained classes first.

Each pod is placed where all rules accept it in the state reached so far, so the order of placing is a bind order, and the final state
obeys every spread constraint (a domain's minimum never falls while pods are only added).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from models.cluster import Cluster, Ints
from models.selectors import Bools
from solver import rules
from solver.limits import fits
from solver.rules.base import Rule
from solver.rules.inter_pod_affinity import InterPodAffinity
from solver.rules.node_resources_fit import NodeResourcesFit
from solver.rules.pod_topology_spread import PodTopologySpread

Floats = NDArray[np.float64]


@dataclass
class Construction:
    """A valid placement. ``counts``: int64[G, N]; ``sequence``: (class, node, pods) in bind order."""

    counts: Ints
    sequence: list[tuple[int, int, int]]

    def per_priority(self, cluster: Cluster) -> dict[int, int]:
        """Placed pods per priority."""
        return cluster.per_priority(self.counts.sum(axis=1))


def rank(cluster: Cluster, construction: Construction) -> tuple[int, ...]:
    """Placed pods, highest priority first: larger is better."""
    per = construction.per_priority(cluster)
    return tuple(per[p] for p in sorted(per, reverse=True))


class _Builder:
    """``even``: fill nodes evenly (spread) instead of the tightest first."""

    def __init__(self, cluster: Cluster, active: Sequence[Rule], *, even: bool = False) -> None:
        self.cluster = cluster
        self.active = active
        self.even = even
        self._concerned = [[r for r in active if r.concerned(g)] for g in range(cluster.n_classes)]
        self.fit = next(r for r in active if isinstance(r, NodeResourcesFit))
        self.pods = next(r for r in active if isinstance(r, InterPodAffinity))
        self.spread = next(r for r in active if isinstance(r, PodTopologySpread))
        self.counts = np.zeros((cluster.n_classes, cluster.n_nodes), dtype=np.int64)
        self.sequence: list[tuple[int, int, int]] = []
        self.scale = 1.0 / np.maximum(cluster.allocatable.max(axis=0), 1) if cluster.n_nodes else np.ones(len(cluster.resources))

    def mask(self, g: int) -> Bools:
        blocked = self.spread.breaks(g)
        for rule in self.active:
            blocked |= rule.rejects(g)
        return ~blocked

    def put(self, g: int, n: int, k: int) -> None:
        for rule in self._concerned[g]:
            rule.place(g, n, k)
        self.counts[g, n] += k
        self.sequence.append((g, n, k))

    def put_many(self, g: int, nodes: Ints, pods: Ints) -> None:
        """pods[i] pods of class g on nodes[i], distinct nodes."""
        self.fit.place_many(g, nodes, pods)
        listed = list(zip(nodes.tolist(), pods.tolist(), strict=True))
        for rule in self._concerned[g]:
            if rule is not self.fit:
                for n, k in listed:
                    rule.place(g, n, k)
        self.counts[g, nodes] += pods
        self.sequence += [(g, n, k) for n, k in listed]

    def tightness(self, g: int) -> Floats:
        """float64[N]: what would be left on each node, as a share of the largest node, over the resources the class asks for most.
        A guide for choosing, never a rule."""
        left: Floats = (self.fit.free - self.cluster.demand[g]) * self.scale
        return np.asarray(left.sum(axis=1))

    def alone(self, g: int) -> bool:
        """Whether placing the class changes verdicts on the chosen node only, so that many pods can be put at once."""
        cls = self.cluster.classes[g]
        return not (self.pods.touches(g) or self.spread.touches(g) or cls.claims)

    def fill(self, g: int, wanted: int) -> int:
        """Place pods of a class whose placing has no effect beyond its nodes: tightest nodes first."""
        room = np.full(self.cluster.n_nodes, wanted, dtype=np.int64)
        for rule in self.active:
            room = np.minimum(room, rule.room(g))
        room[self.spread.breaks(g)] = 0
        if self.even:
            pods = self._evenly(g, room, wanted)
            nodes = np.flatnonzero(pods)
        else:
            nodes = np.flatnonzero(room)
            nodes = nodes[np.argsort(self.tightness(g)[nodes], kind="stable")]
            pods = np.zeros_like(room)
            pods[nodes] = np.minimum(room[nodes], np.maximum(wanted - (np.cumsum(room[nodes]) - room[nodes]), 0))
            nodes = nodes[pods[nodes] > 0]
        self.put_many(g, nodes, pods[nodes])
        return int(pods.sum())

    def _evenly(self, g: int, room: Ints, wanted: int) -> Ints:
        """int64[N]: the pods of each node when all are filled up to one utilisation, as high as the pods go."""
        asked = [r for r in range(min(2, len(self.cluster.resources))) if self.cluster.demand[g, r]]
        total = self.cluster.allocatable
        used = total - self.fit.free

        def upto(share: int) -> Ints:
            """Pods that bring no node above ``share`` thousandths."""
            pods = room
            for r in asked:
                pods = np.minimum(pods, (total[:, r] // 1000 * share - used[:, r]) // self.cluster.demand[g, r])
            if not asked:
                pods = np.minimum(pods, self.cluster.n_nodes and share * max(1, wanted) // 1000)
            return np.asarray(np.maximum(pods, 0), dtype=np.int64)

        low, high = 0, 1001
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if int(upto(middle).sum()) <= wanted else (low, middle)
        pods = upto(low)
        rest = wanted - int(pods.sum())
        more = np.minimum(upto(high) if high <= 1000 else room, room) - pods
        while rest > 0 and more.any():  # one more for each that has room on the next step
            nodes = np.flatnonzero(more > 0)[:rest]
            pods[nodes] += 1
            more[nodes] -= 1
            rest -= len(nodes)
        left = room - pods
        while rest > 0 and left.any():
            nodes = np.flatnonzero(left > 0)[:rest]
            pods[nodes] += 1
            left[nodes] -= 1
            rest -= len(nodes)
        return pods

    def step(self, g: int) -> bool:
        """Place one pod: emptiest spread domain, then (for a group that opens) the roomiest domain, then the tightest node."""
        nodes = np.flatnonzero(self.mask(g))
        if not len(nodes):
            return False
        level = self.spread.level(g)[nodes]
        nodes = nodes[level == level.min()]
        affinity = self.cluster.classes[g].affinity
        if affinity is not None and affinity.itself and len(nodes) > 1:
            room = self.fit.room(g)
            for key in affinity.keys:
                codes, size = self.cluster.domains(key)
                total = np.bincount(codes[nodes], weights=room[nodes], minlength=size)[codes[nodes]]
                nodes = nodes[total == total.max()]
        tightness = self.tightness(g)[nodes]
        self.put(g, int(nodes[np.argmax(tightness) if self.even else np.argmin(tightness)]), 1)
        return True

    def run(self, order: Sequence[int], expired: _Clock, wanted_of: Ints | None = None) -> None:
        """Place class after class; those that wait for others (affinity) get another turn as long as anything moves."""
        wanted_of = self.cluster.count if wanted_of is None else wanted_of
        waiting = [(g, int(wanted_of[g])) for g in order]
        moved = True
        while waiting and moved:
            moved = False
            left = []
            for g, wanted in waiting:
                if expired():
                    return
                done = 0
                if self.alone(g):
                    done = self.fill(g, wanted)
                else:
                    while done < wanted and self.step(g):
                        done += 1
                        if done % 256 == 0 and expired():
                            return
                moved |= done > 0
                if done < wanted:
                    left.append((g, wanted - done))
            waiting = left


class _Clock:
    def __init__(self, deadline: float | None, stop: threading.Event | None) -> None:
        self.deadline, self.stop = deadline, stop

    def __call__(self) -> bool:
        return (self.stop is not None and self.stop.is_set()) or (self.deadline is not None and time.monotonic() > self.deadline)


def _orders(cluster: Cluster, limits: Ints, tries: int, seed: int) -> list[list[int]]:
    """Class orders to try: highest priority first, then fewest possible nodes or largest share, then the same with noise."""
    share = cluster.demand / np.maximum(cluster.allocatable.max(axis=0, initial=1), 1)
    largest, total = share.max(axis=1, initial=0.0), share.sum(axis=1)
    nodes = np.count_nonzero(limits, axis=1)
    tied = np.array([bool(c.affinity or c.anti or c.spread) for c in cluster.classes], dtype=bool)
    keys: list[Floats] = [-total, -largest, nodes * (1.0 - largest), -total - tied]
    rng = np.random.default_rng(seed)
    keys += [-(total + 0.3 * tied) * rng.uniform(0.7, 1.3, size=len(total)) for _ in range(max(0, tries - len(keys)))]
    return [np.lexsort((key, -cluster.priority)).tolist() for key in keys[:tries]]


def construct(
    cluster: Cluster,
    limits: Ints,
    *,
    seed: int = 0,
    tries: int = 1,
    deadline: float | None = None,
    stop: threading.Event | None = None,
    even: bool = False,
) -> Construction:
    """The best of several greedy constructions. ``limits``: int64[G, N], pods per class and node at most (0: excluded). ``even``: the
    first one fills nodes evenly; where that places every pod, it is the answer."""
    best: Construction | None = None
    goal = int(fits(cluster, limits).sum())
    clock = _Clock(deadline, stop)
    orders = _orders(cluster, limits, tries, seed)
    for attempt, order in enumerate([*orders[:1], *orders] if even else orders):
        builder = _Builder(cluster, rules.build(cluster), even=even and attempt == 0)
        builder.run([g for g in order if limits[g].any()], clock)
        found = Construction(builder.counts, builder.sequence)
        if best is None or rank(cluster, found) > rank(cluster, best):
            best = found
        if clock() or int(best.counts.sum()) == goal:
            break
    assert best is not None
    return best


def complete(cluster: Cluster, limits: Ints, counts: Ints, sequence: list[tuple[int, int, int]]) -> tuple[Ints, list[tuple[int, int, int]]]:
    """Add to a placement what still fits, without moving anything; its bind order goes on with what was added."""
    if int(counts.sum()) == int(cluster.count.sum()):
        return counts, sequence
    builder = _Builder(cluster, rules.build(cluster))
    for g, n, k in sequence:
        builder.put(g, n, k)
    left = cluster.count - counts.sum(axis=1)
    order = [g for g in np.lexsort((np.arange(cluster.n_classes), -cluster.priority)).tolist() if left[g] and limits[g].any()]
    builder.run(order, _Clock(None, None), left)
    return builder.counts, builder.sequence
