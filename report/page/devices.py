"""Devices of dynamic resource allocation: the devices that each node can use, and their allocation to claims."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import ceil
from typing import Any, Final, NamedTuple

from kubestow.models.devices.read import inventory
from kubestow.models.documents.placement import Assignment, DeviceResult, Placement, RolloutPod
from kubestow.models.kube import objects, quantity
from kubestow.models.kube.device_objects import DeviceRequestAllocationResult, ResourceClaim, owning_pod, pod_identity
from kubestow.models.kube.selectors import NodeColumns
from kubestow.models.snapshot.snapshot import InputError, Snapshot
from kubestow.report.page.places import PodPlaces, Result

#: When a device is allocated: without the result, or with it.
BEFORE: Final = 1
AFTER: Final = 2

_Unit = tuple[str, str, str]  # driver, pool, name


class _AllocatedDevice(NamedTuple):
    """A device allocated to a request of a claim. ``amounts`` is the consumed capacity of a shared device."""

    unit: _Unit
    claim: str
    request: str
    admin: bool
    share: bool
    amounts: tuple[tuple[str, int], ...]


#: Rows, each with the indices of the pods that use the claim, and when the device is allocated.
_Rows = dict[_AllocatedDevice, tuple[dict[int, None], int]]


def columns(snapshot: Snapshot, result: Result, places: PodPlaces, *, grouped: bool) -> dict[str, Any] | None:
    """Return ``devices`` of the page, or None if there are none. With ``grouped``, pods are identified by name.

    ``name`` and ``pool`` (index into ``pools`` of driver and name) are columns over devices. ``capacity`` lists, by
    device index (as text), the capacities of shared devices: name, amount, and True for binary units. ``site`` is a
    column over nodes: an index into ``sites``, the lists of devices that nodes can use. ``taken`` has a row per
    device of a claim; ``when`` is :data:`BEFORE`, :data:`AFTER` or their sum.

    Raises:
        InputError: The result has an invalid amount.
    """
    rows = _rows(snapshot, result, places)
    if not (snapshot.resource_slices or rows):
        return None
    found = inventory(snapshot, NodeColumns(snapshot.nodes), reads=())
    ids = dict(found.units)
    for row in rows:
        ids.setdefault(row.unit, len(ids))  # allocated devices may no longer be published
    pools = {pool: i for i, pool in enumerate(dict.fromkeys((driver, pool) for driver, pool, _ in ids))}
    capacity = {}
    for device in found.devices:
        kind = found.kind(device.id)
        if kind.shared and kind.capacity:
            raw = kind.example.capacity or {}
            amounts = [[name, ceil(each.value), str(raw[name].value).endswith("i")] for name, each in sorted(kind.capacity.items())]
            capacity[str(device.unit)] = amounts
    sites: list[list[int]] = [[] for _ in found.sites]
    for s, n in {int(s): n for n, s in enumerate(found.site_of)}.items():
        sites[s] = list(dict.fromkeys(found.devices[i].unit for i in found.visible(n).tolist()))
    return {
        "pools": [list(pool) for pool in pools],
        "name": [name for _, _, name in ids],
        "pool": [pools[driver, pool] for driver, pool, _ in ids],
        "capacity": capacity,
        "sites": sites,
        "site": found.site_of.tolist(),
        "taken": _taken(rows, ids, places, grouped=grouped),
    }


def _taken(rows: _Rows, ids: Mapping[_Unit, int], places: PodPlaces, *, grouped: bool) -> dict[str, list[Any]]:
    return {
        "device": [ids[row.unit] for row in rows],
        "claim": [row.claim for row in rows],
        "request": [row.request for row in rows],
        "how": [2 if row.admin else int(row.share) for row in rows],
        "amounts": [[list(each) for each in row.amounts] for row in rows],
        "pods": [[objects.pod_key(places.pods[i]) if grouped else i for i in pods] for pods, _ in rows.values()],
        "when": [when for _, when in rows.values()],
    }


def _rows(snapshot: Snapshot, result: Result, places: PodPlaces) -> _Rows:
    found: _Rows = {}
    # Generated claims are deleted and recreated with their pods.
    views = BEFORE if result is None else BEFORE | AFTER
    ends = zip(places.place[0], places.place[-1], strict=True)
    gone = {i for i, (n, to) in enumerate(ends) if n >= 0 and (i in places.recreated or to < 0)}
    if any(_results(claim) for claim in snapshot.resource_claims.values()):
        users, owner = _users(snapshot, places)
        for key, claim in snapshot.resource_claims.items():
            when = BEFORE if owner.get(key) in gone else views
            for each in _results(claim):
                found[_row(key, each)] = dict.fromkeys(users.get(key, ())), when
    ids: dict[str, int] = {}
    for name, given in _assigned(result):
        ids = ids or {objects.pod_key(pod): i for i, pod in enumerate(places.pods)}
        for device in given:
            row = _row(device.claim, device)
            pods, when = found.get(row, ({}, 0))
            found[row] = {**pods, ids[name]: None}, when | AFTER
    return found


def _assigned(result: Result) -> Iterator[tuple[str, list[DeviceResult]]]:
    """Yield the pods that get devices in a result."""
    if isinstance(result, Placement):
        listed: list[Assignment | RolloutPod] = [*result.assignments]
        for wave in result.rollout.waves if result.rollout is not None else ():
            listed += wave.create
        yield from ((each.pod, each.devices) for each in listed if each.devices)


def _results(claim: ResourceClaim) -> list[DeviceRequestAllocationResult]:
    allocation = claim.status.allocation if claim.status is not None else None
    return (allocation.devices.results if allocation is not None and allocation.devices is not None else None) or []


def _row(claim: str, each: DeviceRequestAllocationResult | DeviceResult) -> _AllocatedDevice:
    share = each.shareID is not None
    try:
        amounts = [(name, ceil(quantity.parse(raw))) for name, raw in sorted((each.consumedCapacity or {}).items())] if share else []
    except quantity.QuantityError as error:
        raise InputError([f"claim {claim}: consumedCapacity of device {each.device}: {error}"]) from error
    unit = each.driver, each.pool, each.device
    return _AllocatedDevice(unit, claim, each.request, bool(each.adminAccess), share, tuple(amounts))


def _users(snapshot: Snapshot, places: PodPlaces) -> tuple[dict[str, list[int]], dict[str, int]]:
    """Return the pods that use each claim, and the pod for which it was generated. Claims are identified by ``namespace/name``."""
    users: dict[str, list[int]] = {}
    index: dict[tuple[str, str, str | None], int] = {}
    for i, pod in enumerate(places.pods):
        space = pod.metadata.namespace or "default"
        index[pod_identity(pod)] = i
        made = {each.name: each.resourceClaimName for each in (pod.status.resourceClaimStatuses if pod.status else None) or ()}
        for entry in pod.spec.resourceClaims or ():
            name = entry.resourceClaimName or made.get(entry.name)
            if name is not None:
                users.setdefault(f"{space}/{name}", []).append(i)
    owner: dict[str, int] = {}
    for key, claim in snapshot.resource_claims.items():
        made_for = owning_pod(claim)
        at = index.get(made_for) if made_for is not None else None
        if at is not None:
            owner[key] = at
            users.setdefault(key, [at])
    return users, owner
