"""Administrative objects that admission plugins read when a pod is created.

ResourceQuota limits the sum over the pods of a namespace (core/v1). LimitRange limits each pod and container
(core/v1). RuntimeClass adds an overhead, a node selector and tolerations to the pods that name it (node.k8s.io/v1).
"""

from __future__ import annotations

from kubestow.models.kube.objects import ObjectMeta, ResourceList, Struct, Toleration


class ScopedResourceSelectorRequirement(Struct):
    scopeName: str
    operator: str
    values: list[str] | None = None


class ScopeSelector(Struct):
    matchExpressions: list[ScopedResourceSelectorRequirement] | None = None


class ResourceQuotaSpec(Struct):
    hard: ResourceList | None = None
    scopes: list[str] | None = None
    scopeSelector: ScopeSelector | None = None


class ResourceQuota(Struct):
    """A quota. Its status is not read; the use is added up from the pods."""

    metadata: ObjectMeta
    spec: ResourceQuotaSpec | None = None


class LimitRangeItem(Struct):
    type: str
    max: ResourceList | None = None
    min: ResourceList | None = None
    default: ResourceList | None = None
    defaultRequest: ResourceList | None = None
    maxLimitRequestRatio: ResourceList | None = None


class LimitRangeSpec(Struct):
    limits: list[LimitRangeItem] | None = None


class LimitRange(Struct):
    metadata: ObjectMeta
    spec: LimitRangeSpec | None = None


class Overhead(Struct):
    podFixed: ResourceList | None = None


class RuntimeScheduling(Struct):
    nodeSelector: dict[str, str] | None = None
    tolerations: list[Toleration] | None = None


class RuntimeClass(Struct):
    """A runtime class. Its handler concerns only the node and is not read."""

    metadata: ObjectMeta
    overhead: Overhead | None = None
    scheduling: RuntimeScheduling | None = None
