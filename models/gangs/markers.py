"""The annotations, labels and fields by which a pod names its group, in five dialects.

Sources: Kubernetes 1.35 core/v1 (workloadRef) and 1.36 (schedulingGroup), KEP-4671;
kubernetes-sigs/scheduler-plugins apis/scheduling; volcano-sh/apis pkg/apis/scheduling/v1beta1/labels.go; Kueue
apis/kueue/v1beta2/topology_types.go and pkg/controller/jobs/pod/constants.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from kubestow.models.kube.objects import Pod

#: The annotation of this project, on pods and PodTemplates.
GANG: Final = "kubestow.dev/gang"
WORKLOAD_REF: Final = "spec.workloadRef"
SCHEDULING_GROUP: Final = "spec.schedulingGroup"
#: Labels of scheduler-plugins, the current one first.
COSCHEDULING: Final = ("scheduling.x-k8s.io/pod-group", "pod-group.scheduling.sigs.k8s.io")
#: Annotations of Volcano, in the order in which its scheduler reads them.
VOLCANO: Final = ("scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name")
#: A label of Kueue for pods without a controller.
KUEUE: Final = "kueue.x-k8s.io/pod-group-name"
KUEUE_REQUIRED: Final = "kueue.x-k8s.io/podset-required-topology"
KUEUE_PREFERRED: Final = "kueue.x-k8s.io/podset-preferred-topology"
#: Label with the pod set of a pod, and annotation of pod sets that share a domain.
POD_SET: Final = "kueue.x-k8s.io/podset"
SET_GROUP: Final = "kueue.x-k8s.io/podset-group-name"
#: An annotation that Kueue writes on the pods of Jobs and similar workloads on admission.
_ADMITTED: Final = "kueue.x-k8s.io/workload"

_KEYS: Final = frozenset((GANG, *COSCHEDULING, *VOLCANO, KUEUE, _ADMITTED))
#: Sources by precedence, with suffixes that distinguish their groups from others of the same name.
_SUFFIXES: Final = {
    GANG: "kubestow.dev",
    WORKLOAD_REF: "scheduling.k8s.io",
    SCHEDULING_GROUP: "scheduling.k8s.io",
    COSCHEDULING[0]: "scheduling.x-k8s.io",
    VOLCANO[0]: "scheduling.volcano.sh",
    KUEUE: "kueue.x-k8s.io",
    KUEUE_REQUIRED: "kueue.x-k8s.io",
}
_ORDER: Final = tuple(_SUFFIXES)


class Marker(NamedTuple):
    """The group that a pod names: the kind of source (the first of several synonyms), and the group's path there."""

    source: str
    path: tuple[str, ...]

    @property
    def name(self) -> str:
        """``namespace/name``; groups of several sources may share it."""
        return f"{self.path[0]}/{'-'.join(part for part in self.path[1:] if part)}"


def marker(pod: Pod) -> Marker | None:
    """Return the group that a pod names; None if it names none.

    Precedence: own annotation, scheduling.k8s.io, scheduler-plugins, Volcano, Kueue.
    """
    namespace = pod.metadata.namespace or "default"
    annotations, labels = pod.metadata.annotations or {}, pod.metadata.labels or {}
    own = annotations.get(GANG)
    if own == "":
        return None  # excludes the pod from all other groups
    if own:
        return Marker(GANG, tuple(own.split("/", 1)) if "/" in own else (namespace, own))
    workload, group = pod.spec.workloadRef, pod.spec.schedulingGroup
    if workload is not None and workload.name:
        return Marker(WORKLOAD_REF, (namespace, workload.name, workload.podGroup or "", workload.podGroupReplicaKey or ""))
    if group is not None and group.podGroupName:
        return Marker(SCHEDULING_GROUP, (namespace, group.podGroupName))
    for names, stated in ((COSCHEDULING, labels), (VOLCANO, annotations), ((KUEUE,), labels)):
        for name in names:
            value = stated.get(name)
            if value:
                return Marker(names[0], (namespace, value))
    # The pods of a Job or similar workload are one group if Kueue was to place them by topology.
    admitted = annotations.get(_ADMITTED)
    if admitted and (KUEUE_REQUIRED in annotations or KUEUE_PREFERRED in annotations):
        return Marker(KUEUE_REQUIRED, (namespace, admitted, annotations.get(SET_GROUP) or labels.get(POD_SET, "")))
    return None


def members(pods: Sequence[Pod], indices: Iterable[int]) -> dict[Marker, list[int]]:
    """Return the pods of each group, in their order. Pods without a group are skipped quickly, since equal labels are shared."""
    found: dict[Marker, list[int]] = {}
    plain = {id(None)}  # labels that name no group
    unnamed = _KEYS.isdisjoint
    for i in indices:
        pod = pods[i]
        metadata, spec = pod.metadata, pod.spec
        labels, annotations = metadata.labels, metadata.annotations
        if id(labels) not in plain and unnamed(labels or ()):
            plain.add(id(labels))
        if (
            id(labels) in plain
            and (annotations is None or unnamed(annotations))
            and spec.workloadRef is None
            and spec.schedulingGroup is None
        ):
            continue
        named = marker(pod)
        if named is not None:
            found.setdefault(named, []).append(i)
    return found


def names(markers: Iterable[Marker]) -> dict[Marker, str]:
    """Return a unique name for each group: ``namespace/name``.

    If groups share it, those of later sources get a suffix (``team/train@kueue.x-k8s.io``).
    """
    found: dict[Marker, str] = {}
    used: set[str] = set()
    for each in sorted(markers, key=lambda m: (_ORDER.index(m.source), m.path)):
        name, number = each.name, 2
        if name in used:
            base = name = f"{name}@{_SUFFIXES[each.source]}"
            while name in used:
                name, number = f"{base}-{number}", number + 1
        used.add(name)
        found[each] = name
    return found
