"""PodDisruptionBudgets: the pods that each selects, and the number of evictions that it allows now.

Sources: pkg/controller/disruption/disruption.go (getExpectedPodCount, getExpectedScale, countHealthyPods,
updatePdbStatus, failSafe) and pkg/registry/core/pod/storage/eviction.go (canIgnorePDB, Create) of Kubernetes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from kubestow.models.kube import objects, workload_objects
from kubestow.models.kube.selectors import Selector, canonical, selector_matches
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.models.workloads.ownership import deployment_by_hash

#: Controllers with a scale. A budget that needs the scale of another controller allows nothing.
_SCALED: Final = ("Deployment", "ReplicaSet", "StatefulSet", "ReplicationController")
_PERCENT: Final = re.compile(r"([0-9]+)%\Z", re.ASCII)


@dataclass(frozen=True)
class DisruptionBudget:
    """A budget with its allowance at the start.

    Attributes:
        name: ``namespace/name``.
        pods: Running pods that it selects, indices into ``snapshot.pods``.
        free: Pods that may be evicted without its consent.
        allowed: Number of other pods that may be evicted at once.
        healthy: Number of healthy pods.
        desired: Number of pods that must be healthy; 0 if the controller cannot tell.
        never: True if it allows nothing even when all its pods are healthy.
    """

    name: str
    pods: tuple[int, ...]
    free: frozenset[int]
    allowed: int
    healthy: int = field(default=0, compare=False)
    desired: int = field(default=0, compare=False)
    never: bool = field(default=False, compare=False)


def ignores_budgets(pod: objects.Pod) -> bool:
    """Return True if the Eviction API evicts a pod without consulting budgets, even if several select it (canIgnorePDB)."""
    return objects.is_terminal(pod) or objects.is_terminating(pod) or (pod.status is not None and pod.status.phase == "Pending")


def is_ready(pod: objects.Pod) -> bool:
    """Return True if a running pod has the condition Ready.

    Pods without any conditions were never in a cluster and count as ready.
    """
    conditions = (pod.status.conditions if pod.status is not None else None) or ()
    return not conditions or any(each.type == "Ready" and each.status == "True" for each in conditions)


def budgets(snapshot: Snapshot) -> list[DisruptionBudget]:
    """Return the budgets that select a running pod (bound, neither finished nor being deleted), in input order.

    A budget selects pods of its own namespace: none without a selector, all with an empty one. Its status
    counts. Missing values are computed like the disruption controller does: from the scale of the pods'
    controllers, unless minAvailable is a number. There are two differences, since a dump may be incomplete.
    Controllers are identified by kind and name. If a controller's object is missing, its unfinished pods give
    its scale. These include pods being deleted, so that the error is on the side of too few evictions.
    """
    selection, scales = _Selection(snapshot), _BudgetScales(snapshot)
    found = []
    for budget in snapshot.pod_disruption_budgets:
        spec = budget.spec or workload_objects.PodDisruptionBudgetSpec()
        namespace = budget.metadata.namespace or "default"
        selected = selection.of(namespace, canonical(spec.selector))
        running = [
            i for i in selected
            if (pod := snapshot.pods[i]).spec.nodeName and not objects.is_terminal(pod) and not objects.is_terminating(pod)
        ]  # fmt: skip
        if running:
            healthy, desired, allowed = _state(snapshot, budget, spec, selected, scales)
            unready = spec.unhealthyPodEvictionPolicy == "AlwaysAllow" or healthy >= desired > 0  # may go
            free = frozenset(i for i in running if ignores_budgets(snapshot.pods[i]) or (unready and not is_ready(snapshot.pods[i])))
            never = not allowed and _never(budget.status, _expected(snapshot, spec, selected, scales))
            name = f"{namespace}/{budget.metadata.name or ''}"
            found.append(DisruptionBudget(name, tuple(running), free, allowed, healthy, desired, never=never))
    return found


def _never(status: workload_objects.PodDisruptionBudgetStatus | None, expected: tuple[int, int] | None) -> bool:
    """Return True if a budget allows nothing even when all its pods are healthy.

    ``expected`` is None if an unknown controller may have a scale in the cluster. The budget's status then
    decides, if the disruption controller could tell.
    """
    if expected is None and status is not None and status.expectedPods and status.desiredHealthy is not None:
        expected = status.expectedPods, status.desiredHealthy
    return expected is not None and expected[1] >= expected[0]


def is_healthy(pod: objects.Pod) -> bool:
    """Return True if a budget counts a selected pod as healthy (countHealthyPods)."""
    return bool(pod.spec.nodeName) and is_ready(pod) and not ignores_budgets(pod)


def _state(
    snapshot: Snapshot,
    budget: workload_objects.PodDisruptionBudget,
    spec: workload_objects.PodDisruptionBudgetSpec,
    selected: list[int],
    scales: _BudgetScales,
) -> tuple[int, int, int]:
    """Return the number of healthy pods, the number that must be healthy, and the number of allowed evictions."""
    status = budget.status or workload_objects.PodDisruptionBudgetStatus()
    healthy, desired, allowed = status.currentHealthy, status.desiredHealthy, status.disruptionsAllowed
    if healthy is None:
        healthy = sum(is_healthy(snapshot.pods[i]) for i in selected)
    if desired is None or allowed is None:
        wanted = _expected(snapshot, spec, selected, scales)
        # The controller's fail-safe allows nothing and keeps the remaining status, which is zero at first.
        expected, computed = wanted or (0, 0)
        desired = computed if desired is None else desired
        if allowed is None:
            allowed = healthy - desired if expected > 0 else 0
    return healthy, desired, max(0, allowed)


def _expected(
    snapshot: Snapshot, spec: workload_objects.PodDisruptionBudgetSpec, selected: list[int], scales: _BudgetScales
) -> tuple[int, int] | None:
    """Return the number of expected pods and of those that must be healthy; None if the controller cannot tell."""
    if spec.maxUnavailable is None and spec.minAvailable is None:
        return 0, 0
    if spec.maxUnavailable is None and isinstance(spec.minAvailable, int):
        return len(selected), spec.minAvailable
    scale = scales.total(snapshot.pods[i] for i in selected)
    if scale is None:
        return None
    given = spec.maxUnavailable if spec.maxUnavailable is not None else spec.minAvailable
    share = _share(given, scale)
    if share is None:
        return None
    return scale, max(0, scale - share) if spec.maxUnavailable is not None else share


def _share(given: int | str | None, of: int) -> int | None:
    """Return a number, or a percentage rounded up (intstr.GetScaledValueFromIntOrPercent); None for other texts."""
    if given is None or isinstance(given, int):
        return given
    percent = _PERCENT.match(given)
    return None if percent is None else -(-int(percent[1]) * of // 100)


class _BudgetScales:
    """The number of pods that each controller of a snapshot wants."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._objects: dict[tuple[str, str, str], Any] = {}
        for kind in _SCALED:
            for obj in snapshot.workloads.get(kind, ()):
                if obj.spec is not None:
                    self._objects[kind, obj.metadata.namespace or "default", obj.metadata.name or ""] = obj
        self._pods: dict[tuple[str, str, str], int] = {}
        for pod in snapshot.pods:
            owner = objects.controller_of(pod)
            if owner is not None and not objects.is_terminal(pod):
                key = owner.kind, pod.metadata.namespace or "default", owner.name
                self._pods[key] = self._pods.get(key, 0) + 1

    def total(self, pods: Iterable[objects.Pod]) -> int | None:
        """Return the total over the controllers of these pods; None if one has no scale. Bare pods count 0."""
        scales: dict[tuple[str, str, str], int] = {}
        for pod in pods:
            owner = objects.controller_of(pod)
            if owner is None:
                continue
            if owner.kind not in _SCALED:
                return None
            key = self._key(owner, pod)
            if key not in scales:
                obj = self._objects.get(key)
                scales[key] = self._pods.get(key, 0) if obj is None else obj.spec.replicas
        return sum(scales.values())

    def _key(self, owner: objects.OwnerReference, pod: objects.Pod) -> tuple[str, str, str]:
        """Return the controller whose scale counts: for a ReplicaSet, its Deployment if the snapshot has it."""
        namespace = pod.metadata.namespace or "default"
        if owner.kind != "ReplicaSet":
            return owner.kind, namespace, owner.name
        own = "ReplicaSet", namespace, owner.name
        replica_set = self._objects.get(own)
        above: str | None = None
        if replica_set is not None:
            reference = objects.controller_of(replica_set)
            above = reference.name if reference is not None and reference.kind == "Deployment" else None
        else:
            above = deployment_by_hash(owner, pod)
        deployment = "Deployment", namespace, above or ""
        return deployment if deployment in self._objects else own


@dataclass
class _Labelled:
    """The pods of one namespace that share their labels."""

    labels: dict[str, str]
    pods: list[int] = field(default_factory=list)


class _Selection:
    """Pods by namespace and label, so that a selector is checked against few pods."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._all: dict[str, list[_Labelled]] = {}
        self._by_key: dict[tuple[str, str], list[_Labelled]] = {}
        self._by_value: dict[tuple[str, str, str], list[_Labelled]] = {}
        shared: dict[tuple[str, int], _Labelled] = {}  # equal labels are mostly one object (kubestow.models.snapshot.interning)
        if not snapshot.pod_disruption_budgets:
            return
        for i, pod in enumerate(snapshot.pods):
            namespace, labels = pod.metadata.namespace or "default", pod.metadata.labels or {}
            key = namespace, id(pod.metadata.labels)
            if key not in shared:
                one = shared[key] = _Labelled(labels)
                self._all.setdefault(namespace, []).append(one)
                for name, value in labels.items():
                    self._by_key.setdefault((namespace, name), []).append(one)
                    self._by_value.setdefault((namespace, name, value), []).append(one)
            shared[key].pods.append(i)

    def of(self, namespace: str, selector: Selector | None) -> list[int]:
        """Return the ascending indices of the pods of a namespace that a selector matches."""
        if selector is None:
            return []
        candidates = min(self._candidates(namespace, selector), key=len)
        return sorted(i for one in candidates if selector_matches(selector, one.labels) for i in one.pods)

    def _candidates(self, namespace: str, selector: Selector) -> Iterator[list[_Labelled]]:
        yield self._all.get(namespace, [])
        for key, operator, values in selector:
            if operator == "In":
                yield [one for value in values for one in self._by_value.get((namespace, key, value), ())]
            elif operator == "Exists":
                yield self._by_key.get((namespace, key), [])
