"""Workloads as input: manifests (``-w``) become the pods that their controllers would make in the cluster.

Running and waiting pods count; only missing ones are made. Sources: pkg/controller of k8s.io/kubernetes for
each kind, plugin/pkg/admission for the data that a pod gets when it is stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from kubestow.models.documents.placement import Unmodelled
from kubestow.models.kube import kinds, workload_objects
from kubestow.models.kube import objects as kube_objects
from kubestow.models.snapshot import sources
from kubestow.models.snapshot.snapshot import InputError, Snapshot
from kubestow.models.workloads import checks, claims
from kubestow.models.workloads import replicas as workloads_replicas
from kubestow.models.workloads.gangs import gang_markers
from kubestow.models.workloads.merge import located, merge
from kubestow.models.workloads.ownership import OwnedPods, made_by_custom, named
from kubestow.models.workloads.pods import Maker, NotAdmitted, admitted
from kubestow.models.workloads.replicas import ReplicaPlan, Slot
from kubestow.models.workloads.revisions import reference, same_template
from kubestow.models.workloads.view import WorkloadView, find, labelled, listed, selector, view

#: More pods than this are most likely a typing error.
MAX_PODS: Final = 1_000_000
_PARENTS: Final = {"ReplicaSet": "Deployment", "Job": "CronJob"}
_change = msgspec.structs.replace


@dataclass
class Expansion:
    """A snapshot with the pods of manifests.

    Attributes:
        workloads: The added workloads, as ``Kind namespace/name``.
        pods: Number of pods that these want or have.
        unmodelled: Assumptions about the new pods, to be listed with the result. ``snapshot.warnings`` has a
            summary.
    """

    snapshot: Snapshot
    workloads: list[str] = field(default_factory=list)
    pods: int = 0
    unmodelled: list[Unmodelled] = field(default_factory=list)


def expand(snapshot: Snapshot, manifests: Snapshot, *, partial: bool = False, replicas: Mapping[str, int] | None = None) -> Expansion:
    """Return the cluster with the pods of ``manifests`` (loaded with ``manifests=True``) waiting in it; neither input is changed.

    The pods of each workload, also those in the cluster, get its gang's annotations (:mod:`kubestow.models.workloads.gangs.gang_markers`).

    Args:
        partial: Each gang may be placed in part.
        replicas: Number of pods for workloads of the manifests, by ``[KIND/][NAMESPACE/]NAME``.

    Raises:
        InputError: An API server would reject the manifests, a node contradicts the cluster's, or ``replicas`` has an unknown name.
    """
    problems: list[str] = []
    merged = merge(snapshot, manifests, problems)
    counts = {find([manifests], name): count for name, count in (replicas or {}).items()}
    buffered = checks.held_by_buffers(merged)
    own = [obj for obj in listed(manifests) if not made_by_another(obj, merged) and not checks.is_held(obj, buffered)]
    objects = [_labelled(named(merged, *_name(obj)), merged, manifests) for obj in own]
    for obj in objects:
        problems += [located(manifests, obj, problem) for problem in checks.problems(obj, merged)]
    for kind in (manifests.device_classes, manifests.resource_claims, manifests.resource_claim_templates):
        for obj in kind.values():
            problems += [located(manifests, obj, problem) for problem in checks.unreadable_selectors(obj, manifests.gates)]
    bare = _bare(merged, manifests, problems, partial)
    if problems:
        raise InputError(problems)
    objects = [_scaled(obj, counts.get(_name(obj)), merged) for obj in objects]
    workloads = [found for obj in objects if (found := view(obj)) is not None]
    _limit(workloads)
    merged.pods = _without_finished(merged, workloads)
    given = [*(w.ref for w in workloads), *(f"Pod {kube_objects.pod_key(pod)}" for pod in manifests.pods)]
    expansion = Expansion(merged, given, len(manifests.pods))
    maker = Maker(merged)
    names = gang_markers.default_names(workloads)
    new: list[int] = []
    claimed: set[int] = set()
    for workload in workloads:
        existing = [i for i in maker.owners.of(*_name(workload.obj), selector(workload.obj)) if i not in claimed]
        claimed.update(existing)
        previous = named(snapshot, *_name(workload.obj))
        plan, owner = maker.plan(workload, existing, previous)
        made = maker.fill(workload, plan.slots, owner)
        gangs = (*(plan.gangs or [""] * len(existing)), *(slot.gang for slot in plan.slots))
        for i, gang in zip((*existing, *made), gangs, strict=True):
            added = gang_markers.marks(workload, names.get(workload.ref), gang, plan.wanted, partial=partial)
            merged.pods[i] = gang_markers.annotated(merged.pods[i], added)
        surplus = _surplus(workload, plan, len(existing), stated=_name(workload.obj) in counts)
        other = _other_revision(workload, plan, previous, len(existing))
        merged.warnings += [f"{workload.ref}: {text}" for text in (*_none(plan), *surplus, *other)]
        expansion.pods += max(plan.wanted, len(existing))
        new += made
    alone = [pod for pod in merged.pods if kube_objects.pod_key(pod) in bare]
    pods = [merged.pods[i] for i in new] + alone
    merged.to_create += [kube_objects.pod_key(pod) for pod in (*alone, *(merged.pods[i] for i in new))]
    bound = {key for key, claim in merged.persistent_volume_claims.items() if claim.spec is not None and claim.spec.volumeName}
    unbound = [key for key in manifests.persistent_volume_claims if key not in bound and key not in snapshot.persistent_volume_claims]
    expansion.unmodelled = claims.provide(merged, pods, maker.claims, unbound)
    _point_out(merged, workloads, bare)
    merged.sha256 = sources.combine(bytes.fromhex(s.sha256) for s in (snapshot, manifests) if s.sha256)
    return expansion


def owned(snapshot: Snapshot, kind: str, namespace: str, name: str) -> list[int]:
    """Return a workload's pods that are neither finished nor being deleted, as ascending indices into
    ``snapshot.pods``.

    Pods belong to it by owner references, through ReplicaSets and Jobs. Pods without a controller belong to it
    by the workload's selector, if the snapshot has its object.
    """
    return OwnedPods(snapshot).of(kind, namespace, name, selector(named(snapshot, kind, namespace, name)))


def revision_pods(
    snapshot: Snapshot, deployment: workload_objects.Deployment, count: int
) -> tuple[list[kube_objects.Pod], workload_objects.ReplicaSet]:
    """Return ``count`` pods of a new revision of a Deployment, and the ReplicaSet that owns them.

    Both are new even if the template exists already. They are not part of ``snapshot``, which is not changed,
    and their names are unused there.

    Raises:
        InputError: The Deployment has no template, its selector does not select it, or its PriorityClass or
            RuntimeClass is unknown.
    """
    where = f"Deployment {deployment.metadata.namespace or 'default'}/{deployment.metadata.name}"
    deployment = labelled(deployment)
    workload = view(deployment)
    problems = list(checks.problems(deployment, snapshot))
    if problems or workload is None:
        raise InputError([f"{where}: {problem}" for problem in problems])
    maker = Maker(snapshot.copy())
    replica_set = maker.revisions.new(workload)
    slots = [Slot(base=f"{replica_set.metadata.name}-", labels=maker.revisions.hash_label(replica_set))] * count
    return maker.pods(workload, slots, reference(replica_set)), replica_set


def top_up(snapshot: Snapshot, kind: str, namespace: str, name: str, count: int) -> tuple[Snapshot, list[Unmodelled]]:
    """Return a new snapshot in which a workload wants ``count`` pods, with the missing ones waiting.

    These are no gang unless the template says so. Pods beyond ``count`` stay.

    Raises:
        InputError: The workload has no template, cannot be scaled, or names an unknown class.
    """
    scaled = snapshot.copy()
    obj = _scaled(named(scaled, kind, namespace, name), count, scaled)
    workload = view(obj)
    if workload is None:
        raise InputError([f"{kind} {namespace}/{name}: has no pod template in the input, expected one to make pods of"])
    _limit([workload])
    maker = Maker(scaled)
    existing = maker.owners.of(kind, namespace, name, selector(obj))
    plan, owner = maker.plan(workload, existing, named(snapshot, kind, namespace, name))
    try:
        made = maker.fill(workload, plan.slots, owner)
    except NotAdmitted as error:
        raise InputError([f"{workload.ref}: {error}"]) from None
    scaled.warnings += [f"{workload.ref}: {text}" for text in plan.warnings]
    scaled.to_create += [kube_objects.pod_key(scaled.pods[i]) for i in made]
    return scaled, claims.provide(scaled, [scaled.pods[i] for i in made], maker.claims, ())


# --- parts of expand --------------------------------------------------------------------------------------------------


def _name(obj: Any) -> tuple[str, str, str]:
    return kinds.name_of(obj), obj.metadata.namespace or "default", obj.metadata.name or ""


def made_by_another(obj: Any, merged: Snapshot) -> bool:
    """Return True if a ReplicaSet or Job belongs to an existing Deployment, CronJob or custom workload, which makes the pods."""
    owner = kube_objects.controller_of(obj)
    if owner is not None and made_by_custom(merged, owner, obj):
        return True
    parent = _PARENTS.get(kinds.name_of(obj))
    return owner is not None and owner.kind == parent and named(merged, parent, obj.metadata.namespace or "default", owner.name) is not None


def _scaled(obj: Any, count: int | None, merged: Snapshot) -> Any:
    """Return a workload's object of ``merged``, replaced if its number of pods changes."""
    if obj is None or count is None:
        return obj
    scaled = workloads_replicas.scaled(obj, count)
    if scaled is None:
        raise InputError([f"{kinds.name_of(obj)} {obj.metadata.namespace}/{obj.metadata.name}: cannot be scaled, it has a pod per node"])
    return _put(merged, obj, scaled)


def _labelled(obj: Any, merged: Snapshot, manifests: Snapshot) -> Any:
    labelled_obj = labelled(obj)
    if labelled_obj is obj:
        return obj
    merged.warnings.append(located(manifests, obj, "its template has no labels, which API servers reject; using those of spec.selector"))
    return _put(merged, obj, labelled_obj)


def _put(merged: Snapshot, old: Any, new: Any) -> Any:
    objects_of_kind = merged.workloads[kinds.name_of(old)]
    objects_of_kind[next(i for i, each in enumerate(objects_of_kind) if each is old)] = new
    return new


def _without_finished(merged: Snapshot, workloads: list[WorkloadView]) -> list[kube_objects.Pod]:
    """Return the pods except the finished ones of these StatefulSets.

    A StatefulSet's controller deletes its finished pods and creates new ones of the same names.
    """
    sets = {(w.namespace, w.name) for w in workloads if w.kind == "StatefulSet"}
    return [
        pod
        for pod in merged.pods
        if not kube_objects.is_terminal(pod)
        or (owner := kube_objects.controller_of(pod)) is None
        or owner.kind != "StatefulSet"
        or (pod.metadata.namespace or "default", owner.name) not in sets
    ]


def _bare(merged: Snapshot, manifests: Snapshot, problems: list[str], partial: bool) -> set[str]:
    """Add the manifests' pods to ``merged``, and return the keys of the new ones. Existing pods only get their gang."""
    known = {kube_objects.pod_key(pod): i for i, pod in enumerate(merged.pods)}
    added: set[str] = set()
    for pod in manifests.pods:
        i = known.get(kube_objects.pod_key(pod))
        pod = gang_markers.in_part(pod) if partial else pod
        if i is not None:
            stated = {k: v for k, v in (pod.metadata.annotations or {}).items() if k.startswith("kubestow.dev/")}
            merged.pods[i] = gang_markers.annotated(merged.pods[i], stated)
            if kube_objects.is_terminal(merged.pods[i]) or kube_objects.is_terminating(merged.pods[i]):
                merged.warnings.append(
                    located(manifests, pod, "the snapshot's pod of this name is finished or being deleted, so no pod is made")
                )
            continue
        problems += [located(manifests, pod, text) for text in checks.hints(pod.metadata, pod.spec, "metadata")]
        problems += [located(manifests, pod, text) for text in checks.refused_classes(pod.spec, "spec", merged)]
        try:
            spec = admitted(pod.spec, pod.metadata.namespace or "default", merged)
        except NotAdmitted:
            continue
        problems += [
            located(manifests, pod, text)
            for text in checks.unknown_templates(pod.spec, pod.metadata.namespace or "default", "spec", merged)
        ]
        merged.pods.append(_change(pod, spec=spec))
        added.add(kube_objects.pod_key(pod))
    return added


def _limit(workloads: Iterable[WorkloadView]) -> None:
    total = 0
    for workload in workloads:
        total += workloads_replicas.stated_pods(workload)
        if total > MAX_PODS:
            raise InputError([f"{workload.ref}: the workloads ask for more than {MAX_PODS:,} pods, expected fewer"])


def _none(plan: ReplicaPlan) -> tuple[str, ...]:
    return plan.warnings or (("wants 0 pods: no pods are made",) if plan.wanted == 0 else ())


def _surplus(workload: WorkloadView, plan: ReplicaPlan, existing: int, *, stated: bool) -> list[str]:
    """Return a warning if a workload has more pods than it wants. ``stated``: an edit removes the surplus."""
    if existing <= plan.wanted or workload.kind == "DaemonSet" or stated:
        return []
    return [f"has {existing} pods and wants {plan.wanted}: no pods are made or removed"]


def _other_revision(workload: WorkloadView, plan: ReplicaPlan, previous: Any | None, existing: int) -> list[str]:
    if (
        previous is None
        or not existing
        or workload.kind not in ("Deployment", "StatefulSet", "DaemonSet")
        or same_template(workload, previous)
    ):
        return []
    return [f"its pods in the snapshot have another template; they stay, and {len(plan.slots)} pods of the new template are made"]


def _point_out(merged: Snapshot, workloads: list[WorkloadView], bare: set[str]) -> None:
    audience = checks.Audience(merged)
    for workload in workloads:
        sentences = checks.misses(workload.spec, workload.namespace, f"{workload.path}.spec", audience)
        merged.warnings += [f"{workload.ref}: {text}" for text in sentences]
        if workload.spec.nodeName:
            text = f"names node {workload.spec.nodeName}: its pods are not scheduled and count as running there"
            merged.warnings.append(f"{workload.ref}: {workload.path}.spec.nodeName {text}")
    for pod in merged.pods:
        if kube_objects.pod_key(pod) in bare:
            sentences = checks.misses(pod.spec, pod.metadata.namespace or "default", "spec", audience)
            merged.warnings += [f"Pod {kube_objects.pod_key(pod)}: {text}" for text in sentences]
