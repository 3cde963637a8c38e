"""What is said of the use of nodes that are bought, computed again: utilisation, and what each workload costs. Money is in millionths."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Final

from kubestow.checker.rules import resources
from kubestow.checker.violation import is_mirror, stays_with_node
from kubestow.models.documents.catalogue import Price, Shape
from kubestow.models.documents.sizing import Sizing
from kubestow.models.kube import objects
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.models.workloads.ownership import Owners

_UNIT: Final = 1_000_000


def millionths(amount: Price) -> Fraction:
    """Return an amount of money, exactly as it is written."""
    return Fraction(repr(amount) if isinstance(amount, float) else amount) * _UNIT


def price(shape: Shape, zone: str) -> Fraction:
    """Return what a node of a shape costs in one of its zones, the fixed price included."""
    offered = shape.price[zone] if isinstance(shape.price, dict) else shape.price
    return millionths(offered) + millionths(shape.fixedPrice)


def faults(snapshot: Snapshot, sizing: Sizing) -> Iterator[str]:
    """Where utilisation or costs are not what they are said to be. ``snapshot``: with the nodes bought. A document may leave them out."""
    there = _pods(snapshot, sizing)
    asked = resources.Shared(snapshot.gates)
    has = {node.metadata.name or "": resources.node_capacity(node) for node in snapshot.nodes}
    if sizing.utilisation:
        yield from _use_faults(sizing, there, asked, has)
    if sizing.workloads:
        yield from _cost_faults(sizing, there, asked, has, Owners(snapshot))


def _pods(snapshot: Snapshot, sizing: Sizing) -> dict[str, list[objects.Pod]]:
    """The pods of each node that is bought."""
    there: dict[str, list[objects.Pod]] = {name: [] for purchase in sizing.buy for name in purchase.nodes}
    placed = {entry.pod: entry.node for entry in sizing.placement.assignments} if sizing.placement is not None else {}
    for pod in snapshot.pods:
        name = placed.get(objects.pod_key(pod)) or pod.spec.nodeName
        if name in there and not objects.is_terminal(pod):
            there[name].append(pod)
    return there


def _request(pod: objects.Pod, asked: resources.Shared) -> dict[str, int]:
    """What a pod asks for, a slot included."""
    return {**asked.requests(pod, bound=False), "pods": 1}


def _use_faults(
    sizing: Sizing, there: Mapping[str, list[objects.Pod]], asked: resources.Shared, has: Mapping[str, resources.Amounts]
) -> Iterator[str]:
    requested: dict[str, Counter[str]] = {}
    daemons: dict[str, Counter[str]] = {}
    offered: dict[str, Counter[str]] = {}
    for purchase in sizing.buy:
        for name in purchase.nodes:
            for shape in (purchase.shape, ""):
                offered.setdefault(shape, Counter()).update(has.get(name, {}))
                for pod in there[name]:
                    requested.setdefault(shape, Counter()).update(_request(pod, asked))
                    if stays_with_node(pod):
                        daemons.setdefault(shape, Counter()).update(_request(pod, asked))
    told: set[tuple[str, str]] = set()
    none: Counter[str] = Counter()
    for row in sizing.utilisation:
        of = f"{row.resource} of {row.shape or 'all nodes'}"
        if (row.shape, row.resource) in told:
            yield f"utilisation: {of} is given twice"
        told.add((row.shape, row.resource))
        for what, claimed, counted in (
            ("requested", row.requested, requested),
            ("requested by daemons", row.daemons, daemons),
            ("allocatable", row.allocatable, offered),
        ):
            number = counted.get(row.shape, none)[row.resource]
            if claimed != number:
                yield f"utilisation: {claimed} {of} is said to be {what}, {number} is"
    for shape, sums in requested.items():
        for resource in sums:
            if (shape, resource) not in told:
                yield f"utilisation: {resource} of {shape or 'all nodes'} is missing"


def _cost_faults(
    sizing: Sizing,
    there: Mapping[str, list[objects.Pod]],
    asked: resources.Shared,
    has: Mapping[str, resources.Amounts],
    owners: Owners,
) -> Iterator[str]:
    """Each node's price is parted by what its pods weigh: as much as the share that each takes of the resource that it takes most of."""
    costs: Counter[str] = Counter()
    pods: Counter[str] = Counter()
    daemons: set[str] = set()
    for purchase in sizing.buy:
        for name in purchase.nodes:
            weights: dict[str, Fraction] = {}
            for pod in there[name]:
                owner = f"Pod {objects.pod_key(pod).removesuffix(f'-{name}')}" if is_mirror(pod) else owners.of(pod)
                share = max(
                    (Fraction(amount, has[name][resource]) for resource, amount in _request(pod, asked).items() if has[name].get(resource)),
                    default=Fraction(1),
                )
                weights[owner] = weights.get(owner, Fraction(0)) + share
                pods[owner] += 1
                if stays_with_node(pod):
                    daemons.add(owner)
            costs.update(_parted(int(millionths(purchase.price)), weights or {"": Fraction(1)}))
    told: set[str] = set()
    for row in sizing.workloads:
        of = row.workload or "nodes without pods"
        if row.workload in told:
            yield f"the cost of {of} is given twice"
        told.add(row.workload)
        if millionths(row.cost) != costs[row.workload]:
            yield f"{of} is said to cost {row.cost}, its share is {costs[row.workload]} millionths"
        if row.pods != pods[row.workload]:
            yield f"{of} is said to have {row.pods} pods on what is bought, it has {pods[row.workload]}"
        if row.daemon != (row.workload in daemons):
            yield f"{of} is {'not ' if row.daemon else ''}what every node brings"
    for owner in costs.keys() - told:
        yield f"the cost of {owner or 'nodes without pods'} is missing"


def _parted(paid: int, weights: Mapping[str, Fraction]) -> dict[str, int]:
    """A price in whole millionths; what rounding leaves goes one by one to the largest remainders, of equal ones by name."""
    total = sum(weights.values(), Fraction(0))
    exact = {name: paid * weight / total for name, weight in weights.items()}
    parts = {name: part.numerator // part.denominator for name, part in exact.items()}
    short = paid - sum(parts.values())
    for name in sorted(exact, key=lambda name: (parts[name] - exact[name], name))[:short]:
        parts[name] += 1
    return parts
