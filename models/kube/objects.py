"""The part of the Kubernetes API that decides placement, as msgspec Structs with the API's own field names.

Unknown fields are skipped. Optional fields are ``None`` when absent *or* null, as for the API server; readers write ``x.labels or {}``.
Quantities stay as written, for :mod:`kubestow.models.kube.quantity`. Source: the OpenAPI types of k8s.io/api (core/v1, scheduling/v1).
"""

from __future__ import annotations

from typing import Any

import msgspec

#: A quantity as written: ``"500m"``, ``2``, ``0.5``. :func:`kubestow.models.kube.quantity.parse` returns its exact value.
RawQuantity = str | int | float
ResourceList = dict[str, RawQuantity]


class Struct(msgspec.Struct, gc=False, omit_defaults=True):
    """Base of all API types. ``gc=False``: decoded objects form trees, never cycles."""


# --- metadata and selectors -------------------------------------------------------------------------------------------


class OwnerReference(Struct):
    kind: str = ""
    name: str = ""
    apiVersion: str | None = None
    uid: str | None = None
    controller: bool | None = None


class ObjectMeta(Struct):
    name: str | None = None
    namespace: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    uid: str | None = None
    generateName: str | None = None
    ownerReferences: list[OwnerReference] | None = None
    creationTimestamp: str | None = None
    deletionTimestamp: str | None = None


class LabelSelectorRequirement(Struct):
    key: str
    operator: str
    values: list[str] | None = None


class LabelSelector(Struct):
    matchLabels: dict[str, str] | None = None
    matchExpressions: list[LabelSelectorRequirement] | None = None


NodeSelectorRequirement = LabelSelectorRequirement


class NodeSelectorTerm(Struct):
    matchExpressions: list[NodeSelectorRequirement] | None = None
    matchFields: list[NodeSelectorRequirement] | None = None


class NodeSelector(Struct):
    nodeSelectorTerms: list[NodeSelectorTerm] | None = None


class VolumeResources(Struct):
    requests: ResourceList | None = None


class PersistentVolumeClaimSpec(Struct):
    accessModes: list[str] | None = None
    resources: VolumeResources | None = None
    storageClassName: str | None = None
    volumeName: str | None = None
    volumeMode: str | None = None
    selector: LabelSelector | None = None
    volumeAttributesClassName: str | None = None


class PersistentVolumeClaimTemplate(Struct):
    metadata: ObjectMeta | None = None
    spec: PersistentVolumeClaimSpec | None = None


# --- pods -------------------------------------------------------------------------------------------------------------


class PreferredSchedulingTerm(Struct):
    weight: int
    preference: NodeSelectorTerm


class NodeAffinity(Struct):
    requiredDuringSchedulingIgnoredDuringExecution: NodeSelector | None = None
    requiredDuringSchedulingRequiredDuringExecution: NodeSelector | None = None
    preferredDuringSchedulingIgnoredDuringExecution: list[PreferredSchedulingTerm] | None = None


class PodAffinityTerm(Struct):
    topologyKey: str
    labelSelector: LabelSelector | None = None
    namespaces: list[str] | None = None
    namespaceSelector: LabelSelector | None = None
    matchLabelKeys: list[str] | None = None
    mismatchLabelKeys: list[str] | None = None


class WeightedPodAffinityTerm(Struct):
    weight: int
    podAffinityTerm: PodAffinityTerm


class PodAffinity(Struct):
    """Also the type of podAntiAffinity. The RequiredDuringExecution variant (docs/sources.md) never comes from a real API server."""

    requiredDuringSchedulingIgnoredDuringExecution: list[PodAffinityTerm] | None = None
    requiredDuringSchedulingRequiredDuringExecution: list[PodAffinityTerm] | None = None
    preferredDuringSchedulingIgnoredDuringExecution: list[WeightedPodAffinityTerm] | None = None


class Affinity(Struct):
    nodeAffinity: NodeAffinity | None = None
    podAffinity: PodAffinity | None = None
    podAntiAffinity: PodAffinity | None = None


class Toleration(Struct):
    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None


class TopologySpreadConstraint(Struct):
    maxSkew: int
    topologyKey: str
    whenUnsatisfiable: str
    labelSelector: LabelSelector | None = None
    minDomains: int | None = None
    nodeAffinityPolicy: str | None = None
    nodeTaintsPolicy: str | None = None
    matchLabelKeys: list[str] | None = None


class ContainerPort(Struct):
    containerPort: int | None = None
    hostPort: int | None = None
    hostIP: str | None = None
    protocol: str | None = None


class Named(Struct):
    name: str | None = None


class ResourceRequirements(Struct):
    requests: ResourceList | None = None
    limits: ResourceList | None = None
    claims: list[Named] | None = None


class ContainerRestartRule(Struct):
    action: str | None = None


class Container(Struct):
    name: str | None = None
    resources: ResourceRequirements | None = None
    ports: list[ContainerPort] | None = None
    restartPolicy: str | None = None
    image: str | None = None
    restartPolicyRules: list[ContainerRestartRule] | None = None


class PersistentVolumeClaimVolumeSource(Struct):
    claimName: str


class EphemeralVolumeSource(Struct):
    volumeClaimTemplate: PersistentVolumeClaimTemplate | None = None


class Anything(Struct):
    """An object whose presence matters but not its content."""


class EmptyDirVolumeSource(Struct):
    medium: str | None = None


class ImageVolumeSource(Struct):
    reference: str | None = None


class Volume(Struct):
    name: str | None = None
    persistentVolumeClaim: PersistentVolumeClaimVolumeSource | None = None
    ephemeral: EphemeralVolumeSource | None = None
    emptyDir: EmptyDirVolumeSource | None = None
    hostPath: Anything | None = None
    gcePersistentDisk: Anything | None = None
    awsElasticBlockStore: Anything | None = None
    azureDisk: Anything | None = None
    cinder: Anything | None = None
    iscsi: Anything | None = None
    rbd: Anything | None = None
    image: ImageVolumeSource | None = None


class PodSchedulingGate(Struct):
    name: str


class PodResourceClaim(Struct):
    name: str
    resourceClaimName: str | None = None
    resourceClaimTemplateName: str | None = None


class WorkloadReference(Struct):
    name: str | None = None
    podGroup: str | None = None
    podGroupReplicaKey: str | None = None


class PodSchedulingGroup(Struct):
    podGroupName: str | None = None


class AppArmorProfile(Struct):
    type: str | None = None


class PodSecurityContext(Struct):
    sysctls: list[Named] | None = None
    supplementalGroupsPolicy: str | None = None
    appArmorProfile: AppArmorProfile | None = None


class PodSpec(Struct):
    containers: list[Container] | None = None
    initContainers: list[Container] | None = None
    nodeName: str | None = None
    nodeSelector: dict[str, str] | None = None
    affinity: Affinity | None = None
    tolerations: list[Toleration] | None = None
    topologySpreadConstraints: list[TopologySpreadConstraint] | None = None
    priority: int | None = None
    priorityClassName: str | None = None
    preemptionPolicy: str | None = None
    schedulerName: str | None = None
    serviceAccountName: str | None = None
    hostNetwork: bool | None = None
    overhead: ResourceList | None = None
    resources: ResourceRequirements | None = None
    volumes: list[Volume] | None = None
    schedulingGates: list[PodSchedulingGate] | None = None
    resourceClaims: list[PodResourceClaim] | None = None
    workloadRef: WorkloadReference | None = None
    schedulingGroup: PodSchedulingGroup | None = None
    activeDeadlineSeconds: int | None = None
    hostUsers: bool | None = None
    os: Named | None = None
    runtimeClassName: str | None = None
    securityContext: PodSecurityContext | None = None


class ContainerStatus(Struct):
    name: str | None = None
    containerID: str | None = None
    allocatedResources: ResourceList | None = None
    resources: ResourceRequirements | None = None


class PodCondition(Struct):
    type: str | None = None
    status: str | None = None
    reason: str | None = None


class PodResourceClaimStatus(Struct):
    name: str
    resourceClaimName: str | None = None


class PodStatus(Struct):
    phase: str | None = None
    qosClass: str | None = None
    nominatedNodeName: str | None = None
    conditions: list[PodCondition] | None = None
    containerStatuses: list[ContainerStatus] | None = None
    initContainerStatuses: list[ContainerStatus] | None = None
    resourceClaimStatuses: list[PodResourceClaimStatus] | None = None
    resources: ResourceRequirements | None = None
    allocatedResources: ResourceList | None = None


class Pod(Struct):
    """A pod. ``containerIds`` is no API field: ``name=id`` of running containers, moved out of the status so that replicas share it."""

    metadata: ObjectMeta
    spec: PodSpec
    status: PodStatus | None = None
    containerIds: tuple[str, ...] | None = None


# --- nodes ------------------------------------------------------------------------------------------------------------


class Taint(Struct):
    key: str
    effect: str
    value: str | None = None
    timeAdded: str | None = None


class NodeSpec(Struct):
    unschedulable: bool | None = None
    taints: list[Taint] | None = None


class NodeSystemInfo(Struct):
    kubeletVersion: str | None = None
    operatingSystem: str | None = None


class ContainerImage(Struct):
    names: list[str] | None = None
    sizeBytes: int | None = None


class NodeStatus(Struct):
    capacity: ResourceList | None = None
    allocatable: ResourceList | None = None
    images: list[ContainerImage] | None = None
    nodeInfo: NodeSystemInfo | None = None
    declaredFeatures: list[str] | None = None


class Node(Struct):
    metadata: ObjectMeta
    spec: NodeSpec | None = None
    status: NodeStatus | None = None


# --- namespaces, priorities, services ---------------------------------------------------------------------------------


class Namespace(Struct):
    metadata: ObjectMeta


class PriorityClass(Struct):
    metadata: ObjectMeta
    value: int
    globalDefault: bool | None = None
    preemptionPolicy: str | None = None


class ServiceSpec(Struct):
    selector: dict[str, str] | None = None


class ServiceAccount(Struct):
    metadata: ObjectMeta


class Service(Struct):
    metadata: ObjectMeta
    spec: ServiceSpec | None = None


# --- properties of pods ---------------------------------------------------------------------------------------------------


def pod_key(pod: Pod) -> str:
    """Return ``namespace/name``, the identity of a pod in every document of this project."""
    return f"{pod.metadata.namespace or 'default'}/{pod.metadata.name or ''}"


def is_terminal(pod: Pod) -> bool:
    """Return True for Succeeded and Failed pods, which hold no resources and match no selector."""
    return pod.status is not None and pod.status.phase in ("Succeeded", "Failed")


def is_terminating(pod: Pod) -> bool:
    return pod.metadata.deletionTimestamp is not None


def is_waiting(pod: Pod) -> bool:
    """Return True if a pod has no node and may get one, regardless of scheduling gates."""
    return not (pod.spec.nodeName or is_terminal(pod) or is_terminating(pod))


def controller_of(obj: Any) -> OwnerReference | None:
    """Return the owner reference with ``controller: true``, or None for an object without a controller, such as a bare pod."""
    owners: list[OwnerReference] = obj.metadata.ownerReferences or []
    return next((owner for owner in owners if owner.controller), None)
