"""Eligibility: the (class, node) pairs that can exist, and the maximum number of pods of each."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kubestow.models.cluster.cluster import Cluster, GangGroup, Ints, domain_sum
from kubestow.solver.cpsat.cells import Cells
from kubestow.solver.devices.supply import supply
from kubestow.solver.rules.base import UNLIMITED_PODS, Rule, StaticRule, kinds


def alone(cluster: Cluster, rules: Sequence[Rule]) -> Ints:
    """Return int64[G, N], the maximum number of pods of each class on each node alone with the fixed pods,
    without requiring whole gangs."""
    upper = np.empty((cluster.n_classes, cluster.n_nodes), dtype=np.int64)
    counting = [rule for rule in rules if not isinstance(rule, StaticRule)]  # ``never`` is exact for static rules
    bounds = [rule.room if rule.local else rule.most for rule in counting if rule.local or type(rule).most is not Rule.most]
    for classes in kinds(rules, range(cluster.n_classes)).values():
        limit = np.full(cluster.n_nodes, UNLIMITED_PODS, dtype=np.int64)
        for bound in bounds:
            np.minimum(limit, bound(classes[0]), out=limit)
        for rule in rules:
            limit[rule.never(classes[0])] = 0
        for g in classes:
            np.minimum(limit, cluster.count[g], out=upper[g])
    return upper


def possible(cluster: Cluster, rules: Sequence[Rule]) -> Ints:
    """Return int64[G, N], the maximum number of pods of each class on each node alone with the fixed pods, with gangs whole."""
    upper = alone(cluster, rules)
    for gang in cluster.gangs:
        _whole(cluster, gang, upper)
    return upper


def _whole(cluster: Cluster, gang: GangGroup, upper: Ints) -> None:
    """Remove the pairs of a gang that cannot be whole, and of domains that cannot hold it whole, in place."""
    classes = np.array(gang.classes, dtype=np.int64)
    if gang.key is not None:
        codes, size = cluster.domains(gang.key)
        room = np.zeros(size, dtype=np.int64)
        for g in gang.classes:
            room += np.minimum(cluster.count[g], domain_sum(codes, size, upper[g]))
        upper[np.ix_(classes, np.append(room < gang.needed, True)[codes])] = 0
    if int(np.minimum(cluster.count[classes], upper[classes].sum(axis=1)).sum()) < gang.needed:
        upper[classes] = 0


def short(cluster: Cluster, eligibility: Ints) -> bool:
    """Return True if the pods that fit on some node together exceed the supply of some resource or device."""
    pods = fits(cluster, eligibility)
    amounts = ((cluster.demand, cluster.free), supply(cluster))
    return any(bool((demand.T @ pods > np.maximum(free, 0).sum(axis=0)).any()) for demand, free in amounts)


def cells_within(cluster: Cluster, eligibility: Ints) -> Cells:
    """Return the cells of a model of the whole instance.

    Args:
        eligibility: int64[G, N], the maximum number of pods of each class on each node.
    """
    chosen = [np.flatnonzero(row) for row in eligibility]
    cells = {g: (nodes.astype(np.int32), eligibility[g, nodes]) for g, nodes in enumerate(chosen)}
    return Cells(cells, dict(enumerate(fits(cluster, eligibility).tolist())), partial=False)


def fits(cluster: Cluster, eligibility: Ints) -> Ints:
    """Return int64[G], an upper bound on the placed pods of each class, as if the other classes did not exist."""
    return np.asarray(np.minimum(cluster.count, eligibility.sum(axis=1)), dtype=np.int64)


def demand_with_slots(cluster: Cluster) -> Ints:
    """Return int64[G, R + 1], the requests of a pod of each class, followed by its pod slot."""
    return np.concatenate([cluster.demand, np.ones((cluster.n_classes, 1), dtype=np.int64)], axis=1)


def room_with_slots(cluster: Cluster) -> Ints:
    """Return int64[N, R + 1], the free resources of each node (possibly negative), followed by its pod slots."""
    return np.concatenate([cluster.free, cluster.slots[:, None]], axis=1)
