"""Defaults that LimitRanges give containers of new pods for requests and limits.

Sources: plugin/pkg/admission/limitranger (mergePodResourceRequirements) and pkg/apis/core/v1/defaults.go
(SetDefaults_LimitRangeItem).
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from kubestow.models.kube import objects
from kubestow.models.kube.namespace_limits import LimitRangeItem
from kubestow.models.snapshot.snapshot import Snapshot

_change = msgspec.structs.replace


def filled(spec: objects.PodSpec, namespace: str, snapshot: Snapshot) -> objects.PodSpec:
    """Return the spec of a new pod with the defaults of its namespace's LimitRanges; the same object if none apply."""
    limits: objects.ResourceList = {}
    requests: objects.ResourceList = {}
    for limit_range in snapshot.limit_ranges.values():
        for item in (limit_range.spec.limits if limit_range.spec else None) or ():
            if (limit_range.metadata.namespace or "default") == namespace and item.type == "Container":
                default, default_requests = _defaults(item)
                limits, requests = {**default, **limits}, {**default_requests, **requests}
    if not limits and not requests:
        return spec
    containers, init = _filled(spec.containers, limits, requests), _filled(spec.initContainers, limits, requests)
    return _change(spec, containers=containers, initContainers=init)


def _defaults(item: LimitRangeItem) -> tuple[objects.ResourceList, objects.ResourceList]:
    """Return the default limits and requests of an item.

    The maximum is the default limit. The default limit, or else the minimum, is the default request.
    """
    limits = {**(item.max or {}), **(item.default or {})}
    return limits, {**(item.min or {}), **limits, **(item.defaultRequest or {})}


def _filled(
    containers: list[objects.Container] | None, limits: Mapping[str, objects.RawQuantity], requests: Mapping[str, objects.RawQuantity]
) -> list[objects.Container] | None:
    if containers is None:
        return None
    found = []
    for container in containers:
        own = container.resources or objects.ResourceRequirements()
        resources = _change(own, limits={**limits, **(own.limits or {})} or None, requests={**requests, **(own.requests or {})} or None)
        found.append(_change(container, resources=resources))
    return found
