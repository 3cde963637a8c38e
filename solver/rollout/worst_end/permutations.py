"""Permutations of nodes and domains that do not change the ends of a rollout.

Nodes that differ only in their names are interchangeable, and so are domains of such nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kubestow.solver.rollout.worst_end.problem import Content, State, WorstEndProblem


class NodePermutations:
    """Groups of interchangeable nodes.

    Groups with equal kinds of nodes may be permuted, and so may nodes of the same kind within a group. If one topology
    key has domains of several nodes, the groups are its domains. Otherwise each node is a group, or all nodes are one.
    """

    def __init__(self, problem: WorstEndProblem) -> None:
        size = len(problem.start)
        wide = {topic.domain for topic in problem.topics if _shared(topic.domain)}
        several = len(wide) > 1
        home = next(iter(wide)) if len(wide) == 1 else tuple(range(size))
        members: dict[int, list[int]] = {}
        for n in range(size):
            members.setdefault(0 if several else home[n] if home[n] >= 0 else -1 - n, []).append(n)

        def signature(n: int) -> tuple[object, ...]:
            parts: list[object] = [problem.room[n]]
            for topic in problem.topics:
                d = topic.domain[n]
                parts += [topic.eligible[n], (topic.base[d], topic.counted[d]) if d >= 0 else None, d if several else None]
            return tuple(parts)

        numbers: dict[tuple[object, ...], int] = {}
        kinds = [numbers.setdefault(signature(n), len(numbers)) for n in range(size)]
        sorted_groups = (sorted(group, key=lambda n: kinds[n]) for group in members.values())
        #: Kinds of the nodes of each group, with these nodes. Equal kinds are adjacent.
        self._groups = sorted((tuple(kinds[n] for n in group), group) for group in sorted_groups)
        self._kinds = kinds

    def canonical(self, contents: Sequence[Content]) -> State:
        """Return the same value for contents that are permutations of each other."""
        return tuple(content for _, content in sorted((kinds, self._block(kinds, group, contents)) for kinds, group in self._groups))

    def _block(self, kinds: tuple[int, ...], group: Sequence[int], contents: Sequence[Content]) -> tuple[Content, ...]:
        if len(group) == 1:
            return (contents[group[0]],)
        return tuple(content for _, content in sorted(zip(kinds, (contents[n] for n in group), strict=True)))

    def distinct(self, nodes: Iterable[int], contents: Sequence[Content]) -> list[int]:
        """Return the first of the nodes that permutations map to each other."""
        wanted = set(nodes)
        found: dict[object, int] = {}
        for kinds, group in self._groups:
            inside = wanted.intersection(group)
            if inside:
                block = self._block(kinds, group, contents)
                for n in sorted(inside):
                    found.setdefault((kinds, block, self._kinds[n], contents[n]), n)
        return sorted(found.values())


def _shared(domain: Sequence[int]) -> bool:
    """Return True if a domain has several nodes."""
    there = [d for d in domain if d >= 0]
    return len(set(there)) < len(there)
