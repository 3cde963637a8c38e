"""The pods that controllers make from templates, in the form in which the API server would store them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from kubestow.models.admission import namespace_annotations as namespace_admission
from kubestow.models.kube import defaults, objects
from kubestow.models.kube.lenient_decode import shorten
from kubestow.models.kube.workload_objects import Job, PodSet
from kubestow.models.snapshot import interning
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.models.workloads import claims, daemon_sets, limit_ranges, replicas
from kubestow.models.workloads.ownership import OwnedPods, named
from kubestow.models.workloads.replicas import ReplicaPlan, Slot
from kubestow.models.workloads.revisions import Revisions, reference
from kubestow.models.workloads.template import PodNames, minute, template_hash
from kubestow.models.workloads.view import WorkloadView, priority_of

#: plugin/pkg/admission/defaulttolerationseconds: every pod tolerates a short failure of its node.
_TOLERATED_TAINTS: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_PENDING: Final = objects.PodStatus(phase="Pending")
_change = msgspec.structs.replace


class NotAdmitted(Exception):
    """A pod spec names an unknown PriorityClass or RuntimeClass, or contradicts its RuntimeClass."""


def admitted(spec: objects.PodSpec, namespace: str, snapshot: Snapshot) -> objects.PodSpec:
    """Return a pod's spec as stored.

    It has priority, scheduler, tolerations, the requests and limits of LimitRanges, and the additions of its
    namespace and RuntimeClass. Other defaults were applied when it was read.

    Raises:
        NotAdmitted: An unknown PriorityClass or RuntimeClass, or a contradiction to the RuntimeClass.
    """
    priority = priority_of(spec, snapshot)
    if priority is None:
        raise NotAdmitted(f"no PriorityClass {shorten(spec.priorityClassName)} in the input")
    spec = limit_ranges.filled(spec, namespace, snapshot)
    own = list(spec.tolerations or ())
    tolerations = own + [
        objects.Toleration(key, "Exists", None, "NoExecute")
        for key in _TOLERATED_TAINTS
        if not any((not t.key or t.key == key) and t.effect in (None, "", "NoExecute") for t in own)
    ]
    spec = _change(
        spec,
        priority=priority,
        preemptionPolicy=defaults.preemption_policy(spec, snapshot.priority_classes),
        schedulerName=spec.schedulerName or "default-scheduler",
        tolerations=tolerations,
        volumes=interning.mattering(spec.volumes),
    )
    spec = namespace_admission.merged(spec, namespace, snapshot)
    try:
        return defaults.with_runtime_class(spec, snapshot.runtime_classes)
    except defaults.RuntimeClassError as error:
        raise NotAdmitted(f"spec.{error}") from None


class Maker:
    """Makes the missing pods of workloads.

    Attributes:
        snapshot: Receives the pods, and the ReplicaSets and Jobs in between.
        claims: Specs of the claims of StatefulSets' pods, by ``namespace/name``.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.claims: dict[str, objects.PersistentVolumeClaimSpec] = {}
        self._names = PodNames({objects.pod_key(pod) for pod in snapshot.pods})
        self.owners = OwnedPods(snapshot)
        self.revisions = Revisions(snapshot, self.owners)

    def plan(
        self, workload: WorkloadView, existing: Sequence[int], previous: Any | None = None
    ) -> tuple[ReplicaPlan, objects.OwnerReference | None]:
        """Return the missing pods of a workload and their owner.

        Args:
            existing: Indices of the pods of the workload.
            previous: The workload's object in the cluster; None if there is none.
        """
        pods = [self.snapshot.pods[i] for i in existing]
        kind, name, namespace = workload.kind, workload.name, workload.namespace
        if isinstance(workload.obj, PodSet):
            return replicas.pod_set(workload, pods, template_hash(workload.template), lambda n: self._names.is_taken(namespace, n)), None
        owner = reference(workload.obj)
        if kind == "Deployment":
            wanted = replicas.replicas(workload.obj)
            if wanted <= len(pods):
                return ReplicaPlan(wanted), None
            replica_set = self.revisions.replica_set(workload, pods, previous)
            labels = self.revisions.hash_label(replica_set)
            return replicas.replicated(workload, f"{replica_set.metadata.name}-", len(pods), labels), reference(replica_set)
        if kind == "StatefulSet":
            revision = self.revisions.label(workload, pods, previous, f"{name}-")
            return replicas.stateful(workload, pods, revision, lambda n: self._names.is_taken(namespace, n)), owner
        if kind == "DaemonSet":
            revision, snapshot = self.revisions.label(workload, pods, previous, ""), self.snapshot
            return daemon_sets.plan(workload, snapshot.nodes, snapshot.gates, pods, revision), owner
        if kind in ("Job", "CronJob"):
            if replicas.suspended(workload):
                return ReplicaPlan(0, warnings=("is suspended: no pods are made",)), None
            obj: Job = workload.obj if kind == "Job" else self._run(workload)
            run = obj.metadata.name or ""
            finished = [self.snapshot.pods[i] for i in self.owners.finished("Job", namespace, run)]
            return replicas.job(workload, run, obj.status, pods, finished), reference(obj)
        return replicas.replicated(workload, f"{name}-", len(pods)), None if kind == "PodTemplate" else owner

    def fill(self, workload: WorkloadView, slots: Sequence[Slot], owner: objects.OwnerReference | None) -> list[int]:
        """Add the pods of ``slots`` to the snapshot, and return their indices.

        Raises:
            NotAdmitted: The template names an unknown class, or contradicts its RuntimeClass.
        """
        made = self.pods(workload, slots, owner)
        first = len(self.snapshot.pods)
        self.snapshot.pods += made
        return list(range(first, len(self.snapshot.pods)))

    def pods(self, workload: WorkloadView, slots: Sequence[Slot], owner: objects.OwnerReference | None) -> list[objects.Pod]:
        """Return the pods of ``slots`` without adding them to the snapshot.

        Raises:
            NotAdmitted: The template names an unknown class, or contradicts its RuntimeClass.
        """
        spec = admitted(workload.spec, workload.namespace, self.snapshot)
        if workload.kind == "DaemonSet":
            spec.tolerations = daemon_sets.tolerations(spec)
        read = objects.ObjectMeta(annotations=workload.annotations)
        interning.trim(read)
        return [self._pod(workload, slot, spec, read.annotations, owner) for slot in slots]

    def _pod(
        self,
        workload: WorkloadView,
        slot: Slot,
        spec: objects.PodSpec,
        annotations: dict[str, str] | None,
        owner: objects.OwnerReference | None,
    ) -> objects.Pod:
        namespace = workload.namespace
        name = self._names.suffixed(namespace, slot.base) if slot.name is None else self._names.take(namespace, slot.name)
        spec, owner = _change(spec), slot.owner or owner
        if slot.node is not None:
            spec.affinity = daemon_sets.pinned(spec.affinity, slot.node)
        if workload.kind == "StatefulSet":
            claim_templates = claims.templates(workload.obj, name)
            self.claims |= {f"{namespace}/{claim}": wants for claim, _, wants in claim_templates}
            spec.volumes = claims.mounted(spec.volumes, claim_templates)
        metadata = objects.ObjectMeta(
            name=name,
            namespace=namespace,
            labels={**workload.labels, **slot.labels} or None,
            annotations=annotations,
            generateName=slot.base or None,
            ownerReferences=None if owner is None else [owner],
        )
        return objects.Pod(metadata, spec, _PENDING)

    def _run(self, workload: WorkloadView) -> Job:
        """Return the Job of a CronJob's current run, or of its next one."""
        namespace, name = workload.namespace, workload.name
        for child in self.owners.children("CronJob", namespace, name):
            if self.owners.of("Job", namespace, child):
                return named(self.snapshot, "Job", namespace, child) or Job(objects.ObjectMeta(child, namespace), workload.job)
        number = minute(namespace, name)
        while named(self.snapshot, "Job", namespace, f"{name}-{number}") is not None:
            number += 1
        metadata = objects.ObjectMeta(f"{name}-{number}", namespace, workload.labels or None, ownerReferences=[reference(workload.obj)])
        job = Job(metadata, workload.job)
        self.snapshot.workloads.setdefault("Job", []).append(job)
        return job
