"""Families whose points depend on a pod and its node only."""

from __future__ import annotations

from collections.abc import Hashable
from typing import ClassVar

from kubestow.models.cluster.cluster import Ints
from kubestow.solver.objective.families.base import Family
from kubestow.solver.objective.ledger import Ledger


class NodePoints(Family):
    """A family of points for nodes.

    Attributes:
        words: Words for a preference that a node does not meet in full.
        most: Points that every pod would have on an ideal node. None: those of its best node in the cluster.
    """

    words: ClassVar[str]
    most: ClassVar[int | None] = None

    def losses(self, ledger: Ledger) -> None:
        for g in ledger.placed.classes:
            if self.key(g) is not None:
                row = self.row(g)
                nodes, pods = ledger.placed.of(g)
                most = int(row.max(initial=0)) if self.most is None else self.most
                ledger.share(self, g, self.words, (most - row[nodes]) * pods)


class NodeScorePoints(NodePoints):
    """A family of scores that :mod:`kubestow.models.cluster.node_scores` reads from pods and nodes under its name."""

    def key(self, g: int) -> Hashable:
        return dict(self.cluster.classes[g].scores).get(self.name)

    def row(self, g: int) -> Ints:
        return self.cluster.node_scores[self.name][dict(self.cluster.classes[g].scores)[self.name]]
