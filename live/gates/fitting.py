"""Check by the independent checker that held pods fit their nodes in the current cluster."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Self

import msgspec

from kubestow.live.api.answers import Object
from kubestow.live.apply.drift import Rejection
from kubestow.live.gates.gated_pods import is_held, is_waiting, key_of, node_of
from kubestow.live.gates.replica_groups import ReplicaReader, asked_for, replica_groups
from kubestow.models.documents.placement import Assignment, Placement
from kubestow.models.execution.scheduler_needed import devices_wanted, scheduler_needed
from kubestow.models.execution.template_nodes import TemplateNodes
from kubestow.models.gangs.gangs import GANG, MIN_MEMBER
from kubestow.models.gangs.markers import marker
from kubestow.models.kube.closed_nodes import CLOSED_BY
from kubestow.models.kube.objects import Pod, pod_key
from kubestow.models.snapshot.snapshot import Snapshot

#: A function that replays the remaining assignments of a placement on a snapshot.
Judge = Callable[[Snapshot, Placement], Sequence[Rejection]]


@dataclass(frozen=True)
class Release:
    """A held pod and its planned node.

    Attributes:
        template: The workload of the placement.
        pod: The pod.
        node: Its planned node.
        group: Identifier of the pods that are released together or not at all.
        order: Position in the bind order.
    """

    template: TemplateNodes
    pod: Object
    node: str
    group: str
    order: int

    @property
    def key(self) -> str:
        """``namespace/name`` of the pod."""
        return key_of(self.pod)


@dataclass
class Fitting:
    """One check against the cluster: first :meth:`look`, then :meth:`accepted`.

    Attributes:
        cluster: The cluster.
        placement: The placement.
        templates: Its workloads.
        judge: The checker.
        snapshot: The state of the cluster.
        why: Reason for each group that does not fit.
    """

    cluster: ReplicaReader
    placement: Placement
    templates: Sequence[TemplateNodes]
    judge: Judge
    snapshot: Snapshot = field(default_factory=Snapshot)
    why: dict[str, str] = field(default_factory=dict)
    _pods: dict[str, Pod] = field(default_factory=dict)

    async def look(self) -> Self:
        """Read the current state of the cluster.

        Raises:
            InputError: the cluster has objects that are invalid in a snapshot.
        """
        given, marks = self._given()  # before the snapshot, so that both have the same state
        seen = (await self.cluster.read_snapshot()).copy()
        seen.pods = [_as_given(pod, given.get(pod_key(pod)), marks.get(pod_key(pod))) for pod in seen.pods]
        self.snapshot, self._pods = seen, {pod_key(pod): pod for pod in seen.pods}
        return self

    def accepted(self, releases: Sequence[Release]) -> list[Release]:
        """Return the releases that fit together. If one pod of a group does not fit, the whole group stays."""
        candidates = [release for release in releases if not self._closed(release)]
        candidates = [release for release in candidates if release.group not in self.why]
        while candidates:
            faults = list(self.judge(self.snapshot, self._document(candidates)))
            if not faults:
                return candidates
            group_of = {release.key: release.group for release in candidates}
            refused = {group_of[fault.pod]: fault.message for fault in faults if fault.pod in group_of}
            if not refused:
                refused = dict.fromkeys(group_of.values(), faults[0].message)
            self.why |= refused
            candidates = [release for release in candidates if release.group not in refused]
        return []

    def together(self, release: Release, others: Sequence[Release]) -> bool:
        """Return True if the pod shares its position in the bind order, so that no scheduler could place it pod by pod."""
        return any(other is not release and other.order == release.order and other.group == release.group for other in others)

    def needs_scheduler(self, release: Release) -> bool:
        """Return True if a Binding would strand the pod."""
        pod = self._pods.get(release.key)
        return pod is None or scheduler_needed(pod, self.snapshot) is not None

    def in_turn(self, accepted: Sequence[Release]) -> list[Release]:
        """Return the releases that may go now. Of pods that need devices, only the first group in bind order may go.

        While an earlier pod with devices waits for the scheduler, no further one may go, because the scheduler takes the first devices that
        fit.
        """
        needy = [release for release in accepted if self.wants_devices(release.key)]
        waiting = [
            key_of(pod) for t in self.templates for replicas in replica_groups(self.cluster, t) for pod in replicas.pods if is_waiting(pod)
        ]
        waiting = [key for key in waiting if self.wants_devices(key)]
        turn = None if waiting or not needy else min(needy, key=lambda release: release.order).group
        for release in needy:
            if release.group != turn:
                what = f"pod {waiting[0]}, which has been let go," if waiting else f"the pods of {turn}"
                self.why[release.group] = f"the devices that {what} gets from the scheduler are not known yet"
        return [release for release in accepted if release not in needy or release.group == turn]

    def wants_devices(self, key: str) -> bool:
        """Return True if the scheduler must allocate devices for the pod."""
        pod = self._pods.get(key)
        return pod is not None and devices_wanted(pod, self.snapshot) is not None

    def _closed(self, release: Release) -> bool:
        """Return True if a run of ``apply`` keeps the node closed, so that the pod would have to wait."""
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
        """Return the nodes of released pods, and the gang annotations of pods from the manifests."""
        given: dict[str, str] = {}
        marks: dict[str, dict[str, str]] = {}
        for template in self.templates:
            for replicas in replica_groups(self.cluster, template):
                given |= {key_of(pod): node_of(pod) for pod in replicas.pods if not is_held(pod) and node_of(pod)}
                if template.gang and not template.one_by_one:
                    needed = min(template.needed, self._members(template.gang)) or 1
                    marks |= {key_of(pod): {GANG: template.gang, MIN_MEMBER: str(needed)} for pod in replicas.pods}
        return given, marks

    def _members(self, gang: str) -> int:
        """Return the current number of a gang's pods, which is lower than placed after scaling down."""
        return sum(asked_for(self.cluster, t) for t in self.templates if t.gang == gang and not t.one_by_one)


def _as_given(pod: Pod, node: str | None, marks: dict[str, str] | None) -> Pod:
    change = msgspec.structs.replace
    if node and not pod.spec.nodeName:
        pod = change(pod, spec=change(pod.spec, nodeName=node))
    if marks and marker(pod) is None:
        pod = change(pod, metadata=change(pod.metadata, annotations={**(pod.metadata.annotations or {}), **marks}))
    return pod
