"""Claims as they are once pods have their devices, or have given them back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec
import numpy as np

from models.devices.inventory import Pick
from models.devices.table import DeviceTable
from models.kube import device_objects as api
from models.kube import quantity
from models.kube.objects import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, ObjectMeta, Pod
from models.snapshot.snapshot import Snapshot

Claims = dict[str, api.ResourceClaim]


def allocated(snapshot: Snapshot, table: DeviceTable, granted: Mapping[int, tuple[str, Sequence[Pick]]]) -> Claims:
    """Return the ResourceClaims of a snapshot with those allocated that pods got devices for, and one for the extended resources of each.
    ``granted``: pod (index into ``snapshot.pods``) -> its node, and what it has of devices, by position of the claim."""
    names = [node.metadata.name or "" for node in snapshot.nodes]
    claims = dict(snapshot.resource_claims)
    for i, (node, picks) in granted.items():
        for c, key in enumerate(table.names[i]):
            mine = [pick for pick in picks if pick.claim == c]
            known = claims.get(key) or api.ResourceClaim(_metadata(key))
            if known.status is None or known.status.allocation is None:
                allocation = api.AllocationResult(api.DeviceAllocationResult(_results(table, mine)), _where(table, mine, node, names))
                claims[key] = msgspec.structs.replace(known, status=api.ResourceClaimStatus(allocation))
    return claims


def _metadata(key: str) -> ObjectMeta:
    space, _, name = key.partition("/")
    return ObjectMeta(name=name, namespace=space)


def _results(table: DeviceTable, picks: Iterable[Pick]) -> list[api.DeviceRequestAllocationResult]:
    found = []
    for number, pick in enumerate(picks):
        device = table.inventory.devices[pick.device]
        found.append(
            api.DeviceRequestAllocationResult(
                pick.request, device.driver, device.pool, device.name,
                adminAccess=pick.admin or None,
                shareID=str(number) if pick.share else None,
                consumedCapacity={name: quantity.canonical(amount) for name, amount in pick.consumed} if pick.share else None,
            )
        )  # fmt: skip
    return found


def _where(table: DeviceTable, picks: Iterable[Pick], node: str, names: Sequence[str]) -> NodeSelector | None:
    """The nodes that an allocation allows; None for all."""
    inventory = table.inventory
    devices = [inventory.devices[pick.device] for pick in picks]
    masks = [inventory.selectors[device.selector] for device in devices if device.selector is not None]
    if any(device.node for device in devices):
        chosen = [node]
    elif masks:
        chosen = [names[n] for n in np.flatnonzero(np.logical_and.reduce(masks)).tolist()]
    else:
        return None
    return NodeSelector([NodeSelectorTerm(matchFields=[NodeSelectorRequirement("metadata.name", "In", [name])]) for name in chosen])


def without(snapshot: Snapshot, gone: Iterable[Pod]) -> Claims:
    """Return the ResourceClaims of a snapshot once some pods are gone: those made for them are gone as well, and what nobody else has
    reserved is given back."""
    leaving = {(pod.metadata.namespace or "default", pod.metadata.name, pod.metadata.uid) for pod in gone}
    claims: Claims = {}
    for key, claim in snapshot.resource_claims.items():
        space = key.partition("/")[0]
        owners = [owner for owner in claim.metadata.ownerReferences or () if owner.controller and owner.kind == "Pod"]
        if any((space, owner.name, owner.uid) in leaving for owner in owners):
            continue
        status = claim.status
        users = [user for user in (status.reservedFor if status is not None else None) or () if user.resource == "pods"]
        left = [user for user in users if (space, user.name, user.uid or None) not in leaving]
        if status is not None and users and not left:
            claim = msgspec.structs.replace(claim, status=None)
        elif status is not None and len(left) < len(users):
            claim = msgspec.structs.replace(claim, status=msgspec.structs.replace(status, reservedFor=left))
        claims[key] = claim
    return claims


def released(snapshot: Snapshot, anew: Iterable[Pod]) -> Claims:
    """Return the ResourceClaims of a snapshot with those unallocated that were made for pods which are placed anew."""
    again = {(pod.metadata.namespace or "default", pod.metadata.name, pod.metadata.uid) for pod in anew}

    def own(key: str, claim: api.ResourceClaim) -> bool:
        owners = [owner for owner in claim.metadata.ownerReferences or () if owner.controller and owner.kind == "Pod"]
        return any((key.partition("/")[0], owner.name, owner.uid) in again for owner in owners)

    return {
        key: msgspec.structs.replace(claim, status=None) if own(key, claim) else claim for key, claim in snapshot.resource_claims.items()
    }
