"""One descheduler cycle: all plugins of the extension point deschedule, then all of balance, profile by profile.

Source: https://github.com/kubernetes-sigs/descheduler, pkg/descheduler/descheduler.go (runProfiles) and
pkg/framework/profile/profile.go.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, Final

from kubestow.audit.descheduler import duplicates, spread, utilization, violations
from kubestow.audit.descheduler.cluster_state import ClusterState
from kubestow.audit.descheduler.evictor import Budgets, EvictionAttempt, EvictionLedger, Evictor
from kubestow.audit.descheduler.plugin_run import PluginRun
from kubestow.audit.descheduler.policy import SimulatedPolicy

_STRATEGIES: Final[dict[str, Callable[[PluginRun, Any], None]]] = {
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
    """The result of a cycle.

    Attributes:
        requests: All eviction requests, in order.
        runs: Notes of each profile and plugin, in order, on why it did nothing.
        state: The cluster after the cycle.
        skipped: Reason why the cycle did not run, if any.
    """

    requests: list[EvictionAttempt]
    runs: dict[tuple[str, str], list[str]]
    state: ClusterState
    skipped: str = ""

    @property
    def evictions(self) -> list[EvictionAttempt]:
        """The granted requests."""
        return [request for request in self.requests if request.refused is None]


def run(policy: SimulatedPolicy, state: ClusterState, plugins: Collection[str] | None = None, budgets: Budgets | None = None) -> Cycle:
    """Run a cycle on a cluster, removing evicted pods from their nodes in place.

    Args:
        policy: The policy.
        state: The cluster.
        plugins: Run only these plugins. None: all.
        budgets: PodDisruptionBudgets of the Eviction API. None: ignore them.
    """
    nodes = state.facts.ready_nodes(policy.node_selector)
    ledger = EvictionLedger(policy, state, budgets)
    runs: dict[tuple[str, str], list[str]] = {}
    if len(nodes) <= 1:
        return Cycle([], runs, state, f"{len(nodes)} nodes are ready and selected: the descheduler needs at least two")
    evictors = [Evictor(profile, ledger, nodes) for profile in policy.profiles]
    for point in ("deschedule", "balance"):
        for evictor in evictors:
            for name, given in getattr(evictor.profile, point):
                if plugins is None or name in plugins:
                    run = PluginRun(name, evictor)
                    _STRATEGIES[name](run, given)
                    runs[evictor.profile.name, name] = run.notes
    return Cycle(ledger.requests, runs, state)
