"""Requests of pods and capacity of nodes, computed by the checker from the raw objects.

CPU is in thousandths (mCPU), every other resource in whole units (bytes, devices), rounded up once per pod.

Source: k8s.io/component-helpers/resource (PodRequests).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Final, Protocol

from kubestow.models.kube import objects, quantity
from kubestow.models.kube.feature_gates import FeatureGates

Amounts = dict[str, int]
_Exact = dict[str, Fraction]
_Rounding = Callable[[Fraction], Fraction]

#: CPU (cores) and memory (bytes) assumed for a container without a request, only to compare nodes.
_UNSTATED: Final = {"cpu": Fraction(100, 1000), "memory": Fraction(200 * 1024 * 1024)}

_NOTHING: Final[Mapping[str, Fraction]] = {}
_RESIZE: Final = "InPlacePodVerticalScaling"
_RESIZE_PODS: Final = "InPlacePodLevelResourcesVerticalScaling"
_SUMS: Final = "resize footprint is a maximum of sums"

_NATIVE: Final = frozenset({"cpu", "memory", "ephemeral-storage"})


def counts(resource: str) -> bool:
    """Return True if the scheduler considers a resource of this name. It ignores unknown names without a prefix."""
    return (
        resource in _NATIVE
        or resource.startswith(("hugepages-", "attachable-volumes-"))
        or ("/" in resource and not resource.startswith("requests."))
    )


def _pod_level(resource: str) -> bool:
    return resource in ("cpu", "memory") or resource.startswith("hugepages-")


def _unrounded(value: Fraction) -> Fraction:
    return value


def _exact(resources: objects.ResourceList | None, rounding: _Rounding) -> _Exact:
    return {name: rounding(quantity.parse(raw)) for name, raw in (resources or {}).items()}


def _add(total: _Exact, more: Mapping[str, Fraction]) -> None:
    for name, value in more.items():
        total[name] = total.get(name, Fraction(0)) + value


def _raise(total: _Exact, other: Mapping[str, Fraction]) -> None:
    for name, value in other.items():
        total[name] = max(total.get(name, value), value)


def is_sidecar(container: objects.Container) -> bool:
    return container.restartPolicy == "Always"


def _asked(container: objects.Container, rounding: _Rounding) -> _Exact:
    """Return the requests of one container. A limit replaces a missing request."""
    resources = container.resources or objects.ResourceRequirements()
    return _exact({**(resources.limits or {}), **(resources.requests or {})}, rounding)


class _Reports:
    """Resources reported by a bound pod's status during an in-place resize (KEP-1287, KEP-5419)."""

    def __init__(self, pod: objects.Pod, gates: FeatureGates) -> None:
        status = pod.status or objects.PodStatus()
        listed = [*(status.containerStatuses or ()), *(status.initContainerStatuses or ())] if gates.enabled(_RESIZE) else []
        self.of = {each.name: each for each in listed if each.name and (each.resources or each.allocatedResources is not None)}
        pending = [condition.reason for condition in status.conditions or () if condition.type == "PodResizePending"]
        self.refused = pending[:1] == ["Infeasible"] and gates.enabled(_RESIZE)
        level = gates.enabled(_RESIZE) and gates.enabled(_RESIZE_PODS)
        self.actual = status.resources if level else None
        self.allocated = status.allocatedResources if level else None

    def container(self, container: objects.Container, *, running: bool) -> _Exact:
        """Return a container's resources until 1.36: the maximum of spec, allocated and actual requests if the status
        has ``resources``.
        """
        own = _asked(container, quantity.milli_round)
        report = self.of.get(container.name or "") if running else None
        if report is None or report.resources is None:
            return own
        allocated = {} if self.refused else own
        for reported in (report.allocatedResources, report.resources.requests):
            _raise(allocated, _exact(reported, quantity.milli_round))
        return allocated

    def stages(self, container: objects.Container) -> tuple[_Exact, _Exact, _Exact]:
        """Return a container's resources since 1.37: desired, allocated and actual requests. A missing one equals the one before it."""
        desired = {} if self.refused else _asked(container, quantity.milli_round)
        report = self.of.get(container.name or "", objects.ContainerStatus())
        allocated, actual = report.allocatedResources, report.resources.requests if report.resources else None
        second = desired if allocated is None else _exact(allocated, quantity.milli_round)
        return desired, second, second if actual is None else _exact(actual, quantity.milli_round)

    def whole(self) -> tuple[_Exact, _Exact] | None:
        """Return allocated and actual requests of the pod as a whole, or None if the status lacks one."""
        if self.allocated is None or self.actual is None or self.actual.requests is None:
            return None
        return _exact(self.allocated, quantity.milli_round), _exact(self.actual.requests, quantity.milli_round)


def _level(pod: objects.Pod, requests: _Exact, reports: _Reports, gates: FeatureGates) -> _Exact:
    """Return the pod-level resources that a bound pod holds, according to its status.

    Args:
        requests: The requests at pod level in the spec.
    """
    actual = reports.actual.requests if reports.actual else None
    reported = [_exact(each, quantity.milli_round) for each in (actual, reports.allocated)]
    allocated = {} if reports.refused else dict(requests)
    if gates.has(_SUMS):
        if reports.actual is None and reports.allocated is None:
            return requests
        overhead = _exact(pod.spec.overhead, quantity.milli_round)
        for one in reported:
            _raise(allocated, {name: max(value - overhead.get(name, 0), Fraction(0)) for name, value in one.items()})
        return allocated
    if reports.actual is None:
        return requests
    for one in reported:
        _raise(allocated, one)
    return {name: allocated.get(name, Fraction(0)) for name in requests}


def _containers(
    pod: objects.Pod, reports: _Reports | None, gates: FeatureGates, rounding: _Rounding, unstated: Mapping[str, Fraction]
) -> _Exact:
    """Return the maximum over time of what the containers request or, with ``reports``, hold.

    Args:
        reports: The resources that the status of a bound pod reports; None to count the requests of the spec.
        gates: The feature gates.
        rounding: Rounds the amounts.
        unstated: Amounts assumed for containers without a request.
    """

    def supposing(amounts: _Exact) -> _Exact:
        return {**unstated, **amounts}

    if reports is None:
        return most_at_once(pod.spec, lambda container, running: supposing(_asked(container, rounding)))
    if not gates.has(_SUMS):
        return most_at_once(pod.spec, lambda container, running: supposing(reports.container(container, running=running)))
    total: _Exact = {}
    if not reports.refused:
        _raise(total, most_at_once(pod.spec, lambda container, running: supposing(reports.stages(container)[0])))
    for stage, sums in enumerate(reports.whole() or (None, None), 1):
        if sums is None:
            sums = most_at_once(pod.spec, lambda container, running, stage=stage: supposing(reports.stages(container)[stage]))
        _raise(total, sums)
    return total


class _ContainerResources(Protocol):
    """Returns a container's resources. ``running`` is False for ordinary init containers, which do not run as long as their pod."""

    def __call__(self, container: objects.Container, *, running: bool) -> _Exact: ...


def most_at_once(spec: objects.PodSpec, resources_of: _ContainerResources) -> dict[str, Fraction]:
    """Return max(Σ app + Σ sidecars, max over ordinary init containers of (own + Σ sidecars started before))."""
    total: _Exact = {}
    for container in spec.containers or ():
        _add(total, resources_of(container, running=True))
    sidecars: _Exact = {}
    peak: _Exact = {}
    for container in spec.initContainers or ():
        own = dict(resources_of(container, running=is_sidecar(container)))
        if is_sidecar(container):
            _add(total, own)
            _add(sidecars, own)
        else:
            _add(own, sidecars)
            _raise(peak, own)
    _raise(total, peak)
    return total


def pod_requests(pod: objects.Pod, gates: FeatureGates, *, bound: bool, unstated: Mapping[str, Fraction] = _NOTHING) -> Amounts:
    """Return the effective requests of a pod without zero amounts.

    Args:
        pod: The pod.
        gates: The feature gates.
        bound: True to consider also the pod's status (in-place resize).
        unstated: Amounts assumed for containers without a request.

    Raises:
        QuantityError: a quantity is malformed or beyond 64 bits.
    """
    reports = _Reports(pod, gates) if bound and pod.status is not None else None
    total = _containers(pod, reports, gates, quantity.milli_round, unstated)
    level = pod.spec.resources
    if level is not None and gates.enabled("PodLevelResources"):
        limits, requests = level.limits or {}, _exact(level.requests, quantity.milli_round)
        if limits:
            # The API server sums the containers before anything is rounded to fill in pod-level requests, then rounds once.
            once = _containers(pod, None, gates, _unrounded, _NOTHING)
            filled = {name: quantity.milli_round(value) for name, value in once.items() if name in ("cpu", "memory")}
            requests = {**_exact(limits, quantity.milli_round), **filled, **requests}
        requests = {name: value for name, value in requests.items() if _pod_level(name)}
        if reports is not None and requests:
            requests = _level(pod, requests, reports, gates)
        total.update({name: value for name, value in requests.items() if _pod_level(name)})
    _add(total, _exact(pod.spec.overhead, quantity.milli_round))
    amounts = {name: quantity.ceil(value * 1000 if name == "cpu" else value) for name, value in total.items() if counts(name)}
    return {name: amount for name, amount in amounts.items() if amount}


def _states_all(container: objects.Container) -> bool:
    """Return True if a container has requests for all resources with an assumed amount."""
    own = container.resources or objects.ResourceRequirements()
    return all(name in (own.requests or {}) or name in (own.limits or {}) for name in _UNSTATED)


def unstated_requests(pod: objects.Pod, gates: FeatureGates, *, bound: bool) -> Amounts:
    """Return the amounts assumed for a pod beyond its requests, to compare nodes. Empty if they exceed 64 bits."""
    if not bound and all(map(_states_all, (*(pod.spec.containers or ()), *(pod.spec.initContainers or ())))):
        return {}
    stated = pod_requests(pod, gates, bound=bound)
    try:
        supposed = pod_requests(pod, gates, bound=bound, unstated=_UNSTATED)
    except quantity.QuantityError:
        return {}
    more = {name: supposed.get(name, 0) - stated.get(name, 0) for name in _UNSTATED}
    return {name: amount for name, amount in more.items() if amount}


def node_capacity(node: objects.Node) -> Amounts:
    """Return the allocatable amounts of a node, ``pods`` included. Without allocatable, capacity is used."""
    status = node.status or objects.NodeStatus()
    offered = status.allocatable if status.allocatable is not None else status.capacity
    return {name: quantity.milli(raw) if name == "cpu" else quantity.units(raw) for name, raw in (offered or {}).items()}


class SharedRequests:
    """Requests of pods, computed once for pods that share their parts.

    Parts are identified by id and not kept alive, so the snapshot must stay in memory.
    """

    def __init__(self, gates: FeatureGates) -> None:
        self._gates = gates
        self._requests: dict[tuple[int, ...], Amounts] = {}

    def requests(self, pod: objects.Pod, *, bound: bool) -> Amounts:
        """Return :func:`pod_requests` of the pod."""
        spec = pod.spec
        memo = id(spec.containers), id(spec.initContainers), id(spec.resources), id(spec.overhead), id(pod.status) if bound else 0
        found = self._requests.get(memo)
        if found is None:
            found = self._requests[memo] = pod_requests(pod, self._gates, bound=bound)
        return found
