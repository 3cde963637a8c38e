"""The manifest field that a finding or cause refers to."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from kubestow.audit.gate.changes import WorkloadChange
from kubestow.audit.view.container_fields import host_port, requesting
from kubestow.models.cluster.admission import BY_COST
from kubestow.models.kube import objects
from kubestow.models.kube.pod_spec import required_terms
from kubestow.models.workloads.view import view

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
#: Top-level fields of a pod that a workload has in its template.
_OF_PODS: Final = ("spec", "metadata")
#: Rules named last: the ones that restrict the choice of nodes explain more than a shortage there.
_LAST: Final = ("NodeResourcesFit", "GangScheduling")
_PLACE: Final = re.compile(r"(?:\b(containers|initContainers))?\[(\d+)\]")


def in_template(field: str | None, path: str) -> str | None:
    """Return the field of a workload that corresponds to a pod's field. The template is at ``path``."""
    if field is None or field.split(".")[0] not in _OF_PODS:
        return field
    return f"{path}.{field}"


def without_places(field: str | None, spec: objects.PodSpec | None) -> str:
    """Return a field without list indices, which shift when items are inserted. Containers are identified by name.

    Args:
        field: The field.
        spec: The spec of the pod, or of the workload's template.
    """

    def by_name(found: re.Match[str]) -> str:
        listed: Sequence[objects.Container] = (getattr(spec, found[1]) if spec is not None and found[1] else None) or ()
        place = int(found[2])
        name = listed[place].name if place < len(listed) else None
        return f"{found[1] or ''}[{name or ''}]"

    return _PLACE.sub(by_name, field or "")


def blamed(change: WorkloadChange, blame: Sequence[tuple[str, str]]) -> str | None:
    """Return the field of a workload that a cause refers to, from its rules and messages. None if no field stands out."""
    if change.refused:
        field, colon, _ = change.refused[0].partition(": ")
        return field if colon and " " not in field else None
    workload = view(change.obj) if change.kind != "Pod" else None
    pod = objects.Pod(change.obj.metadata, change.obj.spec) if workload is None else objects.Pod(objects.ObjectMeta(), workload.spec)
    path = "spec" if workload is None else f"{workload.path}.spec"
    for rule, sentence in sorted(blame, key=lambda each: each[0] in _LAST):
        found = next(_fields(pod.spec, rule, sentence), None)
        if found is not None:
            return f"{path}.{found}"
    return None


def _fields(spec: objects.PodSpec, rule: str, sentence: str) -> Iterator[str]:
    """Yield the fields of a pod spec that can cause this message of a rule, the likeliest first."""
    if rule == "NodeAffinity":
        node = spec.affinity.nodeAffinity if spec.affinity is not None else None
        if spec.nodeSelector and any(key in sentence for key in spec.nodeSelector):
            yield "nodeSelector"
        if node is not None and node.requiredDuringSchedulingIgnoredDuringExecution is not None:
            yield f"affinity.nodeAffinity.{_REQUIRED}"
        yield "nodeSelector"
    elif rule in ("TaintToleration", "NodeUnschedulable"):
        yield "tolerations"
    elif rule == "NodeName":
        yield "nodeName"
    elif rule == "NodePorts":
        yield from _ports(spec, sentence)
    elif rule == "NodeResourcesFit":
        yield from _requests(spec, sentence)
    elif rule == "InterPodAffinity":
        yield from _terms(spec, sentence)
    elif rule == "PodTopologySpread":
        hard = [(i, c) for i, c in enumerate(spec.topologySpreadConstraints or ()) if c.whenUnsatisfiable == "DoNotSchedule"]
        yield from (f"topologySpreadConstraints[{i}]" for i, c in hard if len(hard) == 1 or c.topologyKey in sentence)
    elif rule in ("VolumeBinding", "VolumeZone", "VolumeRestrictions", "NodeVolumeLimits"):
        volumes = list(enumerate(spec.volumes or ()))
        named = [i for i, v in volumes if v.persistentVolumeClaim is not None and v.persistentVolumeClaim.claimName in sentence]
        yield from (f"volumes[{i}]" for i in named)
        yield "volumes"
    elif rule == "DynamicResources":
        yield "resourceClaims"
    elif rule == "PodNodeSelector":
        yield "nodeSelector"
    elif rule == "PodTolerationRestriction":
        yield "tolerations"
    elif rule == "PodOS":
        yield "os"
    elif rule in ("ResourceQuota", "LimitRanger", "NodeResourceTopologyMatch"):
        if BY_COST in sentence:
            yield from _terms(spec, sentence)
        yield from _requests(spec, sentence)


def _ports(spec: objects.PodSpec, sentence: str) -> Iterator[str]:
    for port in (port for container in spec.containers or () for port in container.ports or () if port.hostPort):
        if str(port.hostPort) in sentence:
            yield host_port(spec, port.hostPort or 0)


def _requests(spec: objects.PodSpec, sentence: str) -> Iterator[str]:
    """Yield the request fields of the resources named in a message."""
    names = [name for c in spec.containers or () for name in ((c.resources.requests if c.resources is not None else None) or {})]
    yield from (requesting(spec, name) for name in dict.fromkeys(names) if name in sentence.lower())
    yield "containers"


def _terms(spec: objects.PodSpec, sentence: str) -> Iterator[str]:
    pod = objects.Pod(objects.ObjectMeta(), spec)
    parts = ("podAntiAffinity",) if "anti-affinity" in sentence else ("podAffinity", "podAntiAffinity")
    for part in parts:
        found = required_terms(pod, part)
        named = [i for i, term in enumerate(found) if term.topologyKey in sentence]
        yield from (f"affinity.{part}.{_REQUIRED}[{i}]" for i in (named if named else range(len(found))))
