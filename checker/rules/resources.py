"""What a pod requests and what a node offers, computed by the checker from the raw objects.

CPU is in thousandths (mCPU), every other resource in whole units (bytes, devices), rounded up once per pod.

Source: k8s.io/component-helpers/resource (PodRequests), kube-scheduler plugins noderesources (fit.go) and nodeports.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from typing import Final, Protocol

from models.kube import objects, quantity

Amounts = dict[str, int]
_Exact = dict[str, Fraction]
_Rounding = Callable[[Fraction], Fraction]

#: A container without a request counts for so much CPU and memory where nodes are compared, and nowhere else.
_UNSTATED: Final = {"cpu": Fraction(100, 1000), "memory": Fraction(200 * 1024 * 1024)}

_NATIVE: Final = frozenset({"cpu", "memory", "ephemeral-storage"})


def counts(resource: str) -> bool:
    """Return whether the scheduler looks at a resource of this name; it ignores unprefixed unknown names."""
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


def _is_sidecar(container: objects.Container) -> bool:
    return container.restartPolicy == "Always"


def _container(container: objects.Container, status: objects.ContainerStatus | None, infeasible: bool, rounding: _Rounding) -> _Exact:
    """Requests of one container (limits stand in where requests lack a resource), raised to what its status holds."""
    resources = container.resources or objects.ResourceRequirements()
    own = _exact({**(resources.limits or {}), **(resources.requests or {})}, rounding)
    if status is None or (status.allocatedResources is None and status.resources is None):
        return own
    held = {} if infeasible else own
    _raise(held, _exact(status.allocatedResources, rounding))
    _raise(held, _exact(status.resources.requests if status.resources else None, rounding))
    return held


def _containers(pod: objects.Pod, *, bound: bool, rounding: _Rounding, unstated: Mapping[str, Fraction] | None = None) -> _Exact:
    """The most that the containers of a pod request at a time."""
    statuses: dict[str, objects.ContainerStatus] = {}
    infeasible = False
    if bound and pod.status is not None:
        listed = [*(pod.status.containerStatuses or ()), *(pod.status.initContainerStatuses or ())]
        statuses = {status.name: status for status in listed if status.name}
        pending = [c for c in pod.status.conditions or () if c.type == "PodResizePending"]
        infeasible = any(c.reason == "Infeasible" for c in pending)

    def asked(container: objects.Container, *, running: bool) -> _Exact:
        status = statuses.get(container.name or "") if running else None
        own = dict(_container(container, status, infeasible, rounding))
        for name, amount in (unstated or {}).items():
            own.setdefault(name, amount)
        return own

    return most_at_once(pod.spec, asked)


class _Asked(Protocol):
    """What a container has; ``running``: as long as its pod does, which ordinary init containers do not."""

    def __call__(self, container: objects.Container, *, running: bool) -> _Exact: ...


def most_at_once(spec: objects.PodSpec, asked: _Asked) -> dict[str, Fraction]:
    """max(Σ app + Σ sidecars, max over ordinary init containers of (own + Σ sidecars started before))."""
    total: _Exact = {}
    for container in spec.containers or ():
        _add(total, asked(container, running=True))
    sidecars: _Exact = {}
    peak: _Exact = {}
    for container in spec.initContainers or ():
        own = dict(asked(container, running=_is_sidecar(container)))
        if _is_sidecar(container):
            _add(total, own)
            _add(sidecars, own)
        else:
            _add(own, sidecars)
            _raise(peak, own)
    _raise(total, peak)
    return total


def pod_requests(pod: objects.Pod, *, bound: bool, unstated: Mapping[str, Fraction] | None = None) -> Amounts:
    """Effective requests of a pod; zero amounts are left out. ``bound``: its status counts too (in-place resize). ``unstated``: what each
    container asks for that does not say.

    Raises:
        QuantityError: a quantity is malformed or beyond 64 bits.
    """
    total = _containers(pod, bound=bound, rounding=quantity.milli_round, unstated=unstated)
    level = pod.spec.resources
    if level is not None:
        limits, requests = level.limits or {}, level.requests or {}
        if limits:
            # The API server sums the containers before anything is rounded to fill in pod-level requests, then rounds once.
            once = _containers(pod, bound=False, rounding=_unrounded)
            filled = {name: quantity.milli_round(value) for name, value in once.items() if name in ("cpu", "memory")}
            for name, value in _exact(limits, quantity.milli_round).items():
                filled.setdefault(name, value)
            total.update({name: value for name, value in filled.items() if _pod_level(name)})
        total.update({name: value for name, value in _exact(requests, quantity.milli_round).items() if _pod_level(name)})
    _add(total, _exact(pod.spec.overhead, quantity.milli_round))
    amounts = {name: quantity.ceil(value * 1000 if name == "cpu" else value) for name, value in total.items() if counts(name)}
    return {name: amount for name, amount in amounts.items() if amount}


def unstated_requests(pod: objects.Pod, *, bound: bool) -> Amounts:
    """Return what a pod counts for beyond its requests where nodes are compared; nothing where 64 bits do not hold it."""
    stated = pod_requests(pod, bound=bound)
    try:
        supposed = pod_requests(pod, bound=bound, unstated=_UNSTATED)
    except quantity.QuantityError:
        return {}
    more = {name: supposed.get(name, 0) - stated.get(name, 0) for name in _UNSTATED}
    return {name: amount for name, amount in more.items() if amount}


def node_capacity(node: objects.Node) -> Amounts:
    """Allocatable amounts of a node, ``pods`` included; an absent allocatable falls back to capacity."""
    status = node.status or objects.NodeStatus()
    offered = status.allocatable if status.allocatable is not None else status.capacity
    return {name: quantity.milli(raw) if name == "cpu" else quantity.units(raw) for name, raw in (offered or {}).items()}


def fit_faults(requests: Amounts, pods: int, used: Amounts, capacity: Amounts) -> list[str]:
    """Return why a pod does not fit a node that holds ``pods`` pods and ``used`` amounts. A pod without requests needs only a slot."""
    faults = []
    slots = capacity.get("pods", 0)
    if pods + 1 > slots:
        faults.append(f"pods: {pods} of {slots} taken")
    lacking = [name for name, amount in requests.items() if 0 < amount > capacity.get(name, 0) - used.get(name, 0)]
    for name in sorted(lacking):
        total = capacity.get(name, 0)
        free = total - used.get(name, 0)
        faults.append(f"{name}: requests {_show(name, requests[name])}, {_show(name, free)} of {_show(name, total)} free")
    return faults


def _show(name: str, amount: int) -> str:
    return quantity.format_cpu(amount) if name == "cpu" else str(amount)


Port = tuple[str, int, str]  # protocol, host port, host IP
_ANY: Final = "0.0.0.0"


class Shared:
    """Requests and host ports of pods; those that share their parts share the answer. Keeps no pod alive, and knows parts by their ids: the
    snapshot has to stay in memory."""

    def __init__(self) -> None:
        self._requests: dict[tuple[int, ...], Amounts] = {}
        self._ports: dict[tuple[int, int, bool | None], list[Port]] = {}

    def requests(self, pod: objects.Pod, *, bound: bool) -> Amounts:
        """As :func:`pod_requests`."""
        spec = pod.spec
        memo = id(spec.containers), id(spec.initContainers), id(spec.resources), id(spec.overhead), id(pod.status) if bound else 0
        found = self._requests.get(memo)
        if found is None:
            found = self._requests[memo] = pod_requests(pod, bound=bound)
        return found

    def ports(self, pod: objects.Pod) -> list[Port]:
        """As :func:`host_ports`."""
        spec = pod.spec
        memo = id(spec.containers), id(spec.initContainers), spec.hostNetwork
        found = self._ports.get(memo)
        if found is None:
            found = self._ports[memo] = host_ports(pod)
        return found


def host_ports(pod: objects.Pod) -> list[Port]:
    """Host ports of app containers and sidecars. With hostNetwork a containerPort without hostPort is one too."""
    sidecars = [c for c in pod.spec.initContainers or () if _is_sidecar(c)]
    found: list[Port] = []
    for container in [*(pod.spec.containers or ()), *sidecars]:
        for port in container.ports or ():
            number = port.hostPort or (port.containerPort if pod.spec.hostNetwork else None) or 0
            if number > 0:
                found.append((port.protocol or "TCP", number, port.hostIP or _ANY))
    return found


def clashing_port(wanted: Iterable[Port], taken: Iterable[Port]) -> Port | None:
    """Return the first wanted port that is taken: same protocol and number, same address or either one the wildcard."""
    held: dict[tuple[str, int], set[str]] = {}
    for protocol, number, address in taken:
        held.setdefault((protocol, number), set()).add(address)
    for port in wanted:
        addresses = held.get(port[:2])
        if addresses and (port[2] == _ANY or _ANY in addresses or port[2] in addresses):
            return port
    return None
