"""Memory of pods behind the gate: their waiting time, gangs that were whole before, and reminders every minute."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from kubestow.live.api.answers import Object
from kubestow.live.gates.gated_pods import is_held, is_living, key_of
from kubestow.live.gates.ready import Ready, is_there
from kubestow.live.gates.replica_groups import ReplicaGroup, ReplicaReader, replica_groups, workload_of
from kubestow.models.execution.template_nodes import GATE, TemplateNodes
from kubestow.models.kube.lenient_decode import some

#: Kinds whose uid identifies a gang over time. Bare pods are excluded, because a successor is another pod of the user.
_IDENTIFYING_KINDS: Final = ("Deployment", "ReplicaSet", "StatefulSet", "ReplicationController", "Job")
#: Maximum number of reminders at a time.
_MAX_LISTED: Final = 20
#: Reason for pods of an older template.
_OLDER: Final = "its template is not the newest one of its workload, whose pods go first"


@dataclass(frozen=True)
class HoldReason:
    """The reason why pods are held.

    Attributes:
        group: Name of the gang, or uid of a single pod.
        why: The obstacle.
        then: The outlook.
        gang: True if the group is a gang.
    """

    group: str
    why: str
    then: str
    gang: bool = False


@dataclass
class GateMemory:
    """A server's memory of the pods behind the gate.

    Attributes:
        interval: Seconds between two reminders.
        clock: Monotonic clock in seconds.
        whole: Uids of workloads (for CronJobs of their Jobs) whose gangs were released whole. The next server gets them from the Lease,
            see :class:`kubestow.live.gates.serve_lease.ServeLease`.
    """

    interval: float = 60.0
    clock: Callable[[], float] = time.monotonic
    whole: set[str] = field(default_factory=set)
    _refused: dict[str, float] = field(default_factory=dict)
    _seen: dict[str, float] = field(default_factory=dict)
    _told: dict[str, float] = field(default_factory=dict)
    _foreign: set[str] = field(default_factory=set)
    _foreign_at: float = float("-inf")

    def see(self, cluster: ReplicaReader, templates: Sequence[TemplateNodes], found: Ready) -> None:
        """Record the held pods, and the gangs whose pods are all present and released."""
        now = self.clock()
        gated_uids = {pod["metadata"]["uid"] for pod in _held(cluster, templates)}
        self._seen = {uid: self._seen.get(uid, now) for uid in gated_uids}
        self._refused = {uid: since for uid, since in self._refused.items() if uid in gated_uids}
        self.whole = {uid for uid in self.whole if any(uid in cluster.objects(kind) for kind in _IDENTIFYING_KINDS)}
        for members in found.gangs.values():
            if any(replicas.pods for replicas in members) and all(
                is_there(cluster, replicas) and not replicas.gated for replicas in members
            ):
                self.let_go(cluster, members)

    def learn(self, uids: Iterable[str]) -> None:
        """Record the gangs that an earlier server has released whole."""
        self.whole |= {*uids}

    def let_go(self, cluster: ReplicaReader, members: Sequence[ReplicaGroup]) -> None:
        """Record that a gang was released whole."""
        self.whole |= _identity(cluster, members)

    def was_whole(self, cluster: ReplicaReader, members: Sequence[ReplicaGroup]) -> bool:
        """Return True if a gang was released whole before, so that its held pods are successors."""
        known = _identity(cluster, members)
        return bool(known) and known <= self.whole

    def refuse(self, pods: Iterable[Object]) -> float:
        """Record that these pods fit no planned nodes together. Return the seconds since this has been the case."""
        now = self.clock()
        return now - max((self._refused.setdefault(pod["metadata"]["uid"], now) for pod in pods), default=now)

    def reminders(self, cluster: ReplicaReader, templates: Sequence[TemplateNodes], why: Mapping[str, HoldReason]) -> list[str]:
        """Return a sentence for each gang or pod that has been held for another interval. ``why``: reasons by uid."""
        now, groups = self.clock(), _groups(_held(cluster, templates), why)
        self._told = {name: at for name, at in self._told.items() if name in groups}
        lines = []
        for name, (reason, pods) in groups.items():
            since = min(self._seen.get(pod["metadata"]["uid"], now) for pod in pods)
            if now - max(since, self._told.get(name, since)) >= self.interval:
                self._told[name] = now
                lines.append(_sentence(reason, pods, round(now - since)))
        if len(lines) > _MAX_LISTED:
            lines = [*lines[:_MAX_LISTED], f"held behind the gate: {len(lines) - _MAX_LISTED} more like these"]
        return [*lines, *self._strangers(cluster)]

    def _strangers(self, cluster: ReplicaReader) -> Iterator[str]:
        """Yield a sentence every interval about gated pods that belong to no workload of the placement."""
        now = self.clock()
        if now - self._foreign_at < self.interval:
            return
        found = {
            pod["metadata"]["uid"]: key_of(pod) for pod in cluster.mentioning("Pod", [GATE.encode()]) if is_held(pod) and is_living(pod)
        }
        before, self._foreign, self._foreign_at = self._foreign, {*found} - {*self._seen}, now
        names = sorted(found[uid] for uid in self._foreign & before)
        if names:
            what = "pod is" if len(names) == 1 else "pods are"
            yield f"held behind the gate: {len(names)} {what} of no workload of this placement, which does not let them go: {some(names)}"


def _held(cluster: ReplicaReader, templates: Iterable[TemplateNodes]) -> list[Object]:
    return [pod for template in templates for replicas in replica_groups(cluster, template) for pod in replicas.pods if is_held(pod)]


def _identity(cluster: ReplicaReader, members: Iterable[ReplicaGroup]) -> set[str]:
    found = set()
    for replicas in members:
        if replicas.template.kind == "CronJob":
            found.add(replicas.owner)
        elif replicas.template.kind in _IDENTIFYING_KINDS and (workload := workload_of(cluster, replicas.template)) is not None:
            found.add(workload["metadata"]["uid"])
    return found


def _groups(pods: Collection[Object], why: Mapping[str, HoldReason]) -> dict[str, tuple[HoldReason, list[Object]]]:
    found: dict[str, tuple[HoldReason, list[Object]]] = {}
    for pod in pods:
        uid = pod["metadata"]["uid"]
        reason = why.get(uid) or HoldReason(uid, _OLDER, "")
        found.setdefault(reason.group, (reason, []))[1].append(pod)
    return found


def _sentence(reason: HoldReason, pods: Sequence[Object], seconds: int) -> str:
    names = sorted(map(key_of, pods))
    who = f"gang {reason.group} ({some(names)})" if reason.gang else f"Pod {names[0]}"
    return "; ".join(filter(None, [f"held behind the gate for {_spoken(seconds)}: {who}: {reason.why}", reason.then]))


def _spoken(seconds: int) -> str:
    """Format a time in seconds, or in minutes from one minute on."""
    return f"{seconds} s" if seconds < 60 else f"{seconds // 60} min"
