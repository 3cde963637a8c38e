"""Which of the pods that are yet to be created an API server would refuse, and why: LimitRange and ResourceQuota.

A quota is used up in the order in which pods are created: once it lacks what a pod asks for, that pod is refused, whatever is placed
later. Pods that are in the cluster have been admitted and only count as used.

A policy may have quotas charge opportunity cost (``quotaCharge``). A pod that may close nodes to others is then charged for the largest
domain that it may close, and once it is on a node for the nodes that it closes there. Nodes that several pods close count once.

Sources: plugin/pkg/admission/limitranger and pkg/quota/v1/evaluator/core/pods.go.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from fractions import Fraction
from typing import Final

from models.cluster.opportunity_cost import OpportunityCosts
from models.documents.policy import DEFAULT as DEFAULT_POLICY
from models.documents.policy import Policy
from models.kube import objects, quantity
from models.kube.feature_gates import DEFAULT
from models.kube.namespace_limits import LimitRangeItem, ResourceQuota
from models.kube.pod_requests import add, at_once, pod_level_resource, pod_request
from models.kube.pod_spec import BEST_EFFORT, qos_class
from models.snapshot.snapshot import Snapshot

LIMITS: Final = "LimitRanger"
QUOTA: Final = "ResourceQuota"
Refusal = tuple[str, str]  # rule, why
_Amounts = dict[str, Fraction]

#: Resources of a quota that every container has to state as soon as the quota names them.
_STATED: Final = {
    "cpu": ("requests", "cpu"), "requests.cpu": ("requests", "cpu"), "limits.cpu": ("limits", "cpu"),
    "memory": ("requests", "memory"), "requests.memory": ("requests", "memory"), "limits.memory": ("limits", "memory"),
}  # fmt: skip
_COUNTS: Final = ("pods", "count/pods")


class Admission:
    """The LimitRanges and quotas of a snapshot, with what its pods use, and those that were admitted since."""

    def __init__(
        self, snapshot: Snapshot, new: Collection[int] = (), *, policy: Policy = DEFAULT_POLICY, exempt: Collection[str] = ()
    ) -> None:
        """``new``: indices of pods that are yet to be created; ``exempt``: namespaces without hard anti-affinity."""
        self._items: dict[str, list[LimitRangeItem]] = {}
        for found in snapshot.limit_ranges.values():
            self._items.setdefault(found.metadata.namespace or "default", []).extend((found.spec.limits if found.spec else None) or ())
        costs = OpportunityCosts(snapshot, exempt) if policy.quotaCharge == "opportunityCost" else None
        self._ledgers = _ledgers(snapshot, new, costs) if snapshot.resource_quotas else {}

    def refusal(self, pod: objects.Pod) -> Refusal | None:
        """Return what refuses one more pod, None if nothing does.

        Raises:
            QuantityError: a quantity is malformed, or beyond 64 bits.
        """
        why = next(_limit_faults(pod, self._items.get(pod.metadata.namespace or "default", ())), None)
        if why is not None:
            return LIMITS, why
        why = next((fault for ledger in self._concerned(pod) if (fault := ledger.fault(pod)) is not None), None)
        return (QUOTA, why) if why is not None else None

    def admit(self, pod: objects.Pod) -> None:
        """Count a pod as created."""
        for ledger in self._concerned(pod):
            ledger.take(pod)

    def lacking(self, pod: objects.Pod) -> dict[str, dict[str, Fraction]]:
        """Return by quota (``namespace/name``) the amounts that it would have to allow for one more pod, where it allows less."""
        found = {f"{pod.metadata.namespace or 'default'}/{each.quota.metadata.name}": each.lacking(pod) for each in self._concerned(pod)}
        return {name: amounts for name, amounts in found.items() if amounts}

    def _concerned(self, pod: objects.Pod) -> list[_Ledger]:
        return [ledger for ledger in self._ledgers.get(pod.metadata.namespace or "default", ()) if ledger.concerns(pod)]


def refusals(snapshot: Snapshot, policy: Policy = DEFAULT_POLICY, exempt: Collection[str] = ()) -> dict[int, Refusal]:
    """Return what refuses pods that are yet to be created, by index into ``snapshot.pods``. ``exempt``: namespaces without hard
    anti-affinity.

    Raises:
        QuantityError: a quantity is malformed, or beyond 64 bits.
    """
    if not snapshot.to_create or not (snapshot.limit_ranges or snapshot.resource_quotas):
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


def _amounts(resources: Mapping[str, objects.RawQuantity] | None) -> _Amounts:
    return {name: quantity.parse(raw) for name, raw in (resources or {}).items()}


def _limit_faults(pod: objects.Pod, items: Iterable[LimitRangeItem]) -> Iterator[str]:
    """Why a pod breaks the limits of its namespace, container by container, then as a whole."""
    listed = (*(pod.spec.containers or ()), *(pod.spec.initContainers or ()))
    for container in listed if items else ():
        for name, asked in _amounts(container.resources.requests if container.resources else None).items():
            most = _amounts(container.resources.limits if container.resources else None).get(name)
            if most is not None and asked > most:
                yield f"container {container.name}: request of {_show(name, asked)} {name} is above its limit of {_show(name, most)}"
    for item in items:
        if item.type == "Container":
            for container in listed:
                own = container.resources or objects.ResourceRequirements()
                where = f"container {container.name}"
                yield from _item_faults(item, _amounts(own.requests), _amounts(own.limits), where)
        elif item.type == "Pod":
            yield from _item_faults(item, _total(pod, "requests"), _total(pod, "limits"), "the pod")


def _item_faults(item: LimitRangeItem, requests: _Amounts, limits: _Amounts, where: str) -> Iterator[str]:
    for name, least in _amounts(item.min).items():
        asked, most = requests.get(name), limits.get(name)
        if asked is None:
            yield f"{where}: states no request of {name}, the LimitRange asks for at least {_show(name, least)}"
        elif asked < least or (most is not None and most < least):
            yield f"{where}: {_show(name, min(asked, least if most is None else most))} {name} is below the minimum of {_show(name, least)}"
    for name, highest in _amounts(item.max).items():
        asked, most = requests.get(name), limits.get(name)
        if most is None:
            yield f"{where}: states no limit of {name}, the LimitRange allows at most {_show(name, highest)}"
        elif most > highest or (asked is not None and asked > highest):
            yield f"{where}: {_show(name, max(most, asked or most))} {name} is above the maximum of {_show(name, highest)}"
    for name, ratio in _amounts(item.maxLimitRequestRatio).items():
        asked, most = requests.get(name), limits.get(name)
        if not asked or not most:
            yield f"{where}: states no request or no limit of {name}, the LimitRange allows a ratio of at most {ratio}"
        elif most > ratio * asked:
            yield f"{where}: limit {_show(name, most)} {name} is more than {ratio} times the request {_show(name, asked)}"


def _total(pod: objects.Pod, part: str) -> _Amounts:
    """Requests or limits of a pod as a whole."""
    total = at_once(pod.spec, lambda container, _: _amounts(getattr(container.resources, part)) if container.resources else {})
    level = _amounts(getattr(pod.spec.resources, part)) if pod.spec.resources else {}
    total |= {name: value for name, value in level.items() if pod_level_resource(name)}
    for name, value in _amounts(pod.spec.overhead).items():
        if part == "requests" or name in total:
            total[name] = total.get(name, Fraction(0)) + value
    return total


# --- ResourceQuota ----------------------------------------------------------------------------------------------------------------------


class _Ledger:
    """A quota, and what is used of it so far."""

    def __init__(self, quota: ResourceQuota, known: dict[tuple[int, ...], _Amounts], costs: OpportunityCosts | None) -> None:
        self.quota, self._known, self._costs = quota, known, costs
        spec = quota.spec
        self.hard = _amounts(spec.hard if spec else None)
        self.used: _Amounts = {}
        chosen = (spec.scopeSelector.matchExpressions if spec and spec.scopeSelector else None) or ()
        self._scopes: list[tuple[str, str, tuple[str, ...]]] = [(name, "Exists", ()) for name in (spec.scopes if spec else None) or ()]
        self._scopes += [(found.scopeName, found.operator, tuple(found.values or ())) for found in chosen]

    def concerns(self, pod: objects.Pod) -> bool:
        """Return whether the pod is in all scopes of the quota."""
        return all(_in_scope(pod, *scope) for scope in self._scopes)

    def fault(self, pod: objects.Pod) -> str | None:
        """Return why one more pod is refused."""
        name = f"quota {self.quota.metadata.name}"
        for resource in self.hard.keys() & _STATED.keys():
            silent = _silent(pod, *_STATED[resource])
            if silent:
                return f"{name} asks every container to state {resource}; {', '.join(silent)} does not"
        short = self.lacking(pod)
        if not short:
            return None
        resource = min(short)
        used = self.used.get(resource, Fraction(0))
        more, has, most = (_show(resource, value) for value in (short[resource] - used, used, self.hard[resource]))
        requested = self._requested(pod).get(resource, Fraction(0))
        if self._costs is None or short[resource] - used == requested:
            return f"exceeded {name}: {more} {resource} asked for, {has} of {most} used"
        closed = f"its anti-affinity over {', '.join(self._costs.keys(pod))} closes that much to others"
        return f"exceeded {name}: {more} {resource} charged, {has} of {most} used; {closed}, it asks for {_show(resource, requested)}"

    def lacking(self, pod: objects.Pod) -> _Amounts:
        """Return what the quota would have to allow for one more pod, of the resources of which it allows less."""
        asked = self._charge(pod)
        total = {resource: self.used.get(resource, Fraction(0)) + asked[resource] for resource in self.hard if asked.get(resource)}
        return {resource: amount for resource, amount in total.items() if amount > self.hard[resource]}

    def take(self, pod: objects.Pod) -> None:
        """Count a pod as used."""
        add(self.used, self._charge(pod))

    def take_all(self, pods: Iterable[objects.Pod]) -> None:
        """Count the pods of the cluster as used: for what they ask, and for the nodes that they close, each node once."""
        there = [pod for pod in pods if self.concerns(pod)]
        for pod in there:
            add(self.used, self._admitted(pod) if not objects.is_terminal(pod) else {"count/pods": Fraction(1)})
        costs = self._costs
        if costs is None:
            return
        alive = [pod for pod in there if not objects.is_terminal(pod)]
        asked: dict[int, _Amounts] = {}
        for pod in alive:
            if (home := costs.home(pod)) is not None:
                add(asked.setdefault(home, {}), self._requested(pod))
        for node in sorted(frozenset[int]().union(*(costs.closed(pod) for pod in alive))):
            held = asked.get(node, {})
            rest = {name: amount - held.get(name, 0) for name, amount in _as_usage(costs.amounts(node)).items()}
            add(self.used, {name: amount for name, amount in rest.items() if amount > 0})

    def _admitted(self, pod: objects.Pod) -> _Amounts:
        """Return what a pod of the cluster uses, without the nodes that it closes: these are counted once for all pods."""
        return self._requested(pod) if self._costs is not None and self._costs.home(pod) is not None else self._charge(pod)

    def _charge(self, pod: objects.Pod) -> _Amounts:
        """Return what a pod is charged when it is created: what it asks for, or the largest domain that it may close."""
        asked = self._requested(pod)
        estimate = self._costs.estimate(pod) if self._costs is not None else None
        if estimate is None:
            return asked
        largest = _as_usage(estimate.largest)
        return asked | {name: max(amount, asked.get(name, Fraction(0))) for name, amount in largest.items()}

    def _requested(self, pod: objects.Pod) -> _Amounts:
        """As :func:`usage`; equal pods share their parts."""
        spec = pod.spec
        parts = (id(spec.containers), id(spec.initContainers), id(spec.resources), id(spec.overhead), id(pod.status))
        if parts not in self._known:
            self._known[parts] = usage(pod)
        return self._known[parts]


def _ledgers(snapshot: Snapshot, new: Collection[int], costs: OpportunityCosts | None) -> dict[str, list[_Ledger]]:
    """The quotas of each namespace, with what the pods of the cluster use."""
    found: dict[str, list[_Ledger]] = {}
    known: dict[tuple[int, ...], _Amounts] = {}
    for quota in snapshot.resource_quotas.values():
        found.setdefault(quota.metadata.namespace or "default", []).append(_Ledger(quota, known, costs))
    there: dict[str, list[objects.Pod]] = {}
    for i, pod in enumerate(snapshot.pods):
        if (namespace := pod.metadata.namespace or "default") in found and i not in new:
            there.setdefault(namespace, []).append(pod)
    for namespace, pods in there.items():
        for ledger in found[namespace]:
            ledger.take_all(pods)
    return found


def _as_usage(amounts: Mapping[str, int]) -> _Amounts:
    """Return amounts of nodes (mCPU, whole units) under the names that quotas have for them."""
    found: _Amounts = {}
    for name, amount in amounts.items():
        value = Fraction(amount, 1000 if name == "cpu" else 1)
        if "/" not in name:
            found[name] = value
        found[f"requests.{name}"] = value
    return found


def usage(pod: objects.Pod) -> _Amounts:
    """Return what a pod uses of the resources that quotas name."""
    found = dict.fromkeys(_COUNTS, Fraction(1)) | _as_usage(pod_request(pod, DEFAULT))
    found |= {f"limits.{name}": value for name, value in _total(pod, "limits").items()}
    return found


def _silent(pod: objects.Pod, part: str, resource: str) -> list[str]:
    """Names of containers that do not state a request or limit, where the pod as a whole does not either."""

    def states(resources: objects.ResourceRequirements | None) -> bool:
        return resources is not None and resource in (getattr(resources, part) or {})

    if states(pod.spec.resources):
        return []
    listed = (*(pod.spec.containers or ()), *(pod.spec.initContainers or ()))
    return [container.name or "" for container in listed if not states(container.resources)]


def _crosses(pod: objects.Pod) -> bool:
    """Return whether a pod has an affinity term about other namespaces."""
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


def _show(resource: str, value: Fraction) -> str:
    """An amount as people write it."""
    plain = resource.rpartition(".")[2]
    if plain == "cpu":
        return quantity.format_cpu(quantity.ceil(value * 1000))
    return quantity.format_bytes(quantity.ceil(value)) if plain in ("memory", "ephemeral-storage") else str(quantity.ceil(value))
