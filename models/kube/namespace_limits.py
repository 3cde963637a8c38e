"""What an administrator allows a namespace (core/v1): ResourceQuota, a sum over its pods, and LimitRange, for each pod and container."""

from __future__ import annotations

from models.kube.objects import ObjectMeta, ResourceList, Struct


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
    """Its status is not read: what is used is added up from the pods."""

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
