"""The reading of a family of preferences whose points depend on a pod and its node only."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from typing import ClassVar

from kubestow.models.cluster.cluster import Ints
from kubestow.models.kube.objects import Node, Pod


class NodeScores(ABC):
    """Points of pods for nodes.

    Attributes:
        name: The family's field in the policy's multipliers.
        nodes: The nodes, N.
        rows: Distinct points, int64[N] each.
    """

    name: ClassVar[str]

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.nodes = nodes
        self.rows: list[Ints] = []
        self._known: dict[Hashable, int | None] = {}

    @staticmethod
    def fields(pod: Pod) -> list[object]:
        """Return the fields that the family reads in addition to a pod's spec without volumes, which distinguishes pods anyway."""
        return []

    @abstractmethod
    def key(self, pod: Pod) -> Hashable:
        """Return a key that is equal for pods with equal points, or None for a pod without points."""

    @abstractmethod
    def score(self, pod: Pod) -> Ints:
        """Return the points of one pod on each node, int64[N]."""

    def row(self, pod: Pod) -> int | None:
        """Return the index into ``rows`` of a pod's points, or None if it has none on any node."""
        key = self.key(pod)
        if key is not None and key not in self._known:
            score = self.score(pod)
            self._known[key] = len(self.rows) if score.any() else None
            if score.any():
                self.rows.append(score)
        return None if key is None else self._known[key]
