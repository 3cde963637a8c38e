"""Admission of new pods: refusals by LimitRange, ResourceQuota and annotations of the namespace.

Pods use up a quota in the order in which they are created. If the remaining quota is too small for a pod, that pod is refused, even if
later pods are admitted. Pods already in the cluster only count as used.

A policy can charge opportunity cost to quotas (``quotaCharge``). A new pod that can close nodes to others is then charged for the largest
domain that it can close. A pod on a node is charged for the nodes that it closes. Nodes closed by several pods count once.

Sources: plugin/pkg/admission/limitranger and pkg/quota/v1/evaluator/core/pods.go.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from kubestow.models.admission import namespace_annotations as namespace_admission
from kubestow.models.cluster.anti_affinity.opportunity_cost import OpportunityCosts
from kubestow.models.documents.policy import DEFAULT as DEFAULT_POLICY
from kubestow.models.documents.policy import Policy
from kubestow.models.kube import objects, quantity
from kubestow.models.kube.feature_gates import DEFAULT
from kubestow.models.kube.namespace_limits import LimitRangeItem, ResourceQuota
from kubestow.models.kube.pod_requests import add, at_once, pod_level_resource, pod_request
from kubestow.models.kube.pod_spec import BEST_EFFORT, qos_class
from kubestow.models.snapshot.snapshot import Snapshot

LIMITS: Final = "LimitRanger"
QUOTA: Final = "ResourceQuota"
#: Text before the topology keys whose domains a quota charges.
BY_COST: Final = "by opportunity cost over"
Refusal = tuple[str, str]  # rule, why
Amounts = dict[str, Fraction]

#: Quota resources that every container must specify if the quota limits them.
_REQUIRED_RESOURCES: Final = {
    "cpu": ("requests", "cpu"), "requests.cpu": ("requests", "cpu"), "limits.cpu": ("limits", "cpu"),
    "memory": ("requests", "memory"), "requests.memory": ("requests", "memory"), "limits.memory": ("limits", "memory"),
}  # fmt: skip
_COUNT_RESOURCES: Final = ("pods", "count/pods")
#: Binary suffixes of quantities, with the number of bits to shift.
_BINARY_SUFFIXES: Final = ((60, "Ei"), (50, "Pi"), (40, "Ti"), (30, "Gi"), (20, "Mi"), (10, "Ki"))


class Admission:
    """The LimitRanges and quotas of a snapshot, with the usage of its pods and of pods admitted later."""

    def __init__(
        self, snapshot: Snapshot, new: Collection[int] = (), *, policy: Policy = DEFAULT_POLICY, exempt: Collection[str] = ()
    ) -> None:
        """Count the pods of a snapshot. ``new``: indices of pods still to be created; ``exempt``: namespaces without hard anti-affinity."""
        self._snapshot = snapshot
        self._items: dict[str, list[LimitRangeItem]] = {}
        for obj in snapshot.limit_ranges.values():
            self._items.setdefault(obj.metadata.namespace or "default", []).extend((obj.spec.limits if obj.spec else None) or ())
        costs = OpportunityCosts(snapshot, exempt) if policy.quotaCharge == "opportunityCost" else None
        self._ledgers = _ledgers(snapshot, new, costs) if snapshot.resource_quotas else {}

    def refusal(self, pod: objects.Pod) -> Refusal | None:
        """Return the rule that refuses one more pod with its reason, or None if the pod is admitted.

        Raises:
            QuantityError: A quantity is malformed or exceeds 64 bits.
        """
        why = self.always(pod)
        if why is not None:
            return why
        over = next((fault for ledger in self.concerned(pod) if (fault := ledger.fault(pod)) is not None), None)
        return (QUOTA, over) if over is not None else None

    def always(self, pod: objects.Pod) -> Refusal | None:
        """Return the rule that refuses a pod independently of the remaining quota, with its reason, or None.

        Raises:
            QuantityError: A quantity is malformed or exceeds 64 bits.
        """
        why = next(_limit_faults(pod, self._items.get(pod.metadata.namespace or "default", ())), None)
        if why is not None:
            return LIMITS, why
        refused = namespace_admission.refusal(pod, self._snapshot)
        if refused is not None:
            return refused
        unstated = next((fault for ledger in self.concerned(pod) if (fault := ledger.unstated(pod)) is not None), None)
        return (QUOTA, unstated) if unstated is not None else None

    def admit(self, pod: objects.Pod) -> None:
        """Add the charge of a created pod to the usage."""
        for ledger in self.concerned(pod):
            ledger.take(pod)

    def concerned(self, pod: objects.Pod) -> list[QuotaLedger]:
        """Return the quotas whose scopes include the pod."""
        return [ledger for ledger in self._ledgers.get(pod.metadata.namespace or "default", ()) if ledger.concerns(pod)]


def may_refuse(snapshot: Snapshot) -> bool:
    """Return True if any object of the snapshot can keep a pod from being created."""
    return bool(snapshot.limit_ranges or snapshot.resource_quotas) or namespace_admission.decides(snapshot)


def refusals(snapshot: Snapshot, policy: Policy = DEFAULT_POLICY, exempt: Collection[str] = ()) -> dict[int, Refusal]:
    """Return the refusals of pods still to be created, by index into ``snapshot.pods``. ``exempt``: namespaces without hard anti-affinity.

    Raises:
        QuantityError: A quantity is malformed or exceeds 64 bits.
    """
    if not snapshot.to_create or not may_refuse(snapshot):
        return {}
    index = {objects.pod_key(pod): i for i, pod in enumerate(snapshot.pods)}
    new = {index[key]: None for key in snapshot.to_create if key in index}
    admission = Admission(snapshot, new, policy=policy, exempt=exempt)
    refused: dict[int, Refusal] = {}
    for i in new:
        why = admission.refusal(snapshot.pods[i])
        if why is not None:
            refused[i] = why
        else:
            admission.admit(snapshot.pods[i])
    return refused


# --- LimitRange -------------------------------------------------------------------------------------------------------------------------


def _amounts(resources: Mapping[str, objects.RawQuantity] | None) -> Amounts:
    return {name: quantity.parse(raw) for name, raw in (resources or {}).items()}


def _limit_faults(pod: objects.Pod, items: Iterable[LimitRangeItem]) -> Iterator[str]:
    """Yield the violations of LimitRange items, by container, then for the whole pod."""
    listed = (*(pod.spec.containers or ()), *(pod.spec.initContainers or ()))
    for container in listed if items else ():
        for name, request in _amounts(container.resources.requests if container.resources else None).items():
            limit = _amounts(container.resources.limits if container.resources else None).get(name)
            if limit is not None and request > limit:
                yield f"container {container.name}: request of {amount(name, request)} {name} is above its limit of {amount(name, limit)}"
    for item in items:
        if item.type == "Container":
            for container in listed:
                own = container.resources or objects.ResourceRequirements()
                where = f"container {container.name}"
                yield from _item_faults(item, _amounts(own.requests), _amounts(own.limits), where)
        elif item.type == "Pod":
            yield from _item_faults(item, _total(pod, "requests"), _total(pod, "limits"), "the pod")


def _item_faults(item: LimitRangeItem, requests: Amounts, limits: Amounts, where: str) -> Iterator[str]:
    for name, least in _amounts(item.min).items():
        request, limit = requests.get(name), limits.get(name)
        if request is None:
            yield f"{where}: states no request of {name}, the LimitRange asks for at least {amount(name, least)}"
        elif request < least or (limit is not None and limit < least):
            less = amount(name, min(request, least if limit is None else limit))
            yield f"{where}: {less} {name} is below the minimum of {amount(name, least)}"
    for name, highest in _amounts(item.max).items():
        request, limit = requests.get(name), limits.get(name)
        if limit is None:
            yield f"{where}: states no limit of {name}, the LimitRange allows at most {amount(name, highest)}"
        elif limit > highest or (request is not None and request > highest):
            yield f"{where}: {amount(name, max(limit, request or limit))} {name} is above the maximum of {amount(name, highest)}"
    for name, ratio in _amounts(item.maxLimitRequestRatio).items():
        request, limit = requests.get(name), limits.get(name)
        if not request or not limit:
            yield f"{where}: states no request or no limit of {name}, the LimitRange allows a ratio of at most {ratio}"
        elif limit > ratio * request:
            yield f"{where}: limit {amount(name, limit)} {name} is more than {ratio} times the request {amount(name, request)}"


def _total(pod: objects.Pod, part: str) -> Amounts:
    """Return the total requests or limits (``part``) of a pod."""
    total = at_once(pod.spec, lambda container, _: _amounts(getattr(container.resources, part)) if container.resources else {})
    level = _amounts(getattr(pod.spec.resources, part)) if pod.spec.resources else {}
    total |= {name: value for name, value in level.items() if pod_level_resource(name)}
    for name, value in _amounts(pod.spec.overhead).items():
        if part == "requests" or name in total:
            total[name] = total.get(name, Fraction(0)) + value
    return total


# --- ResourceQuota ----------------------------------------------------------------------------------------------------------------------


class QuotaLedger:
    """A quota with its current usage."""

    def __init__(self, quota: ResourceQuota, known: dict[tuple[int, ...], Amounts], costs: OpportunityCosts | None) -> None:
        """Start with no usage. ``known`` caches usage for all quotas; ``costs`` is None unless opportunity cost is charged."""
        self.quota, self._known, self.costs = quota, known, costs
        self.present: list[objects.Pod] = []  # pods of the cluster that are counted, and not done
        spec = quota.spec
        self.hard = _amounts(spec.hard if spec else None)
        self.used: Amounts = {}
        chosen = (spec.scopeSelector.matchExpressions if spec and spec.scopeSelector else None) or ()
        self._scopes: list[tuple[str, str, tuple[str, ...]]] = [(name, "Exists", ()) for name in (spec.scopes if spec else None) or ()]
        self._scopes += [(each.scopeName, each.operator, tuple(each.values or ())) for each in chosen]

    @property
    def name(self) -> str:
        """The quota as ``namespace/name``."""
        return f"{self.quota.metadata.namespace or 'default'}/{self.quota.metadata.name}"

    def concerns(self, pod: objects.Pod) -> bool:
        """Return True if the pod is in all scopes of the quota."""
        return all(_in_scope(pod, *scope) for scope in self._scopes)

    def unstated(self, pod: objects.Pod) -> str | None:
        """Return the API server's message about required requests and limits that containers do not specify, or None."""
        missing_pods = {
            resource: _silent(pod, *_REQUIRED_RESOURCES[resource]) for resource in sorted(self.hard.keys() & _REQUIRED_RESOURCES.keys())
        }
        missing = [f"{resource} for: {','.join(sorted(names))}" for resource, names in missing_pods.items() if names]
        return f"failed quota: {self.quota.metadata.name}: must specify {'; '.join(missing)}" if missing else None

    def fault(self, pod: objects.Pod) -> str | None:
        """Return the reason why one more pod is refused, or None."""
        why = self.unstated(pod)
        if why is not None:
            return why
        charged, requested, over = self.charge(pod), self.usage(pod), list[Shortage]()
        for resource, hard in sorted(self.hard.items()):
            more, used = charged.get(resource, Fraction(0)), self.used.get(resource, Fraction(0))
            if more and used + more > hard:
                over.append(Shortage(resource, requested.get(resource, Fraction(0)), more, used, hard))
        return exceeded(self.quota.metadata.name or "", over, self.keys(pod)) if over else None

    def keys(self, pod: objects.Pod) -> tuple[str, ...]:
        """Return the topology keys whose domains a pod is charged for."""
        return self.costs.keys(pod) if self.costs is not None else ()

    def take(self, pod: objects.Pod) -> None:
        """Add the charge of a created pod to the usage."""
        add(self.used, self.charge(pod))

    def take_all(self, pods: Iterable[objects.Pod]) -> None:
        """Add the requests of the cluster's pods to the usage, and the nodes that they close, each node once."""
        for pod in pods:
            if self.concerns(pod) and objects.is_terminal(pod):
                add(self.used, {"count/pods": Fraction(1)})
            elif self.concerns(pod):
                self.present.append(pod)
                add(self.used, self.admitted(pod))
        costs = self.costs
        if costs is None:
            return
        used: dict[int, Amounts] = {}
        for pod in self.present:
            if (home := costs.home(pod)) is not None:
                add(used.setdefault(home, {}), self.usage(pod))
        for n in sorted(frozenset[int]().union(*(costs.closed(pod) for pod in self.present))):
            add(self.used, {name: free for name, total in self.node(n).items() if (free := total - used.get(n, {}).get(name, 0)) > 0})

    def node(self, n: int) -> Amounts:
        """Return a node's resources under their quota names, or nothing if only requests are charged."""
        return _as_usage(self.costs.amounts(n)) if self.costs is not None else {}

    def admitted(self, pod: objects.Pod) -> Amounts:
        """Return the usage of a pod in the cluster without the nodes that it closes, which are counted once for all pods."""
        return self.usage(pod) if self.costs is not None and self.costs.home(pod) is not None else self.charge(pod)

    def charge(self, pod: objects.Pod) -> Amounts:
        """Return the charge for creating a pod: the maximum of its requests and the largest domain that it can close."""
        charged = self.usage(pod)
        estimate = self.costs.estimate(pod) if self.costs is not None else None
        if estimate is None:
            return charged
        return charged | {name: max(largest, charged.get(name, Fraction(0))) for name, largest in _as_usage(estimate.largest).items()}

    def usage(self, pod: objects.Pod) -> Amounts:
        """Return :func:`usage` of a pod, cached for pods that share their parts."""
        spec = pod.spec
        parts = (id(spec.containers), id(spec.initContainers), id(spec.resources), id(spec.overhead), id(pod.status))
        if parts not in self._known:
            self._known[parts] = usage(pod)
        return self._known[parts]


@dataclass(frozen=True)
class Shortage:
    """A resource of a quota whose remaining amount is too small for one more pod.

    Attributes:
        resource: Its name in the quota.
        requested: The request of the pod.
        charged: The charge for the pod, larger than ``requested`` under opportunity cost.
        used: The usage so far.
        limit: The hard limit of the quota.
    """

    resource: str
    requested: Fraction
    charged: Fraction
    used: Fraction
    limit: Fraction


def exceeded(name: str, over: Sequence[Shortage], keys: Sequence[str] = ()) -> str:
    """Return the API server's message about an exceeded quota (plugin/pkg/admission/resourcequota).

    Args:
        name: The quota.
        over: The exceeded resources.
        keys: Topology keys whose domains are charged, named if the charge exceeds the request.
    """

    def listed(part: str) -> str:
        return ",".join(f"{each.resource}={amount(each.resource, getattr(each, part))}" for each in over)

    words = f"exceeded quota: {name}, requested: {listed('requested')}, used: {listed('used')}, limited: {listed('limit')}"
    if all(each.charged == each.requested for each in over):
        return words
    return f"{words}, charged: {listed('charged')} {BY_COST} {','.join(keys)}"


def _ledgers(snapshot: Snapshot, new: Collection[int], costs: OpportunityCosts | None) -> dict[str, list[QuotaLedger]]:
    """Return the quotas of each namespace, with the usage of the cluster's pods."""
    ledgers: dict[str, list[QuotaLedger]] = {}
    known: dict[tuple[int, ...], Amounts] = {}
    for quota in snapshot.resource_quotas.values():
        ledgers.setdefault(quota.metadata.namespace or "default", []).append(QuotaLedger(quota, known, costs))
    there: dict[str, list[objects.Pod]] = {}
    for pod in (*(pod for i, pod in enumerate(snapshot.pods) if i not in new), *snapshot.left_out):
        if (namespace := pod.metadata.namespace or "default") in ledgers:
            there.setdefault(namespace, []).append(pod)
    for namespace, pods in there.items():
        for ledger in ledgers[namespace]:
            ledger.take_all(pods)
    return ledgers


def _as_usage(amounts: Mapping[str, int]) -> Amounts:
    """Convert node resources (mCPU, whole units) to quota resources."""
    found: Amounts = {}
    for name, number in amounts.items():
        value = Fraction(number, 1000 if name == "cpu" else 1)
        if "/" not in name:
            found[name] = value
        found[f"requests.{name}"] = value
    return found


def usage(pod: objects.Pod) -> Amounts:
    """Return the usage of a pod by quota resource."""
    found = dict.fromkeys(_COUNT_RESOURCES, Fraction(1)) | _as_usage(pod_request(pod, DEFAULT))
    found |= {f"limits.{name}": value for name, value in _total(pod, "limits").items()}
    return found


def _silent(pod: objects.Pod, part: str, resource: str) -> list[str]:
    """Return the containers without a request or limit. Pods with any pod-level resources have none (PodLevelResources)."""

    def states(resources: objects.ResourceRequirements | None) -> bool:
        return resources is not None and resource in (getattr(resources, part) or {})

    level = pod.spec.resources
    if level is not None and any(map(pod_level_resource, (*(level.requests or ()), *(level.limits or ())))):
        return []
    listed = (*(pod.spec.containers or ()), *(pod.spec.initContainers or ()))
    return [container.name or "" for container in listed if not states(container.resources)]


def _crosses(pod: objects.Pod) -> bool:
    """Return True if the pod has an affinity term with namespaces or a namespaceSelector."""
    affinity = pod.spec.affinity
    terms: list[objects.PodAffinityTerm] = []
    for part in (affinity.podAffinity, affinity.podAntiAffinity) if affinity else ():
        if part is not None:
            terms += part.requiredDuringSchedulingIgnoredDuringExecution or ()
            terms += [weighted.podAffinityTerm for weighted in part.preferredDuringSchedulingIgnoredDuringExecution or ()]
    return any(term.namespaces or term.namespaceSelector is not None for term in terms)


_SCOPES: Final[dict[str, Callable[[objects.Pod], bool]]] = {
    "Terminating": lambda pod: pod.spec.activeDeadlineSeconds is not None,
    "NotTerminating": lambda pod: pod.spec.activeDeadlineSeconds is None,
    "BestEffort": lambda pod: qos_class(pod) == BEST_EFFORT,
    "NotBestEffort": lambda pod: qos_class(pod) != BEST_EFFORT,
    "CrossNamespacePodAffinity": _crosses,
}


def _in_scope(pod: objects.Pod, name: str, operator: str, values: tuple[str, ...]) -> bool:
    if name == "PriorityClass":
        mine = pod.spec.priorityClassName or ""
        return {"In": mine in values, "NotIn": mine not in values, "Exists": bool(mine), "DoesNotExist": not mine}.get(operator, False)
    return name in _SCOPES and _SCOPES[name](pod)


def amount(resource: str, value: Fraction) -> str:
    """Return an amount as a Kubernetes quantity, rounded up to mCPU, bytes or whole units."""
    plain = resource.rpartition(".")[2]
    if plain == "cpu":
        return quantity.format_cpu(quantity.ceil(value * 1000))
    whole = quantity.ceil(value)
    if plain in ("memory", "ephemeral-storage") or plain.startswith("hugepages-"):
        for shift, suffix in _BINARY_SUFFIXES:
            if whole and not whole % (1 << shift):
                return f"{whole >> shift}{suffix}"
    return str(whole)
