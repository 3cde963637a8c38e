"""Which held pods may go: alone, or with their gang once it is all there."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

from kubestow.live.api.answers import Object
from kubestow.live.gates.crews import Cluster, Crew, asked_for, crews
from kubestow.live.gates.fitting import Release
from kubestow.models.execution.template_nodes import TemplateNodes


@dataclass
class Ready:
    """Held pods by what they wait for.

    Attributes:
        alone: Pods that go one by one.
        together: Pods of gangs that are all there.
        beyond: Pods that no node is planned for, of no gang or of one that was let go.
        extra: Such pods of gangs that are held: they go once their gang has gone, which would else count as let go.
        waiting: Gangs that are not all there, a sentence each, by name.
        gangs: The members of each gang, by name.
    """

    alone: list[Release] = field(default_factory=list)
    together: list[Release] = field(default_factory=list)
    beyond: list[Object] = field(default_factory=list)
    extra: list[Object] = field(default_factory=list)
    waiting: dict[str, str] = field(default_factory=dict)
    gangs: dict[str, list[Crew]] = field(default_factory=dict)


def ready(cluster: Cluster, templates: Sequence[TemplateNodes]) -> Ready:
    """Return what may go now. A gang of which members are beyond the gate was let go, and what comes later joins it one by one; a
    StatefulSet that waits for each pod to be ready is no gang."""
    found = Ready()
    for gang, members in _groups(cluster, templates):
        missing = {node for crew in members for node in crew.template.nodes if cluster.named("Node", node) is None}
        going = [release for crew in members for release in _releases(crew, gang, missing)]
        stands = not gang or _stands(cluster, members)
        (found.beyond if stands else found.extra).extend(pod for crew in members for pod, node in crew.chosen() if node is None)
        if gang:
            found.gangs[gang] = members
        if stands:
            found.alone += [replace(release, group=release.pod["metadata"]["uid"]) for release in going]
        elif all(is_there(cluster, crew) for crew in members):
            found.together += going
        elif going:
            counts = ", ".join(f"{crew.template.ref} {len(crew.pods)} of {asked_for(cluster, crew.template)}" for crew in members)
            found.waiting[gang] = f"gang {gang} is not all there: {counts}"
    return found


def is_there(cluster: Cluster, crew: Crew) -> bool:
    """Return whether a crew has all the pods that are planned."""
    return len(crew.pods) + crew.over >= asked_for(cluster, crew.template)


def _groups(cluster: Cluster, templates: Sequence[TemplateNodes]) -> list[tuple[str, list[Crew]]]:
    """Return crews that go together or not at all, with the name of the gang; others with none. Each run of a CronJob is by itself; of
    other workloads the newest crew counts, as the older ones are on their way out."""
    found: list[tuple[str, list[Crew]]] = []
    gangs: dict[str, list[Crew]] = {}
    for template in templates:
        there = crews(cluster, template)
        gang = "" if template.gang is None or template.one_by_one else template.gang
        if template.kind == "CronJob":
            found += [(gang and f"{gang} {crew.owner}", [crew]) for crew in there]
        elif gang:
            gangs.setdefault(gang, []).extend(there[-1:] or [Crew(template, "", [])])
        else:
            found += [("", [crew]) for crew in there[-1:]]
    return [*found, *gangs.items()]


def _stands(cluster: Cluster, members: Sequence[Crew]) -> bool:
    """Return whether any member is beyond the gate, those of older crews included: a workload that is rolled out gets its new pods a few at
    a time."""
    found = [each for crew in members for each in ([crew] if crew.template.kind == "CronJob" else crews(cluster, crew.template))]
    return any(each.over or len(each.pods) > len(each.held) for each in found)


def _releases(crew: Crew, gang: str, missing: Collection[str]) -> list[Release]:
    orders: dict[str, list[int]] = {}
    for assignment in reversed(crew.template.assignments):
        key = assignment.pod.rpartition("/")[2] if crew.template.by_name else assignment.node
        orders.setdefault(key, []).append(assignment.order)
    last = max((assignment.order for assignment in crew.template.assignments), default=0)
    found = []
    for pod, node in crew.chosen(missing):
        if node is not None:
            known = orders.get(pod["metadata"]["name"] if crew.template.by_name else node)
            found.append(Release(crew.template, pod, node, gang, known.pop() if known else last + 1))
    return found
