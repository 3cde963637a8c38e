"""Continuations after evictions: controllers recreate the evicted pods, and the scheduler binds them one by one.

The scheduler's choice among accepting nodes depends on scores, which clusters configure differently, so every such
node is possible. The queue is that of kube-scheduler (priority, then age) and includes pods that were already
pending. Pods without a node are retried whenever another pod has been bound. Preemption is not modelled.
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
from kubestow.models.devices.allocating import released
from kubestow.models.documents.policy import Policy
from kubestow.models.kube.objects import controller_of
from kubestow.models.snapshot.scope import select
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.solver import rules
from kubestow.solver.rollout.state import ungrouped

#: Maximum number of continuations for an exhaustive search.
MAX_CONTINUATIONS: Final = 1024
#: Maximum product of continuations and pods of the cluster, so that large clusters get fewer continuations.
MAX_CONTINUATION_PODS: Final = 200_000
#: Maximum queue length for an exhaustive search, in pods. Longer queues certainly have too many continuations.
MAX_EXHAUSTIVE_QUEUE_PODS: Final = 16
#: Number of random continuations drawn if there are too many.
RANDOM_SAMPLES: Final = 8

#: Selects one of the nodes that accept a pod.
_Choice = Callable[[int, Ints], int]


@dataclass
class Continuations:
    """Possible outcomes after evictions.

    Attributes:
        ends: Node index of each queued pod, or -1, for each continuation.
        exhaustive: True if these are all continuations.
    """

    ends: list[dict[int, int]]
    exhaustive: bool


@dataclass
class Scheduler:
    """The scheduling queue after evictions.

    Attributes:
        snapshot: The cluster before the evictions.
        homes: Former node of each evicted pod.
        policy: Weights and switches of the policy file.
        exempt: Namespaces exempt from hard anti-affinity.
        over: Returns True when the time is up.
        cluster: The compiled cluster after the evictions.
    """

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
            after = replace(after, resource_claims=released(after, claiming))
        scope = select(after)
        scope.pending = [i for i in scope.pending if i not in gone]
        self.cluster = ungrouped(compile_cluster(after, scope, daemon_namespaces=self.exempt, policy=self.policy))
        self._class = {i: g for g, cls in enumerate(self.cluster.classes) for i in cls.pods}
        order = {i: k for k, i in enumerate(self.homes)}
        self.queue = sorted(scope.pending, key=lambda i: (-int(self.cluster.priority[self._class[i]]), order.get(i, -1)))
        self._size = np.maximum(self.cluster.allocatable, 1)
        self._most = min(MAX_CONTINUATIONS, MAX_CONTINUATION_PODS // len(pods)) if pods else MAX_CONTINUATIONS
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

    # --- exhaustive search --------------------------------------------------------------------------------------------------------

    def continuations(self) -> Continuations:
        """Return all continuations, or a diverse sample if there are too many."""
        if len(self.queue) <= MAX_EXHAUSTIVE_QUEUE_PODS:
            ends: dict[tuple[tuple[int, int], ...], dict[int, int]] = {}
            if self._explore(tuple(self.queue), 0, False, ends):
                return Continuations(list(ends.values()), True)
            self._start()
        drawn = {tuple(sorted(end.items())): end for end in self._drawn()}
        return Continuations(list(drawn.values()), False)

    def _explore(self, waiting: tuple[int, ...], k: int, bound: bool, ends: dict[tuple[tuple[int, int], ...], dict[int, int]]) -> bool:
        """Continue with the k-th waiting pod. Return False if there are too many continuations.

        ``bound``: a pod was bound in this round, so the remaining pods get another round.
        """
        if k == len(waiting):
            unplaced = tuple(i for i in waiting if i not in self._at)
            if bound and unplaced:
                return self._explore(unplaced, 0, False, ends)
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

    # --- samples ------------------------------------------------------------------------------------------------------------------

    def _drawn(self) -> list[dict[int, int]]:
        choices: list[_Choice] = [self._emptiest, self._fullest, self._home, self._elsewhere]
        for seed in range(RANDOM_SAMPLES):
            dice = random.Random(seed)
            # mypy infers no type for a lambda that binds a loop variable as a default
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
        """Return int64: the free capacity of nodes in percent, summed over resources."""
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
    """Return True if a controller recreates a pod after it is evicted."""
    return controller_of(snapshot.pods[i]) is not None
