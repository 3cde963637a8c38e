"""Pods that cannot affect the drain of other nodes. No rule, budget, quota, gang or volume ties them to another pod.

A replay may omit such a pod if no pod arrives at its node or leaves it. No rule that is judged then reads it.
"""

from __future__ import annotations

from collections.abc import Collection

from kubestow.checker import rules
from kubestow.checker.plan.disruption_budgets import Guards
from kubestow.checker.reading.resources import SharedRequests
from kubestow.checker.rules.base import World
from kubestow.models.gangs.markers import members
from kubestow.models.kube import objects
from kubestow.models.snapshot.snapshot import Snapshot


class UnrelatedPods:
    """The unrelated pods of a snapshot.

    Pods are identified by ``id``, so the snapshot must keep them in memory. A pod that was moved is a new object
    and no longer unrelated.

    Args:
        snapshot: The cluster before the upgrade.
        exempt: Namespaces that are exempt from required anti-affinity.
    """

    def __init__(self, snapshot: Snapshot, exempt: Collection[str]) -> None:
        self._snapshot = snapshot
        nodes = {node.metadata.name or "": node for node in snapshot.nodes}
        running = [pod for pod in snapshot.pods if pod.spec.nodeName in nodes and not objects.is_terminal(pod)]
        world = World(snapshot, nodes, snapshot.pods, SharedRequests(snapshot.gates), exempt=frozenset(exempt))
        reaching = rules.build(world, lambda kind: kind.for_moves and not kind.local)
        for rule in reaching:
            rule.announce(snapshot.pods, judged=True)
        guards = Guards(snapshot)
        guarded = {_owner(pod) for pod in snapshot.pods if guards.of(pod)}
        ganged = {i for found in members(snapshot.pods, range(len(snapshot.pods))).values() for i in found}
        rationed = {quota.metadata.namespace or "default" for quota in snapshot.resource_quotas.values()}
        related = {id(snapshot.pods[i]) for i in ganged}
        related |= {id(pod) for pod in snapshot.pods if guards.of(pod) or _owner(pod) in guarded}
        self._ids = {
            id(pod) for pod in running
            if id(pod) not in related
            and (pod.metadata.namespace or "default") not in rationed
            and all(rule.read(pod, judged=True) is None for rule in reaching)
        }  # fmt: skip

    def without(self, snapshot: Snapshot, touched: Collection[str]) -> Snapshot:
        """Return a later snapshot of the same cluster without the unrelated pods on untouched nodes."""
        found = snapshot.copy()
        found.pods = [pod for pod in snapshot.pods if pod.spec.nodeName in touched or id(pod) not in self._ids]
        return found


def _owner(pod: objects.Pod) -> tuple[str | None, str, str] | None:
    """Return namespace, kind and name of the controller, or None."""
    owner = objects.controller_of(pod)
    return (pod.metadata.namespace, owner.kind, owner.name) if owner is not None else None
