"""Bounds where the snapshot lacks Namespace objects whose labels decide what pods may be near."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kubestow.models.cluster.cluster import Cluster, Ints
from kubestow.models.cluster.unknown_namespaces import undecided
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.solver.rules.eligibility import fits


def is_undecided(snapshot: Snapshot, pods: Iterable[int]) -> bool:
    """Return whether required terms that concern these pods (by index) depend on labels of namespaces that are not known. InterPodAffinity
    proves nothing about them then."""
    found = undecided(snapshot)
    return found is not None and not found.required.isdisjoint(pods)


def most_placed(cluster: Cluster, limits: Ints, hopeless: Sequence[int] = ()) -> dict[int, int]:
    """Return how many pods of each priority can be placed at most. ``limits``: int64[G, N], pods per class and node as the rules have it;
    ``hopeless``: classes that are proved to have no place."""
    unsure = is_undecided(cluster.snapshot, cluster.scope.pending)
    could = cluster.count.copy() if unsure else fits(cluster, limits)
    could[list(hopeless)] = 0
    return cluster.per_priority(could)
