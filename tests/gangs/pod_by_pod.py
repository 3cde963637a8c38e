"""A scheduler that takes one pod after the other and never looks back: what gangs are compared with.

Pods in creation order; each goes through the filters in the state reached so far and takes the node with the highest score of
NodeResourcesFit's LeastAllocated (Kubernetes v1.34, pkg/scheduler/framework/plugins/noderesources/least_allocated.go: the mean over CPU and
memory of free * 100 // allocatable after the pod), ties at random. As under a coscheduling plugin, pods that found a node keep it while
the gang waits for the others; pods that found none are tried again as long as any other was placed. A gang's required topology is a
filter too: once a member has a node, the others are held to its domain.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from kubestow.models.cluster.cluster import Cluster, Ints
from kubestow.models.cluster.compile import compile_cluster
from kubestow.models.snapshot.scope import select
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.solver import rules


@dataclass(frozen=True)
class Result:
    """``pods``: node of each pod that found one, by index into ``snapshot.pods``, in bind order; ``pending``: how many were to be placed;
    ``whole``: gangs of which enough members found a node, and ``gangs``, how many there are."""

    pods: dict[int, str]
    pending: int
    whole: int
    gangs: int

    @property
    def share(self) -> float:
        """Pods that found a node, whether their gang is whole or not."""
        return len(self.pods) / max(1, self.pending)


def schedule(snapshot: Snapshot, *, seed: int = 0, first: bool = False) -> Result:
    """Schedule the pending pods of a snapshot; ``first``: to the first node that takes a pod, instead of the one with the highest score."""
    gang_cluster = compile_cluster(snapshot, select(snapshot))
    loop = _Loop(gang_cluster, seed, first=first)
    waiting = sorted((i, g) for g, cls in enumerate(gang_cluster.classes) for i in cls.pods)
    pods: dict[int, str] = {}
    moved = True
    while waiting and moved:
        found = [(i, n) for i, n in loop.turn(waiting)]
        pods |= {i: gang_cluster.nodes.names[n] for i, n in found}
        moved = bool(found)
        waiting = [(i, g) for i, g in waiting if i not in pods]
    enough = [sum(loop.placed[g] for g in gang.classes) >= gang.needed for gang in gang_cluster.gangs]
    return Result(pods, sum(c.count for c in gang_cluster.classes), sum(enough), len(enough))


class _Loop:
    def __init__(self, cluster: Cluster, seed: int, *, first: bool) -> None:
        self._first = first
        # Rules that know of gangs judge their members as a unit; here nobody does.
        self.cluster = replace(cluster, gangs=[], classes=[replace(c, gang=None) for c in cluster.classes])
        self.placed = [0] * cluster.n_classes
        self._gangs = [(cluster.gangs[c.gang] if c.gang is not None else None) for c in cluster.classes]
        self._domain = {gang.name: set(gang.home) for gang in cluster.gangs if gang.key is not None}
        self._active = rules.build(self.cluster)
        self._free = cluster.free.copy()
        self._columns = [cluster.resources.index(name) for name in ("cpu", "memory") if name in cluster.resources]
        self._rng = random.Random(f"kubestow/pod-by-pod/{seed}")

    def turn(self, waiting: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
        """One try for each pod; gives those that found a node, with it."""
        for i, g in waiting:
            n = self._choose(g)
            if n is not None:
                for rule in self._active:
                    rule.place(g, n)
                self._free[n] -= self.cluster.demand[g]
                self.placed[g] += 1
                gang = self._gangs[g]
                if gang is not None and gang.key is not None:
                    self._domain[gang.name].add(int(self.cluster.domains(gang.key)[0][n]))
                yield i, n

    def _choose(self, g: int) -> int | None:
        blocked = np.zeros(self.cluster.n_nodes, dtype=bool)
        for rule in self._active:
            blocked |= rule.rejects(g)
        gang = self._gangs[g]
        if gang is not None and gang.key is not None:
            codes = self.cluster.domains(gang.key)[0]
            homes = self._domain[gang.name]
            blocked |= ~np.isin(codes, sorted(homes)) if homes else codes < 0
        nodes = np.flatnonzero(~blocked)
        if not len(nodes):
            return None
        if self._first:
            return int(nodes[0])
        score = self._score(g, nodes)
        return int(self._rng.choice(nodes[score == score.max()].tolist()))

    def _score(self, g: int, nodes: Ints) -> Ints:
        total = self.cluster.allocatable[nodes][:, self._columns]
        left = np.maximum(self._free[nodes][:, self._columns] - self.cluster.demand[g, self._columns], 0)
        points: Ints = (left * 100 // np.maximum(total, 1)).sum(axis=1) // max(1, len(self._columns))
        return points
