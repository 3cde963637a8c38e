"""Hard rules that running pods break now, with one code per kind of rule.

A rule is broken if the scheduler would reject the pod on its own node after removing it, except for cordons, which
concern new pods only. Findings agree with ``before.rules`` of a RebalancePlan, grouped by workload and rule instead
of by pod. Source: specification of the rules.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kubestow.audit.checks.violated import affinity, attached_volumes, node_capacity, node_rules, spread, volumes
from kubestow.audit.checks.violated.execution import forgiveness, lonely_in_execution
from kubestow.audit.checks.violated.running_pods import Running, has_execution, without_execution
from kubestow.audit.view.finding import Code
from kubestow.audit.view.view import ClusterView
from kubestow.models.documents.findings.audit import Finding
from kubestow.models.execution.execution_grace import without

CODES: Final[tuple[Code, ...]] = (
    node_rules.SELECTION,
    node_rules.TAINT,
    node_rules.EVICTED,
    node_capacity.PORTS,
    node_capacity.OVERCOMMITTED,
    affinity.AFFINITY,
    affinity.APART,
    spread.SKEW,
    volumes.REACH,
    volumes.ZONE,
    volumes.ONCE,
    volumes.LIMIT,
    volumes.USELESS,
    node_rules.LOST_NODE,
    node_rules.ZONES,
    attached_volumes.NEVER_BOUND,
    attached_volumes.SEVERAL_NODES,
    attached_volumes.HELD,
)


def check(view: ClusterView) -> Iterator[Finding]:
    """Yield findings KS101 to KS118. :mod:`kubestow.audit.checks.violated.required_during_execution` covers rules
    that must hold during execution.

    Raises:
        InputError: Quantities cannot be summed, or node topologies cannot be parsed.
    """
    snapshot = view.snapshot
    if not snapshot.nodes:
        if any(pod.spec.nodeName for pod in snapshot.pods):
            view.not_checked.append("rules of running pods: the snapshot holds no nodes")
        return
    yield from node_rules.lost(view)
    executing = any(has_execution(snapshot.pods[i]) for i in view.running)
    judged = without(snapshot, view.once(forgiveness).rules, fields=("podAffinity", "podAntiAffinity"))
    running = Running(view, without_execution(judged) if executing else None)
    yield from node_rules.selection(running)
    yield from node_rules.taints(running)
    yield from node_capacity.ports(running)
    yield from node_capacity.fit(running)
    yield from affinity.affinity(running, lonely_in_execution(view) if executing else frozenset())
    yield from affinity.apart(running)
    yield from spread.spread(running)
    yield from volumes.volumes(running)
    yield from node_rules.zones(running)
    yield from attached_volumes.unbound(view)
    yield from attached_volumes.attached(view)
