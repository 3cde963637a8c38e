"""Karpenter's scheduling simulation: checks whether the pods of some nodes fit the other nodes, one pod after
another.

Source: https://github.com/kubernetes-sigs/karpenter, pkg/controllers/disruption/helpers.go (SimulateScheduling) and
pkg/controllers/provisioning/scheduling (queue.go, scheduler.go). The rules are those of kube-scheduler.
Preferences, which Karpenter first treats as rules, are ignored.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec
import numpy as np

from kubestow.audit.karpenter.candidates import is_reschedulable
from kubestow.models.cluster.compile import compile_cluster
from kubestow.models.documents.policy import Policy
from kubestow.models.kube.objects import is_terminal
from kubestow.models.snapshot.scope import Scope, select
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.solver import rules
from kubestow.solver.rollout.state import ungrouped


@dataclass(frozen=True)
class Fits:
    """The result of a simulation.

    Attributes:
        placed: Name of the new node, by pod.
        unplaced: Pods of the removed nodes that fit no other node.
    """

    placed: Mapping[int, str]
    unplaced: Sequence[int]


class Simulation:
    """A cluster whose pods on ``managed`` nodes may move. ``last`` is a new node that is tried after all others."""

    def __init__(self, snapshot: Snapshot, managed: Collection[str], policy: Policy, exempt: tuple[str, ...], last: str = "") -> None:
        names = {node.metadata.name for node in snapshot.nodes}
        pods = list(snapshot.pods)
        self._homes: dict[int, int] = {}
        self._on: dict[str, list[int]] = {}
        index = {node.metadata.name or "": n for n, node in enumerate(snapshot.nodes)}
        for i, pod in enumerate(snapshot.pods):
            node = pod.spec.nodeName or ""
            if node in managed and node in names and is_reschedulable(pod) and not is_terminal(pod):
                self._homes[i] = index[node]
                self._on.setdefault(node, []).append(i)
                pods[i] = msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, nodeName=None))
        scope = select(snapshot)
        self._waiting = [i for i in scope.pending if not snapshot.pods[i].spec.nodeName]
        scope = Scope([i for i in scope.fixed if i not in self._homes], sorted([*self._homes, *self._waiting]))
        self.snapshot = snapshot
        self.cluster = ungrouped(compile_cluster(replace(snapshot, pods=pods), scope, daemon_namespaces=exempt, policy=policy))
        self._class = {i: g for g, cls in enumerate(self.cluster.classes) for i in cls.pods}
        self._rules = rules.build(self.cluster)
        self._moving = [rule for rule in self._rules if not rule.arrivals_only]
        for i, n in self._homes.items():
            for rule in self._moving:
                rule.place(self._class[i], n)
        self._index = index
        self._order = sorted(index.values(), key=lambda n: (self.cluster.nodes.names[n] == last, self.cluster.nodes.names[n]))

    def request(self, pods: Sequence[int]) -> dict[str, int]:
        """Return the total requests of pods, in the units of the compiled instance."""
        total = sum((self.cluster.demand[self._class[i]] for i in pods), np.zeros(len(self.cluster.resources), dtype=np.int64))
        return dict(zip(self.cluster.resources, map(int, total), strict=True))

    def without(self, nodes: Collection[str]) -> Fits:
        """Return the new nodes of the pods on removed nodes. The state is restored afterwards."""
        pods = [i for name in nodes for i in self._on.get(name, ())]
        for i in pods:
            for rule in self._moving:
                rule.remove(self._class[i], self._homes[i])
        gone = np.zeros(self.cluster.n_nodes, dtype=bool)
        gone[[self._index[name] for name in nodes]] = True
        placed: dict[int, int] = {}
        queue = sorted([*pods, *self._waiting], key=self._rank)
        while queue:
            unplaced = [i for i in queue if not self._place(i, gone, placed)]
            if len(unplaced) == len(queue):
                break
            queue = unplaced
        for i, n in reversed(placed.items()):
            for rule in self._rules:
                rule.remove(self._class[i], n)
        for i in pods:
            for rule in self._moving:
                rule.place(self._class[i], self._homes[i])
        mine = set(pods)
        names = self.cluster.nodes.names
        return Fits({i: names[n] for i, n in placed.items() if i in mine}, [i for i in queue if i in mine])

    def _rank(self, i: int) -> tuple[int, int, str, str]:
        """Return a sort key in the order of Karpenter's queue: CPU and memory, largest first, then age."""
        metadata = self.snapshot.pods[i].metadata
        request = self.request([i])
        return -request.get("cpu", 0), -request.get("memory", 0), metadata.creationTimestamp or "", metadata.uid or ""

    def _place(self, i: int, gone: np.ndarray[tuple[int, ...], np.dtype[np.bool_]], placed: dict[int, int]) -> bool:
        mask = gone.copy()
        for rule in self._rules:
            mask |= rule.rejects(self._class[i])
        for n in self._order:
            if not mask[n]:
                for rule in self._rules:
                    rule.place(self._class[i], n)
                placed[i] = n
                return True
        return False
