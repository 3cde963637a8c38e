"""The claims of new pods: those of StatefulSets, ephemeral volumes and devices, and those that the input lacks."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from kubestow.models.documents.placement import Unmodelled
from kubestow.models.kube import defaults, device_objects, objects, storage_objects, workload_objects
from kubestow.models.kube.lenient_decode import some
from kubestow.models.kube.pod_spec import ANYWHERE, NO_PROVISIONER, claim_keys
from kubestow.models.snapshot.snapshot import Snapshot

_DELAYED: Final = "WaitForFirstConsumer"
_ASSUMED: Final = "assumed to be provisioned wherever the pod goes"
#: Annotation of claims made from a template: the entry of the pod's spec.resourceClaims.
_ENTRY_ANNOTATION: Final = "resource.kubernetes.io/pod-claim-name"
_change = msgspec.structs.replace

#: Claim name, volume name, and requested spec.
ClaimRequests = list[tuple[str, str, objects.PersistentVolumeClaimSpec]]


def templates(obj: workload_objects.StatefulSet, pod: str) -> ClaimRequests:
    """Return the claims that a StatefulSet makes for a pod (stateful_set_utils.go, getPersistentVolumeClaims)."""
    listed = (obj.spec.volumeClaimTemplates if obj.spec is not None else None) or ()
    names = [(t.metadata.name if t.metadata is not None else None) or "" for t in listed]
    return [(f"{name}-{pod}", name, t.spec or objects.PersistentVolumeClaimSpec()) for name, t in zip(names, listed, strict=True)]


def mounted(volumes: list[objects.Volume] | None, requested: ClaimRequests) -> list[objects.Volume] | None:
    """Return a template's volumes with those of the claims. The latter replace volumes of the same name (updateStorage)."""
    names = {volume for _, volume, _ in requested}
    added = [objects.Volume(volume, objects.PersistentVolumeClaimVolumeSource(claim)) for claim, volume, _ in requested]
    return added + [v for v in volumes or () if v.name not in names] or None


def provide(
    snapshot: Snapshot, pods: Iterable[objects.Pod], requested: Mapping[str, objects.PersistentVolumeClaimSpec], unbound: Iterable[str]
) -> list[Unmodelled]:
    """Add the claims that ``pods`` mount and ``snapshot`` lacks, and settle the storage class of new claims.

    Changes the snapshot, its warnings, and the status of ``pods``, which names the claims for devices made from
    templates.

    Args:
        requested: Specs of the claims of StatefulSets.
        unbound: Claims of the manifests, whose class is settled as well.

    Returns:
        The assumptions about claims, for each of their pods.
    """
    effects: dict[str, str] = {}
    claims = snapshot.persistent_volume_claims
    for key in unbound:
        claim = claims[key]
        spec = claim.spec or objects.PersistentVolumeClaimSpec()
        claims[key] = _change(claim, spec=_settled(snapshot, key, spec, effects))
    notes: list[Unmodelled] = []
    for pod in pods:
        _provide_devices(snapshot, pod)
        wanted = _ephemeral(pod)
        for key in claim_keys(pod):
            if key not in claims:
                namespace, _, name = key.partition("/")
                asks = requested.get(key) or wanted.get(key)
                if asks is None:
                    effects[key] = f"the claim is not in the input, {_ASSUMED}"
                    spec = objects.PersistentVolumeClaimSpec(storageClassName=_anywhere(snapshot))
                else:
                    spec = _settled(snapshot, key, asks, effects)
                claims[key] = storage_objects.PersistentVolumeClaim(
                    objects.ObjectMeta(name, namespace), spec, storage_objects.PersistentVolumeClaimStatus("Pending")
                )
            if key in effects:
                notes.append(Unmodelled(objects.pod_key(pod), f"claim {key}", effects[key]))
    for effect in sorted(set(effects.values())):
        keys = [key for key, each in effects.items() if each == effect]
        snapshot.warnings.append(f"claim{'s' if len(keys) > 1 else ''} {some(keys)}: {effect}")
    return notes


def _provide_devices(snapshot: Snapshot, pod: objects.Pod) -> None:
    """Make a ResourceClaim of each template that a pod names, as the claim controller does
    (pkg/controller/resourceclaim).

    The pod owns the claim. Neither has a uid yet, so the owner is identified by its name.
    """
    statuses: list[objects.PodResourceClaimStatus] = []
    namespace = pod.metadata.namespace or "default"
    for entry in pod.spec.resourceClaims or ():
        template = snapshot.resource_claim_templates.get(f"{namespace}/{entry.resourceClaimTemplateName}")
        if entry.resourceClaimTemplateName is None or template is None:
            continue
        names = (f"{pod.metadata.name}-{entry.name}{f'-{number}' * (number > 1)}" for number in itertools.count(1))
        name = next(name for name in names if f"{namespace}/{name}" not in snapshot.resource_claims)
        requested = template.spec or device_objects.ResourceClaimTemplateSpec()
        head = requested.metadata or objects.ObjectMeta()
        owner = objects.OwnerReference("Pod", pod.metadata.name or "", "v1", pod.metadata.uid, True)
        annotations = {**(head.annotations or {}), _ENTRY_ANNOTATION: entry.name}
        metadata = objects.ObjectMeta(name, namespace, labels=head.labels, annotations=annotations, ownerReferences=[owner])
        snapshot.resource_claims[f"{namespace}/{name}"] = device_objects.ResourceClaim(metadata, requested.spec)
        statuses.append(objects.PodResourceClaimStatus(entry.name, name))
    if statuses:
        pod.status = _change(pod.status or objects.PodStatus("Pending"), resourceClaimStatuses=statuses)


def _ephemeral(pod: objects.Pod) -> dict[str, objects.PersistentVolumeClaimSpec]:
    """Return the claims of a pod's ephemeral volumes (pkg/controller/volume/ephemeral)."""
    namespace = pod.metadata.namespace or "default"
    return {
        f"{namespace}/{pod.metadata.name}-{v.name}": template.spec or objects.PersistentVolumeClaimSpec()
        for v in pod.spec.volumes or ()
        if v.ephemeral is not None and (template := v.ephemeral.volumeClaimTemplate) is not None
    }


def _settled(
    snapshot: Snapshot, key: str, spec: objects.PersistentVolumeClaimSpec, effects: dict[str, str]
) -> objects.PersistentVolumeClaimSpec:
    """Return the spec of an unbound claim with a storage class that determines where its volume can be."""
    classes, name = snapshot.storage_classes, spec.storageClassName
    real = [storage_class for name_, storage_class in classes.items() if not name_.startswith(ANYWHERE)]
    if name is None:
        name = defaults.default_storage_class(real)
        if name is None and real:
            effects[key] = "names no storage class and there is no default: it stays unbound"
            return spec
    elif not name:
        return spec  # the claim accepts existing volumes only
    known = classes.get(name) if name is not None else None
    if known is None:
        which = f"its storage class {name!r} is" if name is not None else "storage classes are"
        effects[key] = f"{which} not in the input, {_ASSUMED}"
        name = _anywhere(snapshot)
    elif known.volumeBindingMode != _DELAYED and known.provisioner and known.provisioner != NO_PROVISIONER:
        effects[key] = f"storage class {name!r} binds it before its pod is placed, {_ASSUMED}"
        name = f"{ANYWHERE}-{known.metadata.name}"
        delayed = _change(known, metadata=objects.ObjectMeta(name), volumeBindingMode=_DELAYED)
        classes.setdefault(name, delayed)
    return _change(spec, storageClassName=name)


def _anywhere(snapshot: Snapshot) -> str:
    storage_class = storage_objects.StorageClass(objects.ObjectMeta(ANYWHERE), provisioner=ANYWHERE, volumeBindingMode=_DELAYED)
    return snapshot.storage_classes.setdefault(ANYWHERE, storage_class).metadata.name or ""
