"""Claims after pods received or returned their devices."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from kubestow.models.devices.inventory import Pick
from kubestow.models.devices.table import DeviceTable
from kubestow.models.kube import device_objects as api
from kubestow.models.kube import quantity
from kubestow.models.kube.objects import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, ObjectMeta, Pod
from kubestow.models.snapshot.snapshot import Snapshot

Claims = dict[str, api.ResourceClaim]


def allocated(snapshot: Snapshot, table: DeviceTable, granted: Mapping[int, tuple[str, Sequence[Pick]]]) -> Claims:
    """Return the ResourceClaims of a snapshot after the given pods got their devices.

    Their claims are allocated, and each pod with extended resources gets one more claim.

    Args:
        granted: Pod (index into ``snapshot.pods``) -> its node and its devices, with the position of the claim.
    """
    index = {node.metadata.name or "": n for n, node in enumerate(snapshot.nodes)}
    claims = dict(snapshot.resource_claims)
    for i, (node, picks) in granted.items():
        for c, key in enumerate(table.names[i]):
            mine = [pick for pick in picks if pick.claim == c]
            space, _, name = key.partition("/")
            known = claims.get(key) or api.ResourceClaim(ObjectMeta(name, space))
            if known.status is None or known.status.allocation is None:
                allocation = api.AllocationResult(api.DeviceAllocationResult(_results(table, mine)), _where(table, mine, node, index))
                claims[key] = msgspec.structs.replace(known, status=api.ResourceClaimStatus(allocation))
    return claims


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


def _where(table: DeviceTable, picks: Iterable[Pick], node: str, index: Mapping[str, int]) -> NodeSelector | None:
    """Return the nodes that an allocation allows; None: all."""
    nodes = table.inventory.usable(picks, index[node])
    if nodes is None:
        return None
    chosen = [name for name, n in index.items() if nodes[n]]
    return NodeSelector([NodeSelectorTerm(matchFields=[NodeSelectorRequirement("metadata.name", "In", [name])]) for name in chosen])


def without(snapshot: Snapshot, gone: Iterable[Pod]) -> Claims:
    """Return the ResourceClaims of a snapshot once some pods are gone.

    Claims made for these pods are gone, too. Claims that no other pod has reserved are deallocated.
    """
    leaving = {api.pod_identity(pod) for pod in gone}
    claims: Claims = {}
    for key, claim in snapshot.resource_claims.items():
        if api.owning_pod(claim) in leaving:
            continue
        space, status = key.partition("/")[0], claim.status
        users = [user for user in (status.reservedFor if status is not None else None) or () if user.resource == "pods"]
        remaining_users = [user for user in users if (space, user.name, user.uid or None) not in leaving]
        if status is not None and users and not remaining_users:
            claim = msgspec.structs.replace(claim, status=None)
        elif status is not None and len(remaining_users) < len(users):
            claim = msgspec.structs.replace(claim, status=msgspec.structs.replace(status, reservedFor=remaining_users))
        claims[key] = claim
    return claims


def released(snapshot: Snapshot, moving: Iterable[Pod]) -> Claims:
    """Return the ResourceClaims of a snapshot in which claims made for pods that are placed again are unallocated."""
    own = api.made_for(snapshot.resource_claims, moving)
    return {key: msgspec.structs.replace(claim, status=None) if key in own else claim for key, claim in snapshot.resource_claims.items()}
