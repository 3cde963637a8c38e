"""The entry point of this package. It imports the rest of the package only if pods can use devices."""

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
    """Return the devices of a snapshot, or None if no candidate can use any.

    Args:
        snapshot: The snapshot.
        candidates: Pods that will be judged.
        replaced: Running pods whose own claims are deleted with them.
    """
    if not snapshot.gates.enabled("DynamicResourceAllocation"):
        return None
    if snapshot.device_classes or any(pod.spec.resourceClaims for pod in candidates):
        from kubestow.checker.devices.state import Devices

        return Devices(snapshot, replaced)
    return None


def backed(snapshot: Snapshot) -> Collection[str]:
    """Return the extended resources that devices provide on nodes that lack them."""
    gates = snapshot.gates
    if not (snapshot.device_classes and gates.enabled("DynamicResourceAllocation") and gates.enabled("DRAExtendedResource")):
        return ()
    from kubestow.checker.devices import extended

    return extended.backed(snapshot.device_classes)


def remaining(snapshot: Snapshot, gone: Collection[str]) -> dict[str, api.ResourceClaim]:
    """Return the claims of a snapshot without those that are deleted with the given pods."""
    if not snapshot.resource_claims:
        return {}
    from kubestow.checker.devices.demand import made_for

    own = made_for(snapshot.resource_claims, [pod for pod in snapshot.pods if objects.pod_key(pod) in gone])
    return {key: claim for key, claim in snapshot.resource_claims.items() if key not in own}
