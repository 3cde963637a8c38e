"""Division of a placement into parts whose bind orders do not matter to each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from kubestow.models.cluster.cluster import Cluster, Ints
from kubestow.solver.rules import having
from kubestow.solver.rules.base import Rule
from kubestow.solver.runtime.graph import connected

ToBind = dict[int, dict[int, int]]  #: class -> node -> pods still to bind


class Division(NamedTuple):
    """A placement cut into parts whose orders do not matter to each other.

    Attributes:
        rules: Rules for which the order matters.
        firsts: Those of them that give zones or devices first come, first served, and concern a placed pod.
        groups: Groups of classes whose order matters to each other.
        alone: Pods of further classes, node by node.
    """

    rules: list[Rule]
    firsts: list[Rule]
    groups: list[list[int]]
    alone: list[ToBind]


def divide(cluster: Cluster, counts: Ints) -> Division:
    """Divide a placement int64[G, N]."""
    rules = having(cluster, lambda kind: not (kind.any_order or kind.first_come))
    groups = _groups(rules)
    placed = [g for g in range(cluster.n_classes) if counts[g].any()]
    firsts = [rule for rule in having(cluster, lambda kind: kind.first_come) if any(rule.concerned(g) for g in placed)]
    aligned = [g for g in placed if any(rule.concerned(g) for rule in firsts)]
    if not aligned:
        return Division(rules, firsts, groups, [])
    rules += firsts
    if {g for group in groups for g in group}.isdisjoint(aligned) and not any(rule.reaches(g) for g in aligned for rule in firsts):
        return Division(rules, firsts, groups, _per_node(aligned, counts))  # allocations on different nodes are independent
    return Division(rules, firsts, _groups(rules), [])


def pods_by_node(row: Ints) -> dict[int, int]:
    """Return the pods of a class int64[N] by node."""
    return {int(n): int(row[n]) for n in np.flatnonzero(row)}


def _per_node(aligned: Sequence[int], counts: Ints) -> list[ToBind]:
    """Return the pods of the aligned classes, node by node."""
    by_node: dict[int, ToBind] = {}
    for g in aligned:
        for n in np.flatnonzero(counts[g]).tolist():
            by_node.setdefault(n, {})[g] = {n: int(counts[g, n])}
    return [to_bind for _, to_bind in sorted(by_node.items())]


def _groups(rules: Sequence[Rule]) -> list[list[int]]:
    """Return the groups of classes whose order matters to each other."""
    links = [link for rule in rules for link in rule.order_links() if link]
    return connected(links, {g for link in links for g in link})
