"""PodDisruptionBudgets for the checker: the pods that each guards, and the evictions that it allows.

Source: pkg/controller/disruption/disruption.go (getExpectedPodCount, countHealthyPods, updatePdbStatus, failSafe)
and pkg/registry/core/pod/storage/eviction.go (canIgnorePDB, Create) of Kubernetes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from kubestow.checker.claims.document import controller_name
from kubestow.checker.plan.document import Workloads
from kubestow.checker.reading import matching
from kubestow.models.kube import objects, workload_objects
from kubestow.models.snapshot.snapshot import Snapshot

_SCALED: Final = ("Deployment", "ReplicaSet", "StatefulSet", "ReplicationController")


@dataclass(eq=False)
class Guard:
    """A PodDisruptionBudget.

    Attributes:
        name: ``namespace/name``.
        allowed: Number of pods that may be disrupted in addition to those that already are.
        lenient: True if pods that are not ready may be evicted regardless.
        missing: Keys of guarded pods that the plan has evicted for good.
    """

    name: str
    allowed: int = 0
    lenient: bool = False
    missing: set[str] = field(default_factory=set)

    @property
    def remaining(self) -> int:
        """The number of evictions that the budget allows now."""
        return self.allowed - len(self.missing)

    def guards(self, pod: objects.Pod) -> bool:
        """Return True if evicting a selected pod needs the budget."""
        return not ignored(pod) and not (self.lenient and not is_ready(pod))


def ignored(pod: objects.Pod) -> bool:
    """Return True if the Eviction API checks no budget for the pod: it has ended, is being deleted, or never started."""
    return objects.is_terminal(pod) or objects.is_terminating(pod) or (pod.status is not None and pod.status.phase == "Pending")


def is_ready(pod: objects.Pod) -> bool:
    """Return True if a pod is Ready. A pod without conditions, which no cluster wrote, counts as Ready."""
    conditions = (pod.status.conditions if pod.status else None) or []
    return not conditions or any(c.type == "Ready" and c.status == "True" for c in conditions)


class Guards:
    """The disruption budgets of a snapshot."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._shelves: dict[str, matching.Shelf[int]] = {}
        self._selectors: list[matching.Selector] = []
        self._guards: list[Guard] = []
        self._memo: dict[tuple[str | None, int], list[int]] = {}  # by id of the labels, which the snapshot keeps alive and pods share
        for budget in snapshot.pod_disruption_budgets:
            try:
                selector = matching.label_selector(budget.spec.selector if budget.spec else None)
            except matching.InvalidSelector:
                selector = None
            namespace = budget.metadata.namespace or "default"
            if selector is not None:
                self._shelves.setdefault(namespace, matching.Shelf()).file(selector, len(self._guards))
            self._selectors.append(selector)
            self._guards.append(Guard(f"{namespace}/{budget.metadata.name or ''}"))
        self._snapshot = snapshot
        self._scales: _ReplicaScales | None = None
        self._selected: list[dict[str, objects.Pod]] = [{} for _ in self._guards]  # by key
        for pod in snapshot.pods if self._guards else ():
            for b in self._indices(pod):
                self._selected[b][objects.pod_key(pod)] = pod
        self._settle(range(len(self._guards)))

    def _settle(self, concerned: Iterable[int]) -> None:
        for b in concerned:
            guard, pods = self._guards[b], list(self._selected[b].values())
            guard.allowed, guard.lenient = 0, False
            if pods:
                self._scales = self._scales or _ReplicaScales(self._snapshot)
                _settle(guard, self._snapshot.pod_disruption_budgets[b], pods, self._scales)

    def change(self, gone: Sequence[objects.Pod], new: Sequence[objects.Pod]) -> None:
        """Recompute the budgets that select removed, added or changed pods.

        Args:
            gone: Pods that were removed, or old versions of changed pods.
            new: Pods that were added, or new versions of changed pods.
        """
        if not self._guards:
            return
        self._scales = self._scales or _ReplicaScales(self._snapshot)
        concerned: dict[int, None] = {}
        for pods, by in ((gone, -1), (new, 1)):
            for pod in pods:
                self._scales.count(pod, by)
                for b in self._indices(pod):
                    concerned[b] = None
                    if by > 0:
                        self._selected[b][objects.pod_key(pod)] = pod
                    else:
                        self._selected[b].pop(objects.pod_key(pod), None)
        self._settle(concerned)

    def _indices(self, pod: objects.Pod) -> list[int]:
        memo = pod.metadata.namespace, id(pod.metadata.labels)
        found = self._memo.get(memo)
        if found is None:
            shelf = self._shelves.get(pod.metadata.namespace or "default")
            labels = pod.metadata.labels or {}
            offered = sorted(shelf.candidates(labels)) if shelf else ()
            found = self._memo[memo] = [b for b in offered if matching.selects(self._selectors[b], labels)]
        return found

    def of(self, pod: objects.Pod) -> list[Guard]:
        """Return the budgets that select a pod."""
        return [self._guards[b] for b in self._indices(pod)]


def _settle(guard: Guard, budget: workload_objects.PodDisruptionBudget, pods: Sequence[objects.Pod], scales: _ReplicaScales) -> None:
    """Set the allowed disruptions of a budget: from its status, or as the controller would compute missing values."""
    spec, status = budget.spec or workload_objects.PodDisruptionBudgetSpec(), budget.status or workload_objects.PodDisruptionBudgetStatus()
    healthy = status.currentHealthy
    if healthy is None:
        healthy = sum(bool(pod.spec.nodeName) and not ignored(pod) and is_ready(pod) for pod in pods)
    expected, desired = _wanted(spec, pods, scales)
    if status.desiredHealthy is not None:
        desired = status.desiredHealthy
    allowed = status.disruptionsAllowed
    if allowed is None:
        allowed = healthy - desired if expected > 0 else 0
    guard.allowed = max(0, allowed)
    guard.lenient = spec.unhealthyPodEvictionPolicy == "AlwaysAllow" or healthy >= desired > 0


def _wanted(spec: workload_objects.PodDisruptionBudgetSpec, pods: Sequence[objects.Pod], scales: _ReplicaScales) -> tuple[int, int]:
    """Return the expected number of pods and of healthy pods; (0, 0), which allows no disruption, if the controller fails."""
    if spec.maxUnavailable is None and isinstance(spec.minAvailable, int):
        return len(pods), spec.minAvailable
    scale = scales.of(pods)
    given = spec.minAvailable if spec.maxUnavailable is None else spec.maxUnavailable
    if scale is None or given is None:
        return 0, 0
    if isinstance(given, str):
        number = given.removesuffix("%")
        if number == given or not (number.isascii() and number.isdigit()):
            return 0, 0
        given = (int(number) * scale + 99) // 100
    return scale, given if spec.maxUnavailable is None else max(0, scale - given)


class _ReplicaScales:
    """Replica counts that controllers want, by kind, namespace and name."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._workloads = Workloads(snapshot)
        self._replicas: Mapping[str, Any] = {
            f"{kind} {obj.metadata.namespace or 'default'}/{obj.metadata.name or ''}": obj.spec.replicas
            for kind in _SCALED
            for obj in snapshot.workloads.get(kind, ())
            if obj.spec is not None
        }
        self._living: dict[str, int] = {}
        for pod in snapshot.pods:
            self.count(pod, 1)

    def count(self, pod: objects.Pod, by: int) -> None:
        """Add a pod, or remove it (``by`` -1)."""
        if not objects.is_terminal(pod):
            name = controller_name(pod)
            self._living[name] = self._living.get(name, 0) + by

    def of(self, pods: Sequence[objects.Pod]) -> int | None:
        """Return the replicas of the controllers of some pods, summed; None if one controller has no scale.

        If a controller's object is missing, its pods that have not ended are counted instead. Pods without a
        controller are ignored.
        """
        found: dict[str, int] = {}
        for pod in pods:
            owner = objects.controller_of(pod)
            if owner is None:
                continue
            if owner.kind not in _SCALED:
                return None
            above, own = self._workloads.of(pod), controller_name(pod)
            name = above if above in self._replicas else own
            found[name] = (self._replicas[name] or 0) if name in self._replicas else self._living.get(own, 0)
        return sum(found.values())
