"""Workloads whose pods are not even created, so that no scheduler and no pending pod tells of them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Final

from kubestow.audit.view.finding import Code, some
from kubestow.audit.view.usable_nodes import grave
from kubestow.audit.view.view import ClusterView, Subject
from kubestow.models.cluster.admission import Admission
from kubestow.models.documents.findings.audit import Finding
from kubestow.models.kube.objects import PodCondition, controller_of, is_terminating
from kubestow.models.kube.workload_objects import Deployment, ReplicaSet
from kubestow.models.workloads.ownership import Owners

ACCOUNT: Final = Code(
    "KS227", "service-account-missing", "error",
    "It names a ServiceAccount that does not exist",
    "The API server refuses to create its pods: there is nothing that could be pending.",
    "Create the ServiceAccount, or correct spec.serviceAccountName.",
)  # fmt: skip
FAILED: Final = Code(
    "KS521", "pods-not-created", "error",
    "A workload has fewer pods than it asks for, and none of them is pending",
    "Its controller could not create them (a quota, a ServiceAccount, an admission webhook), or does not work: no scheduler sees what is"
    " missing.",
    "See the events of its ReplicaSet (kubectl describe), and mend what refuses the pods; the controller tries again by itself.",
)  # fmt: skip
CODES: Final[tuple[Code, ...]] = (ACCOUNT, FAILED)


def check(view: ClusterView) -> Iterator[Finding]:
    accounts = view.snapshot.service_accounts
    short = _Short(view)
    for subject in view.subjects:
        name, space = subject.pod.spec.serviceAccountName, subject.namespace
        # Every namespace of a cluster has the account called default: without it, they were not captured.
        if name and f"{space}/default" in accounts and f"{space}/{name}" not in accounts:
            yield ACCOUNT.found(
                subject.name, f"there is no ServiceAccount {space}/{name}", field=f"{subject.path}.serviceAccountName",
                severity=grave(view, subject) if view.snapshot.nodes else None,
            )  # fmt: skip
        if subject.workload is not None and isinstance(subject.workload.obj, Deployment | ReplicaSet):
            yield from short.findings(subject, subject.workload.obj)


class _Short:
    """Workloads that have fewer pods than they ask for, by the API server's own account and by the snapshot."""

    def __init__(self, view: ClusterView) -> None:
        self._view = view
        self._sets: dict[tuple[str, str], list[ReplicaSet]] = {}
        for obj in view.snapshot.workloads.get("ReplicaSet", ()):
            owner = controller_of(obj)
            if owner is not None:
                self._sets.setdefault((obj.metadata.namespace or "default", owner.name), []).append(obj)

    @cached_property
    def _leaving(self) -> set[str]:
        """Workloads with pods that are being deleted, whose place others may wait for."""
        owners = Owners(self._view.snapshot)
        return {owners.of(pod) for pod in self._view.snapshot.pods if is_terminating(pod)}

    @cached_property
    def _admission(self) -> Admission:
        return Admission(self._view.snapshot, policy=self._view.policy, exempt=self._view.exempt)

    def findings(self, subject: Subject, obj: Deployment | ReplicaSet) -> Iterator[Finding]:
        status = obj.status
        there = max(len(subject.pods), (status.replicas or 0) if status is not None else 0)
        if status is None or there >= subject.wanted or getattr(obj.spec, "paused", None):
            return
        sets = self._sets.get((subject.namespace, obj.metadata.name or ""), []) if isinstance(obj, Deployment) else []
        failed = [c for each in (status, *(rs.status for rs in sets)) if each is not None for c in each.conditions or () if _refused(c)]
        if not failed and (obj.metadata.deletionTimestamp or subject.name in self._leaving):
            return
        refused = self._admission.refusal(subject.pod)
        why = f"one more cannot be created: {refused[1]} ({refused[0]})" if refused else "the snapshot does not tell why"
        if failed:
            reasons = list(dict.fromkeys(c.reason or "no reason given" for c in failed))
            why = f"creating more fails (ReplicaFailure: {some(reasons)}{f'; {refused[1]}' if refused else ''})"
        yield FAILED.found(
            subject.name, f"has {there} of {subject.wanted} pods, and {why}", field="status.conditions" if failed else "status.replicas",
            pods=self._view.keys(subject.pods), severity=None if failed or refused else "warning",
        )  # fmt: skip


def _refused(condition: PodCondition) -> bool:
    return condition.type == "ReplicaFailure" and condition.status == "True"
