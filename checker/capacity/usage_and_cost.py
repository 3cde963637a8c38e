"""Utilisation of the nodes bought and the cost of each workload, recomputed. Money is counted in millionths."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Final

from kubestow.checker.reading import resources
from kubestow.checker.violation import is_mirror, stays_with_node
from kubestow.models.documents.catalogue import Price, Shape
from kubestow.models.documents.sizing import Sizing
from kubestow.models.kube import objects
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.models.workloads.ownership import PodOwners

_MILLIONTHS_PER_UNIT: Final = 1_000_000


def millionths(amount: Price) -> Fraction:
    """Convert an amount of money to millionths, exactly as written."""
    return Fraction(repr(amount) if isinstance(amount, float) else amount) * _MILLIONTHS_PER_UNIT


def price(shape: Shape, zone: str) -> Fraction:
    """Return the price of a shape in one of its zones in millionths, the fixed price included."""
    offered = shape.price[zone] if isinstance(shape.price, dict) else shape.price
    return millionths(offered) + millionths(shape.fixedPrice)


def faults(snapshot: Snapshot, sizing: Sizing) -> Iterator[str]:
    """Yield differences between the document's utilisation and costs and the recomputed ones. A document may omit both.

    Args:
        snapshot: The snapshot that includes the nodes bought.
        sizing: The document.
    """
    there = _pods(snapshot, sizing)
    shared = resources.SharedRequests(snapshot.gates)
    has = {node.metadata.name or "": resources.node_capacity(node) for node in snapshot.nodes}
    if sizing.utilisation:
        yield from _use_faults(sizing, there, shared, has)
    if sizing.workloads:
        yield from _cost_faults(sizing, there, shared, has, PodOwners(snapshot))


def _pods(snapshot: Snapshot, sizing: Sizing) -> dict[str, list[objects.Pod]]:
    """Return the pods on each node bought."""
    there: dict[str, list[objects.Pod]] = {name: [] for purchase in sizing.buy for name in purchase.nodes}
    placed = {entry.pod: entry.node for entry in sizing.placement.assignments} if sizing.placement is not None else {}
    for pod in snapshot.pods:
        name = placed.get(objects.pod_key(pod)) or pod.spec.nodeName
        if name in there and not objects.is_terminal(pod):
            there[name].append(pod)
    return there


def _request(pod: objects.Pod, shared: resources.SharedRequests) -> dict[str, int]:
    """Return the requests of a pod, plus one pod slot."""
    return {**shared.requests(pod, bound=False), "pods": 1}


def _use_faults(
    sizing: Sizing, there: Mapping[str, list[objects.Pod]], shared: resources.SharedRequests, has: Mapping[str, resources.Amounts]
) -> Iterator[str]:
    """Yield faults of the utilisation rows, per shape and in total."""
    requested: dict[str, Counter[str]] = {}
    daemons: dict[str, Counter[str]] = {}
    offered: dict[str, Counter[str]] = {}
    for purchase in sizing.buy:
        for name in purchase.nodes:
            for shape in (purchase.shape, ""):
                offered.setdefault(shape, Counter()).update(has.get(name, {}))
                for pod in there[name]:
                    requested.setdefault(shape, Counter()).update(_request(pod, shared))
                    if stays_with_node(pod):
                        daemons.setdefault(shape, Counter()).update(_request(pod, shared))
    listed: set[tuple[str, str]] = set()
    none: Counter[str] = Counter()
    for row in sizing.utilisation:
        of = f"{row.resource} of {row.shape or 'all nodes'}"
        if (row.shape, row.resource) in listed:
            yield f"utilisation: {of} is given twice"
        listed.add((row.shape, row.resource))
        for what, claimed, counted in (
            ("requested", row.requested, requested),
            ("requested by daemons", row.daemons, daemons),
            ("allocatable", row.allocatable, offered),
        ):
            number = counted.get(row.shape, none)[row.resource]
            if claimed != number:
                yield f"utilisation: {claimed} {of} listed as {what}, recomputed {number}"
    for shape, sums in requested.items():
        for resource in sums:
            if (shape, resource) not in listed:
                yield f"utilisation: {resource} of {shape or 'all nodes'} is missing"


def _cost_faults(
    sizing: Sizing,
    there: Mapping[str, list[objects.Pod]],
    shared: resources.SharedRequests,
    has: Mapping[str, resources.Amounts],
    owners: PodOwners,
) -> Iterator[str]:
    """Yield faults of the cost rows.

    Each node's price is divided among its pods. A pod's weight is its dominant share: the largest fraction that it
    requests of any resource of the node.
    """
    costs: Counter[str] = Counter()
    pods: Counter[str] = Counter()
    daemons: set[str] = set()
    for purchase in sizing.buy:
        for name in purchase.nodes:
            weights: dict[str, Fraction] = {}
            for pod in there[name]:
                owner = f"Pod {objects.pod_key(pod).removesuffix(f'-{name}')}" if is_mirror(pod) else owners.of(pod)
                share = max(
                    (
                        Fraction(amount, has[name][resource])
                        for resource, amount in _request(pod, shared).items()
                        if has[name].get(resource)
                    ),
                    default=Fraction(1),
                )
                weights[owner] = weights.get(owner, Fraction(0)) + share
                pods[owner] += 1
                if stays_with_node(pod):
                    daemons.add(owner)
            costs.update(_split(int(millionths(purchase.price)), weights or {"": Fraction(1)}))
    listed: set[str] = set()
    for row in sizing.workloads:
        of = row.workload or "nodes without pods"
        if row.workload in listed:
            yield f"the cost of {of} is given twice"
        listed.add(row.workload)
        if millionths(row.cost) != costs[row.workload]:
            yield f"{of} is said to cost {row.cost}, its share is {costs[row.workload]} millionths"
        if row.pods != pods[row.workload]:
            yield f"{of} is said to have {row.pods} pods on the bought nodes, it has {pods[row.workload]}"
        if row.daemon != (row.workload in daemons):
            yield f"{of} is {'not ' if row.daemon else ''}a DaemonSet or static pod, contrary to its row"
    for owner in costs.keys() - listed:
        yield f"the cost of {owner or 'nodes without pods'} is missing"


def _split(paid: int, weights: Mapping[str, Fraction]) -> dict[str, int]:
    """Split a price into whole millionths in proportion to weights.

    The units lost by rounding go to the largest remainders, one each. Ties are broken by name.
    """
    total = sum(weights.values(), Fraction(0))
    exact = {name: paid * weight / total for name, weight in weights.items()}
    parts = {name: part.numerator // part.denominator for name, part in exact.items()}
    short = paid - sum(parts.values())
    for name in sorted(exact, key=lambda name: (parts[name] - exact[name], name))[:short]:
        parts[name] += 1
    return parts
