"""Nodes that are alike for a few pod classes alone in the cluster, and an order that breaks symmetry in models."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from kubestow.models.cluster.cluster import Cluster, Ids, Ints, PodClass, SoftSpread, Spread, single
from kubestow.models.cluster.partition import equivalence
from kubestow.models.kube.selectors import Bools
from kubestow.solver.cpsat.model import PlacementModel
from kubestow.solver.objective.preferences import Objective


def alike_nodes(sub: Cluster, objective: Objective, classes: Sequence[int], eligibility: Ints) -> tuple[list[Ints], Ints]:
    """Return lists of nodes that are alike for these classes when no other pods are there, and their node classes.

    Alike nodes have equal eligibility, points, room as far as the classes can need it, domains of every topology key that
    spans nodes, and fixed pods that the constraints count. The second result, int64[N], has equal numbers for nodes that
    differ only in eligibility and room."""
    room = [*eligibility, np.minimum(sub.slots, sub.count.sum())]
    need = sub.demand.T @ sub.count
    room += [np.minimum(sub.free[:, r], need[r]) for r in np.flatnonzero(need)]
    columns: list[Ints | Ids | Bools] = [objective.node_points(g) for g in classes]
    spreads: list[Spread | SoftSpread] = []
    for cls in sub.classes:
        spreads += [*cls.spread, *cls.soft_spread]
    sets = {spread.eligible for spread in spreads}
    matchers = {spread.matcher for spread in spreads if spread.matcher is not None}
    matchers |= {cls.affinity.full for cls in sub.classes if cls.affinity is not None}
    for key in sorted({spread.key for spread in spreads}.union(*(_keys(sub, cls) for cls in sub.classes))):
        codes, size = sub.domains(key)
        columns.append(codes >= 0 if single(codes, size) else codes)
    columns += [sub.node_sets[i] for i in sorted(sets)]
    usable = {}
    for i in sorted({i for g in classes for i in (*objective.feeds[g], *objective.carried[g])}):
        tally = objective.tallies[i]
        if single(tally.codes, tally.size):
            usable[tally.usable.tobytes()] = np.append(tally.usable, False)[tally.codes]
    columns += usable.values()
    columns += [sub.fixed_count(m, settled=settled) for m in sorted(matchers) for settled in (False, True)]
    pools = equivalence(*columns).of
    return equivalence(pools, *room).members, pools


def _keys(sub: Cluster, cls: PodClass) -> set[str]:
    """Return the topology keys of a class, apart from those of its spread constraints."""
    keys = {term.key for term in cls.anti} | {pull.key for pull in cls.pulls}
    if cls.affinity is not None:
        keys.update(cls.affinity.keys)
    if cls.gang is not None and (key := sub.gangs[cls.gang].key) is not None:
        keys.add(key)
    return keys


def _leader(counts: Ints) -> int:
    """Return the class whose pods order alike nodes."""
    return int(np.argmax(counts))


def break_symmetry(encoding: PlacementModel, alike: Sequence[Ints]) -> None:
    """Require that of each pair of consecutive alike nodes the first holds at least as many pods of the leading class."""
    leader = _leader(encoding.cluster.count)
    for nodes in alike:
        row = encoding.variables(leader, nodes)
        for first, second in pairwise(row):
            encoding.model.add(first >= second)


def in_order(counts: Ints, alike: Sequence[Ints]) -> Ints:
    """Return an equivalent placement int64[classes, N] with alike nodes reordered.

    Nodes with most pods of the leading class come first, then nodes with most pods."""
    found = counts.copy()
    leader = _leader(counts.sum(axis=1))
    for nodes in alike:
        order = np.lexsort((-counts[:, nodes].sum(axis=0), -counts[leader, nodes]))
        found[:, nodes] = counts[:, nodes[order]]
    return found
