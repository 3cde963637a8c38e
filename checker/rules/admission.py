"""Which pods that are yet to be created are refused by a LimitRange, a ResourceQuota or annotations of their namespace, computed by the
checker from the raw objects.

Pods are created in the order of ``Snapshot.to_create``; each takes what it uses of every quota that concerns it, placed or not.

Source: k8s.io/kubernetes plugin/pkg/admission/limitranger, pkg/quota/v1/evaluator/core/pods.go.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from fractions import Fraction
from typing import Final

from checker.rules import namespace_admission, resources
from models.kube import objects, pod_spec, quantity
from models.kube.feature_gates import DEFAULT
from models.kube.namespace_limits import LimitRangeItem, ResourceQuota, ScopedResourceSelectorRequirement
from models.snapshot.snapshot import Snapshot

Fault = tuple[str, str]  # rule, why
_Exact = dict[str, Fraction]
_COMPUTE: Final = ("cpu", "memory")
_NONE: Final = Fraction(0)


class Books:
    """The quotas and LimitRanges of a snapshot, with what its pods use of the quotas."""

    def __init__(self, snapshot: Snapshot, absent: Collection[str] = ()) -> None:
        """``absent``: keys of pods of the snapshot that are not there, or not yet."""
        self._snapshot = snapshot
        self._books = [
            (quota, _read(quota.spec.hard if quota.spec else None), dict[str, Fraction]()) for quota in snapshot.resource_quotas.values()
        ]
        for pod in (*(pod for pod in snapshot.pods if objects.pod_key(pod) not in absent), *snapshot.left_out) if self._books else ():
            self.charge(pod)

    def charge(self, pod: objects.Pod, sign: int = 1) -> None:
        """Count a pod as created, or as gone with sign -1."""
        for quota, _, used in self._books:
            if _covers(quota, pod):
                use = _use(pod) if not objects.is_terminal(pod) else {"count/pods": Fraction(1)}
                _charge(used, {name: sign * amount for name, amount in use.items()})

    def fault(self, pod: objects.Pod) -> Fault | None:
        """Return what refuses one more pod.

        Raises:
            QuantityError: a quantity in the snapshot is malformed or beyond 64 bits.
        """
        outside = next(_outside_limits(self._snapshot, pod), None)
        if outside is not None:
            return "LimitRanger", outside
        barred = namespace_admission.fault(self._snapshot, pod)
        if barred is not None:
            return barred
        covering = [book for book in self._books if _covers(book[0], pod)]
        use = _use(pod) if covering else {}
        for quota, hard, used in covering:
            over = [name for name, most in hard.items() if use.get(name) and used.get(name, _NONE) + use[name] > most]
            if over or _unstated(pod, hard):
                why = f"{', '.join(over)} used up" if over else "requests or limits are not stated"
                return "ResourceQuota", f"quota {quota.metadata.name}: {why}"
        return None


def refused(snapshot: Snapshot) -> dict[str, Fault]:
    """Return by pod key what refuses each pod that cannot be created.

    Raises:
        QuantityError: a quantity in the snapshot is malformed or beyond 64 bits.
    """
    if not snapshot.to_create or not (snapshot.resource_quotas or snapshot.limit_ranges or namespace_admission.governed(snapshot)):
        return {}
    ahead = dict.fromkeys(snapshot.to_create)
    pods = {objects.pod_key(pod): pod for pod in snapshot.pods}
    books = Books(snapshot, ahead)
    found: dict[str, Fault] = {}
    for key in ahead:
        if key in pods:
            fault = books.fault(pods[key])
            if fault is not None:
                found[key] = fault
            else:
                books.charge(pods[key])
    return found


def _read(listed: Mapping[str, objects.RawQuantity] | None) -> _Exact:
    return {name: quantity.parse(raw) for name, raw in (listed or {}).items()}


def _charge(used: _Exact, use: Mapping[str, Fraction]) -> None:
    for name, amount in use.items():
        used[name] = used.get(name, _NONE) + amount


def _stated(container: objects.Container) -> tuple[_Exact, _Exact]:
    """Requests and limits of a container as stored: a limit stands in for a request."""
    own = container.resources or objects.ResourceRequirements()
    limits = _read(own.limits)
    return {**limits, **_read(own.requests)}, limits


def _whole(pod: objects.Pod) -> tuple[_Exact, _Exact]:
    """Requests and limits of a pod: the most that runs at a time."""
    requests = resources.most_at_once(pod.spec, lambda container, running: _stated(container)[0])
    limits = resources.most_at_once(pod.spec, lambda container, running: _stated(container)[1])
    level = pod.spec.resources or objects.ResourceRequirements()
    for total, stated in ((requests, level.requests), (limits, level.limits)):
        total.update({name: value for name, value in _read(stated).items() if name in _COMPUTE or name.startswith("hugepages-")})
    overhead = _read(pod.spec.overhead)
    _charge(requests, overhead)
    _charge(limits, {name: amount for name, amount in overhead.items() if name in limits})
    return requests, limits


# --- limits -----------------------------------------------------------------------------------------------------------------------------


def _outside_limits(snapshot: Snapshot, pod: objects.Pod) -> Iterator[str]:
    items = [
        item
        for found in snapshot.limit_ranges.values()
        if (found.metadata.namespace or "default") == (pod.metadata.namespace or "default")
        for item in (found.spec.limits if found.spec else None) or ()
    ]
    if not items:
        return
    parts = [(container.name or "", *_stated(container)) for container in (*(pod.spec.containers or ()), *(pod.spec.initContainers or ()))]
    for name, requests, limits in parts:
        if any(requests.get(resource, _NONE) > limit for resource, limit in limits.items()):
            yield f"container {name} requests more than its limit"
    for item in items:
        judged = parts if item.type == "Container" else [("", *_whole(pod))] if item.type == "Pod" else []
        for name, requests, limits in judged:
            if not _within(item, requests, limits):
                yield f"container {name} is outside the limits" if name else "the pod is outside the limits"


def _within(item: LimitRangeItem, requests: _Exact, limits: _Exact) -> bool:
    for name, least in _read(item.min).items():
        if name not in requests or requests[name] < least or limits.get(name, least) < least:
            return False
    for name, most in _read(item.max).items():
        if name not in limits or limits[name] > most or requests.get(name, most) > most:
            return False
    for name, ratio in _read(item.maxLimitRequestRatio).items():
        if not requests.get(name) or not limits.get(name) or limits[name] / requests[name] > ratio:
            return False
    return True


# --- quotas -----------------------------------------------------------------------------------------------------------------------------


def _use(pod: objects.Pod) -> _Exact:
    """What a pod takes of the resources that quotas name."""
    use: _Exact = {"pods": Fraction(1), "count/pods": Fraction(1)}
    for name, amount in resources.pod_requests(pod, DEFAULT, bound=bool(pod.spec.nodeName)).items():
        exact = Fraction(amount, 1000) if name == "cpu" else Fraction(amount)
        use[f"requests.{name}"] = exact
        if "/" not in name:
            use[name] = exact
    return use | {f"limits.{name}": limit for name, limit in _whole(pod)[1].items()}


def _unstated(pod: objects.Pod, hard: Mapping[str, Fraction]) -> bool:
    level = pod.spec.resources or objects.ResourceRequirements()
    if any(name in _COMPUTE or name.startswith("hugepages-") for part in (level.requests, level.limits) for name in part or ()):
        return False  # where pods as a whole state resources, containers need not
    parts = [_stated(container) for container in (*(pod.spec.containers or ()), *(pod.spec.initContainers or ()))]
    for name in _COMPUTE:
        asked = name in hard or f"requests.{name}" in hard
        if asked and any(name not in requests for requests, _ in parts):
            return True
        if f"limits.{name}" in hard and any(name not in limits for _, limits in parts):
            return True
    return False


def _covers(quota: ResourceQuota, pod: objects.Pod) -> bool:
    """Return whether a quota is of the pod's namespace and the pod is in all of its scopes."""
    if (quota.metadata.namespace or "default") != (pod.metadata.namespace or "default") or quota.spec is None:
        return False
    listed = [ScopedResourceSelectorRequirement(name, "Exists") for name in quota.spec.scopes or ()]
    listed += (quota.spec.scopeSelector.matchExpressions if quota.spec.scopeSelector else None) or ()
    return all(_scoped(pod, scope) for scope in listed)


def _scoped(pod: objects.Pod, scope: ScopedResourceSelectorRequirement) -> bool:
    name, spec = scope.scopeName, pod.spec
    if name in ("BestEffort", "NotBestEffort"):
        return (pod_spec.qos_class(pod) == pod_spec.BEST_EFFORT) == (name == "BestEffort")
    if name in ("Terminating", "NotTerminating"):
        return (spec.activeDeadlineSeconds is not None) == (name == "Terminating")
    if name == "PriorityClass":
        mine = spec.priorityClassName or ""
        listed = mine in (scope.values or ())
        return {"In": listed, "NotIn": not listed, "Exists": mine != "", "DoesNotExist": mine == ""}.get(scope.operator, False)
    if name != "CrossNamespacePodAffinity" or spec.affinity is None:
        return False
    for part in (spec.affinity.podAffinity, spec.affinity.podAntiAffinity):
        if part is not None:
            terms = list(part.requiredDuringSchedulingIgnoredDuringExecution or ())
            terms += [each.podAffinityTerm for each in part.preferredDuringSchedulingIgnoredDuringExecution or ()]
            if any(term.namespaces or term.namespaceSelector is not None for term in terms):
                return True
    return False
