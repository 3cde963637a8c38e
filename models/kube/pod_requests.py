"""The effective resource requests of a pod.

Source: k8s.io/component-helpers/resource/helpers.go (PodRequests, AggregateContainerRequests) and
pkg/scheduler/framework/types.go (Resource.Add), as of v1.36; resources of a resized pod since v1.37 as in
https://github.com/kubernetes/kubernetes/pull/140047.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, Literal

from kubestow.models.kube import quantity
from kubestow.models.kube.feature_gates import FeatureGates
from kubestow.models.kube.objects import Container, ContainerStatus, Pod, PodSpec, ResourceList

_Exact = dict[str, Fraction]
#: Role of a container in its pod.
Part = Literal["app", "sidecar", "init"]
#: Requests (cores, bytes) that kube-scheduler assumes for containers without one to compare nodes (pkg/scheduler/util/pod_resources.go).
SUPPOSED: Final[Mapping[str, Fraction]] = {"cpu": Fraction(1, 10), "memory": Fraction(200 * 2**20)}
_NOTHING: Final[Mapping[str, Fraction]] = {}


def counts_as_resource(name: str) -> bool:
    """Return True if the scheduler considers a resource of this name. It ignores unknown names without a prefix
    (IsScalarResourceName).
    """
    if name in ("cpu", "memory", "ephemeral-storage") or name.startswith(("hugepages-", "attachable-volumes-")):
        return True
    return "/" in name and not name.startswith("requests.")


def unknown_resources(pods: Iterable[Pod]) -> list[str]:
    """Return the sorted names of requested resources that the scheduler ignores."""
    seen: dict[int, set[str]] = {}  # equal pods share their container lists
    for pod in pods:
        for containers in (pod.spec.containers, pod.spec.initContainers):
            if containers and id(containers) not in seen:
                requests = [c.resources.requests or {} for c in containers if c.resources is not None]
                seen[id(containers)] = {name for names in requests for name in names if not counts_as_resource(name)}
    return sorted({name for names in seen.values() for name in names})


def pod_level_resource(name: str) -> bool:
    """Return True if pod-level ``spec.resources`` may name the resource (IsSupportedPodLevelResource)."""
    return name in ("cpu", "memory") or name.startswith("hugepages-")


def _exact(resources: ResourceList | None) -> _Exact:
    return {name: quantity.milli_round(quantity.parse(raw)) for name, raw in (resources or {}).items()}


def add(into: dict[str, Fraction], other: Mapping[str, Fraction]) -> None:
    """Add amounts to others, by name."""
    for name, value in other.items():
        into[name] = into.get(name, Fraction(0)) + value


def _max(into: _Exact, other: _Exact) -> None:
    for name, value in other.items():
        if name not in into or value > into[name]:
            into[name] = value


@dataclass(frozen=True)
class _Resize:
    """Resources in the status of a bound pod, which may be in the middle of a resize.

    Attributes:
        containers: Container statuses, by name.
        infeasible: True if the resize was rejected as infeasible.
        whole: Actual and allocated pod-level resources, or None.
        sums: True for the semantics since 1.37: the maximum of sums.
    """

    containers: Mapping[str, ContainerStatus]
    infeasible: bool
    whole: tuple[_Exact, _Exact] | None
    sums: bool


def _requested(container: Container) -> _Exact:
    return _exact(container.resources.requests if container.resources else None)


def is_resized(pod: Pod) -> bool:
    """Return True if the pod's status reports resources, so that it may hold other amounts than its spec requests."""
    status = pod.status
    if status is None or pod.spec.nodeName is None:
        return False
    if status.resources is not None or status.allocatedResources is not None:
        return True
    if any(condition.type == "PodResizePending" for condition in status.conditions or ()):
        return True
    listed = (*(status.containerStatuses or ()), *(status.initContainerStatuses or ()))
    return any(s.resources is not None or s.allocatedResources is not None for s in listed)


def _resize(pod: Pod, gates: FeatureGates) -> _Resize | None:
    status = pod.status
    if status is None or not is_resized(pod) or not gates.enabled("InPlacePodVerticalScaling"):
        return None
    listed = (*(status.containerStatuses or ()), *(status.initContainerStatuses or ()))
    pending = next((c for c in status.conditions or () if c.type == "PodResizePending"), None)
    sums = gates.has("resize footprint is a maximum of sums")
    whole = None
    known = status.resources is not None or (sums and status.allocatedResources is not None)
    if known and gates.enabled("InPlacePodLevelResourcesVerticalScaling"):
        whole = _exact(status.resources.requests if status.resources else None), _exact(status.allocatedResources)
    infeasible = pending is not None and pending.reason == "Infeasible"
    return _Resize({s.name: s for s in listed if s.name is not None}, infeasible, whole, sums)


def _sum_of_maxima(spec: PodSpec, resize: _Resize, supposed: Mapping[str, Fraction]) -> _Exact:
    """Return the resources that a pod holds until Kubernetes 1.36.

    They are the sum over the long-running containers of the maximum of requested, allocated and actual resources.
    """

    def of(container: Container, part: Part) -> _Exact:
        status = resize.containers.get(container.name or "")
        if part == "init" or status is None or status.resources is None:
            return {**supposed, **_requested(container)}
        amounts = {} if resize.infeasible else _requested(container)
        _max(amounts, _exact(status.resources.requests))
        _max(amounts, _exact(status.allocatedResources))
        return {**supposed, **amounts}

    return at_once(spec, of)


def _max_of_sums(pod: Pod, resize: _Resize, supposed: Mapping[str, Fraction]) -> _Exact:
    """Return the maximum of the sums of requested, allocated and actual resources, as since 1.37 (kubernetes/kubernetes#140047)."""

    def allocated(container: Container, _: Part) -> _Exact:
        status = resize.containers.get(container.name or "")
        if status is not None and status.allocatedResources is not None:
            return {**supposed, **_exact(status.allocatedResources)}
        return {**supposed, **({} if resize.infeasible else _requested(container))}

    def actual(container: Container, part: Part) -> _Exact:
        status = resize.containers.get(container.name or "")
        if status is not None and status.resources is not None and status.resources.requests is not None:
            return {**supposed, **_exact(status.resources.requests)}
        return allocated(container, part)

    total: _Exact = {} if resize.infeasible else at_once(pod.spec, lambda container, _: {**supposed, **_requested(container)})
    status = pod.status
    reported = status is not None and status.resources is not None and status.resources.requests is not None
    if resize.whole is not None and reported and status is not None and status.allocatedResources is not None:
        sums = list(resize.whole)
    else:
        sums = [at_once(pod.spec, allocated), at_once(pod.spec, actual)]
    for each in sums:
        _max(total, each)
    return total


def _of_pod(pod: Pod, resize: _Resize | None, gates: FeatureGates) -> _Exact:
    """Return the pod-level requests or, with ``resize``, the pod-level resources that the pod holds.

    They are empty without pod-level requests or the gate PodLevelResources.
    """
    requested = _exact(pod.spec.resources.requests if pod.spec.resources is not None else None)
    names = {name for name in requested if pod_level_resource(name)}
    if not names or not gates.enabled("PodLevelResources"):
        return {}
    if resize is None or resize.whole is None:
        return {name: requested[name] for name in names}
    statuses = [dict(each) for each in resize.whole]
    base = {} if resize.infeasible else requested
    if resize.sums:  # since 1.37; the kubelet's numbers include the overhead
        overhead = _exact(pod.spec.overhead)
        statuses = [{name: max(Fraction(0), value - overhead.get(name, 0)) for name, value in each.items()} for each in statuses]
        names = {name for each in (base, *statuses) for name in each if pod_level_resource(name)}
    for each in statuses:
        _max(base, each)
    return {name: base.get(name, Fraction(0)) for name in names}


def supposed_more(pod: Pod, request: Mapping[str, int], gates: FeatureGates) -> tuple[int, int]:
    """Return the CPU (mCPU) and memory (bytes) assumed for a pod in addition to its request, to compare nodes.

    Each container without a request counts for 100m of CPU or 200 MiB of memory. No rule reads this. Zero if 64 bits are exceeded.
    """
    conditions = (pod.status.conditions if pod.status else None) or ()
    listed = (*(pod.spec.containers or ()), *(pod.spec.initContainers or ()))
    if all(_states(c) for c in listed) and not any(c.type == "PodResizePending" for c in conditions):
        return 0, 0
    try:
        supposed = pod_request(pod, gates, SUPPOSED)
    except quantity.QuantityError:
        return 0, 0
    return supposed.get("cpu", 0) - request.get("cpu", 0), supposed.get("memory", 0) - request.get("memory", 0)


def _states(container: Container) -> bool:
    requests = container.resources.requests if container.resources else None
    return requests is not None and SUPPOSED.keys() <= requests.keys()


def at_once(spec: PodSpec, of: Callable[[Container, Part], dict[str, Fraction]]) -> dict[str, Fraction]:
    """Return the maximum of the containers' amounts over time.

    Per resource it is max(Σ app + Σ sidecars, max over ordinary init containers of (own + Σ sidecars started before)).

    Args:
        spec: The pod's spec.
        of: Amounts of one container.
    """
    total: _Exact = {}
    for container in spec.containers or ():
        add(total, of(container, "app"))
    sidecars: _Exact = {}
    peak: _Exact = {}
    for container in spec.initContainers or ():
        if container.restartPolicy == "Always":
            own = of(container, "sidecar")
            add(total, own)
            add(sidecars, own)
            _max(peak, sidecars)
        else:
            own = dict(of(container, "init"))
            add(own, sidecars)
            _max(peak, own)
    _max(total, peak)
    return total


def pod_request(pod: Pod, gates: FeatureGates, supposed: Mapping[str, Fraction] = _NOTHING) -> dict[str, int]:
    """Return the effective request: cpu in mCPU, every other resource in whole units (bytes, devices), without zeros.

    It is the maximum over time of the containers' requests, plus the overhead. Pod-level requests override the
    former for the resources that they name. For a bound pod during an in-place resize, the result depends on the
    version and its gates.

    Args:
        pod: The pod.
        gates: The feature gates.
        supposed: Requests assumed for containers without one.

    Raises:
        QuantityError: a quantity is malformed or beyond 64 bits.
    """
    resize = _resize(pod, gates)
    if resize is None:
        total = at_once(pod.spec, lambda container, _: {**supposed, **_requested(container)})
    elif resize.sums:
        total = _max_of_sums(pod, resize, supposed)
    else:
        total = _sum_of_maxima(pod.spec, resize, supposed)
    if pod.spec.resources is not None:
        total |= _of_pod(pod, resize, gates)
    add(total, _exact(pod.spec.overhead))

    request = {}
    for name, value in total.items():
        if counts_as_resource(name) and value:
            request[name] = quantity.ceil(value * 1000 if name == "cpu" else value)
    return request


def pod_limits(pod: Pod, gates: FeatureGates) -> dict[str, int]:
    """Return the effective limits in the units of :func:`pod_request`. A container without limits adds none (PodLimits).

    Raises:
        QuantityError: a quantity is malformed or beyond 64 bits.
    """
    spec = pod.spec
    total = at_once(spec, lambda container, _: _exact(container.resources.limits if container.resources else None))
    if spec.resources is not None and spec.resources.limits and gates.enabled("PodLevelResources"):
        total |= {name: value for name, value in _exact(spec.resources.limits).items() if pod_level_resource(name)}
    add(total, {name: value for name, value in _exact(spec.overhead).items() if total.get(name)})
    return {n: quantity.ceil(value * 1000 if n == "cpu" else value) for n, value in total.items() if counts_as_resource(n) and value}


def allocatable(resources: ResourceList | None) -> dict[str, int]:
    """Return a node's allocatable resources: cpu in mCPU, other resources in whole units, ``pods`` included."""
    # Kubernetes reads cpu with MilliValue() and the rest with Value(); both round up.
    return {
        name: quantity.milli(raw) if name == "cpu" else quantity.units(raw)
        for name, raw in (resources or {}).items()
        if name == "pods" or counts_as_resource(name)
    }
