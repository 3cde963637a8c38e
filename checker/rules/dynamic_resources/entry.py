"""The entry point of this package: the devices of a snapshot, or None if no pod can use any."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final

from kubestow.checker.rules.dynamic_resources import extended
from kubestow.checker.rules.dynamic_resources.demand import made_for
from kubestow.checker.rules.dynamic_resources.state import Devices
from kubestow.models.kube import device_objects as api
from kubestow.models.kube import objects
from kubestow.models.snapshot.snapshot import Snapshot

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
        return Devices(snapshot, replaced)
    return None


def backed(snapshot: Snapshot) -> Collection[str]:
    """Return the extended resources that devices provide on nodes that lack them."""
    gates = snapshot.gates
    if not (snapshot.device_classes and gates.enabled("DynamicResourceAllocation") and gates.enabled("DRAExtendedResource")):
        return ()
    return extended.backed(snapshot.device_classes)


def remaining(snapshot: Snapshot, gone: Collection[str]) -> dict[str, api.ResourceClaim]:
    """Return the claims of a snapshot without those that are deleted with the given pods."""
    if not snapshot.resource_claims:
        return {}
    own = made_for(snapshot.resource_claims, [pod for pod in snapshot.pods if objects.pod_key(pod) in gone])
    return {key: claim for key, claim in snapshot.resource_claims.items() if key not in own}
