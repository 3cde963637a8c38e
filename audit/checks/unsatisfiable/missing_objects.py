"""Missing objects that workloads refer to: PriorityClasses, claims, StorageClasses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kubestow.audit.view.finding import Code
from kubestow.audit.view.usable_nodes import grave, running, wanted
from kubestow.audit.view.view import ClusterView, Subject
from kubestow.models.documents.findings.audit import Finding
from kubestow.models.kube import objects
from kubestow.models.kube.lenient_decode import near_names
from kubestow.models.kube.workload_objects import StatefulSet
from kubestow.models.workloads.view import priority_of

_PRIORITY: Final = Code(
    "KS223", "priority-class-missing", "error",
    "A workload uses a PriorityClass that does not exist",
    "The API server refuses to create its pods.",
    "Create the PriorityClass, or use an existing one.",
)  # fmt: skip
_CLAIM: Final = Code(
    "KS224", "claim-missing", "error",
    "A workload mounts a PersistentVolumeClaim that does not exist",
    "The scheduler rejects every node until the claim exists.",
    "Create the claim, or correct its name or namespace.",
)  # fmt: skip
_CLASS: Final = Code(
    "KS225", "storage-class-missing", "error",
    "A claim uses a StorageClass that does not exist",
    "No volume is provisioned, and no existing volume has that class. The claim stays unbound, and its pods stay pending.",
    "Create the StorageClass, or use an existing one.",
)  # fmt: skip
CODES: Final[tuple[Code, ...]] = (_PRIORITY, _CLAIM, _CLASS)


def find(view: ClusterView) -> Iterator[Finding]:
    """Yield findings about missing objects.

    A kind without any object in the snapshot was probably not captured and is not judged, nor are manifests without
    a cluster.
    """
    snapshot = view.snapshot
    uncaptured: list[str] = []

    def is_captured(kind: str, there: object) -> bool:
        if not (there and snapshot.nodes):
            uncaptured.append(kind)
        return bool(there and snapshot.nodes)

    for subject in view.subjects:
        spec = subject.pod.spec
        name = spec.priorityClassName
        unknown = name and subject.workload is not None and priority_of(subject.workload.spec, snapshot) is None
        if unknown and is_captured("PriorityClasses", snapshot.priority_classes):
            text = f"there is no PriorityClass {name}{near_names(name or '', snapshot.priority_classes)}"
            yield _PRIORITY.found(
                subject.name, text, field=f"{subject.path}.priorityClassName", rule="Priority", severity=grave(view, subject)
            )
        mounts = any(v.persistentVolumeClaim is not None for v in spec.volumes or ())
        if mounts and is_captured("PersistentVolumeClaims", snapshot.persistent_volume_claims):
            yield from _claims(view, subject)
    if any(True for _ in _unbound(view)) and is_captured("StorageClasses", snapshot.storage_classes):
        yield from _classes(view)
    for kind in dict.fromkeys(uncaptured):
        why = "has none" if snapshot.nodes else "is not of a cluster"
        view.not_checked.append(f"whether the {kind} that pods use exist: the snapshot {why}")


def _claims(view: ClusterView, subject: Subject) -> Iterator[Finding]:
    if running(view, subject):
        return  # a mounted claim cannot be deleted, so it was not captured
    for i, volume in enumerate(subject.pod.spec.volumes or ()):
        if volume.persistentVolumeClaim is None:
            continue
        key = f"{subject.namespace}/{volume.persistentVolumeClaim.claimName}"
        if key not in view.snapshot.persistent_volume_claims:
            field = f"{subject.path}.volumes[{i}].persistentVolumeClaim.claimName"
            known = (each.removeprefix(f"{subject.namespace}/") for each in view.snapshot.persistent_volume_claims)
            near = near_names(volume.persistentVolumeClaim.claimName, (each for each in known if "/" not in each))
            text = f"there is no PersistentVolumeClaim {key}{near}"
            yield _CLAIM.found(subject.name, text, field=field, rule="VolumeBinding", severity=grave(view, subject))


def _unbound(view: ClusterView) -> Iterator[tuple[str, str, objects.PersistentVolumeClaimSpec, Subject | None]]:
    """Yield object, field and spec of each claim or claim template with a class, and the subject that owns it."""
    for key, claim in view.snapshot.persistent_volume_claims.items():
        if claim.spec is not None and claim.spec.storageClassName and not claim.spec.volumeName:
            yield f"PersistentVolumeClaim {key}", "spec.storageClassName", claim.spec, None
    for subject in view.subjects:
        obj = subject.workload.obj if subject.workload is not None else None
        templates = (obj.spec.volumeClaimTemplates if isinstance(obj, StatefulSet) and obj.spec is not None else None) or ()
        for i, template in enumerate(templates):
            if template.spec is not None and template.spec.storageClassName:
                yield subject.name, f"spec.volumeClaimTemplates[{i}].spec.storageClassName", template.spec, subject
        for i, volume in enumerate(subject.pod.spec.volumes or ()):
            made = volume.ephemeral.volumeClaimTemplate if volume.ephemeral is not None else None
            if made is not None and made.spec is not None and made.spec.storageClassName:
                field = f"{subject.path}.volumes[{i}].ephemeral.volumeClaimTemplate.spec.storageClassName"
                yield subject.name, field, made.spec, subject


def _classes(view: ClusterView) -> Iterator[Finding]:
    volumes = {v.spec.storageClassName for v in view.snapshot.persistent_volumes.values() if v.spec is not None}
    for name, field, spec, subject in _unbound(view):
        wants = spec.storageClassName or ""
        if wants in view.snapshot.storage_classes or wants in volumes:
            continue  # existing volumes may have a class without an object
        if subject is not None and (running(view, subject) or not wanted(subject)):
            continue  # its claims exist
        text = f"there is no StorageClass {wants}{near_names(wants, view.snapshot.storage_classes)}"
        yield _CLASS.found(name, text, field=field, rule="VolumeBinding")
