"""One cycle of the descheduler: all plugins of the extension point deschedule, then all of balance, profile by profile.

Source: https://github.com/kubernetes-sigs/descheduler, pkg/descheduler/descheduler.go (runProfiles) and pkg/framework/profile/profile.go.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, Final

from kubestow.audit.descheduler import duplicates, spread, utilization, violations
from kubestow.audit.descheduler.evictor import Budgets, Evictor, Ledger, Request
from kubestow.audit.descheduler.policy import Policy
from kubestow.audit.descheduler.turn import Turn
from kubestow.audit.descheduler.world import World

_STRATEGIES: Final[dict[str, Callable[[Turn, Any], None]]] = {
    "RemovePodsViolatingInterPodAntiAffinity": violations.inter_pod_anti_affinity,
    "RemovePodsViolatingNodeAffinity": violations.node_affinity,
    "RemovePodsViolatingNodeTaints": violations.node_taints,
    "RemoveDuplicates": duplicates.duplicates,
    "LowNodeUtilization": utilization.low_node_utilization,
    "HighNodeUtilization": utilization.high_node_utilization,
    "RemovePodsViolatingTopologySpreadConstraint": spread.topology_spread,
}


@dataclass
class Cycle:
    """What a cycle did. ``turns``: of each profile and plugin, in their order, why it did nothing where it says so; ``world``: what is
    left; ``skipped``: why there was no cycle at all."""

    requests: list[Request]
    turns: dict[tuple[str, str], list[str]]
    world: World
    skipped: str = ""

    @property
    def evictions(self) -> list[Request]:
        """Those that were granted."""
        return [request for request in self.requests if request.refused is None]


def run(policy: Policy, world: World, plugins: Collection[str] | None = None, budgets: Budgets | None = None) -> Cycle:
    """Run a cycle on a cluster (changed: evicted pods are on no node). ``plugins``: only these; ``budgets``: None where the Eviction API is
    not to be asked."""
    nodes = world.facts.ready_nodes(policy.node_selector)
    ledger = Ledger(policy, world, budgets)
    turns: dict[tuple[str, str], list[str]] = {}
    if len(nodes) <= 1:
        return Cycle([], turns, world, f"{len(nodes)} nodes are ready and selected: the descheduler does nothing with fewer than two")
    evictors = [Evictor(profile, ledger, nodes) for profile in policy.profiles]
    for point in ("deschedule", "balance"):
        for evictor in evictors:
            for name, given in getattr(evictor.profile, point):
                if plugins is None or name in plugins:
                    turn = Turn(name, evictor)
                    _STRATEGIES[name](turn, given)
                    turns[evictor.profile.name, name] = turn.notes
    return Cycle(ledger.requests, turns, world)
