"""Bounds for snapshots that lack Namespace objects whose labels decide inter-pod affinity."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kubestow.models.cluster.cluster import Cluster, Ints
from kubestow.models.cluster.unknown_namespaces import undecided
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.solver.rules.eligibility import fits


def is_undecided(snapshot: Snapshot, pods: Iterable[int]) -> bool:
    """Return True if required terms that concern these pods (by index) depend on labels of unknown namespaces.

    InterPodAffinity then proves nothing about them.
    """
    undecided_keys = undecided(snapshot)
    return undecided_keys is not None and not undecided_keys.required.isdisjoint(pods)


def most_placed(cluster: Cluster, eligibility: Ints, hopeless: Sequence[int] = ()) -> dict[int, int]:
    """Return an upper bound on the placed pods of each priority.

    Args:
        eligibility: int64[G, N], the maximum number of pods by class and node under the rules.
        hopeless: Classes that are proved to fit on no node.
    """
    unsure = is_undecided(cluster.snapshot, cluster.scope.pending)
    could = cluster.count.copy() if unsure else fits(cluster, eligibility)
    could[list(hopeless)] = 0
    return cluster.per_priority(could)
