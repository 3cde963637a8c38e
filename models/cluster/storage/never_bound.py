"""Pods with a node name in their spec that wait indefinitely for an unbound claim.

kube-scheduler binds a WaitForFirstConsumer claim while it places the claim's first pod. It ignores pods whose spec names a node, so nothing
binds their claims. Source: pkg/scheduler/framework/plugins/volumebinding, pkg/controller/volume/persistentvolume (syncUnboundClaim).
"""

from __future__ import annotations

from collections.abc import Collection

from kubestow.models.kube.lenient_decode import some
from kubestow.models.kube.objects import Pod, is_terminal, is_terminating, pod_key
from kubestow.models.kube.pod_spec import ANYWHERE, SELECTED_NODE, claim_keys
from kubestow.models.kube.storage_objects import PersistentVolumeClaim
from kubestow.models.snapshot.snapshot import Snapshot


def never_bound(snapshot: Snapshot) -> dict[int, list[str]]:
    """Return the bound pods that never start, by index, each with its claims (``namespace/name``) that nothing binds.

    These claims are unbound and wait for a pod that the scheduler places. However, only pods with a preset node use them.
    """
    waiting = {key for key, claim in snapshot.persistent_volume_claims.items() if _waits(snapshot, claim)}
    if not waiting:
        return {}
    for volume in snapshot.persistent_volumes.values():
        reference = volume.spec.claimRef if volume.spec is not None else None
        key = f"{reference.namespace or 'default'}/{reference.name}" if reference is not None else ""
        if reference is not None and key in waiting:
            uid = snapshot.persistent_volume_claims[key].metadata.uid
            if not reference.uid or not uid or reference.uid == uid:
                waiting.discard(key)  # bound without a pod
    for pod in snapshot.pods:
        if not pod.spec.nodeName and not is_terminal(pod):
            waiting.difference_update(claim_keys(pod))  # the scheduler binds the claims of these pods
    found: dict[int, list[str]] = {}
    for i, pod in enumerate(snapshot.pods):
        if pod.spec.nodeName and not _runs(pod) and not is_terminating(pod):
            claims = [key for key in claim_keys(pod) if key in waiting]
            if claims:
                found[i] = claims
    return found


def sentences(snapshot: Snapshot, known: Collection[str] = ()) -> list[str]:
    """Return notes on pods that never start, without the ``known`` pods (``namespace/name``)."""
    by_claim: dict[str, list[str]] = {}
    for i, claims in never_bound(snapshot).items():
        if (key := pod_key(snapshot.pods[i])) not in known:
            by_claim.setdefault(claims[0], []).append(key)
    if not by_claim:
        return []
    pods = [key for keys in by_claim.values() for key in keys]
    which = f"claim{'s' * (len(by_claim) > 1)} {some(list(by_claim))} (WaitForFirstConsumer)"
    why = f"the spec names a node, so that kube-scheduler does not see the pod and nobody binds {which}"
    if len(pods) == 1:
        return [f"pod {pods[0]} counts as running but never starts: {why}"]
    return [f"{len(pods)} pods count as running but never start ({some(pods)}): {why}"]


def names(snapshot: Snapshot) -> frozenset[str]:
    """Return the pods that never start, as ``namespace/name``."""
    return frozenset(pod_key(snapshot.pods[i]) for i in never_bound(snapshot))


def _waits(snapshot: Snapshot, claim: PersistentVolumeClaim) -> bool:
    """Return True if a claim is unbound and waits for the first pod that the scheduler places."""
    if claim.spec is None or claim.spec.volumeName or SELECTED_NODE in (claim.metadata.annotations or {}):
        return False
    name = claim.spec.storageClassName or ""
    storage = snapshot.storage_classes.get(name)
    return storage is not None and storage.volumeBindingMode == "WaitForFirstConsumer" and not name.startswith(ANYWHERE)


def _runs(pod: Pod) -> bool:
    return pod.status is not None and pod.status.phase not in (None, "", "Pending")
