"""What a pod asks of a node: its effective request per resource.

Source: k8s.io/component-helpers/resource/helpers.go (PodRequests, AggregateContainerRequests) and
pkg/scheduler/framework/types.go (Resource.Add), as of v1.34.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from typing import Final, Literal

from models.kube import quantity
from models.kube.objects import Container, ContainerStatus, Pod, PodSpec, ResourceList

_Exact = dict[str, Fraction]
#: What a container is in its pod.
Part = Literal["app", "sidecar", "init"]
#: What kube-scheduler supposes of a container that requests none, where it compares nodes (pkg/scheduler/util/pod_resources.go).
SUPPOSED: Final[Mapping[str, Fraction]] = {"cpu": Fraction(1, 10), "memory": Fraction(200 * 2**20)}
_NOTHING: Final[Mapping[str, Fraction]] = {}


def counts_as_resource(name: str) -> bool:
    """Return whether the scheduler looks at this resource name at all; unprefixed unknown names are ignored (IsScalarResourceName)."""
    if name in ("cpu", "memory", "ephemeral-storage") or name.startswith(("hugepages-", "attachable-volumes-")):
        return True
    return "/" in name and not name.startswith("requests.")


def unknown_resources(pods: Iterable[Pod]) -> list[str]:
    """Return the names of resources that pods request and the scheduler does not look at, sorted."""
    seen: dict[int, set[str]] = {}  # equal pods share their container lists
    for pod in pods:
        for containers in (pod.spec.containers, pod.spec.initContainers):
            if containers and id(containers) not in seen:
                asked = [c.resources.requests or {} for c in containers if c.resources is not None]
                seen[id(containers)] = {name for names in asked for name in names if not counts_as_resource(name)}
    return sorted({name for names in seen.values() for name in names})


def pod_level_resource(name: str) -> bool:
    """Resources that pod-level ``spec.resources`` may name (IsSupportedPodLevelResource)."""
    return name in ("cpu", "memory") or name.startswith("hugepages-")


def _exact(resources: ResourceList | None) -> _Exact:
    return {name: quantity.milli_round(quantity.parse(raw)) for name, raw in (resources or {}).items()}


def _add(into: _Exact, other: _Exact) -> None:
    for name, value in other.items():
        into[name] = into.get(name, Fraction(0)) + value


def _max(into: _Exact, other: _Exact) -> None:
    for name, value in other.items():
        if name not in into or value > into[name]:
            into[name] = value


def _container(
    container: Container, statuses: dict[str, ContainerStatus], resize_infeasible: bool, supposed: Mapping[str, Fraction]
) -> _Exact:
    spec = _exact(container.resources.requests if container.resources else None)
    status = statuses.get(container.name or "")
    if status is None or (status.resources is None and status.allocatedResources is None):
        return {**supposed, **spec}
    held = {} if resize_infeasible else spec
    _max(held, _exact(status.resources.requests if status.resources else None))
    _max(held, _exact(status.allocatedResources))
    return {**supposed, **held}


def _statuses(statuses: Iterable[ContainerStatus] | None) -> dict[str, ContainerStatus]:
    return {s.name: s for s in statuses or () if s.name is not None}


def supposed_more(pod: Pod, request: Mapping[str, int]) -> tuple[int, int]:
    """Return how much more CPU (mCPU) and memory (bytes) a pod counts for where nodes are compared than the ``request`` that it has: each
    container without a request counts for 100m of CPU or 200 MiB of memory. No rule reads this. Nothing where 64 bits do not hold it."""
    conditions = (pod.status.conditions if pod.status else None) or ()
    listed = (*(pod.spec.containers or ()), *(pod.spec.initContainers or ()))
    if all(_states(c) for c in listed) and not any(c.type == "PodResizePending" for c in conditions):
        return 0, 0
    try:
        found = pod_request(pod, SUPPOSED)
    except quantity.QuantityError:
        return 0, 0
    return found.get("cpu", 0) - request.get("cpu", 0), found.get("memory", 0) - request.get("memory", 0)


def _states(container: Container) -> bool:
    requests = container.resources.requests if container.resources else None
    return requests is not None and SUPPOSED.keys() <= requests.keys()


def at_once(spec: PodSpec, of: Callable[[Container, Part], dict[str, Fraction]]) -> dict[str, Fraction]:
    """Return the most that the containers of a pod have at a time: per resource max(Σ app + Σ sidecars, max over ordinary init containers
    of its own + Σ sidecars started before it). ``of``: what one container has."""
    total: _Exact = {}
    for container in spec.containers or ():
        _add(total, of(container, "app"))
    sidecars: _Exact = {}
    peak: _Exact = {}
    for container in spec.initContainers or ():
        if container.restartPolicy == "Always":
            own = of(container, "sidecar")
            _add(total, own)
            _add(sidecars, own)
            _max(peak, sidecars)
        else:
            own = dict(of(container, "init"))
            _add(own, sidecars)
            _max(peak, own)
    _max(total, peak)
    return total


def pod_request(pod: Pod, supposed: Mapping[str, Fraction] = _NOTHING) -> dict[str, int]:
    """Return the effective request: cpu in mCPU, every other resource in whole units (bytes, devices); zero requests left out.

    The most that its containers request at a time, and the overhead; pod-level requests override the former for what they name. For a
    bound pod the larger of spec and status counts (in-place
    resize), without the spec while a resize is infeasible. ``supposed``: what each container counts for that requests none.

    Raises:
        QuantityError: malformed, or beyond 64 bits.
    """
    spec, status = pod.spec, pod.status
    bound = spec.nodeName is not None and status is not None
    infeasible = bound and any(
        c.type == "PodResizePending" and c.reason == "Infeasible" for c in (status.conditions if status else None) or ()
    )
    app_statuses = _statuses(status.containerStatuses) if bound and status else {}
    init_statuses = _statuses(status.initContainerStatuses) if bound and status else {}

    def of(container: Container, part: Part) -> _Exact:
        if part == "init":
            return {**supposed, **_exact(container.resources.requests if container.resources else None)}
        return _container(container, app_statuses if part == "app" else init_statuses, infeasible, supposed)

    total = at_once(spec, of)
    if spec.resources is not None and spec.resources.requests:
        for name, value in _exact(spec.resources.requests).items():
            if pod_level_resource(name):
                total[name] = value
    _add(total, _exact(spec.overhead))

    request = {}
    for name, value in total.items():
        if counts_as_resource(name) and value:
            request[name] = quantity.ceil(value * 1000 if name == "cpu" else value)
    return request


def pod_limits(pod: Pod) -> dict[str, int]:
    """Return the effective limits in the units of :func:`pod_request`; a container that states none adds none (PodLimits).

    Raises:
        QuantityError: malformed, or beyond 64 bits.
    """
    spec = pod.spec
    total = at_once(spec, lambda container, _: _exact(container.resources.limits if container.resources else None))
    if spec.resources is not None and spec.resources.limits:
        total |= {name: value for name, value in _exact(spec.resources.limits).items() if pod_level_resource(name)}
    _add(total, {name: value for name, value in _exact(spec.overhead).items() if total.get(name)})
    return {n: quantity.ceil(value * 1000 if n == "cpu" else value) for n, value in total.items() if counts_as_resource(n) and value}


def allocatable(resources: ResourceList | None) -> dict[str, int]:
    """Return a node's allocatable: cpu in mCPU, everything else in whole units, ``pods`` included."""
    # Upstream reads cpu with MilliValue() and the rest with Value(): both round up.
    return {
        name: quantity.milli(raw) if name == "cpu" else quantity.units(raw)
        for name, raw in (resources or {}).items()
        if name == "pods" or counts_as_resource(name)
    }
