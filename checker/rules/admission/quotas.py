"""Pods that cannot be created, because a RuntimeClass, a LimitRange, their namespace's annotations or a ResourceQuota refuses them.

Computed by the checker from the raw objects. Pods are created in the order of ``Snapshot.to_create``. Each is
charged to every quota that covers it, placed or not. Under a policy that charges opportunity cost, a new pod is
charged at least the maximum capacity that it may close to others. For running pods, a quota is charged for the
nodes that they close, each once.

Source: k8s.io/kubernetes plugin/pkg/admission/{runtimeclass,limitranger}, pkg/quota/v1/evaluator/core/pods.go.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from fractions import Fraction
from typing import Final

from kubestow.checker.reading import resources
from kubestow.checker.rules.admission import namespaces as namespace_admission
from kubestow.checker.rules.admission.opportunity_cost import ClosedNodes
from kubestow.checker.rules.base import CreationLedger, Fault
from kubestow.models.documents.policy import DEFAULT as DEFAULT_POLICY
from kubestow.models.documents.policy import Policy
from kubestow.models.kube import objects, pod_spec, quantity
from kubestow.models.kube.feature_gates import DEFAULT
from kubestow.models.kube.namespace_limits import LimitRangeItem, ResourceQuota, RuntimeScheduling, ScopedResourceSelectorRequirement
from kubestow.models.snapshot.snapshot import Snapshot

_Exact = dict[str, Fraction]
_COMPUTE: Final = ("cpu", "memory")
_NONE: Final = Fraction(0)


class QuotaBooks(CreationLedger):
    """The quotas and LimitRanges of a snapshot, with the use of the quotas by its pods.

    Args:
        snapshot: The snapshot.
        absent: Keys of pods of the snapshot that do not exist (yet).
        policy: The policy; it determines what quotas charge.
        exempt: Namespaces that are exempt from required anti-affinity.
    """

    def __init__(
        self, snapshot: Snapshot, absent: Collection[str] = (), *, policy: Policy = DEFAULT_POLICY, exempt: Collection[str] = ()
    ) -> None:
        self._snapshot = snapshot
        self._closing = ClosedNodes(snapshot, exempt) if policy.quotaCharge == "opportunityCost" else None
        self._there = {key: pod for pod in snapshot.pods if (key := objects.pod_key(pod)) not in absent}
        self._created: list[objects.Pod] = []
        self._hard = [(quota, _read(quota.spec.hard if quota.spec else None)) for quota in snapshot.resource_quotas.values()]
        self._books = self._opened()

    def _opened(self) -> list[tuple[ResourceQuota, _Exact, _Exact]]:
        """Return the quotas with their use by present and created pods."""
        present = [*self._there.values(), *self._snapshot.left_out]
        books = [(quota, hard, _used(quota, present, self._closing)) for quota, hard in self._hard]
        for quota, _, used in books:
            for pod in self._created:
                if _covers(quota, pod):
                    _charge(used, _at_creation(pod, self._closing))
        return books

    def create(self, pod: objects.Pod) -> None:
        """Add a created pod. Its charge does not change later."""
        self._created.append(pod)
        for quota, _, used in self._books:
            if _covers(quota, pod):
                _charge(used, _at_creation(pod, self._closing))

    def remove(self, pod: objects.Pod) -> None:
        """Remove a pod of the snapshot."""
        del self._there[objects.pod_key(pod)]
        if self._closing is not None:
            self._books = self._opened()  # nodes that other pods also close stay charged
            return
        for quota, _, used in self._books:
            if _covers(quota, pod):
                gone = _use(pod) if not objects.is_terminal(pod) else {"count/pods": Fraction(1)}
                _charge(used, {name: -amount for name, amount in gone.items()})

    def forget(self, pod: objects.Pod) -> None:
        """Remove a pod of the snapshot, or one that was created."""
        made = next((each for each in self._created if each is pod), None)
        if made is None:
            self.remove(pod)
            return
        self._created = [each for each in self._created if each is not pod]
        self._books = self._opened()

    def fault(self, pod: objects.Pod) -> Fault | None:
        """Return the rule that refuses one more pod, with the reason, or None.

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
        use = _at_creation(pod, self._closing) if covering else {}
        for quota, hard, used in covering:
            over = [name for name, limit in hard.items() if use.get(name) and used.get(name, _NONE) + use[name] > limit]
            if over or _unstated(pod, hard):
                why = f"{', '.join(over)} used up" if over else "requests or limits are not stated"
                return "ResourceQuota", f"quota {quota.metadata.name}: {why}"
        return None


def refused(snapshot: Snapshot, policy: Policy = DEFAULT_POLICY, exempt: Collection[str] = ()) -> dict[str, Fault]:
    """Return the rule and reason for each pod that cannot be created, by pod key.

    Args:
        snapshot: The snapshot.
        policy: The policy; it determines what quotas charge.
        exempt: Namespaces that are exempt from required anti-affinity.

    Raises:
        QuantityError: a quantity in the snapshot is malformed or beyond 64 bits.
    """
    if not snapshot.to_create:
        return {}
    found = {key: ("RuntimeClass", why) for key, why in _unlike_class(snapshot)}
    if snapshot.resource_quotas or snapshot.limit_ranges or namespace_admission.governed(snapshot):
        found |= _beyond(snapshot, found, policy, exempt)
    return found


def _unlike_class(snapshot: Snapshot) -> Iterator[tuple[str, str]]:
    """Yield the pods that differ from their RuntimeClass in overhead, node selector or tolerations, with the reason."""
    ahead = frozenset(snapshot.to_create)
    for pod in snapshot.pods:
        spec, key = pod.spec, objects.pod_key(pod)
        if key not in ahead or pod.metadata.uid or spec.nodeName or (spec.runtimeClassName is None and not spec.overhead):
            continue
        of = snapshot.runtime_classes.get(spec.runtimeClassName or "")
        if of is None and spec.runtimeClassName is not None:
            yield key, f"there is no RuntimeClass {spec.runtimeClassName}"
            continue
        if _read(spec.overhead) != _read(of.overhead.podFixed if of is not None and of.overhead is not None else None):
            yield key, f"its overhead is not that of RuntimeClass {spec.runtimeClassName}"
        scheduling = (of.scheduling if of is not None else None) or RuntimeScheduling()
        lacking = (scheduling.nodeSelector or {}).items() - (spec.nodeSelector or {}).items()
        if lacking:
            yield key, f"its node selector lacks {min(lacking)[0]} of RuntimeClass {spec.runtimeClassName}"
        if not all(any(_takes_in(own, each) for own in spec.tolerations or ()) for each in scheduling.tolerations or ()):
            yield key, f"it lacks a toleration of RuntimeClass {spec.runtimeClassName}"


def _takes_in(own: objects.Toleration, requested: objects.Toleration) -> bool:
    """Return True if a pod's toleration covers another one."""
    if own.effect and own.effect != requested.effect:
        return False
    if own.operator == "Exists":
        return not own.key or own.key == requested.key
    return (own.key, own.operator or "Equal", own.value or "") == (requested.key, requested.operator or "Equal", requested.value or "")


def _beyond(snapshot: Snapshot, refused_before: Mapping[str, Fault], policy: Policy, exempt: Collection[str]) -> dict[str, Fault]:
    """Return the pods that limits, quotas or namespaces refuse. Refused pods are not charged."""
    ahead = dict.fromkeys(key for key in snapshot.to_create if key not in refused_before)
    pods = {objects.pod_key(pod): pod for pod in snapshot.pods}
    books = QuotaBooks(snapshot, frozenset(snapshot.to_create), policy=policy, exempt=exempt)
    found: dict[str, Fault] = {}
    for key in ahead:
        if key in pods:
            fault = books.fault(pods[key])
            if fault is not None:
                found[key] = fault
            else:
                books.create(pods[key])
    return found


def _used(quota: ResourceQuota, there: Iterable[objects.Pod], closing: ClosedNodes | None) -> _Exact:
    """Return the use of a quota by the pods of the cluster.

    Args:
        quota: The quota.
        there: The pods.
        closing: The nodes that pods close, which are charged, too; None if only requests are charged.
    """
    used: _Exact = {}
    requests_by_node: dict[str, _Exact] = {}  # by node
    closed: set[str] = set()
    for pod in there:
        if not _covers(quota, pod):
            continue
        if objects.is_terminal(pod):
            _charge(used, {"count/pods": Fraction(1)})
            continue
        node = pod.spec.nodeName or ""
        if closing is None or not closing.has(node):
            _charge(used, _at_creation(pod, closing))
            continue
        own = _use(pod)
        _charge(used, own)
        _charge(requests_by_node.setdefault(node, {}), own)
        closed |= closing.by(pod)
    for node in sorted(closed):
        whole = _named(closing.together([node])) if closing is not None else {}
        _charge(
            used,
            {name: amount - had for name, amount in whole.items() if (had := requests_by_node.get(node, {}).get(name, _NONE)) < amount},
        )
    return used


def _at_creation(pod: objects.Pod, closing: ClosedNodes | None) -> _Exact:
    """Return the charge for a pod when it is created."""
    use = _use(pod)
    for name, amount in _named(closing.ceiling(pod) if closing is not None else {}).items():
        use[name] = max(amount, use.get(name, _NONE))
    return use


def _named(amounts: Mapping[str, int]) -> _Exact:
    """Return amounts under the names that quotas use."""
    found: _Exact = {}
    for name, amount in amounts.items():
        found[f"requests.{name}"] = Fraction(amount, 1000) if name == "cpu" else Fraction(amount)
        if "/" not in name:
            found[name] = found[f"requests.{name}"]
    return found


def _read(listed: Mapping[str, objects.RawQuantity] | None) -> _Exact:
    return {name: quantity.parse(raw) for name, raw in (listed or {}).items()}


def _charge(used: _Exact, use: Mapping[str, Fraction]) -> None:
    for name, amount in use.items():
        used[name] = used.get(name, _NONE) + amount


def _stated(container: objects.Container) -> tuple[_Exact, _Exact]:
    """Return requests and limits of a container as stored. A limit replaces a missing request."""
    own = container.resources or objects.ResourceRequirements()
    limits = _read(own.limits)
    return {**limits, **_read(own.requests)}, limits


def _whole(pod: objects.Pod) -> tuple[_Exact, _Exact]:
    """Return requests and limits of a pod: the maximum over time."""
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
    for name, limit in _read(item.max).items():
        if name not in limits or limits[name] > limit or requests.get(name, limit) > limit:
            return False
    for name, ratio in _read(item.maxLimitRequestRatio).items():
        if not requests.get(name) or not limits.get(name) or limits[name] / requests[name] > ratio:
            return False
    return True


# --- quotas -----------------------------------------------------------------------------------------------------------------------------


def _use(pod: objects.Pod) -> _Exact:
    """Return the pod's use of the resources that quotas name."""
    use: _Exact = {"pods": Fraction(1), "count/pods": Fraction(1)}
    use |= _named(resources.pod_requests(pod, DEFAULT, bound=bool(pod.spec.nodeName)))
    return use | {f"limits.{name}": limit for name, limit in _whole(pod)[1].items()}


def _unstated(pod: objects.Pod, hard: Mapping[str, Fraction]) -> bool:
    level = pod.spec.resources or objects.ResourceRequirements()
    if any(name in _COMPUTE or name.startswith("hugepages-") for part in (level.requests, level.limits) for name in part or ()):
        return False  # with pod-level resources, containers need not state theirs
    parts = [_stated(container) for container in (*(pod.spec.containers or ()), *(pod.spec.initContainers or ()))]
    for name in _COMPUTE:
        limited = name in hard or f"requests.{name}" in hard
        if limited and any(name not in requests for requests, _ in parts):
            return True
        if f"limits.{name}" in hard and any(name not in limits for _, limits in parts):
            return True
    return False


def _covers(quota: ResourceQuota, pod: objects.Pod) -> bool:
    """Return True if a quota is in the pod's namespace and the pod is in all its scopes."""
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
