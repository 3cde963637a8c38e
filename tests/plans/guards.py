"""Movable pods and the limits of disruption budgets, on plain API objects.

Sources: the meaning of a plan (docs); kubernetes/kubernetes pkg/controller/disruption/disruption.go (expected counts) and
pkg/registry/core/pod/storage/eviction.go (unhealthy pods).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tests.plans.cluster import ABSENT, Pod, TinyCluster, selects

Object = Mapping[str, Any]

REPLACED: Final = ("ReplicaSet", "ReplicationController", "StatefulSet", "Job")
_SAFE: Final = "cluster-autoscaler.kubernetes.io/safe-to-evict"
_EVICT: Final = "descheduler.alpha.kubernetes.io/evict"


def controller(pod: Pod) -> Object | None:
    """The owner that is in charge of the pod."""
    owners = pod.raw["metadata"].get("ownerReferences", ())
    return next((owner for owner in owners if owner.get("controller")), None)


def exclusion(cluster: TinyCluster, pod: Pod, budgets: Sequence[Guard], also_move: Collection[str] = ()) -> str | None:
    """Why a running pod may not be moved; None if it may."""
    notes, owner = pod.annotations, controller(pod)
    if pod.terminating:
        return "terminating"
    if is_static(pod):
        return "mirror"
    if owner is not None and owner["kind"] == "DaemonSet":
        return "daemonset"
    if (
        notes.get(_SAFE) == "false"
        or notes.get("karpenter.sh/do-not-disrupt") == "true"
        or "descheduler.alpha.kubernetes.io/prefer-no-eviction" in notes
    ):
        return "do-not-disrupt"
    if owner is None and "bare" not in also_move and _EVICT not in notes:
        return "bare"
    if owner is not None and owner["kind"] not in REPLACED:
        return "owner"
    gang = notes.get("kubestow.dev/gang")
    if gang is not None and sum(p.annotations.get("kubestow.dev/gang") == gang and not p.terminating for p in cluster.pods) > 1:
        return "gang"
    local = any(
        "hostPath" in volume or ("emptyDir" in volume and volume["emptyDir"].get("medium") != "Memory")
        for volume in pod.spec.get("volumes", ())
    )
    if local and "local-storage" not in also_move and notes.get(_SAFE) != "true" and _EVICT not in notes:
        return "local-storage"
    mine = [guard for guard in budgets if pod.index in guard.pods]
    refused = len(mine) > 1 or any(guard.allowed == 0 and pod.index not in guard.free for guard in mine)
    return "budgets" if refused and pod.raw["status"]["phase"] != "Pending" else None


def is_static(pod: Pod) -> bool:
    """Return whether the kubelet of its node runs the pod."""
    return "kubernetes.io/config.mirror" in pod.annotations


def stays_with_node(pod: Pod) -> bool:
    """Return whether a node counts as empty with the pod on it."""
    owner = controller(pod)
    return is_static(pod) or (owner is not None and owner["kind"] == "DaemonSet")


def guards(budget: Object, pod: Pod) -> bool:
    """Return whether a PodDisruptionBudget selects the pod."""
    return budget["metadata"].get("namespace", "default") == pod.namespace and selects(budget["spec"].get("selector"), pod.labels)


@dataclass
class Guard:
    """``allowed``: how many of ``pods`` but those that are ``free`` may be missing at once."""

    allowed: int
    pods: set[int] = field(default_factory=set)
    free: set[int] = field(default_factory=set)


def healthy(pod: Pod) -> bool:
    """Return whether a running pod is Ready, or has no such condition."""
    conditions = pod.raw["status"].get("conditions")
    if pod.home == ABSENT or pod.terminating:
        return False
    return not conditions or any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def read(cluster: TinyCluster) -> list[Guard]:
    """The budgets of a cluster that guard some running pod."""
    found = []
    for budget in cluster.objects:
        if budget["kind"] != "PodDisruptionBudget":
            continue
        selected = [pod for pod in cluster.pods if guards(budget, pod)]
        status = status_of(cluster, budget)
        desired = status["desiredHealthy"]
        guard = Guard(status["disruptionsAllowed"])
        for pod in selected:
            if pod.home == ABSENT:
                continue
            guard.pods.add(pod.index)
            unhealthy = not healthy(pod)
            always = budget["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow"
            if pod.raw["status"]["phase"] == "Pending" or (unhealthy and (always or status["currentHealthy"] >= desired > 0)):
                guard.free.add(pod.index)
        if guard.pods:
            found.append(guard)
    return found


def status_of(cluster: TinyCluster, budget: Object) -> Object:
    """Return the status of a budget, computed if it is absent."""
    found: Object | None = budget.get("status")
    return found or _computed(cluster, budget["spec"], [pod for pod in cluster.pods if guards(budget, pod)])


def _computed(cluster: TinyCluster, spec: Object, selected: list[Pod]) -> dict[str, int]:
    """Status as the disruption controller writes it."""
    current = sum(healthy(pod) for pod in selected)
    owners = {(owner["kind"], pod.namespace, owner["name"]) for pod in selected if (owner := controller(pod)) is not None}
    if isinstance(spec.get("minAvailable"), int):
        expected, desired = len(selected), spec["minAvailable"]
        return {"disruptionsAllowed": max(0, current - desired) if expected else 0, "currentHealthy": current, "desiredHealthy": desired}
    if any(kind not in ("ReplicaSet", "StatefulSet") for kind, *_ in owners):  # no scale to be read: the controller allows nothing
        return {"disruptionsAllowed": 0, "currentHealthy": current, "desiredHealthy": 0}
    expected = sum(
        thing["spec"]["replicas"]
        for thing in cluster.objects
        if (thing["kind"], thing["metadata"].get("namespace", "default"), thing["metadata"]["name"]) in owners
    )
    if "maxUnavailable" in spec:
        desired = max(0, expected - _share(spec["maxUnavailable"], expected))
    else:
        desired = _share(spec["minAvailable"], expected)
    allowed = max(0, current - desired) if expected > 0 else 0
    return {"disruptionsAllowed": allowed, "currentHealthy": current, "desiredHealthy": desired}


def _share(value: int | str, total: int) -> int:
    """A number, or a percentage of ``total``, rounded up."""
    if isinstance(value, int):
        return value
    return -(-int(value.removesuffix("%")) * total // 100)
