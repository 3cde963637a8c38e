"""Where the rest of the checker enters: what this package needs is imported where pods have to do with devices, and nowhere else."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Final

from kubestow.models.kube import objects
from kubestow.models.snapshot.snapshot import Snapshot

if TYPE_CHECKING:
    from kubestow.checker.devices.state import Devices
    from kubestow.models.kube import device_objects as api

RULE: Final = "DynamicResources"


def state(snapshot: Snapshot, candidates: Iterable[objects.Pod], replaced: Sequence[objects.Pod]) -> Devices | None:
    """Return the devices of a snapshot; None if no candidate can have to do with any. ``replaced``: running pods whose own claims go with
    them."""
    if not snapshot.gates.enabled("DynamicResourceAllocation"):
        return None
    if snapshot.device_classes or any(pod.spec.resourceClaims for pod in candidates):
        from kubestow.checker.devices.state import Devices

        return Devices(snapshot, replaced)
    return None


def backed(snapshot: Snapshot) -> Collection[str]:
    """Return the extended resources that devices provide where a node has none of them."""
    gates = snapshot.gates
    if not (snapshot.device_classes and gates.enabled("DynamicResourceAllocation") and gates.enabled("DRAExtendedResource")):
        return ()
    from kubestow.checker.devices import extended

    return extended.backed(snapshot.device_classes)


def remaining(snapshot: Snapshot, gone: Collection[str]) -> dict[str, api.ResourceClaim]:
    """Return the claims of a snapshot without those that go with pods of these keys."""
    if not snapshot.resource_claims:
        return {}
    from kubestow.checker.devices.demand import made_for

    own = made_for(snapshot.resource_claims, [pod for pod in snapshot.pods if objects.pod_key(pod) in gone])
    return {key: claim for key, claim in snapshot.resource_claims.items() if key not in own}
