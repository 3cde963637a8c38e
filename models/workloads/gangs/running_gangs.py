"""Gangs of running custom workloads, which an eviction disturbs as a whole."""

from __future__ import annotations

from kubestow.models.custom_workloads.table import recreating
from kubestow.models.gangs.markers import GANG, marker
from kubestow.models.kube import objects
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.models.workloads.ownership import OwnedPods, outer_sets
from kubestow.models.workloads.replicas import pod_set
from kubestow.models.workloads.view import view


def disturbed(snapshot: Snapshot) -> list[tuple[str, tuple[int, ...]]]:
    """Return the gangs of several pods whose controllers restart more than one pod if one is evicted.

    The table of workload kinds says which controllers do so. Each gang has a name, ``namespace/name``, and the indices of its
    pods that are neither finished nor being deleted. Pods of one controller are a gang if the snapshot lacks its object. Pods
    with a gang of their own are not in the result.
    """
    gangs: dict[tuple[str, str, str], list[int]] = {}
    known: set[int] = set()
    sets = outer_sets(snapshot)
    owned = OwnedPods(snapshot) if sets else None
    for obj in sets:
        workload = view(obj)
        if workload is None or owned is None:
            continue
        indices = owned.of(workload.kind, workload.namespace, workload.name)
        known.update(indices)
        if obj.spec is not None and obj.spec.evicted == "gang" and indices:
            plan = pod_set(workload, [snapshot.pods[i] for i in indices], "", lambda name: False)
            for i, gang in zip(indices, plan.gangs, strict=True):
                gangs.setdefault((workload.namespace, obj.spec.kind, gang or obj.spec.object), []).append(i)
    for i, pod in enumerate(snapshot.pods):
        owner = objects.controller_of(pod)
        over = objects.is_terminal(pod) or objects.is_terminating(pod)
        if owner is not None and not over and i not in known and recreating(owner) == "gang":
            gangs.setdefault((pod.metadata.namespace or "default", owner.kind, owner.name), []).append(i)
    found = ((f"{namespace}/{name}", [i for i in pods if not _declares(snapshot.pods[i])]) for (namespace, _, name), pods in gangs.items())
    return [(name, tuple(sorted(pods))) for name, pods in found if len(pods) > 1]


def _declares(pod: objects.Pod) -> bool:
    """Return True if a pod says by itself to which gang it belongs, or that it belongs to none."""
    return marker(pod) is not None or GANG in (pod.metadata.annotations or {})
