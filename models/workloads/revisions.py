"""Revisions of a workload's template: the ReplicaSet of a Deployment, a label for other kinds.

Source: pkg/controller/deployment/util (FindNewReplicaSet, EqualIgnoreHash) and deployment/sync.go
(getNewReplicaSet).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from kubestow.models.kube import objects
from kubestow.models.kube.workload_objects import ReplicaSet, WorkloadSpec
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.models.workloads.ownership import HASH, OwnedPods
from kubestow.models.workloads.template import fingerprint, template_hash
from kubestow.models.workloads.view import WorkloadView

_REVISION: Final = "controller-revision-hash"
_API: Final = {"Job": "batch/v1", "CronJob": "batch/v1", "ReplicationController": "v1"}
_change = msgspec.structs.replace


def reference(obj: Any) -> objects.OwnerReference:
    """Return the owner reference to ``obj`` in the objects that it controls."""
    kind = type(obj).__name__
    return objects.OwnerReference(kind, obj.metadata.name, _API.get(kind, "apps/v1"), obj.metadata.uid, True)


def same_template(workload: WorkloadView, other: Any | None) -> bool:
    """Return True if another object of the workload's kind has the same template in the fields that placement reads."""
    template = other.spec.template if other is not None and other.spec is not None else None
    return template is not None and fingerprint(template) == fingerprint(workload.template)


class Revisions:
    """Finds the revisions in a snapshot, and adds ReplicaSets to it."""

    def __init__(self, snapshot: Snapshot, owners: OwnedPods) -> None:
        self._snapshot = snapshot
        self._owners = owners

    def label(self, workload: WorkloadView, pods: Sequence[objects.Pod], previous: Any | None, prefix: str) -> str:
        """Return the value of controller-revision-hash for new pods of a workload.

        It is that of ``pods`` if ``previous``, the workload's object in the cluster, has the same template.
        """
        known = [label for pod in pods if (label := (pod.metadata.labels or {}).get(_REVISION))]
        if known and same_template(workload, previous):
            return max(sorted(set(known)), key=known.count)
        return prefix + template_hash(workload.template)

    def hash_label(self, replica_set: ReplicaSet) -> dict[str, str]:
        """Return the pod-template-hash that a Deployment's ReplicaSet gives its pods."""
        template = replica_set.spec.template if replica_set.spec is not None else None
        labels = (
            (template.metadata.labels if template is not None and template.metadata is not None else None)
            or replica_set.metadata.labels
            or {}
        )
        owner = objects.controller_of(replica_set)
        guess = (replica_set.metadata.name or "").removeprefix(f"{owner.name}-" if owner is not None else "")
        return {HASH: labels.get(HASH, guess)}

    def replica_set(self, workload: WorkloadView, pods: Sequence[objects.Pod], previous: Any | None) -> ReplicaSet:
        """Return the ReplicaSet of a Deployment's template; add one if the cluster has none.

        Among several with this template, the one with most of ``pods`` wins, then the newest. If the snapshot
        lacks the ReplicaSets of running pods, and nothing indicates a different template, the new pods join
        theirs.
        """
        children = self._owners.children("Deployment", workload.namespace, workload.name)
        sets = [rs for rs in self._sets(workload.namespace) if rs.metadata.name in children]
        running = [owner.name for pod in pods if (owner := objects.controller_of(pod)) is not None]
        same = [rs for rs in sets if same_template(workload, rs)]
        if same:
            return max(
                same, key=lambda rs: (running.count(rs.metadata.name or ""), rs.metadata.creationTimestamp or "", rs.metadata.name or "")
            )
        guessed = [name for name in running if name.startswith(f"{workload.name}-")]
        if not sets and guessed and (previous is None or same_template(workload, previous)):
            name = max(sorted(set(guessed)), key=guessed.count)
            return self._add(_replica_set(workload, name.removeprefix(f"{workload.name}-")))
        return self.new(workload)

    def new(self, workload: WorkloadView) -> ReplicaSet:
        """Add a ReplicaSet with an unused hash for a Deployment's template to the snapshot, and return it."""
        used = {rs.metadata.name for rs in self._sets(workload.namespace)}
        used |= set(self._owners.children("Deployment", workload.namespace, workload.name))
        salt = 0
        while f"{workload.name}-{template_hash(workload.template, salt)}" in used:
            salt += 1
        return self._add(_replica_set(workload, template_hash(workload.template, salt)))

    def _sets(self, namespace: str) -> list[ReplicaSet]:
        return [rs for rs in self._snapshot.workloads.get("ReplicaSet", ()) if (rs.metadata.namespace or "default") == namespace]

    def _add(self, replica_set: ReplicaSet) -> ReplicaSet:
        self._snapshot.workloads.setdefault("ReplicaSet", []).append(replica_set)
        return replica_set


def _replica_set(workload: WorkloadView, label: str) -> ReplicaSet:
    deployment = workload.obj
    selector = deployment.spec.selector or objects.LabelSelector()
    labels = {**workload.labels, HASH: label}
    template = _change(workload.template, metadata=_change(workload.template.metadata or objects.ObjectMeta(), labels=labels))
    spec = WorkloadSpec(
        replicas=deployment.spec.replicas,
        selector=_change(selector, matchLabels={**(selector.matchLabels or {}), HASH: label}),
        template=template,
    )
    metadata = objects.ObjectMeta(f"{workload.name}-{label}", workload.namespace, labels, ownerReferences=[reference(deployment)])
    return ReplicaSet(metadata, spec)
