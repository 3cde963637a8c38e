"""What applying manifests does to the workloads of a cluster."""

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
from kubestow.models.workloads.view import Workload, labelled, listed, selector, view

#: Kinds whose controllers replace pods when the template changes; those of others stay until something else ends them.
_ROLLING: Final = ("Deployment", "StatefulSet", "DaemonSet")


@dataclass(frozen=True)
class Change:
    """A workload of the manifests. ``ref``: ``Kind namespace/name``; ``obj``: as the manifests have it; ``refused``: why no API server
    takes it, or makes no pods of it, with the field in front; ``unknown``: what of its template the cluster's snapshot lacks, so that a
    change of it is not seen."""

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
        """Return whether a Deployment's rollout brings it about."""
        return self.kind == "Deployment" and self.action in ("rolling update", "recreated") and not self.rests

    @property
    def steps(self) -> bool:
        """Return whether a StatefulSet's pods are replaced one by one."""
        return self.kind == "StatefulSet" and self.action == "rolling update" and not self.rests

    @property
    def rests(self) -> str:
        """Return why the controller replaces no pod although the template changes; empty if it does."""
        spec = self.obj.spec if self.kind in _ROLLING else None
        if spec is None or self.action not in ("rolling update", "recreated"):
            return ""
        if self.kind == "Deployment":
            return "it is paused, and its pods are replaced only when it is resumed" if spec.paused else ""
        waits = spec.updateStrategy is not None and spec.updateStrategy.type == "OnDelete"
        return "its strategy is OnDelete, and each pod is replaced only when it is deleted" if waits else ""

    @property
    def start(self) -> int:
        """Return the first ordinal of a StatefulSet."""
        ordinals = self.obj.spec.ordinals if self.kind == "StatefulSet" else None
        return (ordinals.start or 0) if ordinals is not None else 0

    @property
    def first_updated(self) -> int:
        """Return the least ordinal of a StatefulSet that its update replaces (spec.updateStrategy.rollingUpdate.partition)."""
        strategy = self.obj.spec.updateStrategy if self.kind == "StatefulSet" else None
        rolling = strategy.rollingUpdate if strategy is not None else None
        return self.start + ((rolling.partition or 0) if rolling is not None else 0)

    @property
    def replaces(self) -> bool:
        """Return whether all of its pods are made anew otherwise."""
        return not self.rolls and not self.steps and not self.rests and self.action in ("rolling update", "recreated", "changed")

    @property
    def renews(self) -> bool:
        """Return whether none of its pods stays."""
        return self.rolls or self.steps or self.replaces


def as_applied(snapshot: Snapshot, manifests: Snapshot) -> Snapshot:
    """Return the manifests with the replicas of the cluster where they state none: applying them leaves that number to whoever set it,
    an autoscaler say."""
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
    """Have what manifests leave out of budgets, Services and classes gone from a merged cluster (changed), where merging keeps it: a budget
    that states minAvailable now states maxUnavailable no more."""
    for kind in ("PodDisruptionBudget", "Service"):
        stated = {_name(obj): obj for obj in manifests.collection(kind)}
        there: list[Any] = merged.collection(kind)
        there[:] = [msgspec.structs.replace(obj, spec=stated[_name(obj)].spec) if _name(obj) in stated else obj for obj in there]
    merged.priority_classes.update(manifests.priority_classes)
    merged.runtime_classes.update(manifests.runtime_classes)


def changes(snapshot: Snapshot, manifests: Snapshot, merged: Snapshot, differing: Collection[str] = ()) -> list[Change]:
    """Return the workloads and pods of manifests, in the order of the input.

    Args:
        merged: The cluster with the manifests' objects.
        differing: Workloads whose templates differ in fields that placement does not read (:mod:`kubestow.audit.gate.unread_fields`).
    """
    held = held_by_buffers(merged)
    own = [obj for obj in map(labelled, listed(manifests)) if not made_by_another(obj, merged) and not is_held(obj, held)]
    found = [_workload(obj, snapshot, merged, differing) for obj in own]
    there = {pod_key(pod) for pod in snapshot.pods}
    return found + [_pod(pod, pod_key(pod) in there, merged) for pod in manifests.pods]


def _name(obj: Any) -> tuple[str, str, str]:
    return type(obj).__name__, obj.metadata.namespace or "default", obj.metadata.name or ""


def _workload(obj: Any, cluster: Snapshot, merged: Snapshot, differing: Collection[str]) -> Change:
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
    return Change(f"{kind} {namespace}/{name}", obj, action, tuple(refused), unknown)


def _action(new: Workload, old: Workload, *, alike: bool) -> Action:
    if alike and templates.same(new, old):
        return "unchanged" if new.kind == "DaemonSet" or replicas.asked(new) == replicas.asked(old) else "scaled"
    if new.kind not in _ROLLING:
        return "changed"
    strategy = new.obj.spec.strategy if isinstance(new.obj, Deployment) and new.obj.spec is not None else None
    return "recreated" if strategy is not None and strategy.type == "Recreate" else "rolling update"


def _under_way(deployment: Workload, cluster: Snapshot) -> bool:
    """Return whether pods of a Deployment are of a ReplicaSet with another template: an earlier rollout is not through."""
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


def _immutable(new: Workload, old: Workload, action: Action) -> Iterator[str]:
    """Return fields that an API server lets nobody change (pkg/apis/{apps,batch}/validation)."""
    if new.kind == "Job" and action == "changed":
        yield f"{new.path}: the template of a Job cannot be changed: delete the Job first"
    if new.kind in ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet") and selector(new.obj) != selector(old.obj):
        yield f"spec.selector: cannot be changed: delete the {new.kind} first"
    if new.kind == "StatefulSet" and new.obj.spec.podManagementPolicy != old.obj.spec.podManagementPolicy:
        was, now = (each.obj.spec.podManagementPolicy or "OrderedReady" for each in (old, new))
        if was != now:
            yield f"spec.podManagementPolicy: cannot be changed from {was} to {now}: delete the StatefulSet first"


def _pod(pod: Pod, there: bool, merged: Snapshot) -> Change:
    namespace = pod.metadata.namespace or "default"
    refused = [*checks.hints(pod.metadata, pod.spec, "metadata"), *checks.unknown_templates(pod.spec, namespace, "spec", merged)]
    refused += checks.refused_classes(pod.spec, "spec", merged)
    return Change(f"Pod {pod_key(pod)}", pod, "unchanged" if there else "new", tuple(refused))


def not_compared(found: Sequence[Change]) -> list[str]:
    """Return a sentence for each thing that the snapshot lacks of templates which count as unchanged."""
    lacking: dict[str, list[str]] = {}
    for change in found:
        if change.unknown:
            lacking.setdefault(change.unknown, []).append(change.ref)
    return [f"the snapshot lacks {what} of {some(refs)}: a change of them is not seen" for what, refs in lacking.items()]


def placeable(manifests: Snapshot, left_out: Sequence[Change]) -> Snapshot:
    """Return the manifests without these workloads and pods."""
    names = {change.ref for change in left_out}
    found = manifests.copy()
    found.pods = [pod for pod in found.pods if f"Pod {pod_key(pod)}" not in names]
    for kind in kinds.WORKLOADS:
        if kind in found.workloads:
            found.workloads[kind] = [obj for obj in found.workloads[kind] if "{} {}/{}".format(*_name(obj)) not in names]
    return found
