"""Aggregation for the relaxation of the placed tiers: pod classes merged into kinds, nodes into groups, and the rules it
keeps.

A merged kind or group may take as many pods as its members together. Any nodes may be merged: that only loosens the
relaxation. Classes are merged only if the same rules across nodes concern them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from kubestow.models.cluster.cluster import AffinityTerm, Cluster, Ids, Ints, Spread, domain_sum, single
from kubestow.models.cluster.partition import equivalence
from kubestow.models.kube.selectors import Bools
from kubestow.solver.rules.base import UNLIMITED_PODS


@dataclass
class PodKinds:
    """Pod classes merged where priority, demand, nodes and rules across nodes are equal. Shapes: K kinds, S shared rules.

    Attributes:
        demand: Requests per pod, int64[K, R].
        priority: int64[K].
        room: Pods of a kind that each node can take, int64[K, N].
        total: Pods of a kind that fit with no other pods in the cluster, int64[K].
        of: Kind of each class, int64[G].
    """

    demand: Ints
    priority: Ints
    room: Ints
    total: Ints
    of: Ints

    def holds(self, classes: Bools) -> Bools:
        """Return bool[K]: the kinds that contain any of the given classes (bool[G])."""
        mask = np.zeros(len(self.total), dtype=bool)
        mask[self.of[classes]] = True
        return mask


@dataclass
class Exclusion:
    """A set of classes that share one pod per domain: no domain takes two.

    Attributes:
        classes: bool[G].
        codes: Domain of each node, int32[N]; -1 for no domain.
    """

    classes: Bools
    codes: Ids


@dataclass
class Skew:
    """A DoNotSchedule topology spread constraint.

    Attributes:
        spread: The constraint.
        own: Classes that carry the constraint and are counted by it, bool[G].
        counted: Classes that it counts, bool[G].
        codes: Domain of each node, int32[N]; -1 for no domain.
        base: Counted fixed pods per domain, int64[D].
    """

    spread: Spread
    own: Bools
    counted: Bools
    codes: Ids
    base: Ints


class CrossRules:
    """The rules across classes and nodes that get their own rows in the relaxation."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.exclusions = [*_anti_affinity(cluster), *_ports(cluster)]
        self.skews = list(_skews(cluster))
        self.keys = sorted({t.key for c in cluster.classes for t in c.anti} | {s.key for c in cluster.classes for s in c.spread})

    def marks(self) -> Bools:
        """Return bool[S, G]: the classes that each rule concerns."""
        rows = [e.classes for e in self.exclusions]
        for skew in self.skews:
            rows += [skew.own, skew.counted]
        return np.array(rows, dtype=bool).reshape(len(rows), self.cluster.n_classes)


def _anti_affinity(cluster: Cluster) -> Iterator[Exclusion]:
    owners: dict[AffinityTerm, list[int]] = {}
    for g, cls in enumerate(cluster.classes):
        for term in cls.anti:
            owners.setdefault(term, []).append(g)
    for term, group in owners.items():
        both = np.zeros(cluster.n_classes, dtype=bool)
        both[group] = cluster.matches(term.matcher)[group]
        if both.any():
            yield Exclusion(both, cluster.domains(term.key)[0])


def _ports(cluster: Cluster) -> Iterator[Exclusion]:
    """Yield, per protocol, port and address, the classes that want it on this address or on all addresses."""
    each = np.arange(cluster.n_nodes, dtype=np.int32)
    wanted = {port for cls in cluster.classes for port in cls.ports}
    for address, protocol, number in sorted(wanted):
        users = [(address, protocol, number) in cls.ports or ("*", protocol, number) in cls.ports for cls in cluster.classes]
        if sum(users) > 1:
            yield Exclusion(np.array(users, dtype=bool), each)


def _skews(cluster: Cluster) -> Iterator[Skew]:
    owners: dict[Spread, list[int]] = {}
    for g, cls in enumerate(cluster.classes):
        for spread in cls.spread:
            if spread.matcher is not None:
                owners.setdefault(spread, []).append(g)
    for spread, group in owners.items():
        assert spread.matcher is not None
        counted = cluster.matches(spread.matcher)
        own = np.zeros(cluster.n_classes, dtype=bool)
        own[group] = counted[group]
        if not own.any():
            continue
        codes, size = cluster.domains(spread.key)
        fixed = np.where(cluster.node_sets[spread.eligible], cluster.fixed_count(spread.matcher, settled=True), 0)
        yield Skew(spread, own, counted, codes, domain_sum(codes, size, fixed))


def kinds(cluster: Cluster, eligibility: Ints, rules: CrossRules) -> PodKinds:
    """Return the kinds of pods: classes with equal priority, demand, nodes and rules across nodes are merged.

    Args:
        eligibility: Maximum pods of each class on each node, int64[G, N], from :func:`kubestow.solver.rules.eligibility.possible`.
    """
    marks = np.packbits(rules.marks().T, axis=1)
    nodes = np.packbits(eligibility > 0, axis=1)
    ids: dict[tuple[object, ...], int] = {}
    of = np.empty(cluster.n_classes, dtype=np.int64)
    first: list[int] = []
    for g in range(cluster.n_classes):
        key = (int(cluster.priority[g]), cluster.demand[g].tobytes(), nodes[g].tobytes(), marks[g].tobytes())
        of[g] = ids.setdefault(key, len(ids))
        if of[g] == len(first):
            first.append(g)
    room = np.zeros((len(first), cluster.n_nodes), dtype=np.int64)
    total = np.zeros(len(first), dtype=np.int64)
    np.add.at(total, of, np.minimum(cluster.count, eligibility.sum(axis=1)))
    for g, k in enumerate(of.tolist()):
        room[k] += eligibility[g]
    demand = cluster.demand[first]
    for k in range(len(first)):
        room[k] = np.minimum(room[k], _alone(cluster, demand[k]))
    return PodKinds(demand, cluster.priority[first], room, np.minimum(total, room.sum(axis=1)), of)


def _alone(cluster: Cluster, demand: Ints) -> Ints:
    """Return int64[N]: pods of this demand that the free resources of each node hold."""
    room = np.minimum(cluster.slots, UNLIMITED_PODS)
    for r in np.flatnonzero(demand):
        room = np.minimum(room, cluster.free[:, r] // demand[r])
    return np.maximum(room, 0)


def groupings(cluster: Cluster, classes: PodKinds, rules: CrossRules) -> Iterator[Ids]:
    """Yield groupings int32[N] of the nodes, from the finest to the coarsest.

    Nodes are equal in eligible kinds and free resources; then in eligible kinds; then in kinds that an empty node would
    take; then in domains. The last grouping puts all nodes together."""
    domains: list[Ids | Bools] = [np.zeros(cluster.n_nodes, dtype=np.int32)]
    for key in rules.keys:
        codes, size = cluster.domains(key)
        domains.append(codes >= 0 if single(codes, size) else codes)
    domains += [cluster.node_sets[e] for e in sorted({s.spread.eligible for s in rules.skews})]
    place = equivalence(*domains).of
    takes = classes.room > 0
    rules_only = takes.copy()
    for k in range(len(takes)):
        rules_only[k] |= _alone(cluster, classes.demand[k]) < 1
    for columns in ((place, takes.T, cluster.free, cluster.slots), (place, takes.T), (place, rules_only.T), (place,)):
        yield equivalence(*columns).of.astype(np.int32)
    yield np.zeros(cluster.n_nodes, dtype=np.int32)
