"""Hard rules that running pods break now, one code for each kind.

What the scheduler would refuse were the pod, taken out, to come again to its own node; but for a cordon, which is about pods that come.
Findings say the same as ``before.rules`` of a RebalancePlan, by workload and rule instead of by pod. Source: specification of the rules.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from models.documents.audit import Finding
from solver.audit import broken_affinity, broken_nodes, broken_spread, broken_static, broken_volumes
from solver.audit.base import Code
from solver.audit.broken_execution import lonely_in_execution
from solver.audit.broken_state import Running, has_execution, without_execution
from solver.audit.view import View

CODES: Final[tuple[Code, ...]] = (
    broken_static.SELECTION,
    broken_static.TAINT,
    broken_static.EVICTED,
    broken_nodes.PORTS,
    broken_nodes.OVERCOMMITTED,
    broken_affinity.AFFINITY,
    broken_affinity.APART,
    broken_spread.SKEW,
    broken_volumes.REACH,
    broken_volumes.ZONE,
    broken_volumes.ONCE,
    broken_volumes.LIMIT,
    broken_volumes.USELESS,
    broken_static.LOST_NODE,
    broken_static.ZONES,
)


def check(view: View) -> Iterator[Finding]:
    """Findings KS101 to KS115. Rules that hold during execution, too, are of :mod:`solver.audit.execution`.

    Raises:
        InputError: quantities that cannot be summed, or node topologies that cannot be read.
    """
    snapshot = view.snapshot
    if not snapshot.nodes:
        if any(pod.spec.nodeName for pod in snapshot.pods):
            view.not_checked.append("rules of running pods: the snapshot holds no nodes")
        return
    yield from broken_static.lost(view)
    executing = any(has_execution(snapshot.pods[i]) for i in view.running)
    running = Running(view, without_execution(snapshot) if executing else None)
    yield from broken_static.selection(running)
    yield from broken_static.taints(running)
    yield from broken_nodes.ports(running)
    yield from broken_nodes.fit(running)
    yield from broken_affinity.affinity(running, lonely_in_execution(view) if executing else frozenset())
    yield from broken_affinity.apart(running)
    yield from broken_spread.spread(running)
    yield from broken_volumes.volumes(running)
    yield from broken_static.zones(running)
