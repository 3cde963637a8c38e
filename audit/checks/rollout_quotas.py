"""Quotas and LimitRanges on the next rollouts of Deployments, which some rollouts cannot pass."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from kubestow.audit.view.view import ClusterView, Subject
from kubestow.models.cluster import rollout_admission
from kubestow.models.cluster.admission import Admission
from kubestow.models.cluster.rollout_admission import RolloutAdmission
from kubestow.models.kube.objects import Namespace, ObjectMeta, Pod, is_terminating
from kubestow.models.workloads.deployment_rollout import Old, Pace, old_pods
from kubestow.models.workloads.pods import NotAdmitted, admitted
from kubestow.solver.rollout.quota_flow import halts


def refused_by_quotas(view: ClusterView, subjects: Sequence[tuple[Subject, Pace]]) -> set[int]:
    """Return the indices of Deployments that get stuck even if every new pod found a node at once. Terminating pods do not count."""
    return {k for k, admission, old in admissions(view, subjects) if halts(admission, subjects[k][1], old)}


def admissions(view: ClusterView, subjects: Sequence[tuple[Subject, Pace]]) -> Iterator[tuple[int, RolloutAdmission, list[Old]]]:
    """Yield the index of each Deployment whose namespace has quotas or LimitRanges, with their effect on new pods, and its old pods."""
    snapshot = view.snapshot
    limited = {found.metadata.namespace or "default" for found in snapshot.resource_quotas.values()}
    limited |= {found.metadata.namespace or "default" for found in snapshot.limit_ranges.values()}
    if not limited:
        return
    by_namespace: dict[str, list[int]] = {}
    for i, pod in enumerate(snapshot.pods):
        if (pod.metadata.namespace or "default") in limited and not is_terminating(pod):
            by_namespace.setdefault(pod.metadata.namespace or "default", []).append(i)
    # Namespaces without an object are known by their pods, which the partial snapshots below may lack.
    namespaces = {name: Namespace(ObjectMeta(name=name)) for name in {pod.metadata.namespace or "default" for pod in snapshot.pods}}
    namespaces |= snapshot.namespaces
    for k, (subject, _) in enumerate(subjects):
        spec = subject.workload.spec if subject.workload is not None else None
        if subject.namespace not in limited or spec is None:
            continue
        here = by_namespace.get(subject.namespace, [])
        places = {i: place for place, i in enumerate(here)}
        part = replace(snapshot, pods=[snapshot.pods[i] for i in here], namespaces=namespaces)
        try:
            new = Pod(subject.pod.metadata, admitted(spec, subject.namespace, snapshot))
        except NotAdmitted:
            continue
        old, _ = old_pods(part, [places[i] for i in subject.pods if i in places])
        indices = [entry.index for entry in old]
        admission = Admission(part, indices, policy=view.policy, exempt=view.exempt)
        yield k, rollout_admission.read(part, indices, new, admission), old
