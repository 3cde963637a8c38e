"""The checker's own computation of the strategy tier, from raw objects.

`spread`: Σ over nodes and {cpu, memory} of f(u), u the utilisation in thousandths of allocatable rounded up, f = u²/100 at multiples of
100 and linear between. `pack`: nodes with a pod that is neither a DaemonSet's nor static, counted or priced in thousandths by a label.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from models import kube, quantity
from models.policy import Policy
from models.snapshot import Snapshot
from solver import verify_resources as resources

_MIRROR: Final = "kubernetes.io/config.mirror"


def points(snapshot: Snapshot, placed: Mapping[str, str], absent: Collection[str], policy: Policy) -> int | None:
    """The negative cost of a placement (pod key -> node name) under the policy's strategy; None where it has none, or lacks a price.

    Raises:
        QuantityError: a quantity in the snapshot is malformed or beyond 64 bits.
    """
    if policy.strategy == "none" or not snapshot.nodes:
        return None
    at: dict[str, list[kube.Pod]] = {node.metadata.name or "": [] for node in snapshot.nodes}
    fresh: set[str] = set()
    for pod in snapshot.pods:
        key = kube.pod_key(pod)
        if key in placed:
            at[placed[key]].append(pod)
            fresh.add(placed[key])
        elif pod.spec.nodeName in at and not kube.is_terminal(pod) and key not in absent:
            at[pod.spec.nodeName].append(pod)
    if policy.strategy == "spread":
        return -sum(_utilisation(node, at[node.metadata.name or ""], placed) for node in snapshot.nodes)
    total = 0
    for node in snapshot.nodes:
        name = node.metadata.name or ""
        if name in fresh or any(_stays(pod) for pod in at[name]):
            price = _price(node, policy.priceLabel)
            if price is None:
                return None
            total += price
    return -total


def _utilisation(node: kube.Node, pods: list[kube.Pod], placed: Mapping[str, str]) -> int:
    capacity = resources.node_capacity(node)
    cost = 0
    for name in ("cpu", "memory"):
        whole = capacity.get(name, 0)
        if whole > 0:
            used = sum(resources.pod_requests(pod, bound=kube.pod_key(pod) not in placed).get(name, 0) for pod in pods)
            share = -(-1000 * used // whole)
            full, part = divmod(share, 100)
            cost += 100 * full**2 + part * (2 * full + 1)
    return cost


def _stays(pod: kube.Pod) -> bool:
    owners = pod.metadata.ownerReferences or ()
    if _MIRROR in (pod.metadata.annotations or {}) or any(owner.kind == "Node" for owner in owners):
        return False
    return not any(owner.controller and owner.kind == "DaemonSet" for owner in owners)


def _price(node: kube.Node, label: str) -> int | None:
    if not label:
        return 1
    raw = (node.metadata.labels or {}).get(label)
    try:
        return None if raw is None else quantity.ceil(quantity.parse(raw) * 1000)
    except quantity.QuantityError:
        return None
