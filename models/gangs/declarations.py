"""The declaration of a group of pods, by the object that they name or by their own annotations.

Sources: Kubernetes 1.35 scheduling.k8s.io/v1alpha1 (Workload), 1.36 and later (PodGroup, topology-aware
workload scheduling); kubernetes-sigs/scheduler-plugins apis/scheduling; volcano-sh/apis
pkg/apis/scheduling/v1beta1/types.go and pkg/apis/topology/v1alpha1/labels.go; Kueue
apis/kueue/v1beta2/topology_types.go and pkg/controller/jobs/pod/constants.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from kubestow.models.gangs.markers import (
    COSCHEDULING,
    GANG,
    KUEUE,
    KUEUE_PREFERRED,
    KUEUE_REQUIRED,
    POD_SET,
    SCHEDULING_GROUP,
    SET_GROUP,
    VOLCANO,
    WORKLOAD_REF,
    Marker,
)
from kubestow.models.kube import workload_objects
from kubestow.models.kube.lenient_decode import shorten
from kubestow.models.kube.objects import Pod, pod_key
from kubestow.models.kube.selectors import is_label_key
from kubestow.models.snapshot.snapshot import Snapshot

#: Annotations of this project, on pods and PodTemplates.
MIN_MEMBER: Final = "kubestow.dev/min-member"
REQUIRED_TOPOLOGY: Final = "kubestow.dev/required-topology"
PREFERRED_TOPOLOGY: Final = "kubestow.dev/preferred-topology"
_KUEUE_COUNT: Final = "kueue.x-k8s.io/pod-group-total-count"
_KUEUE_ROLE: Final = "kueue.x-k8s.io/role-hash"
#: Annotations from which Volcano makes a PodGroup for pods without one.
_VOLCANO_MODE: Final = "volcano.sh/network-topology-mode"
_VOLCANO_TIER: Final = "volcano.sh/network-topology-highest-tier"
#: Annotations that have a meaning only for members of a gang.
OF_GANGS: Final = (MIN_MEMBER, REQUIRED_TOPOLOGY, PREFERRED_TOPOLOGY, KUEUE_REQUIRED, KUEUE_PREFERRED, _VOLCANO_MODE, _VOLCANO_TIER)

#: API groups of the PodGroup objects of each source.
_APIS: Final = {
    SCHEDULING_GROUP: ("scheduling.k8s.io",),
    COSCHEDULING[0]: ("scheduling.x-k8s.io", "scheduling.sigs.k8s.io"),
    VOLCANO[0]: ("scheduling.volcano.sh",),
}
_PART: Final = r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,251}[A-Za-z0-9])?"
_NAME: Final = re.compile(rf"{_PART}/{_PART}\Z")
_COUNT: Final = re.compile(r"0*[1-9][0-9]{0,8}\Z")

#: A node label that all members share, and whether they must.
Topology = tuple[str, bool]


class Note(NamedTuple):
    """A declaration that is not honoured: the field, the effect, and the annotation that declares it, if any."""

    field: str
    effect: str
    annotation: str | None = None


@dataclass
class Declared:
    """The declaration of a group.

    Attributes:
        minimum: Members, running ones included, without which none is to be placed; None: all.
        topology: Node label that members share; None if there is none.
        counts_finished: True if succeeded members count towards ``minimum``.
        together: False if members can be placed one by one.
        notes: Declarations that are not honoured.
        problems: Annotations that are unreadable or contradict each other.
    """

    minimum: int | None = None
    topology: Topology | None = None
    counts_finished: bool = False
    together: bool = True
    notes: list[Note] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


class Groups:
    """The objects of a snapshot that declare groups.

    Args:
        tiers: Node labels for the tiers of Volcano's HyperNodes, tier 1 first.
    """

    def __init__(self, snapshot: Snapshot, tiers: Sequence[str] = ()) -> None:
        self._tiers = tiers
        self._workloads = snapshot.scheduling_workloads
        self._groups = {(g.group, g.metadata.namespace or "default", g.metadata.name or ""): g for g in snapshot.pod_groups}

    def declared(self, named: Marker, pods: Sequence[Pod]) -> Declared:
        """Return the declaration of a group, given its pods to be placed.

        This project's annotations on the pods override all others. A topology of the group's object overrides
        foreign annotations.
        """
        declared = Declared()
        if named.source == GANG and not _NAME.match("/".join(named.path)):
            expected = "a name such as train, or namespace/name"
            got = shorten((pods[0].metadata.annotations or {}).get(GANG))
            declared.problems.append(f"Pod {pod_key(pods[0])}: metadata.annotations[{GANG}]: got {got}, expected {expected}")
        own_minimum, own_topology = _own_minimum(pods, declared), _own_topology(named, pods, declared)
        topology: workload_objects.NetworkTopology | None = None
        volcano = named.source == GANG  # pods with a PodGroup follow it
        where = ""
        if named.source == WORKLOAD_REF:
            self._workload(named, declared)
        elif named.source in _APIS:
            group = self._group(named)
            if group is None:
                volcano = True
                what = f"no PodGroup {named.name} of {_APIS[named.source][0]} in the snapshot"
                declared.notes.append(Note(_field(named.source, pods), f"{what}: all of its pods are placed, or none"))
            else:
                where = f"PodGroup {named.name}: spec"
                topology = _pod_group(named, group.spec or workload_objects.PodGroupSpec(), where, declared)
        elif named.source == KUEUE:
            declared.minimum, declared.counts_finished = _kueue_count(pods, declared), True
        if own_minimum is not None:
            declared.minimum, declared.counts_finished = own_minimum, False
        if own_topology is not None:
            declared.topology = own_topology
        elif topology is not None:
            declared.topology = self._network(topology, f"{where}.networkTopology", None, declared)
        elif declared.topology is None:
            declared.topology = _kueue_topology(named, pods, declared)
            if declared.topology is None and volcano:
                declared.topology = self._volcano_topology(pods, declared)
        # A minimum of one pod also holds when pods are placed one by one.
        trivial = declared.minimum is not None and declared.minimum <= 1 and declared.topology is None
        declared.together = not trivial or named.source == GANG
        return declared

    def _workload(self, named: Marker, declared: Declared) -> None:
        namespace, name, group, _ = named.path
        workload = self._workloads.get(f"{namespace}/{name}")
        listed = (workload.spec.podGroups if workload is not None and workload.spec else None) or ()
        template = next((each for each in listed if each.name == group), None)
        if template is None:
            what = f"no Workload {namespace}/{name}" if workload is None else f"no pod group {group!r} in Workload {namespace}/{name}"
            declared.notes.append(Note(WORKLOAD_REF, f"{what} in the snapshot: all of its pods are placed, or none"))
        else:
            declared.minimum = _minimum(template.policy)

    def _group(self, named: Marker) -> workload_objects.PodGroup | None:
        namespace, name = named.path
        for api in (*_APIS[named.source], ""):  # an object without API group matches any
            group = self._groups.get((api, namespace, name))
            if group is not None:
                return group
        return None

    def _network(
        self, topology: workload_objects.NetworkTopology, where: str, annotation: str | None, declared: Declared
    ) -> Topology | None:
        """Return Volcano's topology: hard keeps a gang in one HyperNode of the highest allowed tier (1), soft prefers tier 1."""
        hard = topology.mode != "soft"
        tier = (1 if topology.highestTierAllowed is None else topology.highestTierAllowed) if hard else 1
        if hard and topology.highestTierName:
            declared.notes.append(Note(where, f"ignored: tiers are read by number, not by name ({topology.highestTierName})", annotation))
            return None
        if not 1 <= tier <= len(self._tiers):
            declared.notes.append(Note(where, f"ignored: networkTiers of the policy has no node label for tier {tier}", annotation))
            return None
        return self._tiers[tier - 1], hard

    def _volcano_topology(self, pods: Sequence[Pod], declared: Declared) -> Topology | None:
        stated = _common(pods, (_VOLCANO_MODE, _VOLCANO_TIER), declared)
        if stated is None:
            return None
        mode, tier = stated
        if tier is not None and not _COUNT.match(tier):
            tier = None  # as in Volcano
        wanted = workload_objects.NetworkTopology("soft" if (mode or "").lower() == "soft" else "hard", None if tier is None else int(tier))
        key = _VOLCANO_TIER if mode is None else _VOLCANO_MODE
        return self._network(wanted, f"metadata.annotations[{key}]", key, declared)


def _pod_group(
    named: Marker, spec: workload_objects.PodGroupSpec, where: str, declared: Declared
) -> workload_objects.NetworkTopology | None:
    """Read the minimum and topology of a PodGroup; return its topology instead if it is given in tiers."""
    for name in ("minResources", "minTaskMember", "subGroupPolicy", "parentCompositePodGroupName"):
        if getattr(spec, name):
            declared.notes.append(Note(f"{where}.{name}", "ignored"))
    if named.source != SCHEDULING_GROUP:
        declared.minimum = spec.minMember or 0
        return spec.networkTopology if named.source == VOLCANO[0] else None
    declared.minimum = _minimum(spec.schedulingPolicy)
    listed = (spec.schedulingConstraints.topology if spec.schedulingConstraints else None) or []
    keys = [each.key for each in listed if each.key]
    if keys:
        declared.topology = keys[0], True
    if len(keys) > 1:  # the API allows only one, although its type is a list
        declared.notes.append(Note(f"{where}.schedulingConstraints.topology", "ignored except for the first"))
    return None


def _minimum(policy: workload_objects.SchedulingPolicy | None) -> int | None:
    """Return the minimum of a policy; 0 for the basic policy, which places pods one by one."""
    return 0 if policy is None or policy.gang is None else policy.gang.minCount


def _field(source: str, pods: Sequence[Pod]) -> str:
    """Return the field in which the first pod names its PodGroup."""
    if source == SCHEDULING_GROUP:
        return source
    keys, part = (COSCHEDULING, "labels") if source == COSCHEDULING[0] else (VOLCANO, "annotations")
    given = getattr(pods[0].metadata, part) or {}
    return f"metadata.{part}[{next(key for key in keys if given.get(key))}]"


# --- annotations ------------------------------------------------------------------------------------------------------


def _values(pods: Sequence[Pod], key: str) -> dict[str, Pod]:
    """Return the values of an annotation, each with the first pod that has it."""
    found: dict[str, Pod] = {}
    for pod in pods:
        value = (pod.metadata.annotations or {}).get(key)
        if value is not None:
            found.setdefault(value, pod)
    return found


def _common(pods: Sequence[Pod], keys: tuple[str, str], declared: Declared, *, apart: bool = False) -> tuple[str | None, str | None] | None:
    """Return the values of two annotations if all pods have the same.

    Args:
        apart: The annotations apply to parts of the gang.
    """
    stated = {(annotations.get(keys[0]), annotations.get(keys[1])) for pod in pods for annotations in (pod.metadata.annotations or {},)}
    if stated == {(None, None)}:
        return None
    if len(stated) == 1 and not apart:
        return next(iter(stated))
    effect = "ignored: it applies to parts of the gang, and only a topology of the whole gang is honoured"
    declared.notes += [Note(f"metadata.annotations[{key}]", effect, key) for key in keys if _values(pods, key)]
    return None


def _kueue_topology(named: Marker, pods: Sequence[Pod], declared: Declared) -> Topology | None:
    """Return Kueue's topology if it applies to the whole gang. It applies to each pod set; grouped sets share a domain."""
    sets = {((pod.metadata.labels or {}).get(POD_SET), (pod.metadata.annotations or {}).get(_KUEUE_ROLE)) for pod in pods}
    grouped = {(pod.metadata.annotations or {}).get(SET_GROUP) for pod in pods}
    if named.source == GANG and grouped != {None}:
        declared.notes.append(Note(f"metadata.annotations[{SET_GROUP}]", f"ignored: {GANG} defines the gang", SET_GROUP))
    apart = named.source != GANG and len(sets) > 1 and (len(grouped) > 1 or None in grouped)
    stated = _common(pods, (KUEUE_REQUIRED, KUEUE_PREFERRED), declared, apart=apart)
    if stated is None:
        return None
    required, preferred = stated
    return (required, True) if required else (preferred, False) if preferred else None


def _kueue_count(pods: Sequence[Pod], declared: Declared) -> int | None:
    values = _values(pods, _KUEUE_COUNT)
    odd = [value for value in values if not _COUNT.match(value)]
    if odd:
        effect = f"got {shorten(odd[0])}, expected a whole number of at least 1: all of its pods are placed, or none"
        declared.notes.append(Note(f"metadata.annotations[{_KUEUE_COUNT}]", effect, _KUEUE_COUNT))
        return None
    return max(map(int, values), default=None)


def _own_minimum(pods: Sequence[Pod], declared: Declared) -> int | None:
    """Return the largest minimum that a member states."""
    values = _values(pods, MIN_MEMBER)
    for value, pod in values.items():
        if not _COUNT.match(value):
            expected = "a whole number of at least 1"
            declared.problems.append(f"Pod {pod_key(pod)}: metadata.annotations[{MIN_MEMBER}]: got {shorten(value)}, expected {expected}")
    return max((int(value) for value in values if _COUNT.match(value)), default=None)


def _own_topology(named: Marker, pods: Sequence[Pod], declared: Declared) -> Topology | None:
    """Return the single topology that members state; it is required if any member requires it."""
    wanted: tuple[str, str, Pod] | None = None
    for annotation in (REQUIRED_TOPOLOGY, PREFERRED_TOPOLOGY):
        for value, pod in _values(pods, annotation).items():
            where = f"Pod {pod_key(pod)}: metadata.annotations[{annotation}]: got {shorten(value)}, expected"
            if not is_label_key(value):
                declared.problems.append(f"{where} a node label key such as topology.kubernetes.io/zone")
            elif wanted is None:
                wanted = annotation, value, pod
            elif value != wanted[1]:
                other = f"Pod {pod_key(wanted[2])} has {shorten(wanted[1])} in {wanted[0]}"
                declared.problems.append(f"{where} one topology of the gang {shorten(named.name)}: {other}")
    return None if wanted is None else (wanted[1], wanted[0] == REQUIRED_TOPOLOGY)
