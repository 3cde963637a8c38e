"""Deployments whose next rollout is refused new pods by quotas or LimitRanges, told without a search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from audit.view.view import ClusterView, Subject
from models.cluster import rollout_admission
from models.kube.objects import Pod, is_terminating
from models.workloads.deployment_rollout import Pace, old_pods
from models.workloads.pods import UnknownClass, admitted
from solver.rollout.quota_flow import halts


def refused_by_quotas(view: ClusterView, subjects: Sequence[tuple[Subject, Pace]]) -> set[int]:
    """Return the places of Deployments that get no further where every new pod has a node at once. Pods that are being deleted are gone."""
    snapshot = view.snapshot
    limited = {found.metadata.namespace or "default" for found in snapshot.resource_quotas.values()}
    limited |= {found.metadata.namespace or "default" for found in snapshot.limit_ranges.values()}
    if not limited:
        return set()
    by_namespace: dict[str, list[int]] = {}
    for i, pod in enumerate(snapshot.pods):
        if (pod.metadata.namespace or "default") in limited and not is_terminating(pod):
            by_namespace.setdefault(pod.metadata.namespace or "default", []).append(i)
    found = set()
    for k, (subject, pace) in enumerate(subjects):
        spec = subject.workload.spec if subject.workload is not None else None
        if subject.namespace not in limited or spec is None:
            continue
        here = by_namespace.get(subject.namespace, [])
        places = {i: place for place, i in enumerate(here)}
        part = replace(snapshot, pods=[snapshot.pods[i] for i in here])
        try:
            new = Pod(subject.pod.metadata, admitted(spec, subject.namespace, snapshot))
        except UnknownClass:
            continue
        old, _ = old_pods(part, [places[i] for i in subject.pods if i in places])
        if halts(rollout_admission.read(part, [entry.index for entry in old], new, ()), pace, old):
            found.add(k)
    return found
