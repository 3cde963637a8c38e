"""The gangs of pods from manifests, written on the pods as annotations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from kubestow.models.gangs.gangs import GANG, MIN_MEMBER, PREFERRED_TOPOLOGY, REQUIRED_TOPOLOGY
from kubestow.models.gangs.markers import marker
from kubestow.models.kube import objects
from kubestow.models.kube.workload_objects import PodSet
from kubestow.models.workloads.view import WorkloadView

_STATED: Final = (GANG, MIN_MEMBER, REQUIRED_TOPOLOGY, PREFERRED_TOPOLOGY)
_change = msgspec.structs.replace


def stated(workload: WorkloadView) -> dict[str, str]:
    """Return the gang annotations of template and workload; the template's take precedence. An empty name means no gang."""
    annotations = {**(workload.obj.metadata.annotations or {}), **workload.annotations}
    return {key: annotations[key] for key in _STATED if key in annotations}


def elsewhere(workload: WorkloadView) -> bool:
    """Return True if the template puts its pods into a gang of another system."""
    return marker(objects.Pod(workload.template.metadata or objects.ObjectMeta(), workload.spec)) is not None


def default_names(workloads: Iterable[WorkloadView]) -> dict[str, str]:
    """Return the gang of each workload that states none, by ``WorkloadView.ref``.

    The gang has the workload's name, with the kind if two workloads of a namespace share the name. A DaemonSet
    is no gang: it runs on each node that accepts its pod.
    """
    open_ = [w for w in workloads if w.kind != "DaemonSet" and GANG not in stated(w) and not elsewhere(w)]
    kinds = {(w.namespace, _stem(w), w.kind) for w in open_}
    counts = Counter((namespace, name) for namespace, name, _ in kinds)
    return {w.ref: _stem(w) if counts[w.namespace, _stem(w)] == 1 else f"{_stem(w)}-{w.kind.lower()}" for w in open_}


def _stem(workload: WorkloadView) -> str:
    """Return the name of the object that a workload is or, as a pod set, belongs to."""
    obj = workload.obj
    return obj.spec.object if isinstance(obj, PodSet) and obj.spec is not None else workload.name


def marks(workload: WorkloadView, default: str | None, gang: str, wanted: int, *, partial: bool) -> dict[str, str]:
    """Return the gang annotations for all pods of a workload. Annotations that it states are kept.

    A single pod gets the default name only if it states other gang annotations.

    Args:
        workload: The workload.
        default: Name of the gang if the workload states none; None: no default.
        gang: Name of the gang by the table of kinds, for a pod of a pod set.
        wanted: Number of pods that the workload should have.
        partial: True if the gang may be placed in part.
    """
    annotations = stated(workload)
    obj = workload.obj
    if isinstance(obj, PodSet) and obj.spec is not None:
        if default is not None and gang:
            annotations[GANG] = default + gang.removeprefix(obj.spec.object)
        if obj.spec.minimum and annotations.get(GANG):
            annotations.setdefault(MIN_MEMBER, str(obj.spec.minimum))
    elif default is not None and (wanted > 1 or annotations):
        annotations[GANG] = default
    if partial and (annotations.get(GANG) or elsewhere(workload)):
        annotations[MIN_MEMBER] = "1"
    return annotations


def annotated(pod: objects.Pod, added: Mapping[str, str]) -> objects.Pod:
    """Return a copy of a pod with these annotations."""
    if not added:
        return pod
    return _change(pod, metadata=_change(pod.metadata, annotations={**(pod.metadata.annotations or {}), **added}))


def in_part(pod: objects.Pod) -> objects.Pod:
    """Return a copy of a pod whose gang, if any, may be placed in part."""
    return pod if marker(pod) is None else annotated(pod, {MIN_MEMBER: "1"})
