"""Storage objects: volumes, claims, storage classes and CSI drivers (core/v1, storage/v1). See :mod:`kubestow.models.kube.objects`."""

from __future__ import annotations

from kubestow.models.kube.objects import Anything, NodeSelector, ObjectMeta, PersistentVolumeClaimSpec, ResourceList, Struct


class PersistentVolumeClaimStatus(Struct):
    phase: str | None = None


class PersistentVolumeClaim(Struct):
    metadata: ObjectMeta
    spec: PersistentVolumeClaimSpec | None = None
    status: PersistentVolumeClaimStatus | None = None


class ObjectReference(Struct):
    kind: str | None = None
    namespace: str | None = None
    name: str | None = None
    uid: str | None = None


class CSIPersistentVolumeSource(Struct):
    driver: str
    volumeHandle: str


class VolumeIDSource(Struct):
    """The volume source of AWS EBS, Cinder and Portworx."""

    volumeID: str | None = None


class GCEPersistentDiskSource(Struct):
    pdName: str | None = None


class AzureDiskSource(Struct):
    diskURI: str | None = None
    kind: str | None = None


class VolumeNodeAffinity(Struct):
    required: NodeSelector | None = None


class PersistentVolumeSpec(Struct):
    capacity: ResourceList | None = None
    accessModes: list[str] | None = None
    claimRef: ObjectReference | None = None
    storageClassName: str | None = None
    volumeMode: str | None = None
    nodeAffinity: VolumeNodeAffinity | None = None
    volumeAttributesClassName: str | None = None
    csi: CSIPersistentVolumeSource | None = None
    gcePersistentDisk: GCEPersistentDiskSource | None = None
    awsElasticBlockStore: VolumeIDSource | None = None
    azureDisk: AzureDiskSource | None = None
    cinder: VolumeIDSource | None = None
    vsphereVolume: Anything | None = None
    portworxVolume: VolumeIDSource | None = None


class PersistentVolumeStatus(Struct):
    phase: str | None = None


class PersistentVolume(Struct):
    metadata: ObjectMeta
    spec: PersistentVolumeSpec | None = None
    status: PersistentVolumeStatus | None = None


class TopologySelectorLabelRequirement(Struct):
    key: str
    values: list[str] | None = None


class TopologySelectorTerm(Struct):
    matchLabelExpressions: list[TopologySelectorLabelRequirement] | None = None


class StorageClass(Struct):
    metadata: ObjectMeta
    provisioner: str = ""
    volumeBindingMode: str | None = None
    allowedTopologies: list[TopologySelectorTerm] | None = None


class VolumeNodeResources(Struct):
    count: int | None = None


class CSINodeDriver(Struct):
    name: str
    nodeID: str | None = None
    topologyKeys: list[str] | None = None
    allocatable: VolumeNodeResources | None = None


class CSINodeSpec(Struct):
    drivers: list[CSINodeDriver] | None = None


class CSINode(Struct):
    metadata: ObjectMeta
    spec: CSINodeSpec | None = None


class CSIDriverSpec(Struct):
    attachRequired: bool | None = None
    preventPodSchedulingIfMissing: bool | None = None


class CSIDriver(Struct):
    metadata: ObjectMeta
    spec: CSIDriverSpec | None = None
