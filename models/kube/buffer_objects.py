"""CapacityBuffer: headroom that an autoscaler keeps (autoscaling.x-k8s.io). See :mod:`models.kube.objects`.

Source: cluster-autoscaler apis/capacitybuffer, v1alpha1 and v1beta1, whose fields are the same.
"""

from __future__ import annotations

from models.kube.objects import ObjectMeta, PodCondition, ResourceList, Struct


class PodTemplateReference(Struct):
    """A PodTemplate of the same namespace."""

    name: str | None = None


class ScalableReference(Struct):
    """A workload of the same namespace."""

    apiGroup: str | None = None
    kind: str | None = None
    name: str | None = None


class CapacityBufferSpec(Struct):
    provisioningStrategy: str | None = None
    podTemplateRef: PodTemplateReference | None = None
    scalableRef: ScalableReference | None = None
    replicas: int | None = None
    percentage: int | None = None
    limits: ResourceList | None = None


class CapacityBufferStatus(Struct):
    podTemplateRef: PodTemplateReference | None = None
    replicas: int | None = None
    conditions: list[PodCondition] | None = None


class CapacityBuffer(Struct):
    metadata: ObjectMeta
    spec: CapacityBufferSpec | None = None
    status: CapacityBufferStatus | None = None
