"""The accounting of a purchase: utilisation by shape and resource, the cost of each workload, and the cost of the nodes it replaces."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from kubestow.models.catalogue import money
from kubestow.models.catalogue.catalogue import Catalogue, Offer
from kubestow.models.catalogue.nodes import INSTANCE_TYPE
from kubestow.models.documents.sizing import Purchase, Replaced, Sizing, Utilisation, WorkloadCost
from kubestow.models.kube.lenient_decode import some
from kubestow.models.kube.objects import Node, Pod, is_terminal, pod_key
from kubestow.models.kube.pod_requests import allocatable, pod_request
from kubestow.models.snapshot.scope import is_mirror, is_replicated
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.models.workloads.daemon_sets import is_daemon
from kubestow.models.workloads.ownership import PodOwners

ZONE = "topology.kubernetes.io/zone"
#: Maximum number of pod names in a note.
_MAX_LISTED_PODS = 5
#: Resources of every node, first in every list. Others follow by name if pods request them.
_FIRST_RESOURCES = ("cpu", "memory", "pods")


@dataclass
class _PurchasedNode:
    """A purchased node.

    Attributes:
        price: Price, in millionths.
        has: Allocatable amounts.
    """

    shape: str
    price: int
    has: Mapping[str, int]
    pods: list[Pod] = field(default_factory=list)


def account(sizing: Sizing, snapshot: Snapshot) -> None:
    """Fill in the utilisation and the workloads' costs of a Sizing that has its placement.

    Args:
        snapshot: The cluster with the purchased nodes.
    """
    nodes = _nodes(sizing, snapshot)
    requests = _Requests(snapshot)
    sizing.utilisation = _utilisation(list(nodes.values()), [p.shape for p in sizing.buy], requests)
    sizing.workloads = _costs(nodes, requests, PodOwners(snapshot))


class _Requests:
    """The requests of pods, including one pod slot each."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._gates = snapshot.gates
        self._known: dict[int, Mapping[str, int]] = {}

    def of(self, pod: Pod) -> Mapping[str, int]:
        key = id(pod)
        if key not in self._known:
            self._known[key] = {name: amount for name, amount in pod_request(pod, self._gates).items() if amount > 0} | {"pods": 1}
        return self._known[key]


def _nodes(sizing: Sizing, snapshot: Snapshot) -> dict[str, _PurchasedNode]:
    """Return the purchased nodes by name, with their pods."""
    bought: dict[str, Purchase] = {name: purchase for purchase in sizing.buy for name in purchase.nodes}
    purchased = {
        name: _PurchasedNode(bought[name].shape, money.parse(bought[name].price), _offered(node))
        for node in snapshot.nodes
        if (name := node.metadata.name or "") in bought
    }
    goes = {a.pod: a.node for a in sizing.placement.assignments} if sizing.placement is not None else {}
    unplaced = {u.pod for u in sizing.placement.unplaced} if sizing.placement is not None else set()
    for pod in snapshot.pods:
        key = pod_key(pod)
        where = goes.get(key, None if key in unplaced or is_terminal(pod) else pod.spec.nodeName)
        if where in purchased:
            purchased[where].pods.append(pod)
    return purchased


def _offered(node: Node) -> Mapping[str, int]:
    status = node.status
    return allocatable((status.allocatable if status.allocatable is not None else status.capacity) if status else None)


# --- utilisation --------------------------------------------------------------------------------------------------------


def _utilisation(nodes: Sequence[_PurchasedNode], shapes: Iterable[str], requests: _Requests) -> list[Utilisation]:
    """Return the rows for all nodes together, then for each shape."""
    utilisations = []
    for shape in ("", *dict.fromkeys(shapes)):
        requested: Counter[str] = Counter()
        daemons: Counter[str] = Counter()
        has: Counter[str] = Counter()
        for node in nodes:
            if shape not in ("", node.shape):
                continue
            has.update(node.has)
            for pod in node.pods:
                requested.update(requests.of(pod))
                if is_daemon(pod):
                    daemons.update(requests.of(pod))
        named = [*_FIRST_RESOURCES, *sorted(name for name in requested if name not in _FIRST_RESOURCES)]
        utilisations += [
            Utilisation(shape, name, requested[name], daemons[name], has[name]) for name in named if has[name] or requested[name]
        ]
    return utilisations


# --- costs ----------------------------------------------------------------------------------------------------------------


def _costs(nodes: Mapping[str, _PurchasedNode], requests: _Requests, owners: PodOwners) -> list[WorkloadCost]:
    """Return the cost of each workload, the dearest first. The cost of nodes without pods has an empty owner."""
    costs: Counter[str] = Counter()
    pods: Counter[str] = Counter()
    daemons: set[str] = set()
    for name, node in nodes.items():
        weights: dict[str, Fraction] = {}
        for pod in node.pods:
            owner = _owner(pod, name, owners)
            weights[owner] = weights.get(owner, Fraction(0)) + dominant(requests.of(pod), node.has)
            pods[owner] += 1
            if is_daemon(pod):
                daemons.add(owner)
        costs.update(divided(node.price, weights or {"": Fraction(1)}))
    ordered = sorted(costs, key=lambda owner: (-costs[owner], owner))
    return [WorkloadCost(owner, pods[owner], money.number(costs[owner]), owner in daemons) for owner in ordered]


def _owner(pod: Pod, node: str, owners: PodOwners) -> str:
    """Return the owner of a pod. Static pods with equal names, apart from the node's, are one workload."""
    if not is_mirror(pod):
        return owners.of(pod)
    return f"Pod {pod_key(pod).removesuffix(f'-{node}')}"


def dominant(request: Mapping[str, int], has: Mapping[str, int]) -> Fraction:
    """Return the largest fraction of a node's resource that a request takes."""
    return max((Fraction(amount, has[name]) for name, amount in request.items() if has.get(name, 0) > 0), default=Fraction(1))


def divided(price: int, weights: Mapping[str, Fraction]) -> dict[str, int]:
    """Divide a price into whole parts in the ratio of the weights.

    The remainder of rounding goes to the largest fractional parts, and to the first name among equal ones.
    """
    total = sum(weights.values(), Fraction(0))
    exact = {name: price * weight / total for name, weight in weights.items()}
    parts = {name: int(part) for name, part in exact.items()}
    ordered = sorted(exact, key=lambda name: (parts[name] - exact[name], name))
    for name in ordered[: price - sum(parts.values())]:
        parts[name] += 1
    return parts


# --- replaced nodes ---------------------------------------------------------------------------------------------------------------


def replaced(nodes: Iterable[Node], catalogue: Catalogue) -> Replaced:
    """Return the cost of nodes that match a shape of the catalogue by instance type, zone and the shape's other labels."""
    prices = [_price(node.metadata.labels or {}, catalogue.offers) for node in nodes]
    known = [price for price in prices if price is not None]
    return Replaced(len(prices), len(known), money.number(sum(known)))


def _price(labels: Mapping[str, str], offers: Iterable[Offer]) -> int | None:
    """Return the price of the matching offer with the most labels; None if no offer matches."""
    alike = [
        offer
        for offer in offers
        if labels.get(INSTANCE_TYPE) == offer.shape.labels.get(INSTANCE_TYPE, offer.shape.name)
        and labels.get(ZONE) == offer.zone
        and all(labels.get(key) == value for key, value in offer.shape.labels.items())
    ]
    return max(alike, key=lambda offer: len(offer.shape.labels)).cost if alike else None


# --- notes ------------------------------------------------------------------------------------------------------------------------


def notes(snapshot: Snapshot, removed: Iterable[str], *, include_gated: bool) -> list[str]:
    """Return notes on pods that no controller recreates when their nodes go, and on gated pods, for which nothing is bought."""
    gone = frozenset(removed)
    alone, gated = [], []
    for pod in snapshot.pods:
        if is_terminal(pod):
            continue
        if pod.spec.nodeName in gone and not is_daemon(pod) and not is_replicated(pod):
            alone.append(pod_key(pod))
        if not pod.spec.nodeName and pod.spec.schedulingGates and not include_gated:
            gated.append(pod_key(pod))
    found = []
    if alone:
        found.append(
            f"nodes are bought for these pods, but no known controller recreates them when their nodes go: {some(alone, _MAX_LISTED_PODS)}"
        )
    if gated:
        found.append(f"nothing is bought for pods with scheduling gates (use --include-gated): {some(gated, _MAX_LISTED_PODS)}")
    return found
