"""The question of a fit: templates in a ratio, and the cluster with a given number of units pending."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import gcd

import msgspec
import numpy as np

from kubestow.models.cluster.cluster import Cluster, Ints
from kubestow.models.cluster.compile import compile_cluster
from kubestow.models.devices.shared_gpus import adapter
from kubestow.models.documents.fit import Keep
from kubestow.models.documents.placement import Edits
from kubestow.models.documents.policy import without_preferences
from kubestow.models.edits.edits import apply
from kubestow.models.kube import kinds, objects
from kubestow.models.snapshot.scope import Scope, select
from kubestow.models.snapshot.snapshot import InputError, Snapshot
from kubestow.models.workloads.checks import held_by_buffers, is_held
from kubestow.models.workloads.expand import Expansion, made_by_another
from kubestow.models.workloads.gangs.gang_markers import elsewhere, stated
from kubestow.models.workloads.ownership import OwnedPods
from kubestow.models.workloads.replicas import stated_pods, suspended
from kubestow.models.workloads.view import WorkloadView, listed, selector, view
from kubestow.solver import rules
from kubestow.solver.capacity.fit.reserved_room import ZoneRoom, with_room_kept
from kubestow.solver.rules.eligibility import possible
from kubestow.solver.runtime.options import Options


@dataclass(frozen=True)
class FitTemplate:
    """A workload of the manifests.

    Attributes:
        ratio: Replicas in one unit.
        runs: Replicas that the snapshot already has.
        whole: True if the workload declares itself a gang, whose members are placed together.
    """

    kind: str
    namespace: str
    name: str
    ratio: int
    runs: int
    whole: bool

    @property
    def ref(self) -> str:
        """Return ``Kind namespace/name``."""
        return f"{self.kind} {self.namespace}/{self.name}"

    def scaled(self, units: int) -> str:
        """Return the edit that gives the workload this many units in addition to its running replicas."""
        return f"{self.kind}/{self.namespace}/{self.name}={self.runs + units * self.ratio}"


@dataclass(frozen=True)
class FitInstance:
    """The compiled cluster with a number of units pending.

    Attributes:
        new: Keys of the units' pods, by template.
        room: Caps on zones with reserved room; None without any.
    """

    units: int
    expansion: Expansion
    scope: Scope
    cluster: Cluster
    new: list[list[str]]
    room: ZoneRoom | None = None

    @property
    def snapshot(self) -> Snapshot:
        return self.expansion.snapshot

    @cached_property
    def eligibility(self) -> Ints:
        """Return int64[G, N], the number of pods of each class that each node could take alone."""
        return possible(self.cluster, rules.build(self.cluster))

    def alike(self) -> bool:
        """Return True if all pods that can be created are of one class, and no gang needs several of them or one domain."""
        single = all(gang.needed <= 1 and gang.key is None for gang in self.cluster.gangs)
        return single and sum(cls.refused is None for cls in self.cluster.classes) == 1


@dataclass(frozen=True)
class FitQuestion:
    """The question how many units of ``templates`` fit.

    Attributes:
        edits: Edits of the command line.
        keep: Room that stays free.
    """

    snapshot: Snapshot
    manifests: Snapshot
    templates: tuple[FitTemplate, ...]
    edits: Edits
    options: Options
    keep: Keep | None = None

    @property
    def whole(self) -> bool:
        """True if some template declares itself a gang."""
        return any(template.whole for template in self.templates)

    def edits_at(self, units: int) -> Edits:
        """Return the edits that make a snapshot with this many units."""
        return msgspec.structs.replace(self.edits, replicas=[template.scaled(units) for template in self.templates], partial=not self.whole)

    def with_node(self, like: str) -> FitQuestion:
        """Return the same question with one more node, a clone of ``like``."""
        return replace(self, edits=msgspec.structs.replace(self.edits, addNodes=[*self.edits.addNodes, f"1:{like}"]))

    def at(self, units: int, *, kept: bool = True) -> FitInstance:
        """Return the cluster with this many units.

        Args:
            kept: True to reserve the room that is to stay free.

        Raises:
            InputError: Manifests or edits that cannot be applied, or a workload that creates other pods than
                its replicas ask for.
        """
        expansion = apply(self.snapshot, self.manifests, self.edits_at(units))
        snapshot = expansion.snapshot
        if snapshot.shared_gpus != "none":
            adapter.apply(snapshot, snapshot.shared_gpus)
        new = self._new(snapshot, units)
        if kept and self.keep is not None and self.keep.of == "node":
            made = {key for keys in new for key in keys}
            snapshot = expansion.snapshot = with_room_kept(snapshot, made, self.keep)
        scope = select(snapshot, include_gated=self.options.include_gated)
        policy = without_preferences(self.options.policy, "pack")  # preferences do not affect how many pods fit
        cluster = compile_cluster(snapshot, scope, daemon_namespaces=self.options.exempt, policy=policy)
        room = ZoneRoom.of(cluster, self.keep) if self.keep is not None and self.keep.of == "zone" else None
        return FitInstance(units, expansion, scope, cluster, new, room)

    def _new(self, snapshot: Snapshot, units: int) -> list[list[str]]:
        """Return the keys of the new pods, by template."""
        members: list[list[str]] = []
        wanted = [template.ratio * units for template in self.templates]
        made = snapshot.to_create[len(self.snapshot.to_create) :]
        if len(made) != sum(wanted):
            names = ", ".join(template.ref for template in self.templates)
            text = f"{names}: {sum(wanted)} more replicas created {len(made)} pods; expected one each (a Job with finished pods?)"
            raise InputError([text])
        there = {objects.pod_key(pod) for pod in snapshot.pods}
        if lost := [key for key in made if key not in there]:
            raise InputError([f"pod {lost[0]}: the selector of another template matches it, too; expected templates with distinct labels"])
        for count in wanted:
            members.append(made[:count])
            made = made[count:]
        return members


@dataclass(frozen=True)
class Ceiling:
    """An upper bound on units: by the pods each node could take of each template alone, and by all resources together.

    Attributes:
        cluster: The cluster with one unit.
        ratios: Pods of each template in a unit.
        lots: Pods of each template that all nodes could take.
        least: int64[R] for each template, the smallest request of its pods.
        room: int64[R], free resources of the nodes that can take any of the pods.
    """

    cluster: Cluster
    ratios: tuple[int, ...]
    lots: tuple[int, ...]
    least: tuple[Ints, ...]
    room: Ints

    @classmethod
    def of(cls, question: FitQuestion, *, ruled: bool = True) -> Ceiling:
        """Return the ceiling of a question.

        Args:
            ruled: True if scheduling rules count; if False, only resources do.
        """
        probe = question.at(1)
        cluster, kept = probe.cluster, probe.room
        free = [replace(gang, needed=0) for gang in cluster.gangs]
        lots = replace(cluster, count=np.full_like(cluster.count, max(1, int(cluster.slots.max(initial=0)))), gangs=free)
        eligibility = possible(lots, rules.build(lots)) if ruled else np.repeat(lots.count[:, None], lots.n_nodes, axis=1)
        class_of = {objects.pod_key(probe.snapshot.pods[i]): g for g, cls_ in enumerate(cluster.classes) for i in cls_.pods}
        own = [sorted({class_of[key] for key in keys}) for keys in probe.new]
        least = tuple(cluster.demand[classes].min(axis=0) for classes in own)
        limits = [int(eligibility[classes].max(axis=0).sum()) for classes in own]
        room = np.maximum(cluster.free[eligibility.any(axis=0)], 0).sum(axis=0)
        if kept is not None:
            limits = [min(count, kept.max_pods(demand)) for count, demand in zip(limits, least, strict=True)]
            room = np.minimum(room, kept.residual.sum(axis=0))
        return cls(cluster, tuple(template.ratio for template in question.templates), tuple(limits), least, room)

    @property
    def units(self) -> int:
        """The upper bound on units."""
        unit = sum((ratio * demand for ratio, demand in zip(self.ratios, self.least, strict=True)), np.zeros_like(self.room))
        alone = [count // ratio for count, ratio in zip(self.lots, self.ratios, strict=True)]
        return min([*alone, *(int(self.room[r] // unit[r]) for r in np.flatnonzero(unit).tolist())])

    def with_node(self, like: str, slots: int) -> Ceiling:
        """Return the ceiling with one more node, a clone of an empty ``like`` with ``slots`` pod slots."""
        there = self.cluster.allocatable[self.cluster.nodes.names.index(like)]
        more = [min([slots, *(int(there[r] // demand[r]) for r in np.flatnonzero(demand).tolist())]) for demand in self.least]
        return replace(self, lots=tuple(map(sum, zip(self.lots, more, strict=True))), room=self.room + there)


def _unfit(workload: WorkloadView, options: Options) -> str:
    """Return why no replicas of a workload can be counted; empty if they can."""
    if workload.kind == "DaemonSet":
        return "a DaemonSet has a pod on every node and no replicas; expected another workload"
    if suspended(workload):
        return "is suspended and makes no pods; expected it without spec.suspend"
    if workload.spec.nodeName:
        return f"{workload.path}.spec.nodeName: its pods are not scheduled; expected a template without it"
    if workload.spec.schedulingGates and not options.include_gated:
        return f"{workload.path}.spec.schedulingGates: its pods wait; expected none, or --include-gated"
    return ""


def read(snapshot: Snapshot, manifests: Snapshot, edits: Edits, options: Options, keep: Keep | None = None) -> FitQuestion:
    """Return the question that manifests ask.

    Raises:
        InputError: Manifests with an object that has no replicas, or without a ratio.
    """
    problems = [
        f"Pod {objects.pod_key(pod)}: a pod has no replicas; expected its template in a PodTemplate or another workload"
        for pod in manifests.pods
    ]
    before = apply(snapshot, None, msgspec.structs.replace(edits, namespace=None)).snapshot
    custom = {kind: objs for kind, objs in manifests.workloads.items() if kind not in kinds.KINDS}
    owned = OwnedPods(replace(before, workloads={**before.workloads, **custom}))
    workloads: list[tuple[WorkloadView, int]] = []
    buffered = held_by_buffers(manifests) | held_by_buffers(snapshot)
    for obj in listed(manifests):
        workload = view(obj)
        if made_by_another(obj, manifests) or made_by_another(obj, snapshot) or is_held(obj, buffered):
            continue
        if workload is None:
            problems.append(f"{kinds.name_of(obj)} {obj.metadata.namespace or 'default'}/{obj.metadata.name}: has no pod template")
        elif problem := _unfit(workload, options):
            problems.append(f"{workload.ref}: {problem}")
        else:
            workloads.append((workload, len(owned.of(workload.kind, workload.namespace, workload.name, selector(obj)))))
    stated_counts = [stated_pods(workload) for workload, _ in workloads]
    if len(workloads) > 1:
        problems += [
            f"{workload.ref}: has 0 replicas; expected at least 1, because several templates are placed in the ratio of their replicas"
            for (workload, _), count in zip(workloads, stated_counts, strict=True)
            if count < 1
        ]
    if problems or not workloads:
        raise InputError(problems or ["the manifests contain no workload with replicas"])
    unit = gcd(*stated_counts) if len(workloads) > 1 else max(1, stated_counts[0])
    templates = tuple(
        FitTemplate(
            workload.kind, workload.namespace, workload.name, max(1, count // unit), runs, bool(stated(workload)) or elsewhere(workload)
        )
        for (workload, runs), count in zip(workloads, stated_counts, strict=True)
    )
    return FitQuestion(snapshot, manifests, templates, edits, options, keep)
