"""Nodes that Karpenter may disrupt, in the order in which it tries them, and the reasons that block other nodes.

Source: https://github.com/kubernetes-sigs/karpenter, pkg/controllers/state/statenode.go (ValidateNodeDisruptable,
ValidatePodsDisruptable), pkg/controllers/disruption (types.go, consolidation.go), pkg/utils/pdb and
pkg/utils/disruption.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final

from kubestow.audit.karpenter.pools import CAPACITY_TYPE, INITIALIZED, POOL, NodePool, NodePools
from kubestow.audit.karpenter.prices import TYPE, ZONE, Prices
from kubestow.models.disruption.pod_disruption_budgets import DisruptionBudget, budgets
from kubestow.models.kube.objects import Node, Pod, Taint, is_terminal, is_terminating, pod_key
from kubestow.models.kube.selectors import Tolerations
from kubestow.models.snapshot.snapshot import Snapshot

DO_NOT_DISRUPT: Final = "karpenter.sh/do-not-disrupt"
_DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"
_DISRUPTED: Final = Taint(key="karpenter.sh/disrupted", effect="NoSchedule")
_NOT_READY: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


@dataclass
class Candidate:
    """A node that may be disrupted.

    Attributes:
        node: Name of the node.
        pool: Its NodePool.
        labels: Its labels.
        pods: Indices of the pods that would need another node.
        price: Millionths per hour.
        cost: Disruption cost.
    """

    node: str
    pool: NodePool
    labels: dict[str, str]
    pods: list[int]
    price: int
    cost: Fraction

    @property
    def empty(self) -> bool:
        """True if no pod raises the disruption cost."""
        return self.cost <= 1

    @property
    def type(self) -> str:
        """Its instance type."""
        return self.labels.get(TYPE, "")

    @property
    def spot(self) -> bool:
        """True if it is a spot node."""
        return self.labels.get(CAPACITY_TYPE) == "spot"


@dataclass
class PoolNodes:
    """The nodes of the pools at one moment.

    Attributes:
        candidates: Nodes that may be disrupted.
        blocked: Reason by node, for nodes that may not be disrupted.
        nodes: Number of initialized nodes by pool.
        disrupting: Number of these nodes that count against budgets, by pool.
    """

    candidates: list[Candidate] = field(default_factory=list)
    blocked: dict[str, str] = field(default_factory=dict)
    nodes: dict[str, int] = field(default_factory=dict)
    disrupting: dict[str, int] = field(default_factory=dict)

    def allowed(self, pools: NodePools, pool: NodePool, reason: str) -> int:
        """Return the number of nodes of a pool that may be disrupted at once for a reason."""
        limit = pools.allowed(pool, self.nodes.get(pool.name, 0), "Empty" if reason == "Empty" else "Underutilized")
        return max(0, limit - self.disrupting.get(pool.name, 0))


def survey(snapshot: Snapshot, pools: NodePools, prices: Prices) -> PoolNodes:
    """Return the candidates, highest savings per disruption cost first, and the reasons that block other nodes of the pools."""
    found = PoolNodes()
    on: dict[str, list[int]] = {}
    for i, pod in enumerate(snapshot.pods):
        if pod.spec.nodeName:
            on.setdefault(pod.spec.nodeName, []).append(i)
    guards = _Guards(snapshot)
    for node in snapshot.nodes:
        name, labels = node.metadata.name or "", node.metadata.labels or {}
        pool = pools.named.get(labels.get(POOL, ""))
        if pool is None:
            continue
        pods = on.get(name, [])
        if labels.get(INITIALIZED) == "true":
            found.nodes[pool.name] = found.nodes.get(pool.name, 0) + 1
            taints = (node.spec.taints or ()) if node.spec is not None else ()
            if any(t.key in _NOT_READY for t in taints) or _deleting(node):
                found.disrupting[pool.name] = found.disrupting.get(pool.name, 0) + 1
        why = _own(node, labels, pool) or guards.block(pods)
        own = [i for i in pods if is_reschedulable(snapshot.pods[i])]
        candidate = Candidate(name, pool, labels, own, prices.of(labels), 1 + sum((_cost(snapshot.pods[i]) for i in own), Fraction(0)))
        why = why or (None if candidate.empty else _filled(candidate, prices))
        if why is None:
            found.candidates.append(candidate)
        else:
            found.blocked[name] = why
    found.candidates.sort(key=lambda c: -Fraction(c.price) / c.cost)
    return found


def is_reschedulable(pod: Pod) -> bool:
    """Return True if Karpenter looks for another node for a pod (IsReschedulable)."""
    owners = pod.metadata.ownerReferences or ()
    if any(o.kind in ("DaemonSet", "Node") for o in owners) or is_terminal(pod):
        return False
    return not is_terminating(pod) or any(o.kind == "StatefulSet" for o in owners)


def interwoven(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return candidates in round-robin order of their pools."""
    by_pool: dict[str, list[Candidate]] = {}
    for each in candidates:
        by_pool.setdefault(each.pool.name, []).append(each)
    longest = max(map(len, by_pool.values()), default=0)
    return [own[k] for k in range(longest) for own in by_pool.values() if k < len(own)]


def _deleting(node: Node) -> bool:
    taints = (node.spec.taints or ()) if node.spec is not None else ()
    return node.metadata.deletionTimestamp is not None or any(taint.key == _DISRUPTED.key for taint in taints)


def _own(node: Node, labels: dict[str, str], pool: NodePool) -> str | None:
    if labels.get(INITIALIZED) != "true":
        return f"it is not initialized (label {INITIALIZED})"
    if _deleting(node):
        return "it is being deleted or disrupted"
    if (node.metadata.annotations or {}).get(DO_NOT_DISRUPT) == "true":
        return f"its annotation {DO_NOT_DISRUPT}"
    if pool.spec.replicas is not None:
        return "its NodePool is static (replicas)"
    return "consolidation is off (consolidateAfter: Never)" if pool.off else None


def _filled(candidate: Candidate, prices: Prices) -> str | None:
    """Return the reason that blocks a node that is not empty, or None."""
    if not prices.knows(candidate.labels):
        return f"the catalogue has no instance type {candidate.labels.get(TYPE)!r}"
    for key in (CAPACITY_TYPE, ZONE):
        if key not in candidate.labels:
            return f"it has no label {key}"
    if candidate.pool.spec.disruption.consolidationPolicy == "WhenEmpty":
        return "it is not empty, and its NodePool consolidates only WhenEmpty"
    return None


def _cost(pod: Pod) -> Fraction:
    """Return the eviction cost of a pod, at least 0 (EvictionCost)."""
    cost = Fraction(1)
    text = (pod.metadata.annotations or {}).get(_DELETION_COST)
    if text is not None:
        with suppress(ValueError, OverflowError):  # an invalid cost is ignored
            cost += Fraction(float(text)) / 2**27
    if pod.spec.priority is not None:
        cost += Fraction(pod.spec.priority, 2**25)
    return max(Fraction(0), min(cost, Fraction(10)))


class _Guards:
    """Properties of pods that block their nodes."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._always = {
            f"{b.metadata.namespace or 'default'}/{b.metadata.name or ''}"
            for b in snapshot.pod_disruption_budgets
            if b.spec is not None and b.spec.unhealthyPodEvictionPolicy == "AlwaysAllow"
        }
        self._of: dict[int, list[DisruptionBudget]] = {}
        for budget in budgets(snapshot):
            for i in budget.pods:
                self._of.setdefault(i, []).append(budget)

    def block(self, pods: list[int]) -> str | None:
        active = [i for i in pods if not is_terminal(self._snapshot.pods[i]) and not is_terminating(self._snapshot.pods[i])]
        for i in active:
            value = (self._snapshot.pods[i].metadata.annotations or {}).get(DO_NOT_DISRUPT)
            if value is not None and _protects(value):
                return f"pod {pod_key(self._snapshot.pods[i])} has the annotation {DO_NOT_DISRUPT}: {value}"
        for i in active:
            pod = self._snapshot.pods[i]
            if any(o.kind == "Node" for o in pod.metadata.ownerReferences or ()) or self._tolerant(pod):
                continue
            mine = self._of.get(i, [])
            if len(mine) > 1:
                return f"pod {pod_key(pod)} has {len(mine)} PodDisruptionBudgets ({', '.join(b.name for b in mine)})"
            if mine and not mine[0].allowed and not (mine[0].name in self._always and _unready(pod)):
                return f"PodDisruptionBudget {mine[0].name} does not allow evicting pod {pod_key(pod)} now"
        return None

    def _tolerant(self, pod: Pod) -> bool:
        return Tolerations(pod.spec.tolerations, self._snapshot.gates).cover(_DISRUPTED)


def _protects(value: str) -> bool:
    """Return True if a value of the annotation protects a pod now: true, or a duration, because start times are not read."""
    digits = value.translate(str.maketrans("", "", "hmsuµn."))
    return value == "true" or (value[:1].isdigit() and digits.isdigit() and not value[-1:].isdigit() and int(digits) > 0)


def _unready(pod: Pod) -> bool:
    conditions = (pod.status.conditions if pod.status is not None else None) or ()
    return any(each.type == "Ready" and each.status == "False" for each in conditions)
