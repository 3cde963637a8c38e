"""Connected components: which classes hang together by links between them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def connected(links: Iterable[Sequence[int]], members: Iterable[int]) -> list[list[int]]:
    """The members in groups, each sorted, such that no link leads out of its group; groups in the order of their first member."""
    parent = {g: g for g in sorted(members)}

    def root(g: int) -> int:
        while parent[g] != g:
            parent[g] = parent[parent[g]]
            g = parent[g]
        return g

    for link in links:
        for g in link:
            parent[root(g)] = root(link[0])
    groups: dict[int, list[int]] = {}
    for g in parent:
        groups.setdefault(root(g), []).append(g)
    return list(groups.values())
