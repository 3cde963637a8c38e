"""Comparison of the devices that a Placement names with those allocated when the pod is bound."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kubestow.checker.rules.dynamic_resources.state import Devices, Grant
from kubestow.models.documents.placement import DeviceResult, share_id
from kubestow.models.kube import objects, quantity


def expected(grants: Sequence[Grant]) -> list[DeviceResult]:
    """Return the device entries that a document must have for allocated claims."""
    found = []
    for grant in grants:
        label = grant.wanted.label
        for each in grant.devices:
            consumed = {name: quantity.canonical(amount) for name, amount in (each.consumed or {}).items()}
            share = None if each.consumed is None else share_id(label, each.ask.name, *each.device.id)
            found.append(DeviceResult(label, each.ask.name, *each.device.id, each.ask.admin, share, consumed))
    return found


def faults(devices: Devices | None, grants: Sequence[Grant] | None, node: objects.Node, named: Sequence[DeviceResult]) -> list[str]:
    """Return the differences between the named and the allocated devices.

    Args:
        devices: The devices of the snapshot, or None.
        grants: Allocations of the pod; None if the pod was rejected, which another check reports.
        node: The node of the pod.
        named: Devices that the document names.
    """
    if grants is None or devices is None:
        return ["devices are named, and the pod asks for none"] if named and devices is None else []
    return list(_faults(devices, expected(grants), node, list(named)))


def others(devices: Devices | None, pod: objects.Pod, named: Sequence[DeviceResult]) -> list[str]:
    """Return the named devices that the pod does not get in a later snapshot than the document's.

    Claims may have been created from templates and allocated since. So a device is matched by its request, under
    any name of the claim.
    """
    devices_of_pod = devices.devices_of(pod) if named and devices is not None else None
    if devices_of_pod is None:
        return []
    unmatched, wrong = list(devices_of_pod), []
    for each in named:
        if (each.request, _device(each)) in unmatched:
            unmatched.remove((each.request, _device(each)))
        else:
            wrong.append(each)
    found = []
    for each in wrong:
        instead = next((other for other in unmatched if other[0] == each.request), None)
        if instead is not None:
            unmatched.remove(instead)
        actual = f"the allocator takes {'/'.join(instead[1])}" if instead is not None else "it does not get it"
        found.append(f"{_place(each)}: device {'/'.join(_device(each))} is named; {actual}")
    return found


def _faults(devices: Devices, wanted: list[DeviceResult], node: objects.Node, named: list[DeviceResult]) -> Iterator[str]:
    missing = list(wanted)
    wrong: list[DeviceResult] = []
    for each in named:
        same = next((other for other in missing if _equal(each, other)), None)
        if same is None:
            wrong.append(each)
        else:
            missing.remove(same)
    for each in wrong:
        at = _place(each)
        if at not in map(_place, wanted):
            yield f"{at} is named, and no such request is to be allocated"
            continue
        twin = next((other for other in missing if _place(other) == at and _device(other) == _device(each)), None)
        instead = twin or next((other for other in missing if _place(other) == at), None)
        if twin is not None:
            missing.remove(twin)
            yield f"{at}: {_described(each)} is named, it is {_described(twin)}"
        elif instead is None:
            yield f"{at}: device {'/'.join(_device(each))} is named in addition to all that the allocator takes"
        else:
            missing.remove(instead)
            unseen = "" if devices.find(_device(each), node) is not None else ", which the node does not see"
            yield f"{at}: device {'/'.join(_device(each))} is named{unseen}; the allocator takes {'/'.join(_device(instead))}"
    for each in missing:
        yield f"{_place(each)}: no device is named; the allocator takes {'/'.join(_device(each))}"


def _place(each: DeviceResult) -> str:
    return f"claim {each.claim}, request {each.request}"


def _device(each: DeviceResult) -> tuple[str, str, str]:
    return each.driver, each.pool, each.device


def _described(each: DeviceResult) -> str:
    parts = ["/".join(_device(each))]
    parts += ["with admin access"] if each.adminAccess else []
    parts += [f"share {each.shareID}"] if each.shareID is not None else []
    parts += [f"{amount} of {name}" for name, amount in sorted(each.consumedCapacity.items())]
    return ", ".join(parts)


def _equal(one: DeviceResult, other: DeviceResult) -> bool:
    if (_place(one), _device(one), one.adminAccess, one.shareID) != (_place(other), _device(other), other.adminAccess, other.shareID):
        return False
    try:
        consumed = [{name: quantity.parse(raw) for name, raw in each.consumedCapacity.items()} for each in (one, other)]
    except quantity.QuantityError:
        return False
    return consumed[0] == consumed[1]
