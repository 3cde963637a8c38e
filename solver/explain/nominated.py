"""The second filter pass for nodes with nominated pods: those of equal or higher priority count as if they were bound.

Source: pkg/scheduler/framework/runtime/framework.go, RunFilterPluginsWithNominatedPods.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from kubestow.models.cluster.compile import compile_cluster
from kubestow.models.documents.policy import Policy
from kubestow.models.kube.objects import is_waiting
from kubestow.models.snapshot.scope import Scope
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.solver import rules


class Nominated:
    """The pods nominated to nodes, against the judged pods (the pending ones of ``scope``)."""

    def __init__(self, snapshot: Snapshot, scope: Scope, daemon_namespaces: tuple[str, ...], policy: Policy) -> None:
        self._pods = snapshot.pods
        names = {node.metadata.name: n for n, node in enumerate(snapshot.nodes)}
        self._at: dict[int, list[int]] = {}
        for i, pod in enumerate(snapshot.pods):
            if is_waiting(pod) and not pod.spec.schedulingGates and pod.status is not None and pod.status.nominatedNodeName in names:
                self._at.setdefault(names[pod.status.nominatedNodeName], []).append(i)
        if not self._at:
            return
        guests = {i for at in self._at.values() for i in at}
        both = replace(scope, pending=sorted({*scope.pending, *guests}))
        self._cluster = compile_cluster(snapshot, both, daemon_namespaces=daemon_namespaces, policy=policy)
        self._rules = [rule for rule in rules.build(self._cluster) if rule.counts_nominated]
        self._class = {i: g for g, cls in enumerate(self._cluster.classes) for i in cls.pods}
        self._known: dict[tuple[int, int, tuple[int, ...]], list[tuple[str, str]]] = {}

    def rejects(self, i: int) -> Iterator[tuple[int, str, str]]:
        """Yield the nodes on which a rule rejects pod i with the pods nominated there, each with rule and message."""
        rank = self._pods[i].spec.priority or 0
        for n, listed in self._at.items():
            guests = tuple(j for j in listed if j != i and (self._pods[j].spec.priority or 0) >= rank)
            if guests:
                for name, message in self._rejections(self._class[i], n, guests):
                    yield n, name, message

    def _rejections(self, g: int, n: int, guests: tuple[int, ...]) -> list[tuple[str, str]]:
        rejections = self._known.get((g, n, guests))
        if rejections is not None:
            return rejections
        rejections = self._known[g, n, guests] = []
        here = np.arange(self._cluster.n_nodes) == n
        classes = [self._class[j] for j in guests]
        for rule in self._rules:
            for h in classes:
                rule.place(h, n)
            if rule.rejects_with(g, n, [self._pods[j] for j in guests]):
                rejections.append((rule.name, f"{rule.message(g, here)}, with the pods nominated to the node"))
            for h in reversed(classes):
                rule.remove(h, n)
        return rejections
