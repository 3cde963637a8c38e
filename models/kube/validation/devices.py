"""The API server's validation of ResourceSlices, DeviceClasses, ResourceClaims, their templates, and DeviceTaintRules.

Stored objects (without ``gates``) are checked only for readable values, because another version of the API server
may have accepted the rest. Selectors in CEL are checked in :mod:`kubestow.models.workloads.checks`.

Source: https://github.com/kubernetes/kubernetes/blob/v1.36.2/pkg/apis/resource/validation/validation.go
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from kubestow.models.kube import device_objects as api
from kubestow.models.kube import quantity
from kubestow.models.kube.feature_gates import FeatureGates
from kubestow.models.kube.lenient_decode import shorten
from kubestow.models.kube.objects import RawQuantity
from kubestow.models.kube.quantity import QuantityError
from kubestow.models.kube.validation.pods import Problems, check_choice, check_node_selector

_MAX_DEVICES: Final = 128
#: Largest number of devices with taints, counters or lists of attributes.
_MAX_ADVANCED: Final = 64
_MAX_REQUESTS: Final = 32
_MAX_ALTERNATIVES: Final = 8
_MAX_ATTRIBUTES: Final = 32
_MAX_EXPRESSION: Final = 10 * 1024
_MODES: Final = ("ExactCount", "All")
_EFFECTS: Final = ("NoSchedule", "NoExecute", "None")
_QUALIFIED: Final = re.compile(r"[^/]+/[^/]+\Z")


def _quantity(raw: RawQuantity | None, path: str, out: Problems) -> None:
    if raw is not None:
        try:
            quantity.parse(raw)
        except QuantityError as error:
            out.append(f"{path}: {error}")


def _once(names: Iterable[str], path: str, what: str, out: Problems) -> None:
    seen: set[str] = set()
    for index, name in enumerate(names):
        if name in seen:
            out.append(f"{path}[{index}]: got {shorten(name)} twice, expected each {what} once")
        seen.add(name)


def _at_most(items: Sequence[object] | None, limit: int, path: str, out: Problems) -> None:
    if items is not None and len(items) > limit:
        out.append(f"{path}: got {len(items)}, expected at most {limit}")


def _taint(taint: api.DeviceTaint, path: str, out: Problems) -> None:
    if not taint.key:
        out.append(f"{path}.key: empty, expected text")
    if taint.effect not in _EFFECTS:
        out.append(f"{path}.effect: got {shorten(taint.effect)}, expected NoSchedule, NoExecute or None")


# --- slices -------------------------------------------------------------------------------------------------------------


def resource_slice(obj: api.ResourceSlice, gates: FeatureGates | None, out: Problems) -> None:
    """Append the problems of a ResourceSlice to ``out``.

    Args:
        obj: The slice.
        gates: Feature gates of the API server that will receive it. None for a stored object: only unreadable values count.
        out: The problems.
    """
    spec = obj.spec
    for index, device in enumerate(spec.devices or ()):
        _readable(device, f"spec.devices[{index}]", out)
    for index, counters in enumerate(spec.sharedCounters or ()):
        for name, counter in (counters.counters or {}).items():
            _quantity(counter.value, f"spec.sharedCounters[{index}].counters.{name}.value", out)
    check_node_selector(spec.nodeSelector, "spec.nodeSelector", out)
    if gates is None:
        return
    chosen = [
        name
        for name, is_set in (
            ("nodeName", spec.nodeName is not None),
            ("nodeSelector", spec.nodeSelector is not None),
            ("allNodes", bool(spec.allNodes)),
            ("perDeviceNodeSelection", bool(spec.perDeviceNodeSelection)),
        )
        if is_set
    ]
    if len(chosen) != 1:
        got = " and ".join(chosen) or "none"
        out.append(f"spec: got {got}, expected exactly one of nodeName, nodeSelector, allNodes and perDeviceNodeSelection")
    if spec.sharedCounters and spec.devices:
        out.append("spec: got sharedCounters and devices, expected only one")
    devices = spec.devices or []
    advanced = any(device.taints or device.consumesCounters or _lists(device) for device in devices)
    _at_most(devices, _MAX_ADVANCED if advanced else _MAX_DEVICES, "spec.devices", out)
    _once((device.name for device in devices), "spec.devices", "name", out)
    _once((counters.name for counters in spec.sharedCounters or ()), "spec.sharedCounters", "name", out)
    if spec.pool.resourceSliceCount < 1:
        out.append(f"spec.pool.resourceSliceCount: got {spec.pool.resourceSliceCount}, expected a whole number of at least 1")
    for index, device in enumerate(devices):
        _device(device, bool(spec.perDeviceNodeSelection), f"spec.devices[{index}]", out)


def _lists(device: api.Device) -> bool:
    return any(a.ints is not None or a.bools is not None or a.strings is not None or a.versions is not None for a in _attributes(device))


def _attributes(device: api.Device) -> Iterable[api.DeviceAttribute]:
    return (device.attributes or {}).values()


def _readable(device: api.Device, path: str, out: Problems) -> None:
    for name, capacity in (device.capacity or {}).items():
        where = f"{path}.capacity[{name}]"
        _quantity(capacity.value, f"{where}.value", out)
        policy = capacity.requestPolicy
        if policy is not None:
            _quantity(policy.default, f"{where}.requestPolicy.default", out)
            for index, raw in enumerate(policy.validValues or ()):
                _quantity(raw, f"{where}.requestPolicy.validValues[{index}]", out)
            for field in ("min", "max", "step"):
                _quantity(getattr(policy.validRange, field, None), f"{where}.requestPolicy.validRange.{field}", out)
    for index, consumed in enumerate(device.consumesCounters or ()):
        for name, counter in (consumed.counters or {}).items():
            _quantity(counter.value, f"{path}.consumesCounters[{index}].counters.{name}.value", out)
    check_node_selector(device.nodeSelector, f"{path}.nodeSelector", out)


def _device(device: api.Device, per_device: bool, path: str, out: Problems) -> None:
    total = len(device.attributes or ()) + len(device.capacity or ())
    if total > _MAX_ATTRIBUTES and not _lists(device):
        out.append(f"{path}: got {total} attributes and capacities, expected at most {_MAX_ATTRIBUTES}")
    for name, attribute in (device.attributes or {}).items():
        fields = ("int", "bool", "string", "version", "ints", "bools", "strings", "versions")
        given = [field for field in fields if getattr(attribute, field) is not None]
        if len(given) != 1:
            out.append(f"{path}.attributes[{name}]: got {' and '.join(given) or 'no value'}, expected exactly one value")
    for name, capacity in (device.capacity or {}).items():
        if capacity.requestPolicy is not None and not device.allowMultipleAllocations:
            out.append(f"{path}.capacity[{name}].requestPolicy: expected together with allowMultipleAllocations only")
    for index, taint in enumerate(device.taints or ()):
        _taint(taint, f"{path}.taints[{index}]", out)
    _once((each.counterSet for each in device.consumesCounters or ()), f"{path}.consumesCounters", "counterSet", out)
    chosen = [device.nodeName is not None, device.nodeSelector is not None, bool(device.allNodes)]
    if per_device and sum(chosen) != 1:
        out.append(f"{path}: expected exactly one of nodeName, nodeSelector and allNodes with perDeviceNodeSelection")
    elif not per_device and any(chosen):
        out.append(f"{path}: nodeName, nodeSelector and allNodes are expected together with spec.perDeviceNodeSelection only")


# --- classes, rules, claims ---------------------------------------------------------------------------------------------


def device_class(obj: api.DeviceClass, gates: FeatureGates | None, out: Problems) -> None:
    """Append the problems of a DeviceClass to ``out``. ``gates`` is None for a stored object."""
    if gates is not None and obj.spec is not None:
        _selectors(obj.spec.selectors, "spec.selectors", out)
        name = obj.spec.extendedResourceName
        if name is not None and (not _QUALIFIED.match(name) or name.startswith(("kubernetes.io/", "requests."))):
            out.append(f"spec.extendedResourceName: got {shorten(name)}, expected an extended resource of the form domain/name")


def taint_rule(obj: api.DeviceTaintRule, gates: FeatureGates | None, out: Problems) -> None:
    """Append the problems of a DeviceTaintRule to ``out``."""
    if gates is not None:
        _taint(obj.spec.taint, "spec.taint", out)


def resource_claim(obj: api.ResourceClaim, gates: FeatureGates | None, out: Problems) -> None:
    """Append the problems of a ResourceClaim to ``out``. ``gates`` is None for a stored object."""
    _claim(obj.spec, "spec", gates, out)
    allocation = obj.status.allocation if obj.status is not None else None
    if allocation is not None:
        for index, result in enumerate((allocation.devices.results if allocation.devices is not None else None) or ()):
            for name, raw in (result.consumedCapacity or {}).items():
                _quantity(raw, f"status.allocation.devices.results[{index}].consumedCapacity.{name}", out)


def claim_template(obj: api.ResourceClaimTemplate, gates: FeatureGates | None, out: Problems) -> None:
    """Append the problems of a ResourceClaimTemplate to ``out``. ``gates`` is None for a stored object."""
    _claim(obj.spec.spec if obj.spec is not None else None, "spec.spec", gates, out)


def _claim(spec: api.ResourceClaimSpec | None, path: str, gates: FeatureGates | None, out: Problems) -> None:
    devices = spec.devices if spec is not None else None
    if devices is None:
        return
    requests, start = devices.requests or [], f"{path}.devices"
    names: set[str] = set()
    for i, request in enumerate(requests):
        names.add(request.name)
        where = f"{start}.requests[{i}]"
        if request.exactly is not None:
            _request(request.exactly, f"{where}.exactly", gates, out)
        for j, alternative in enumerate(request.firstAvailable or ()):
            names.add(f"{request.name}/{alternative.name}")
            _request(alternative, f"{where}.firstAvailable[{j}]", gates, out)
        if gates is not None:
            if (request.exactly is None) is not bool(request.firstAvailable):
                got = "both" if request.exactly is not None else "neither"
                out.append(f"{where}: got {got}, expected exactly one of exactly and firstAvailable")
            _at_most(request.firstAvailable, _MAX_ALTERNATIVES, f"{where}.firstAvailable", out)
            _once((a.name for a in request.firstAvailable or ()), f"{where}.firstAvailable", "name", out)
    if gates is None:
        return
    _at_most(requests, _MAX_REQUESTS, f"{start}.requests", out)
    _once((request.name for request in requests), f"{start}.requests", "name", out)
    for i, constraint in enumerate(devices.constraints or ()):
        _constraint(constraint, names, f"{start}.constraints[{i}]", out)


def _request(request: api.ExactDeviceRequest | api.DeviceSubRequest, path: str, gates: FeatureGates | None, out: Problems) -> None:
    for name, raw in ((request.capacity.requests if request.capacity is not None else None) or {}).items():
        _quantity(raw, f"{path}.capacity.requests.{name}", out)
    if gates is None:
        return
    if not request.deviceClassName:
        out.append(f"{path}.deviceClassName: missing, expected the name of a DeviceClass")
    check_choice(request.allocationMode, _MODES, f"{path}.allocationMode", out)
    if request.allocationMode == "All" and request.count:
        out.append(f"{path}.count: got {request.count}, expected none with allocationMode All")
    elif request.allocationMode in (None, "", "ExactCount") and (request.count or 0) < 0:
        out.append(f"{path}.count: got {request.count}, expected a whole number of at least 1")
    _selectors(request.selectors, f"{path}.selectors", out)
    for index, toleration in enumerate(request.tolerations or ()):
        where = f"{path}.tolerations[{index}]"
        check_choice(toleration.operator, ("Equal", "Exists"), f"{where}.operator", out)
        check_choice(toleration.effect, _EFFECTS, f"{where}.effect", out)
        if not toleration.key and toleration.operator != "Exists":
            out.append(f"{where}.operator: got {shorten(toleration.operator)}, expected Exists without a key")
        if toleration.operator == "Exists" and toleration.value:
            out.append(f"{where}.value: got {shorten(toleration.value)}, expected none with operator Exists")


def _selectors(selectors: list[api.DeviceSelector] | None, path: str, out: Problems) -> None:
    _at_most(selectors, _MAX_REQUESTS, path, out)
    for index, selector in enumerate(selectors or ()):
        if selector.cel is None:
            out.append(f"{path}[{index}].cel: missing, expected an expression")
        elif len(selector.cel.expression.encode()) > _MAX_EXPRESSION:
            got = len(selector.cel.expression.encode())
            out.append(f"{path}[{index}].cel.expression: got {got} bytes, expected at most {_MAX_EXPRESSION}")


def _constraint(constraint: api.DeviceConstraint, names: set[str], path: str, out: Problems) -> None:
    for index, name in enumerate(constraint.requests or ()):
        if name not in names:
            out.append(f"{path}.requests[{index}]: got {shorten(name)}, expected REQUEST or REQUEST/ALTERNATIVE of the claim")
    _once(constraint.requests or (), f"{path}.requests", "request", out)
    given: Mapping[str, str | None] = {"matchAttribute": constraint.matchAttribute, "distinctAttribute": constraint.distinctAttribute}
    chosen = {field: name for field, name in given.items() if name is not None}
    if len(chosen) != 1:
        out.append(f"{path}: got {' and '.join(chosen) or 'neither'}, expected exactly one of matchAttribute and distinctAttribute")
    for field, name in chosen.items():
        if not _QUALIFIED.match(name):
            out.append(f"{path}.{field}: got {shorten(name)}, expected an attribute with its domain, such as example.com/model")


#: Checks by kind. ``gates`` are those of the API server that will receive the object; None for a stored object.
CHECKS: Final[dict[type[object], Callable[..., None]]] = {
    api.ResourceSlice: resource_slice,
    api.DeviceClass: device_class,
    api.DeviceTaintRule: taint_rule,
    api.ResourceClaim: resource_claim,
    api.ResourceClaimTemplate: claim_template,
}
