"""The words of causes for NodeResourceTopologyMatch."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable

import numpy as np

from kubestow.solver.rules.base import Rule
from kubestow.solver.rules.facts import FactPart
from kubestow.solver.rules.wording import listed


class NumaWords(Rule):
    """Facts about NUMA zones of nodes."""

    drop_rank = 10
    helped_by_new_nodes = helped_by_fewer_pods = True
    counts_nominated = False

    @abstractmethod
    def first_shortage(self, classes: Iterable[int], n: int) -> str:
        """Return the shortage of the first pod that a node rejects as pods of these classes arrive one after another; empty if none is.

        The state is unchanged.
        """

    def sentence(self, part: FactPart) -> str:
        view, fact, trees = part.view, part.fact, self.cluster.trees
        aligning = view.nowhere
        aligning[[n for n, tree in trees.items() if tree.rejects]] = True
        nodes = aligning & part.inside & (view.open_to(part.classes) | part.barred)
        policies = listed(sorted({trees[n].policy for n in np.flatnonzero(nodes).tolist()}))
        fact.object = f"Node {view.names(nodes)}" if nodes.any() else "Node"
        place = f" of {fact.domain}" if fact.domain else ""
        sentence = f"{view.of_all(nodes)}{place} align NUMA zones ({policies}): their zones do not hold {part.pods}"
        lacks = {why: n for n in reversed(np.flatnonzero(nodes).tolist()) if (why := self.first_shortage(part.classes, n))}
        why, n = next(reversed(lacks.items()), ("", 0))
        return f"{sentence} (on {self.cluster.nodes.names[n]} {why})" if lacks else sentence
