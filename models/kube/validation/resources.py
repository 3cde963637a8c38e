"""The API server's validation of requests and limits of new pods, on plain data.

Sources: validateResourceRequirements and validatePodResourceConsistency in
https://github.com/kubernetes/kubernetes/blob/v1.36.2/pkg/apis/core/validation/validation.go, and
pkg/apis/core/helper/helpers.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from typing import Any, Final

from kubestow.models.kube import quantity
from kubestow.models.kube.quantity import QuantityError
from kubestow.models.kube.validation.new_pods import Refused
from kubestow.models.kube.validation.texts import forbidden, invalid, qualified_name, required, unsupported

_CONTAINER: Final = ("cpu", "memory", "ephemeral-storage")
_HUGE: Final = "hugepages-"
_COUNTED: Final = frozenset(
    {"configmaps", "persistentvolumeclaims", "pods", "replicationcontrollers", "resourcequotas", "secrets", "services",
     "services.loadbalancers", "services.nodeports"}
)  # fmt: skip
#: Known names without a domain; some are valid in quotas only.
_STANDARD: Final = _COUNTED | {
    prefix + name for prefix in ("", "requests.", "limits.") for name in ("cpu", "memory", "ephemeral-storage")
} | {"requests.storage", "storage"}  # fmt: skip
_POD: Final = ("cpu", "memory")


def amounts(values: Any) -> dict[str, Fraction]:
    """Return the amounts of a resource list given as plain data, without values that are not quantities."""
    read = {}
    for name, raw in values.items() if isinstance(values, Mapping) else ():
        if not isinstance(raw, str | int | float):
            continue
        try:
            read[str(name)] = quantity.parse(raw)
        except QuantityError:
            continue
    return read


def _shown(raw: Any) -> Any:
    """Return a quantity as the server prints it: without a decimal point."""
    return quantity.canonical(quantity.parse(raw)) if "." in str(raw) else raw


def _is_native(name: str) -> bool:
    return "/" not in name or "kubernetes.io/" in name


def _is_extended(name: str) -> bool:
    return not (_is_native(name) or name.startswith("requests.") or any(qualified_name(f"requests.{name}")))


def _is_overcommitted(name: str) -> bool:
    return _is_native(name) and not name.startswith(_HUGE)


def _container_name(name: str) -> Iterator[str]:
    """Yield reasons why a container cannot request a resource of this name."""
    reasons = list(qualified_name(name))
    yield from reasons
    if "/" not in name:
        if not reasons and name not in _STANDARD and not name.startswith((_HUGE, f"requests.{_HUGE}")):
            yield "must be a standard resource type or fully qualified"
        if name not in _CONTAINER and not name.startswith(_HUGE):
            yield "must be a standard resource for containers"
    elif not _is_native(name) and not _is_extended(name):
        yield "doesn't follow extended resource name standard"


def _pod_name(name: str) -> Iterator[str]:
    yield from qualified_name(name)


def _amount(name: str, amount: Fraction, raw: Any) -> Iterator[str]:
    """Yield reasons why an amount is invalid. :mod:`kubestow.models.kube.validation.pods` rejects negative ones."""
    if (name in _COUNTED or _is_extended(name)) and quantity.ceil(amount * 1000) % 1000:
        yield invalid(_shown(raw), "must be an integer")
    if name.startswith(_HUGE):
        try:
            size = quantity.parse(name.removeprefix(_HUGE))
        except QuantityError:
            size = Fraction(0)
        if size <= 0 or size.denominator != 1 or quantity.ceil(amount) % size:
            yield invalid(_shown(raw), f"{_shown(raw)} is not positive integer multiple of {name}")


def requirements(resources: Any, path: str, names: Callable[[str], Iterator[str]] = _container_name) -> Refused:
    """Yield the fields of ``resources`` that the server rejects, each with its reason.

    Args:
        resources: The value of the field.
        path: Its path.
        names: Yields the reasons why the name of a resource is rejected.
    """
    given: Mapping[str, Any] = resources if isinstance(resources, Mapping) else {}
    raw = {field: given[field] if isinstance(given.get(field), Mapping) else {} for field in ("limits", "requests")}
    read = {field: amounts(listed) for field, listed in raw.items()}
    for field, listed in read.items():
        for name, amount in listed.items():
            where = f"{path}.{field}[{name}]"
            yield from ((where, invalid(name, reason)) for reason in names(name))
            yield from ((where, reason) for reason in _amount(name, amount, raw[field][name]))
    for name, amount in read["requests"].items():
        limit, shown = read["limits"].get(name), _shown(raw["requests"][name])
        if limit is None:
            if not _is_overcommitted(name) and name not in raw["limits"]:
                yield f"{path}.limits", required("Limit must be set for non overcommitable resources")
        elif amount != limit and not _is_overcommitted(name):
            yield f"{path}.requests", invalid(shown, f"must be equal to {name} limit of {_shown(raw['limits'][name])}")
        elif amount > limit:
            yield f"{path}.requests", invalid(shown, f"must be less than or equal to {name} limit of {_shown(raw['limits'][name])}")
    resource_names = {str(name) for listed in raw.values() for name in listed}
    if any(name.startswith(_HUGE) for name in resource_names) and not resource_names & {"cpu", "memory"}:
        yield path, forbidden("HugePages require cpu or memory")


def pod_level(spec: Mapping[str, Any], path: str) -> Refused:
    """Yield the fields of a pod's own ``resources`` that the server rejects: other resources, and less than its containers have."""
    given, system = spec.get("resources"), spec.get("os")
    if not isinstance(given, Mapping):
        return
    where = f"{path}.resources"
    if isinstance(system, Mapping) and system.get("name") == "windows":
        yield where, forbidden("may not be set for a windows pod")
        return
    if given.get("claims") is not None:
        yield f"{where}.claims", forbidden("claims may not be set for Resources at pod-level")
    for field in ("limits", "requests"):
        for name in amounts(given.get(field)):
            if name not in _POD and not name.startswith(_HUGE):
                yield f"{where}.{field}[{name}]", unsupported(name, ("cpu", _HUGE, "memory"))
    yield from requirements(given, where, _pod_name)
    limits, requests = amounts(given.get("limits")), amounts(given.get("requests"))
    total_requests, total_limits = _sum(spec, "requests"), _sum(spec, "limits")
    for name, amount in requests.items():
        if total_requests.get(name, Fraction(0)) > amount:
            reason = f"must be greater than or equal to aggregate container requests of {quantity.canonical(total_requests[name])}"
            yield f"{where}.requests[{name}]", invalid(_shown(given["requests"][name]), reason)
    for name, amount in total_limits.items():
        if name.startswith(_HUGE) and name in limits and amount > limits[name]:
            reason = f"must be greater than or equal to aggregate container limits of {quantity.canonical(amount)}"
            yield f"{where}.limits[{name}]", invalid(_shown(given["limits"][name]), reason)
    for index, container in enumerate(_containers(spec, "containers")):
        resources = container.get("resources")
        own = (resources.get("limits") if isinstance(resources, Mapping) else None) or {}
        for name, amount in amounts(own).items():
            if name in limits and amount > limits[name]:
                reason = f"must be less than or equal to pod limits of {_shown(given['limits'][name])}"
                yield f"{where}.containers[{index}][{name}].limits", invalid(_shown(own[name]), reason)


def _containers(spec: Mapping[str, Any], field: str) -> list[Mapping[str, Any]]:
    containers = spec.get(field)
    return [each for each in containers if isinstance(each, Mapping)] if isinstance(containers, list) else []


def _listed(container: Mapping[str, Any], field: str) -> dict[str, Fraction]:
    resources = container.get("resources")
    return amounts(resources.get(field)) if isinstance(resources, Mapping) else {}


def _sum(spec: Mapping[str, Any], field: str) -> dict[str, Fraction]:
    """Return the total requests or limits of the containers (AggregateContainerRequests, AggregateContainerLimits)."""
    total: dict[str, Fraction] = {}
    for container in _containers(spec, "containers"):
        for name, amount in _listed(container, field).items():
            total[name] = total.get(name, Fraction(0)) + amount
    sidecars: dict[str, Fraction] = {}
    highest: dict[str, Fraction] = {}
    for container in _containers(spec, "initContainers"):
        requests, stays = _listed(container, field), container.get("restartPolicy") == "Always"
        for name in {*requests, *sidecars}:
            now = requests.get(name, Fraction(0)) + sidecars.get(name, Fraction(0))
            highest[name] = max(highest.get(name, Fraction(0)), now)
            if stays:
                sidecars[name] = now
    names = {*total, *sidecars, *highest}
    zero = Fraction(0)
    return {name: max(total.get(name, zero) + sidecars.get(name, zero), highest.get(name, zero)) for name in names}
