"""The device data of a compiled instance: the inventory, and the nodes that claims and extended resources allow."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final, TypeVar, cast

import numpy as np

from kubestow.models.cel.selectors import evaluated
from kubestow.models.devices.claims import DemandReader
from kubestow.models.devices.demand import DemandedClaim, DemandedRequest, DeviceDemand, Extended
from kubestow.models.devices.extended_resources import ANNOTATION
from kubestow.models.devices.inventory import Inventory, Pick
from kubestow.models.devices.read import inventory
from kubestow.models.devices.selecting import DeviceSelecting, reads
from kubestow.models.kube import pod_requests, quantity
from kubestow.models.kube.device_objects import AllocationResult, DeviceSelector, ResourceClaim, made_for
from kubestow.models.kube.objects import Node, Pod
from kubestow.models.kube.selectors import Bools, NodeColumns
from kubestow.models.snapshot.scope import Scope
from kubestow.models.snapshot.snapshot import Snapshot

_Kept = TypeVar("_Kept")

#: Time that the scheduler waits for the binding conditions of devices (bindingTimeout, DynamicResourcesArgs).
BINDING_TIMEOUT: Final = timedelta(seconds=600)


@dataclass
class DeviceTable:
    """The device data of a compiled instance.

    Attributes:
        matches: Returns True if all selectors of a request hold for devices of a kind; raises CelError.
        demands: Pod (index into ``snapshot.pods``) -> its requests, for pods with requests.
        names: Pod -> names in documents of its claims that are to be allocated.
        allowed: ``namespace/name`` of allocated claims that pods name -> allowed nodes, bool[N].
        provided: Extended resource backed by a DeviceClass -> nodes where devices must provide it, bool[N].
        listed: Other extended resources -> nodes whose allocatable lists them, bool[N].
        held: Movable running pod -> its devices, with the position of the claim.
    """

    inventory: Inventory
    matches: DeviceSelecting
    demands: dict[int, DeviceDemand] = field(default_factory=dict)
    names: dict[int, tuple[str, ...]] = field(default_factory=dict)
    allowed: dict[str, Bools] = field(default_factory=dict)
    provided: dict[str, Bools] = field(default_factory=dict)
    listed: dict[str, Bools] = field(default_factory=dict)
    held: dict[int, tuple[Pick, ...]] = field(default_factory=dict)
    _cache: dict[str, tuple[object, object]] = field(default_factory=dict, repr=False)

    def cached(self, name: str, make: Callable[[], _Kept], of: object = None) -> _Kept:
        """Return a value cached under a name; make it if there is none or ``of`` differs from the last call's."""
        entry = self._cache.get(name)
        if entry is None or entry[0] is not of:
            entry = self._cache[name] = of, make()
        return cast(_Kept, entry[1])

    def variants(self, demand: DeviceDemand) -> list[tuple[Bools, tuple[DemandedClaim, ...]]]:
        """Return the claims that a pod submits to the allocator. They depend on the node.

        Returns:
            Pairs of nodes, bool[N], and the claims there. Each node is in exactly one pair.
        """
        size = len(self.inventory.site_of)
        if not demand.extended:
            return [(np.ones(size, dtype=bool), demand.claims)]
        table, group = np.unique([self.provided[each.resource] for each in demand.extended], axis=1, return_inverse=True)
        found = []
        for i, column in enumerate(table.T):
            extended = [each for each, here in zip(demand.extended, column, strict=True) if here]
            claims = (*demand.claims, claim_of(extended)) if extended else demand.claims
            found.append((np.asarray(group.reshape(-1) == i), claims))
        return found


def claim_of(extended: Sequence[Extended]) -> DemandedClaim:
    """Return the claim made from the requests of extended resources, sorted by name."""
    requests = sorted((request for each in extended for request in each.requests), key=lambda request: request.name)
    return DemandedClaim(tuple((request,) for request in requests))


def device_table(snapshot: Snapshot, scope: Scope, nodes: NodeColumns, running: Mapping[int, int]) -> DeviceTable | None:
    """Return the device requests of a scope's pending pods and the supply; None if there are no requests.

    Args:
        running: Pending pods that run now and may be moved, by index into ``snapshot.pods``. Only the keys are read.

    Raises:
        ValueError: A quantity exceeds 64-bit sums.
    """
    if not (snapshot.device_classes or any(snapshot.pods[i].spec.resourceClaims for i in scope.pending)):
        return None
    again = {i for i in scope.pending if snapshot.pods[i].spec.nodeName}
    released = made_for(snapshot.resource_claims, [snapshot.pods[i] for i in again]) if again else set()
    reader = DemandReader(snapshot, released)
    demands: dict[int, DeviceDemand] = {}
    names: dict[int, tuple[str, ...]] = {}
    distinct: dict[DeviceDemand, DeviceDemand] = {}
    for i in scope.pending:
        if reader.asks(snapshot.pods[i]):
            demand, names[i] = reader.read(snapshot.pods[i])
            demands[i] = distinct.setdefault(demand, demand)
    if not demands:
        return None
    resources = {each.resource for demand in distinct for each in demand.extended}
    others = {name for demand in distinct for name in demand.unbacked}
    for demand in [d for d in distinct if not evaluated({e for part in _parts(d) for e in part.selectors}, snapshot.gates)]:
        del distinct[demand]  # nothing is known about such pods
    demands = {i: demand for i, demand in demands.items() if demand in distinct}
    read = reads({expression for demand in distinct for part in _parts(demand) for expression in part.selectors})
    constrained = {each.attribute for demand in distinct for claim in demand.claims for each in claim.constraints}
    devices = inventory(snapshot, nodes, reads=read, constrained=constrained, released=released)
    table = DeviceTable(devices, DeviceSelecting(devices.kinds, snapshot.gates), demands, names)
    table.allowed = {key: _allowed(snapshot, key, nodes) for demand in distinct for key in demand.allocated}
    if resources or others:
        offered = [_allocatable(node) for node in snapshot.nodes]
        table.provided = {name: np.array([not listed.get(name) for listed in offered], dtype=bool) for name in resources}
        table.listed = {name: np.array([name in listed for listed in offered], dtype=bool) for name in others}
    _hold(table, snapshot, [i for i in running if i in demands], released)
    return table


def not_evaluated(snapshot: Snapshot, pods: Iterable[Pod]) -> list[Pod]:
    """Return the pods about whose devices nothing is known because a selector cannot be evaluated here.

    Raises:
        ValueError: A quantity exceeds 64-bit sums.
    """
    if evaluated(_expressions(snapshot), snapshot.gates):
        return []
    reader = DemandReader(snapshot)
    found: list[Pod] = []
    for pod in pods:
        if reader.asks(pod):
            demand, _ = reader.read(pod)
            if not evaluated({e for part in _parts(demand) for e in part.selectors}, snapshot.gates):
                found.append(pod)
    return found


def _expressions(snapshot: Snapshot) -> set[str]:
    """Return every selector of classes and claims."""
    listed: list[DeviceSelector] = []
    for device_class in snapshot.device_classes.values():
        listed += (device_class.spec.selectors if device_class.spec is not None else None) or ()
    for claim in snapshot.resource_claims.values():
        devices = claim.spec.devices if claim.spec is not None else None
        for request in (devices.requests if devices is not None else None) or ():
            for part in (request.exactly, *(request.firstAvailable or ())):
                listed += (part.selectors if part is not None else None) or ()
    return {each.cel.expression for each in listed if each.cel is not None}


def _parts(demand: DeviceDemand) -> Iterator[DemandedRequest]:
    """Yield every request and alternative of a demand."""
    for claim in demand.claims:
        for alternatives in claim.requests:
            yield from alternatives
    for each in demand.extended:
        yield from each.requests


def _allowed(snapshot: Snapshot, key: str, nodes: NodeColumns) -> Bools:
    """Return the nodes that an allocated claim allows, bool[N]."""
    claim = snapshot.resource_claims[key]
    allocation = claim.status.allocation if claim.status is not None else None
    assert allocation is not None
    if not _ready(snapshot, claim, allocation):
        return np.zeros(nodes.size, dtype=bool)
    return np.ones(nodes.size, dtype=bool) if allocation.nodeSelector is None else nodes.selector(allocation.nodeSelector)


def _ready(snapshot: Snapshot, claim: ResourceClaim, allocation: AllocationResult) -> bool:
    """Return True if no device of an allocation has failed to bind or exceeded its time to bind."""
    gates = snapshot.gates
    if not (gates.enabled("DRADeviceBindingConditions") and gates.enabled("DRAResourceClaimDeviceStatus")):
        return True
    results = (allocation.devices.results if allocation.devices is not None else None) or []
    statuses = {(s.driver, s.pool, s.device, s.shareID): s for s in (claim.status.devices if claim.status is not None else None) or ()}
    for result in results:
        if not result.bindingConditions:
            continue
        status = statuses.get((result.driver, result.pool, result.device, result.shareID))
        true = {c.type for c in (status.conditions if status is not None else None) or () if c.status == "True"}
        if status is not None and not true.isdisjoint(result.bindingFailureConditions or ()):
            return False
        if status is None or not true.issuperset(result.bindingConditions):
            return not _elapsed(snapshot, allocation.allocationTimestamp)
    return True


def _elapsed(snapshot: Snapshot, since: str | None) -> bool:
    """Return True if the time to bind had passed at the time of the snapshot, or if that time is unknown."""
    if since is None:
        return False
    try:
        return datetime.fromisoformat(since) + BINDING_TIMEOUT < datetime.fromisoformat(snapshot.capture.time if snapshot.capture else "")
    except (ValueError, TypeError):
        return True


def _allocatable(node: Node) -> dict[str, int]:
    status = node.status
    return pod_requests.allocatable((status.allocatable if status.allocatable is not None else status.capacity) if status else None)


def _hold(table: DeviceTable, snapshot: Snapshot, pods: Sequence[int], released: Collection[str]) -> None:
    """Record the devices that running pods hold in ``held``, and their properties in ``demands``.

    Args:
        table: The table. It is changed.
        pods: Indices of the running pods, all with demands.
        released: ``namespace/name`` of claims whose allocation does not count.
    """
    devices = table.inventory
    if not pods:
        return
    index = {name: n for n, name in enumerate(node.metadata.name for node in snapshot.nodes)}
    made = {
        (owner.uid, owner.name): key
        for key in released
        for owner in snapshot.resource_claims[key].metadata.ownerReferences or ()
        if owner.controller and (snapshot.resource_claims[key].metadata.annotations or {}).get(ANNOTATION) == "true"
    }
    for i in pods:
        pod = snapshot.pods[i]
        names = table.names[i]
        at = {devices.devices[d].unit: d for d in devices.site(index[pod.spec.nodeName or ""]).visible.tolist()}
        own = made.get((pod.metadata.uid, pod.metadata.name or ""))
        keys = [own or "" if name.endswith("/extended-resources") else name for name in names]
        picks = tuple(pick for c, key in enumerate(keys) if key in released for pick in _picks(devices, snapshot, key, c, at))
        if picks:
            table.held[i] = picks
            table.demands[i] = replace(table.demands[i], held=tuple(_trait(devices, pick) for pick in picks))


def _picks(inventory: Inventory, snapshot: Snapshot, key: str, claim: int, at: Mapping[int, int]) -> Iterator[Pick]:
    status = snapshot.resource_claims[key].status
    allocation = status.allocation if status is not None else None
    for result in (allocation.devices.results if allocation is not None and allocation.devices is not None else None) or ():
        device = at.get(inventory.units.get((result.driver, result.pool, result.device), -1))
        if device is not None:
            share = result.shareID is not None and inventory.kind(device).shared
            consumed = tuple((name, quantity.parse(raw)) for name, raw in (result.consumedCapacity or {}).items()) if share else ()
            yield Pick(claim, result.request, device, bool(result.adminAccess), share, consumed)


def _trait(inventory: Inventory, pick: Pick) -> tuple[int, str, int, int | None]:
    """Return the properties that distinguish a held device from equivalent ones."""
    device = inventory.devices[pick.device]
    return pick.claim, pick.request, device.kind, device.unit if device.counters or pick.share else None
