"""The checker's own computation of the strategy tier, from raw objects.

`spread`: Σ over nodes and {cpu, memory} of f(u). u is the utilisation in thousandths of allocatable, rounded up.
f(u) = u² for u up to 10, at multiples of 10 up to 100 and at multiples of 100 beyond; f is linear between. A
container without a request counts for 100m of CPU or 200 MiB of memory.

`pack`: nodes with a pod that is neither a DaemonSet's nor static, counted, or priced in thousandths by a label.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from kubestow.checker.reading import resources
from kubestow.checker.replicas import Crowd, Whereabouts
from kubestow.checker.violation import stays_with_node
from kubestow.models.documents.policy import Policy
from kubestow.models.kube import objects, quantity
from kubestow.models.kube.feature_gates import FeatureGates
from kubestow.models.snapshot.snapshot import Snapshot

#: Thousandths of allocatable at which the cost stops to grow.
_MAX_UTILISATION: Final = 1_000_000
#: Smallest capacity that counts, in bytes. The utilisation of a node with less is meaningless.
_MIN_CAPACITY: Final = {"memory": 16 * 2**20}


def points(
    snapshot: Snapshot,
    placed: Mapping[str, str],
    absent: Collection[str],
    policy: Policy,
    *,
    used: Mapping[str, resources.Amounts],
    capacity: Mapping[str, resources.Amounts],
) -> int | None:
    """Return the negated cost of a placement under the policy's strategy.

    Args:
        snapshot: The snapshot.
        placed: Node of each placed pod, by pod key.
        absent: Keys of bound pods that are placed again.
        policy: The policy.
        used: Requests of the pods on each node.
        capacity: Allocatable resources of each node.

    Returns:
        None if the strategy is none or a price is missing.

    Raises:
        QuantityError: a quantity in the snapshot is malformed or beyond 64 bits.
    """
    nodes = {node.metadata.name or "" for node in snapshot.nodes}
    return points_of(snapshot, Whereabouts(Crowd(snapshot), placed, absent, nodes), policy, used=used, capacity=capacity)


def points_of(
    snapshot: Snapshot,
    where: Whereabouts,
    policy: Policy,
    *,
    used: Mapping[str, resources.Amounts],
    capacity: Mapping[str, resources.Amounts],
) -> int | None:
    """Return the negated cost of a placement, as :func:`points`, for pods that are sorted already."""
    if policy.strategy == "none" or not snapshot.nodes:
        return None
    staying = [(pod, on) for pod, (_, on) in where.on if on and not objects.is_terminal(pod)]
    if policy.strategy == "spread":
        coming = [(pod, on) for pod, (on, _) in where.on if on]
        return balance([*((*each, True) for each in staying), *((*each, False) for each in coming)], used, capacity, snapshot.gates)
    occupied = set(where.placed.values())
    occupied.update(node for pod, on in staying if not stays_with_node(pod) for node in on)
    total = 0
    for node in snapshot.nodes:
        if node.metadata.name in occupied:
            price = price_of(node, policy.priceLabel)
            if price is None:
                return None
            total += price
    return -total


def balance(
    pods: Iterable[tuple[objects.Pod, Sequence[str], bool]],
    used: Mapping[str, resources.Amounts],
    capacity: Mapping[str, resources.Amounts],
    gates: FeatureGates,
) -> int:
    """Return the value of `spread`.

    Args:
        pods: Pods with the nodes of their replicas, and True if they are bound.
        used: Requests of the pods on each node.
        capacity: Allocatable resources of each node.
        gates: The feature gates.
    """
    more: dict[str, resources.Amounts] = {}
    known: dict[tuple[int, ...], resources.Amounts] = {}
    for pod, nodes, bound in pods:
        if not nodes:
            continue
        spec = pod.spec
        parts = (id(spec.containers), id(spec.initContainers), id(spec.resources), id(spec.overhead), id(pod.status) if bound else 0)
        if parts not in known:  # equal pods share them
            known[parts] = resources.unstated_requests(pod, gates, bound=bound)
        for name, amount in known[parts].items():
            for node in nodes:
                here = more.setdefault(node, {})
                here[name] = here.get(name, 0) + amount
    return -sum(_utilisation(whole, used.get(name, {}), more.get(name, {})) for name, whole in capacity.items())


def _utilisation(capacity: resources.Amounts, used: resources.Amounts, more: resources.Amounts) -> int:
    """Return the cost of one node's utilisation."""
    cost = 0
    for name in ("cpu", "memory"):
        whole = capacity.get(name, 0)
        if whole >= _MIN_CAPACITY.get(name, 1):  # a node with less counts as one without the resource
            share = min(-(-1000 * (used.get(name, 0) + more.get(name, 0)) // whole), _MAX_UTILISATION)
            piece = 1 if share < 10 else 10 if share < 100 else 100
            below = share // piece * piece
            cost += below**2 + (share - below) * (2 * below + piece)
    return cost


def price_of(node: objects.Node, label: str) -> int | None:
    """Return the price of a node by the label, in thousandths; 1 without a label name, None if the price cannot be read."""
    if not label:
        return 1
    raw = (node.metadata.labels or {}).get(label)
    try:
        return None if raw is None else quantity.ceil(quantity.parse(raw) * 1000)
    except quantity.QuantityError:
        return None
