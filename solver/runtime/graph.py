"""Connected components of classes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def connected(links: Iterable[Sequence[int]], members: Iterable[int]) -> list[list[int]]:
    """Return the members in connected groups, each sorted, in the order of their first member."""
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


def strongly_connected(graph: dict[int, list[int]]) -> list[list[int]]:
    """Return the strongly connected components (Tarjan 1972, doi:10.1137/0201010), without recursion."""
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    on_stack: set[int] = set()
    found: list[list[int]] = []
    for root in graph:
        if root in index:
            continue
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        work = [(root, iter(graph[root]))]
        while work:
            node, edges = work[-1]
            advanced = False
            for target in edges:
                if target not in graph:
                    continue
                if target not in index:
                    index[target] = low[target] = len(index)
                    stack.append(target)
                    on_stack.add(target)
                    work.append((target, iter(graph[target])))
                    advanced = True
                    break
                if target in on_stack:
                    low[node] = min(low[node], index[target])
            if advanced:
                continue
            work.pop()
            if work:
                low[work[-1][0]] = min(low[work[-1][0]], low[node])
            if low[node] == index[node]:
                component = []
                while True:
                    member = stack.pop()
                    on_stack.discard(member)
                    component.append(member)
                    if member == node:
                        break
                found.append(component)
    return found
