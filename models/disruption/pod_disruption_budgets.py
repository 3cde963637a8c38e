"""PodDisruptionBudgets: which pods each guards, and how many of them may be evicted now.

Sources: pkg/controller/disruption/disruption.go (getExpectedPodCount, getExpectedScale, countHealthyPods, updatePdbStatus, failSafe) and
pkg/registry/core/pod/storage/eviction.go (canIgnorePDB, Create) of Kubernetes.
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

#: Controllers with a scale; a budget that needs the scale of any other one allows nothing.
_SCALED: Final = ("Deployment", "ReplicaSet", "StatefulSet", "ReplicationController")
_PERCENT: Final = re.compile(r"([0-9]+)%\Z", re.ASCII)


@dataclass(frozen=True)
class DisruptionBudget:
    """A budget with what it allows at the start. ``name``: ``namespace/name``; ``pods``: indices into ``snapshot.pods`` of those that it
    selects and that run; ``free``: those of them that may be evicted without asking it; ``allowed``: evictions at once of the others.
    ``healthy``: how many pods are healthy; ``desired``: how many have to be, 0 where the controller cannot tell; ``never``: it allows
    nothing even when all its pods are healthy."""

    name: str
    pods: tuple[int, ...]
    free: frozenset[int]
    allowed: int
    healthy: int = field(default=0, compare=False)
    desired: int = field(default=0, compare=False)
    never: bool = field(default=False, compare=False)


def ignores_budgets(pod: objects.Pod) -> bool:
    """Return whether the Eviction API lets a pod go without looking at any budget (canIgnorePDB), be it one or several that select it."""
    return objects.is_terminal(pod) or objects.is_terminating(pod) or (pod.status is not None and pod.status.phase == "Pending")


def is_ready(pod: objects.Pod) -> bool:
    """Return whether a running pod has the condition Ready. Objects without any conditions were never in a cluster: they count as ready."""
    conditions = (pod.status.conditions if pod.status is not None else None) or ()
    return not conditions or any(each.type == "Ready" and each.status == "True" for each in conditions)


def budgets(snapshot: Snapshot) -> list[DisruptionBudget]:
    """Return the budgets that select a running pod (bound, neither over nor being deleted), in input order.

    A budget selects pods of its own namespace; without a selector none, with an empty one all. What its status says counts; what that
    lacks is computed as the disruption controller does, from the scale of the pods' controllers unless minAvailable is a number. Two
    things differ, as a dump need not be whole: a controller is known by kind and name, and where its object is missing, its pods that are
    not over stand for its scale (those being deleted included, so that too few evictions are allowed rather than too many).
    """
    selection, scales = _Selection(snapshot), _Scales(snapshot)
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
    """Return whether a budget allows nothing even when all its pods are healthy. Where the snapshot does not tell (``expected`` None: a
    controller that is not known may have a scale in the cluster), the status does, if the disruption controller could tell."""
    if expected is None and status is not None and status.expectedPods and status.desiredHealthy is not None:
        expected = status.expectedPods, status.desiredHealthy
    return expected is not None and expected[1] >= expected[0]


def is_healthy(pod: objects.Pod) -> bool:
    """Return whether a budget counts a pod that it selects as healthy (countHealthyPods)."""
    return bool(pod.spec.nodeName) and is_ready(pod) and not ignores_budgets(pod)


def _state(
    snapshot: Snapshot,
    budget: workload_objects.PodDisruptionBudget,
    spec: workload_objects.PodDisruptionBudgetSpec,
    selected: list[int],
    scales: _Scales,
) -> tuple[int, int, int]:
    """Return how many pods are healthy, how many have to be, and how many evictions are allowed."""
    status = budget.status or workload_objects.PodDisruptionBudgetStatus()
    healthy, desired, allowed = status.currentHealthy, status.desiredHealthy, status.disruptionsAllowed
    if healthy is None:
        healthy = sum(is_healthy(snapshot.pods[i]) for i in selected)
    if desired is None or allowed is None:
        wanted = _expected(snapshot, spec, selected, scales)
        # The controller's fail-safe allows nothing and leaves the rest of the status as it is, which is zero at first.
        expected, computed = wanted or (0, 0)
        desired = computed if desired is None else desired
        if allowed is None:
            allowed = healthy - desired if expected > 0 else 0
    return healthy, desired, max(0, allowed)


def _expected(
    snapshot: Snapshot, spec: workload_objects.PodDisruptionBudgetSpec, selected: list[int], scales: _Scales
) -> tuple[int, int] | None:
    """Expected pods, and how many of them have to be healthy; None where the controller cannot tell."""
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
    """A number, or a percentage rounded up (intstr.GetScaledValueFromIntOrPercent); None for other texts."""
    if given is None or isinstance(given, int):
        return given
    percent = _PERCENT.match(given)
    return None if percent is None else -(-int(percent[1]) * of // 100)


class _Scales:
    """How many pods the controllers of a snapshot want."""

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
        """Return the sum over the controllers of these pods; pods without one count nothing. None: one of them has no scale."""
        found: dict[tuple[str, str, str], int] = {}
        for pod in pods:
            owner = objects.controller_of(pod)
            if owner is None:
                continue
            if owner.kind not in _SCALED:
                return None
            key = self._key(owner, pod)
            if key not in found:
                obj = self._objects.get(key)
                found[key] = self._pods.get(key, 0) if obj is None else obj.spec.replicas
        return sum(found.values())

    def _key(self, owner: objects.OwnerReference, pod: objects.Pod) -> tuple[str, str, str]:
        """The controller whose scale counts: for a ReplicaSet its Deployment, where the snapshot has that."""
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
    """Pods by namespace and label, so that a selector looks at few that it does not match."""

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
        """Indices of the pods of a namespace that a selector matches, ascending."""
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
