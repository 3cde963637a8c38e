"""Broken rules that hold during execution and are still within their grace period.

A rule counts as broken only if it is broken in every snapshot within its grace period. The rule belongs to one
pod: a pod of the same name with another uid, or on another node, does not count as the same pod. Source:
docs/sources.md#inter-pod-affinity, "how long should the system wait".
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime

from kubestow.models.execution.execution_grace import History, Rule, stated, time_of
from kubestow.models.kube.objects import Pod, pod_key
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.solver.rebalance.problem.execution_violators import Enforced


@dataclass(frozen=True)
class Forgiveness:
    """The broken rules of a snapshot that do not count yet.

    Attributes:
        rules: Grace period in seconds, by index of the pod and rule.
        uncovered: Number of rules that count although the earlier snapshots do not cover their whole grace
            period.
    """

    rules: dict[tuple[int, Rule], int] = field(default_factory=dict)
    uncovered: int = 0


def forgive(snapshot: Snapshot, history: History, exempt: Collection[str] = ()) -> Forgiveness:
    """Return the broken rules that do not count yet.

    Args:
        exempt: Namespaces without hard anti-affinity.

    Raises:
        InputError: Earlier snapshots are given, and a snapshot lacks its capture time.
    """
    if not history.earlier and not history.grace and not any(stated(pod) for pod in snapshot.pods):
        return Forgiveness()
    seen = _EarlierViolations(exempt)
    now = time_of(snapshot) if history.earlier else None
    forgiveness = Forgiveness()
    uncovered = 0
    for i, rule in sorted(Enforced(snapshot, exempt).broken()):
        pod = snapshot.pods[i]
        own = stated(pod)
        grace = history.grace if own is None else own
        window = history.within(now, grace) if now is not None else []
        if not all(seen.breaks(earlier, pod, rule) for earlier in window):
            forgiveness.rules[i, rule] = grace
        elif grace and not (now is not None and _reaches(history, now, grace)):
            uncovered += 1
    return Forgiveness(forgiveness.rules, uncovered)


def _reaches(history: History, now: datetime, grace: int) -> bool:
    """Return True if some earlier snapshot is at least as old as the grace."""
    return any((now - time_of(earlier)).total_seconds() >= grace for earlier in history.earlier)


class _EarlierViolations:
    """The broken rules of earlier snapshots, by name of the pod; computed once per snapshot."""

    def __init__(self, exempt: Collection[str]) -> None:
        self._exempt = exempt
        self._known: dict[int, dict[tuple[str, Rule], Pod]] = {}

    def breaks(self, earlier: Snapshot, pod: Pod, rule: Rule) -> bool:
        """Return True if an earlier snapshot has the same pod on the same node with this rule broken."""
        if id(earlier) not in self._known:
            broken = Enforced(earlier, self._exempt).broken()
            self._known[id(earlier)] = {(pod_key(earlier.pods[i]), each): earlier.pods[i] for i, each in broken}
        before = self._known[id(earlier)].get((pod_key(pod), rule))
        if before is None or before.spec.nodeName != pod.spec.nodeName:
            return False
        return before.metadata.uid == pod.metadata.uid or None in (before.metadata.uid, pod.metadata.uid)
