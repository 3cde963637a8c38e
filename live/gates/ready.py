"""Held pods that may be released: alone, or with their complete gang."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

from kubestow.live.api.answers import Object
from kubestow.live.gates.fitting import Release
from kubestow.live.gates.replica_groups import ReplicaGroup, ReplicaReader, asked_for, replica_groups
from kubestow.models.execution.template_nodes import TemplateNodes


@dataclass
class Ready:
    """Held pods by the condition for their release.

    Attributes:
        alone: Pods that are released one by one.
        together: Pods of complete gangs.
        beyond: Pods without a planned node, of no gang or of a released gang.
        extra: Pods without a planned node of a held gang. They follow their gang, which would otherwise count as released.
        waiting: A sentence for each incomplete gang, by name.
        gangs: The members of each gang, by name.
    """

    alone: list[Release] = field(default_factory=list)
    together: list[Release] = field(default_factory=list)
    beyond: list[Object] = field(default_factory=list)
    extra: list[Object] = field(default_factory=list)
    waiting: dict[str, str] = field(default_factory=dict)
    gangs: dict[str, list[ReplicaGroup]] = field(default_factory=dict)


def ready(cluster: ReplicaReader, templates: Sequence[TemplateNodes]) -> Ready:
    """Return the held pods by their condition.

    A gang with a member beyond the gate has been released, and later pods join it one by one. A StatefulSet that waits for each pod to be
    ready is not a gang.
    """
    found = Ready()
    for gang, members in _groups(cluster, templates):
        missing = {node for replicas in members for node in replicas.template.nodes if cluster.named("Node", node) is None}
        going = [release for replicas in members for release in _releases(replicas, gang, missing)]
        stands = not gang or _stands(cluster, members)
        (found.beyond if stands else found.extra).extend(pod for replicas in members for pod, node in replicas.chosen() if node is None)
        if gang:
            found.gangs[gang] = members
        if stands:
            found.alone += [replace(release, group=release.pod["metadata"]["uid"]) for release in going]
        elif all(is_there(cluster, replicas) for replicas in members):
            found.together += going
        elif going:
            counts = ", ".join(
                f"{replicas.template.ref} {len(replicas.pods)} of {asked_for(cluster, replicas.template)}" for replicas in members
            )
            found.waiting[gang] = f"gang {gang} is not all there: {counts}"
    return found


def is_there(cluster: ReplicaReader, replicas: ReplicaGroup) -> bool:
    """Return True if a group has all planned pods."""
    return len(replicas.pods) + replicas.over >= asked_for(cluster, replicas.template)


def _groups(cluster: ReplicaReader, templates: Sequence[TemplateNodes]) -> list[tuple[str, list[ReplicaGroup]]]:
    """Return the pods that are released together, with the name of their gang (empty without one).

    Each run of a CronJob is a gang of its own. For other workloads only the newest group counts, because older ones are being replaced.
    """
    found: list[tuple[str, list[ReplicaGroup]]] = []
    gangs: dict[str, list[ReplicaGroup]] = {}
    for template in templates:
        there = replica_groups(cluster, template)
        gang = "" if template.gang is None or template.one_by_one else template.gang
        if template.kind == "CronJob":
            found += [(gang and f"{gang} {replicas.owner}", [replicas]) for replicas in there]
        elif gang:
            gangs.setdefault(gang, []).extend(there[-1:] or [ReplicaGroup(template, "", [])])
        else:
            found += [("", [replicas]) for replicas in there[-1:]]
    return [*found, *gangs.items()]


def _stands(cluster: ReplicaReader, members: Sequence[ReplicaGroup]) -> bool:
    """Return True if any member is beyond the gate. Older groups count, because a rollout creates its new pods a few at a time."""
    found = [
        each
        for replicas in members
        for each in ([replicas] if replicas.template.kind == "CronJob" else replica_groups(cluster, replicas.template))
    ]
    return any(each.over or len(each.pods) > len(each.gated) for each in found)


def _releases(replicas: ReplicaGroup, gang: str, missing: Collection[str]) -> list[Release]:
    orders: dict[str, list[int]] = {}
    for assignment in reversed(replicas.template.assignments):
        key = assignment.pod.rpartition("/")[2] if replicas.template.by_name else assignment.node
        orders.setdefault(key, []).append(assignment.order)
    last = max((assignment.order for assignment in replicas.template.assignments), default=0)
    found = []
    for pod, node in replicas.chosen(missing):
        if node is not None:
            known = orders.get(pod["metadata"]["name"] if replicas.template.by_name else node)
            found.append(Release(replicas.template, pod, node, gang, known.pop() if known else last + 1))
    return found
