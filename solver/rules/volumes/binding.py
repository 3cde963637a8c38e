"""Claims and volumes after a placement: open claims of the placed pods are bound."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from kubestow.models.cluster.compile import compile_cluster
from kubestow.models.kube.objects import Pod
from kubestow.models.kube.pod_spec import SELECTED_NODE, claim_keys
from kubestow.models.kube.storage_objects import ObjectReference, PersistentVolumeClaimStatus, PersistentVolumeStatus
from kubestow.models.snapshot.scope import Scope
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.solver.rules.volumes.claims import VolumeChoices

_change = msgspec.structs.replace


def bind_claims(snapshot: Snapshot, bound: Snapshot, placed: Sequence[tuple[int, str]]) -> None:
    """Bind the open claims of the placed pods in ``bound``, in bind order (:meth:`kubestow.solver.rules.base.Rule.bind`)."""
    waiting = [(i, node) for i, node in placed if _waits(snapshot, snapshot.pods[i])]
    if not waiting:
        return
    cluster = compile_cluster(snapshot, Scope(fixed=[], pending=sorted(i for i, _ in waiting)))
    class_of = {i: g for g, cls in enumerate(cluster.classes) for i in cls.pods}
    node_of = {name: n for n, name in enumerate(cluster.nodes.names)}
    choices = VolumeChoices(cluster)
    bound.persistent_volume_claims = dict(bound.persistent_volume_claims)
    bound.persistent_volumes = dict(bound.persistent_volumes)
    for i, node in waiting:
        before = set(choices.chosen)
        choices.place(class_of[i], node_of[node], 1)
        for key in sorted(choices.chosen.keys() - before):
            _bind(bound, key, choices.chosen[key], node)


def _waits(snapshot: Snapshot, pod: Pod) -> bool:
    """Return True if a pod mounts a claim that is not bound."""
    claims = (snapshot.persistent_volume_claims.get(key) for key in claim_keys(pod))
    return any(claim is not None and claim.spec is not None and not claim.spec.volumeName for claim in claims)


def _bind(snapshot: Snapshot, key: str, volume: str | None, node: str) -> None:
    """Bind a claim to a static volume. If there is none (None) and only one node can use the volume, select the node for provisioning."""
    claim = snapshot.persistent_volume_claims[key]
    if volume is not None and claim.spec is not None:
        there = snapshot.persistent_volumes[volume]
        reference = ObjectReference(namespace=claim.metadata.namespace or "default", name=claim.metadata.name)
        spec = None if there.spec is None else _change(there.spec, claimRef=reference)
        snapshot.persistent_volumes[volume] = _change(there, spec=spec, status=PersistentVolumeStatus("Bound"))
        bound = PersistentVolumeClaimStatus("Bound")
        snapshot.persistent_volume_claims[key] = _change(claim, spec=_change(claim.spec, volumeName=volume), status=bound)
    elif {"ReadWriteMany", "ReadOnlyMany"}.isdisjoint((claim.spec.accessModes if claim.spec else None) or ()):
        annotations = {**(claim.metadata.annotations or {}), SELECTED_NODE: node}
        snapshot.persistent_volume_claims[key] = _change(claim, metadata=_change(claim.metadata, annotations=annotations))
