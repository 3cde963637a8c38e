"""What becomes of evicted pods: their controllers make them anew, and the scheduler binds one after the other.

Which of the nodes that accept a pod it takes depends on scores, of which clusters configure their own: every such node is possible. The
queue is that of kube-scheduler (priority, then age); pods that waited before are in it, and those that find no node try again whenever
another pod has been bound. Preemption is not modelled.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import msgspec
import numpy as np

from kubestow.models.cluster.cluster import Cluster, Ints
from kubestow.models.cluster.compile import compile_cluster
from kubestow.models.documents.policy import Policy
from kubestow.models.kube.objects import controller_of
from kubestow.models.snapshot.scope import select
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.solver import rules
from kubestow.solver.rollout.state import ungrouped

#: Continuations that are all looked at, if there are no more; with many pods in the cluster fewer, so many pods over all of them.
LEAVES: Final = 1024
WORK: Final = 200_000
#: Pods in the queue from which on there are surely too many continuations.
LONGEST: Final = 16
#: Continuations that are drawn where there are more.
DRAWN: Final = 8

#: Returns one of the nodes that accept a pod.
_Choice = Callable[[int, Ints], int]


@dataclass
class Continuations:
    """``ends``: by continuation the node of each pod that was in the queue, -1 for none; ``exhaustive``: whether these are all."""

    ends: list[dict[int, int]]
    exhaustive: bool


@dataclass
class Scheduler:
    """The queue after evictions. ``homes``: by evicted pod the node that it left."""

    snapshot: Snapshot
    homes: dict[int, int]
    policy: Policy
    exempt: tuple[str, ...]
    over: Callable[[], bool]
    cluster: Cluster = field(init=False)

    def __post_init__(self) -> None:
        pods = list(self.snapshot.pods)
        gone = {i for i in self.homes if not recreated(self.snapshot, i)}
        for i in self.homes:
            spec = msgspec.structs.replace(pods[i].spec, nodeName=None)
            pods[i] = msgspec.structs.replace(pods[i], spec=spec, status=None)
        after = replace(self.snapshot, pods=pods)
        claiming = [self.snapshot.pods[i] for i in self.homes if self.snapshot.pods[i].spec.resourceClaims]
        if claiming:
            from kubestow.models.devices.allocating import released

            after = replace(after, resource_claims=released(after, claiming))
        scope = select(after)
        scope.pending = [i for i in scope.pending if i not in gone]
        self.cluster = ungrouped(compile_cluster(after, scope, daemon_namespaces=self.exempt, policy=self.policy))
        self._class = {i: g for g, cls in enumerate(self.cluster.classes) for i in cls.pods}
        order = {i: k for k, i in enumerate(self.homes)}
        self.queue = sorted(scope.pending, key=lambda i: (-int(self.cluster.priority[self._class[i]]), order.get(i, -1)))
        self._size = np.maximum(self.cluster.allocatable, 1)
        self._most = min(LEAVES, WORK // len(pods)) if pods else LEAVES
        self._start()

    def _start(self) -> None:
        self._rules = rules.build(self.cluster)
        self._free = self.cluster.free.copy()
        self._at: dict[int, int] = {}

    def _accepted(self, i: int) -> Ints:
        mask = np.zeros(self.cluster.n_nodes, dtype=bool)
        for rule in self._rules:
            mask |= rule.rejects(self._class[i])
        return np.flatnonzero(~mask)

    def _put(self, i: int, n: int, by: int) -> None:
        g = self._class[i]
        for rule in self._rules:
            rule.place(g, n) if by > 0 else rule.remove(g, n)
        self._free[n] -= by * self.cluster.demand[g]
        if by > 0:
            self._at[i] = n
        else:
            del self._at[i]

    def _end(self) -> dict[int, int]:
        return {i: self._at.get(i, -1) for i in (*self.queue, *(i for i in self.homes if i not in self._class))}

    # --- all continuations, where they are few ------------------------------------------------------------------------------------

    def continuations(self) -> Continuations:
        """Return all continuations, or where they are many some that differ much."""
        if len(self.queue) <= LONGEST:
            ends: dict[tuple[tuple[int, int], ...], dict[int, int]] = {}
            if self._explore(tuple(self.queue), 0, False, ends):
                return Continuations(list(ends.values()), True)
            self._start()
        drawn = {tuple(sorted(end.items())): end for end in self._drawn()}
        return Continuations(list(drawn.values()), False)

    def _explore(self, waiting: tuple[int, ...], k: int, bound: bool, ends: dict[tuple[tuple[int, int], ...], dict[int, int]]) -> bool:
        """Go on with the k-th of the pods that wait; return False where there are too many continuations. ``bound``: some pod was bound in
        this round, so that there is another for those left."""
        if k == len(waiting):
            left = tuple(i for i in waiting if i not in self._at)
            if bound and left:
                return self._explore(left, 0, False, ends)
            end = self._end()
            ends[tuple(sorted(end.items()))] = end
            return len(ends) <= self._most and not self.over()
        i = waiting[k]
        nodes = self._accepted(i).tolist()
        if not nodes:
            return self._explore(waiting, k + 1, bound, ends)
        for n in nodes:
            self._put(i, n, 1)
            fine = self._explore(waiting, k + 1, True, ends)
            self._put(i, n, -1)
            if not fine:
                return False
        return True

    # --- some of many -------------------------------------------------------------------------------------------------------------

    def _drawn(self) -> list[dict[int, int]]:
        choices: list[_Choice] = [self._emptiest, self._fullest, self._home, self._elsewhere]
        for seed in range(DRAWN):
            dice = random.Random(seed)
            choices.append(lambda i, nodes, dice=dice: int(nodes[dice.randrange(len(nodes))]))  # type: ignore[misc]
        found: list[dict[int, int]] = []
        for choice in choices:
            if found and self.over():
                break
            self._start()
            found.append(self._one(choice))
        return found

    def _one(self, choice: _Choice) -> dict[int, int]:
        waiting: Sequence[int] = self.queue
        while True:
            before = len(self._at)
            for i in waiting:
                nodes = self._accepted(i)
                if len(nodes):
                    self._put(i, choice(i, nodes), 1)
            waiting = [i for i in waiting if i not in self._at]
            if not waiting or len(self._at) == before:
                return self._end()

    def _left(self, nodes: Ints) -> Ints:
        """int64: free room of nodes in hundredths, summed up over resources."""
        return np.asarray((self._free[nodes] * 100 // self._size[nodes]).sum(axis=1))

    def _emptiest(self, i: int, nodes: Ints) -> int:
        return int(nodes[np.argmax(self._left(nodes))])

    def _fullest(self, i: int, nodes: Ints) -> int:
        return int(nodes[np.argmin(self._left(nodes))])

    def _home(self, i: int, nodes: Ints) -> int:
        home = self.homes.get(i, -1)
        return home if home in nodes else self._emptiest(i, nodes)

    def _elsewhere(self, i: int, nodes: Ints) -> int:
        others = nodes[nodes != self.homes.get(i, -1)]
        return self._emptiest(i, others if len(others) else nodes)


def recreated(snapshot: Snapshot, i: int) -> bool:
    """Return whether a controller makes a pod anew when it goes."""
    return controller_of(snapshot.pods[i]) is not None
