"""The effect of applying manifests on the workloads of a cluster."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from kubestow.audit.gate import templates
from kubestow.audit.view.finding import some
from kubestow.models.documents.findings.check import Action
from kubestow.models.kube import kinds
from kubestow.models.kube.objects import Pod, controller_of, pod_key
from kubestow.models.kube.workload_objects import Deployment
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.models.workloads import checks, replicas
from kubestow.models.workloads.checks import held_by_buffers, is_held
from kubestow.models.workloads.expand import made_by_another, owned
from kubestow.models.workloads.ownership import named
from kubestow.models.workloads.view import WorkloadView, labelled, listed, selector, view

#: Kinds whose controllers replace pods when the template changes. Pods of other kinds stay until something else
#: ends them.
_ROLLING: Final = ("Deployment", "StatefulSet", "DaemonSet")


@dataclass(frozen=True)
class WorkloadChange:
    """A workload of the manifests and its change.

    Attributes:
        ref: ``Kind namespace/name``.
        obj: The object in the manifests.
        action: The kind of change.
        refused: Reasons why an API server rejects the object or creates no pods, each with its field first.
        unknown: Parts of the template that the snapshot lacks, so that changes there are not detected.
    """

    ref: str
    obj: Any
    action: Action
    refused: tuple[str, ...] = ()
    unknown: str = ""

    @property
    def kind(self) -> str:
        return self.ref.partition(" ")[0]

    @property
    def namespace(self) -> str:
        return self.obj.metadata.namespace or "default"

    @property
    def name(self) -> str:
        return self.obj.metadata.name or ""

    @property
    def rolls(self) -> bool:
        """True if a Deployment's rolling update or recreation carries out the change."""
        return self.kind == "Deployment" and self.action in ("rolling update", "recreated") and not self.rests

    @property
    def steps(self) -> bool:
        """True if a StatefulSet replaces its pods one by one."""
        return self.kind == "StatefulSet" and self.action == "rolling update" and not self.rests

    @property
    def rests(self) -> str:
        """The reason why the controller replaces no pod although the template changes. Empty if it does replace them."""
        spec = self.obj.spec if self.kind in _ROLLING else None
        if spec is None or self.action not in ("rolling update", "recreated"):
            return ""
        if self.kind == "Deployment":
            return "it is paused, and its pods are replaced only when it is resumed" if spec.paused else ""
        waits = spec.updateStrategy is not None and spec.updateStrategy.type == "OnDelete"
        return "its strategy is OnDelete, and each pod is replaced only when it is deleted" if waits else ""

    @property
    def start(self) -> int:
        """The first ordinal of a StatefulSet."""
        ordinals = self.obj.spec.ordinals if self.kind == "StatefulSet" else None
        return (ordinals.start or 0) if ordinals is not None else 0

    @property
    def first_updated(self) -> int:
        """The lowest ordinal that the update of a StatefulSet replaces (spec.updateStrategy.rollingUpdate.partition)."""
        strategy = self.obj.spec.updateStrategy if self.kind == "StatefulSet" else None
        rolling = strategy.rollingUpdate if strategy is not None else None
        return self.start + ((rolling.partition or 0) if rolling is not None else 0)

    @property
    def replaces(self) -> bool:
        """True if the change replaces every pod of the workload, other than by a simulated rollout."""
        return not self.rolls and not self.steps and not self.rests and self.action in ("rolling update", "recreated", "changed")

    @property
    def renews(self) -> bool:
        """True if the change replaces all pods."""
        return self.rolls or self.steps or self.replaces


def as_applied(snapshot: Snapshot, manifests: Snapshot) -> Snapshot:
    """Return the manifests with the replicas of the cluster where they state none.

    Applying such manifests does not change the number, which an autoscaler may have set.
    """
    found = manifests.copy()
    for kind, objects in manifests.workloads.items():
        for i, obj in enumerate(objects):
            previous = named(snapshot, *_name(obj))
            if f"{kind} {obj.metadata.namespace or 'default'}/{obj.metadata.name}" in manifests.unscaled and previous is not None:
                found.workloads[kind][i] = msgspec.structs.replace(
                    obj, spec=msgspec.structs.replace(obj.spec, replicas=replicas.replicas(previous))
                )
    return found


def put_in_place(merged: Snapshot, manifests: Snapshot) -> None:
    """Replace the specs of budgets, Services and classes in a merged cluster, in place.

    Merging would keep fields that the manifests drop: a budget changed from minAvailable to maxUnavailable would
    have both.
    """
    for kind in ("PodDisruptionBudget", "Service"):
        stated = {_name(obj): obj for obj in manifests.collection(kind)}
        there: list[Any] = merged.collection(kind)
        there[:] = [msgspec.structs.replace(obj, spec=stated[_name(obj)].spec) if _name(obj) in stated else obj for obj in there]
    merged.priority_classes.update(manifests.priority_classes)
    merged.runtime_classes.update(manifests.runtime_classes)


def changes(snapshot: Snapshot, manifests: Snapshot, merged: Snapshot, differing: Collection[str] = ()) -> list[WorkloadChange]:
    """Return the workloads and pods of manifests as changes, in input order.

    Args:
        snapshot: The cluster.
        manifests: The manifests.
        merged: The cluster with the objects of the manifests.
        differing: Workloads whose templates differ in fields that placement does not read
            (:mod:`kubestow.audit.gate.unread_fields`).
    """
    buffer_workloads = held_by_buffers(merged)
    own = [obj for obj in map(labelled, listed(manifests)) if not made_by_another(obj, merged) and not is_held(obj, buffer_workloads)]
    found = [_workload(obj, snapshot, merged, differing) for obj in own]
    there = {pod_key(pod) for pod in snapshot.pods}
    return found + [_pod(pod, pod_key(pod) in there, merged) for pod in manifests.pods]


def _name(obj: Any) -> tuple[str, str, str]:
    return kinds.name_of(obj), obj.metadata.namespace or "default", obj.metadata.name or ""


def _workload(obj: Any, cluster: Snapshot, merged: Snapshot, differing: Collection[str]) -> WorkloadChange:
    kind, namespace, name = _name(obj)
    alike = f"{kind} {namespace}/{name}" not in differing
    previous = named(cluster, kind, namespace, name)
    refused = [*checks.problems(obj, merged)]
    new, old = view(obj), view(labelled(previous)) if previous is not None else None
    action: Action = "new"
    unknown = ""
    if new is not None and old is not None:
        action = _action(new, old, alike=alike)
        if kind == "Deployment" and action in ("unchanged", "scaled") and _under_way(old, cluster):
            action = "rolling update"
        refused += _immutable(new, old, action)
        unknown = templates.unknown(old) if action in ("unchanged", "scaled") else ""
    return WorkloadChange(f"{kind} {namespace}/{name}", obj, action, tuple(refused), unknown)


def _action(new: WorkloadView, old: WorkloadView, *, alike: bool) -> Action:
    if alike and templates.same(new, old):
        return "unchanged" if new.kind == "DaemonSet" or replicas.stated_pods(new) == replicas.stated_pods(old) else "scaled"
    if new.kind not in _ROLLING:
        return "changed"
    strategy = new.obj.spec.strategy if isinstance(new.obj, Deployment) and new.obj.spec is not None else None
    return "recreated" if strategy is not None and strategy.type == "Recreate" else "rolling update"


def _under_way(deployment: WorkloadView, cluster: Snapshot) -> bool:
    """Return True if an earlier rollout is incomplete: some pods belong to a ReplicaSet with another template."""
    for i in owned(cluster, deployment.kind, deployment.namespace, deployment.name):
        owner = controller_of(cluster.pods[i])
        of = (
            view(named(cluster, "ReplicaSet", deployment.namespace, owner.name))
            if owner is not None and owner.kind == "ReplicaSet"
            else None
        )
        if of is not None and not templates.same_revision(deployment, of):
            return True
    return False


def _immutable(new: WorkloadView, old: WorkloadView, action: Action) -> Iterator[str]:
    """Yield problems with immutable fields that change (pkg/apis/{apps,batch}/validation)."""
    if new.kind == "Job" and action == "changed":
        yield f"{new.path}: the template of a Job cannot be changed: delete the Job first"
    if new.kind in ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet") and selector(new.obj) != selector(old.obj):
        yield f"spec.selector: cannot be changed: delete the {new.kind} first"
    if new.kind == "StatefulSet" and new.obj.spec.podManagementPolicy != old.obj.spec.podManagementPolicy:
        was, now = (each.obj.spec.podManagementPolicy or "OrderedReady" for each in (old, new))
        if was != now:
            yield f"spec.podManagementPolicy: cannot be changed from {was} to {now}: delete the StatefulSet first"


def _pod(pod: Pod, there: bool, merged: Snapshot) -> WorkloadChange:
    namespace = pod.metadata.namespace or "default"
    refused = [*checks.hints(pod.metadata, pod.spec, "metadata"), *checks.unknown_templates(pod.spec, namespace, "spec", merged)]
    refused += checks.refused_classes(pod.spec, "spec", merged)
    return WorkloadChange(f"Pod {pod_key(pod)}", pod, "unchanged" if there else "new", tuple(refused))


def not_compared(found: Sequence[WorkloadChange]) -> list[str]:
    """Return a note for each part of templates that the snapshot lacks, so that a change is not detected."""
    lacking: dict[str, list[str]] = {}
    for change in found:
        if change.unknown:
            lacking.setdefault(change.unknown, []).append(change.ref)
    return [f"the snapshot lacks {what} of {some(refs)}: changes there are not detected" for what, refs in lacking.items()]


def placeable(manifests: Snapshot, left_out: Sequence[WorkloadChange]) -> Snapshot:
    """Return the manifests without the given workloads and pods."""
    names = {change.ref for change in left_out}
    found = manifests.copy()
    found.pods = [pod for pod in found.pods if f"Pod {pod_key(pod)}" not in names]
    for kind, objects in found.workloads.items():
        found.workloads[kind] = [obj for obj in objects if "{} {}/{}".format(*_name(obj)) not in names]
    return found
