"""Whether the cluster as it is takes held pods on their nodes, by the word of the independent checker."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Self

import msgspec

from kubestow.live.api.answers import Object
from kubestow.live.apply.drift import Rejection
from kubestow.live.gates.crews import Cluster, asked_for, crews
from kubestow.live.gates.held import is_held, is_waiting, key_of, node_of
from kubestow.models.documents.placement import Assignment, Placement
from kubestow.models.execution.scheduler_needed import devices_wanted, scheduler_needed
from kubestow.models.execution.template_nodes import TemplateNodes
from kubestow.models.gangs.gangs import GANG, MIN_MEMBER
from kubestow.models.gangs.markers import marker
from kubestow.models.kube.closed_nodes import CLOSED_BY
from kubestow.models.kube.objects import Pod, pod_key
from kubestow.models.snapshot.snapshot import Snapshot

#: Replays what is left of a placement on a snapshot.
Judge = Callable[[Snapshot, Placement], Sequence[Rejection]]


@dataclass(frozen=True)
class Release:
    """A held pod and the node that it is to get. ``group``: what goes together or not at all; ``order``: its place in the bind order."""

    template: TemplateNodes
    pod: Object
    node: str
    group: str
    order: int

    @property
    def key(self) -> str:
        """Return ``namespace/name`` of the pod."""
        return key_of(self.pod)


@dataclass
class Fitting:
    """One look at the cluster, by :meth:`look`. ``why``: by group what is in the way, after :meth:`accepted`."""

    cluster: Cluster
    placement: Placement
    templates: Sequence[TemplateNodes]
    judge: Judge
    snapshot: Snapshot = field(default_factory=Snapshot)
    why: dict[str, str] = field(default_factory=dict)
    _pods: dict[str, Pod] = field(default_factory=dict)

    async def look(self) -> Self:
        """Take the cluster's state of this moment.

        Raises:
            InputError: the cluster holds what no snapshot may.
        """
        given, marks = self._given()  # of the same moment as what is read next
        seen = (await self.cluster.read_snapshot()).copy()
        seen.pods = [_as_given(pod, given.get(pod_key(pod)), marks.get(pod_key(pod))) for pod in seen.pods]
        self.snapshot, self._pods = seen, {pod_key(pod): pod for pod in seen.pods}
        return self

    def accepted(self, asked: Sequence[Release]) -> list[Release]:
        """Return those that fit all together; a group of which one pod does not fit stays behind."""
        left = [release for release in asked if not self._closed(release)]
        left = [release for release in left if release.group not in self.why]
        while left:
            faults = list(self.judge(self.snapshot, self._document(left)))
            if not faults:
                return left
            group_of = {release.key: release.group for release in left}
            refused = {group_of[fault.pod]: fault.message for fault in faults if fault.pod in group_of}
            if not refused:
                refused = dict.fromkeys(group_of.values(), faults[0].message)
            self.why |= refused
            left = [release for release in left if release.group not in refused]
        return []

    def together(self, release: Release, others: Sequence[Release]) -> bool:
        """Return whether a pod shares its place in the bind order: no scheduler, which takes one pod at a time, would place these."""
        return any(other is not release and other.order == release.order and other.group == release.group for other in others)

    def needs_scheduler(self, release: Release) -> bool:
        """Return whether a Binding would strand the pod."""
        pod = self._pods.get(release.key)
        return pod is None or scheduler_needed(pod, self.snapshot) is not None

    def in_turn(self, accepted: Sequence[Release]) -> list[Release]:
        """Return those that may go now: of pods that need devices those of the first group in bind order, and none as long as one that
        went before waits for the scheduler, as it takes the first devices that serve."""
        needy = [release for release in accepted if self.wants_devices(release.key)]
        waiting = [key_of(pod) for t in self.templates for crew in crews(self.cluster, t) for pod in crew.pods if is_waiting(pod)]
        waiting = [key for key in waiting if self.wants_devices(key)]
        turn = None if waiting or not needy else min(needy, key=lambda release: release.order).group
        for release in needy:
            if release.group != turn:
                what = f"pod {waiting[0]}, which has been let go," if waiting else f"the pods of {turn}"
                self.why[release.group] = f"the devices that {what} gets from the scheduler are not known yet"
        return [release for release in accepted if release not in needy or release.group == turn]

    def wants_devices(self, key: str) -> bool:
        """Return whether the scheduler has devices to allocate for a pod."""
        pod = self._pods.get(key)
        return pod is not None and devices_wanted(pod, self.snapshot) is not None

    def _closed(self, release: Release) -> bool:
        """Return whether a run of ``apply`` keeps the node closed at the moment: the pod would wait there for its end."""
        node = self.cluster.named("Node", release.node) or {"metadata": {}}
        closed = CLOSED_BY in (node["metadata"].get("annotations") or {})
        if closed:
            self.why[release.group] = f"node {release.node} is closed by a run of kubestow apply"
        return closed

    def _document(self, releases: Sequence[Release]) -> Placement:
        ordered = sorted(releases, key=lambda release: release.order)
        assignments = [Assignment(each.key, each.node, each.order, each.template.gang) for each in ordered]
        ref = msgspec.structs.replace(self.placement.snapshot, includeGated=True, fromScratch=False)
        return msgspec.structs.replace(self.placement, snapshot=ref, assignments=assignments, unplaced=[], gangs=[], causes=[])

    def _given(self) -> tuple[dict[str, str], dict[str, dict[str, str]]]:
        """Return the nodes of pods that were let go, and the annotations by which pods are of the gangs of the manifests."""
        given: dict[str, str] = {}
        marks: dict[str, dict[str, str]] = {}
        for template in self.templates:
            for crew in crews(self.cluster, template):
                given |= {key_of(pod): node_of(pod) for pod in crew.pods if not is_held(pod) and node_of(pod)}
                if template.gang and not template.one_by_one:
                    needed = min(template.needed, self._members(template.gang)) or 1
                    marks |= {key_of(pod): {GANG: template.gang, MIN_MEMBER: str(needed)} for pod in crew.pods}
        return given, marks

    def _members(self, gang: str) -> int:
        """Return how many pods a gang has by now: a workload that was scaled down has fewer than the placement."""
        return sum(asked_for(self.cluster, t) for t in self.templates if t.gang == gang and not t.one_by_one)


def _as_given(pod: Pod, node: str | None, marks: dict[str, str] | None) -> Pod:
    change = msgspec.structs.replace
    if node and not pod.spec.nodeName:
        pod = change(pod, spec=change(pod.spec, nodeName=node))
    if marks and marker(pod) is None:
        pod = change(pod, metadata=change(pod.metadata, annotations={**(pod.metadata.annotations or {}), **marks}))
    return pod
