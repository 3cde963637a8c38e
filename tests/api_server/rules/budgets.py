"""The arithmetic of PodDisruptionBudgets, as in the disruption controller (``pkg/controller/disruption``)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.api_server.resources import BUDGETS, PODS
from tests.api_server.rules.selectors import labels_match
from tests.api_server.store import Store, controller_of, is_ready

Object = dict[str, Any]
_SCALES = {"Deployment", "ReplicaSet", "ReplicationController", "StatefulSet"}


@dataclass(frozen=True)
class Demand:
    """The pods that a budget requires and has. ``healthy`` counts Ready pods that are neither terminating nor being evicted."""

    expected: int
    desired: int
    healthy: int
    fault: str = ""

    @property
    def allowed(self) -> int:
        """The number of pods that may be disrupted."""
        return max(0, self.healthy - self.desired) if self.expected > 0 and not self.fault else 0


def budgets_of(store: Store, pod: Object) -> list[Object]:
    """Return the budgets whose selectors select a pod."""
    namespace, labels = pod["metadata"]["namespace"], pod["metadata"].get("labels")
    found = (one for one in store.all(BUDGETS).values() if one["metadata"]["namespace"] == namespace)
    return [one for one in found if labels_match((one.get("spec") or {}).get("selector"), labels)]


def pods_of(store: Store, budget: Object) -> list[Object]:
    """Return the pods that a budget selects, terminated ones included."""
    namespace, selector = budget["metadata"]["namespace"], (budget.get("spec") or {}).get("selector")
    found = (pod for pod in store.all(PODS).values() if pod["metadata"]["namespace"] == namespace)
    return [pod for pod in found if labels_match(selector, pod["metadata"].get("labels"))]


def _scaled(value: int | str, total: int) -> int:
    """Return a number, or a percentage of a total, rounded up."""
    if isinstance(value, int):
        return value
    return -(-int(value.removesuffix("%")) * total // 100)


def _scale(store: Store, pods: list[Object]) -> tuple[int, str]:
    """Return the sum of the scales of the pods' controllers, and the reason if it is unknown."""
    scales: dict[str, int] = {}
    for pod in pods:
        owner = controller_of(pod)
        if owner is None or owner["uid"] in scales:
            continue
        found = store.by_uid(owner["uid"])
        if found is not None and found[0].kind == "ReplicaSet" and (above := controller_of(found[1])) is not None:
            found = store.by_uid(above["uid"]) or found
        if found is None or found[0].kind not in _SCALES:
            return 0, f'found no controllers for pod "{pod["metadata"]["name"]}"'
        replicas = (found[1].get("spec") or {}).get("replicas")
        scales[found[1]["metadata"]["uid"]] = 1 if replicas is None else int(replicas)
    return sum(scales.values()), ""


def demand(store: Store, budget: Object, *, disrupted: bool = True) -> Demand:
    """Return the pods that a budget requires and has. ``disrupted``: exclude pods that its status lists as being evicted."""
    pods = pods_of(store, budget)
    about = (budget.get("status") or {}).get("disruptedPods") or {} if disrupted else {}
    healthy = sum(
        1 for pod in pods if "deletionTimestamp" not in pod["metadata"] and pod["metadata"]["name"] not in about and is_ready(pod)
    )
    spec = budget.get("spec") or {}
    most, least = spec.get("maxUnavailable"), spec.get("minAvailable")
    if most is not None:
        expected, fault = _scale(store, pods)
        return Demand(expected, max(0, expected - _scaled(most, expected)), healthy, fault)
    if isinstance(least, str):
        expected, fault = _scale(store, pods)
        return Demand(expected, _scaled(least, expected), healthy, fault)
    return Demand(len(pods), int(least) if least is not None else 0, healthy)
