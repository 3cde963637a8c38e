"""Workloads whose pods are not created, so that neither the scheduler nor a pending pod shows the problem."""

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
from kubestow.models.workloads.ownership import PodOwners

ACCOUNT: Final = Code(
    "KS227", "service-account-missing", "error",
    "A workload uses a ServiceAccount that does not exist",
    "The API server refuses to create its pods, so there is not even a pending pod.",
    "Create the ServiceAccount, or correct spec.serviceAccountName.",
)  # fmt: skip
FAILED: Final = Code(
    "KS521", "pods-not-created", "error",
    "A workload has fewer pods than desired, and the missing pods were never created",
    "Its controller does not work, or could not create the pods because of a quota, a ServiceAccount or an admission webhook. The"
    " scheduler does not see missing pods.",
    "Read the events of its ReplicaSet (kubectl describe) and remove the cause. The controller then retries without further action.",
)  # fmt: skip
CODES: Final[tuple[Code, ...]] = (ACCOUNT, FAILED)


def check(view: ClusterView) -> Iterator[Finding]:
    accounts = view.snapshot.service_accounts
    short = _Short(view)
    for subject in view.subjects:
        name, space = subject.pod.spec.serviceAccountName, subject.namespace
        # Every namespace has an account named default. If it is missing, service accounts were not captured.
        if name and f"{space}/default" in accounts and f"{space}/{name}" not in accounts:
            yield ACCOUNT.found(
                subject.name, f"there is no ServiceAccount {space}/{name}", field=f"{subject.path}.serviceAccountName",
                severity=grave(view, subject) if view.snapshot.nodes else None,
            )  # fmt: skip
        if subject.workload is not None and isinstance(subject.workload.obj, Deployment | ReplicaSet):
            yield from short.findings(subject, subject.workload.obj)


class _Short:
    """Workloads with fewer pods than desired, both in their status and in the snapshot."""

    def __init__(self, view: ClusterView) -> None:
        self._view = view
        self._sets: dict[tuple[str, str], list[ReplicaSet]] = {}
        for obj in view.snapshot.workloads.get("ReplicaSet", ()):
            owner = controller_of(obj)
            if owner is not None:
                self._sets.setdefault((obj.metadata.namespace or "default", owner.name), []).append(obj)

    @cached_property
    def _leaving(self) -> set[str]:
        """Workloads with terminating pods, whose room other pods may be waiting for."""
        owners = PodOwners(self._view.snapshot)
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
        why = f"one more cannot be created: {refused[1]} ({refused[0]})" if refused else "the snapshot does not show why"
        if failed:
            reasons = list(dict.fromkeys(c.reason or "no reason given" for c in failed))
            why = f"creating more fails (ReplicaFailure: {some(reasons)}{f'; {refused[1]}' if refused else ''})"
        yield FAILED.found(
            subject.name, f"has {there} of {subject.wanted} pods, and {why}", field="status.conditions" if failed else "status.replicas",
            pods=self._view.keys(subject.pods), severity=None if failed or refused else "warning",
        )  # fmt: skip


def _refused(condition: PodCondition) -> bool:
    return condition.type == "ReplicaFailure" and condition.status == "True"
