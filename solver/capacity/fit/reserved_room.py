"""Reserved room: for nodes a smaller allocatable amount, for zones a cap on the sum over the pods placed there."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from fractions import Fraction
from math import gcd
from typing import Final

import msgspec
import numpy as np

from kubestow.models.cluster.cluster import Cluster, Ids, Ints
from kubestow.models.documents.fit import Keep
from kubestow.models.documents.placement import Fact
from kubestow.models.kube import objects, pod_requests, quantity
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.solver.cpsat.model import PlacementModel
from kubestow.solver.rules.wording import amounts

ZONE: Final = "topology.kubernetes.io/zone"
_change = msgspec.structs.replace


def with_room_kept(snapshot: Snapshot, new: Collection[str], keep: Keep) -> Snapshot:
    """Return a snapshot whose nodes have ``keep.percent`` less of each resource that new pods request, pod slots excepted.

    Args:
        new: Keys of the new pods.
    """
    pods = (pod for pod in snapshot.pods if objects.pod_key(pod) in new)
    requested = {name for pod in pods for name, amount in pod_requests.pod_request(pod, snapshot.gates).items() if amount}
    return replace(snapshot, nodes=[_less(node, requested, keep.percent) for node in snapshot.nodes])


def _less(node: objects.Node, requested: Collection[str], percent: int) -> objects.Node:
    listed = node.status.allocatable if node.status is not None else None
    if node.status is None or not listed:
        return node
    remaining = {name: _usable(name, amount, percent) if name in requested else amount for name, amount in listed.items()}
    return _change(node, status=_change(node.status, allocatable=remaining))


def _usable(name: str, amount: objects.RawQuantity, percent: int) -> str:
    """Return the usable part of an amount, rounded down to mCPU or whole units as requests are."""
    scale = 1000 if name == "cpu" else 1
    total = quantity.milli(amount) if name == "cpu" else quantity.units(amount)
    return quantity.canonical(Fraction(total * (100 - percent) // 100, scale))


@dataclass(frozen=True)
class ZoneRoom:
    """The resources of each zone that newly placed pods may use together. A node without a zone is a zone of its own.

    Attributes:
        zone: int32[N], the zone of each node.
        names: Names of the zones.
        usable: int64[Z, R], usable amounts in total.
        residual: int64[Z, R], usable amounts minus the requests of running pods.
    """

    zone: Ids
    names: tuple[str, ...]
    usable: Ints
    residual: Ints

    @classmethod
    def of(cls, cluster: Cluster, keep: Keep) -> ZoneRoom:
        """Return the room of a cluster."""
        codes, values = cluster.nodes.column(ZONE)
        alone = np.flatnonzero(codes < 0)
        zone = codes.copy()
        zone[alone] = len(values) + np.arange(len(alone))
        size = len(values) + len(alone)
        total, used = np.zeros((size, len(cluster.resources)), dtype=np.int64), np.zeros((size, len(cluster.resources)), dtype=np.int64)
        np.add.at(total, zone, cluster.allocatable)
        np.add.at(used, zone, cluster.allocatable - cluster.free)
        usable = total * (100 - keep.percent) // 100
        names = (*(f"zone {value}" for value in values), *(f"node {cluster.nodes.names[n]}" for n in alone.tolist()))
        return cls(zone, names, usable, np.maximum(usable - used, 0))

    def max_pods(self, demand: Ints) -> int:
        """Return an upper bound on the pods of a demand int64[R] that all zones can hold."""
        asks = np.flatnonzero(demand)
        return int((self.residual[:, asks] // demand[asks]).min(axis=1).sum()) if len(asks) else 2**31

    def usage(self, cluster: Cluster, counts: Ints) -> Ints:
        """Return int64[Z, R], the usage of a placement int64[G, N]."""
        usage = np.zeros_like(self.residual)
        np.add.at(usage, self.zone, counts.T @ cluster.demand)
        return usage

    def encode(self, encoding: PlacementModel) -> None:
        """Add the sums over zones to a model."""
        cluster = encoding.cluster
        for d in range(len(self.names)):
            nodes = np.flatnonzero(self.zone == d).tolist()
            cells = [(g, encoding.x[g, n]) for n in nodes for g in encoding.classes_on(n)]
            for r in np.flatnonzero(cluster.demand.any(axis=0)).tolist():
                asking = [(int(cluster.demand[g, r]), variable) for g, variable in cells if cluster.demand[g, r]]
                if asking:
                    unit = gcd(*(amount for amount, _ in asking))
                    usage = encoding.weighted_sum([variable for _, variable in asking], [amount // unit for amount, _ in asking])
                    encoding.model.add(usage <= int(self.residual[d, r]) // unit)


def zone_cause(cluster: Cluster, room: ZoneRoom, counts: Ints, percent: int) -> list[Fact]:
    """Return the zones whose room ends the answer, each with its scarcest resource, after a placement int64[G, N]."""
    residual = room.residual - room.usage(cluster, counts)
    facts = []
    for d, name in enumerate(room.names):
        short = [r for r, least in enumerate(_smallest_demand(cluster)) if least and residual[d, r] < least]
        if not short or not (room.zone == d).any():
            continue
        r = min(short, key=lambda r: (int(residual[d, r]) * 10**6 // max(1, int(room.usable[d, r])), r))
        usable, residual_amount = amounts(cluster.resources[r], (int(room.usable[d, r]), int(residual[d, r])))
        message = f"{name} may use {usable} with {percent} % kept free; {residual_amount} remain"
        facts.append(Fact("Keep", name, message, resource=cluster.resources[r]))
    return facts


def _smallest_demand(cluster: Cluster) -> list[int]:
    """Return the smallest demand of each resource that every class requests, and 0 for other resources."""
    return [int(column.min(initial=2**62)) if len(column) else 0 for column in cluster.demand.T]
