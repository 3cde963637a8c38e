"""Pods that stay behind the gate: for how long, which gangs were whole before, and what is said of them each minute."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from kubestow.live.api.answers import Object
from kubestow.live.gates.crews import Cluster, Crew, crews, workload_of
from kubestow.live.gates.held import is_held, is_living, key_of
from kubestow.live.gates.ready import Ready, is_there
from kubestow.models.execution.template_nodes import GATE, TemplateNodes
from kubestow.models.kube.lenient_decode import some

#: Kinds of objects by which a gang is known again. Bare pods are not: their successors are other pods of the user's.
_KNOWN_BY: Final = ("Deployment", "ReplicaSet", "StatefulSet", "ReplicationController", "Job")
#: Groups that one reminder names.
_LISTED: Final = 20
#: What an older template's pods wait for; the newest ones count.
_OLDER: Final = "its template is not the newest one of its workload, whose pods go first"


@dataclass(frozen=True)
class Reason:
    """Why pods are held.

    Attributes:
        group: The gang, or the uid of a pod that goes alone.
        why: What is in the way.
        then: What happens to them later.
        gang: Whether the group is a gang.
    """

    group: str
    why: str
    then: str
    gang: bool = False


@dataclass
class Holding:
    """What a server remembers of the pods behind the gate.

    Attributes:
        interval: Seconds between two reminders.
        clock: Returns seconds; it never goes back.
        whole: Uids of workloads (of CronJobs: of their Jobs) whose gangs were let go whole. A server that takes over gets them by the
            Lease, see :class:`kubestow.live.gates.leading.ServeLease`.
    """

    interval: float = 60.0
    clock: Callable[[], float] = time.monotonic
    whole: set[str] = field(default_factory=set)
    _refused: dict[str, float] = field(default_factory=dict)
    _seen: dict[str, float] = field(default_factory=dict)
    _told: dict[str, float] = field(default_factory=dict)
    _foreign: set[str] = field(default_factory=set)
    _foreign_at: float = float("-inf")

    def see(self, cluster: Cluster, templates: Sequence[TemplateNodes], found: Ready) -> None:
        """Take the pods that are held now, and the gangs of which all pods are there and none is held."""
        now = self.clock()
        held = {pod["metadata"]["uid"] for pod in _held(cluster, templates)}
        self._seen = {uid: self._seen.get(uid, now) for uid in held}
        self._refused = {uid: since for uid, since in self._refused.items() if uid in held}
        self.whole = {uid for uid in self.whole if any(uid in cluster.objects(kind) for kind in _KNOWN_BY)}
        for members in found.gangs.values():
            if any(crew.pods for crew in members) and all(is_there(cluster, crew) and not crew.held for crew in members):
                self.let_go(cluster, members)

    def learn(self, uids: Iterable[str]) -> None:
        """Take the gangs that an earlier server has let go whole."""
        self.whole |= {*uids}

    def let_go(self, cluster: Cluster, members: Sequence[Crew]) -> None:
        """Take that all pods of a gang were let go."""
        self.whole |= _identity(cluster, members)

    def was_whole(self, cluster: Cluster, members: Sequence[Crew]) -> bool:
        """Return True if all pods of a gang were let go before, so that those that are held now are successors."""
        known = _identity(cluster, members)
        return bool(known) and known <= self.whole

    def refuse(self, pods: Iterable[Object]) -> float:
        """Take that no planned node takes these pods together; return for how many seconds that has been so."""
        now = self.clock()
        return now - max((self._refused.setdefault(pod["metadata"]["uid"], now) for pod in pods), default=now)

    def reminders(self, cluster: Cluster, templates: Sequence[TemplateNodes], why: Mapping[str, Reason]) -> list[str]:
        """Return a sentence for each gang or pod that has been held for another minute. ``why``: by uid of a pod."""
        now, groups = self.clock(), _groups(_held(cluster, templates), why)
        self._told = {name: at for name, at in self._told.items() if name in groups}
        lines = []
        for name, (reason, pods) in groups.items():
            since = min(self._seen.get(pod["metadata"]["uid"], now) for pod in pods)
            if now - max(since, self._told.get(name, since)) >= self.interval:
                self._told[name] = now
                lines.append(_sentence(reason, pods, round(now - since)))
        if len(lines) > _LISTED:
            lines = [*lines[:_LISTED], f"held behind the gate: {len(lines) - _LISTED} more like these"]
        return [*lines, *self._strangers(cluster)]

    def _strangers(self, cluster: Cluster) -> Iterator[str]:
        """Yield a sentence each minute about pods behind the gate that are of no workload of the placement, for a minute at least."""
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


def _held(cluster: Cluster, templates: Iterable[TemplateNodes]) -> list[Object]:
    return [pod for template in templates for crew in crews(cluster, template) for pod in crew.pods if is_held(pod)]


def _identity(cluster: Cluster, members: Iterable[Crew]) -> set[str]:
    found = set()
    for crew in members:
        if crew.template.kind == "CronJob":
            found.add(crew.owner)
        elif crew.template.kind in _KNOWN_BY and (workload := workload_of(cluster, crew.template)) is not None:
            found.add(workload["metadata"]["uid"])
    return found


def _groups(pods: Collection[Object], why: Mapping[str, Reason]) -> dict[str, tuple[Reason, list[Object]]]:
    found: dict[str, tuple[Reason, list[Object]]] = {}
    for pod in pods:
        uid = pod["metadata"]["uid"]
        reason = why.get(uid) or Reason(uid, _OLDER, "")
        found.setdefault(reason.group, (reason, []))[1].append(pod)
    return found


def _sentence(reason: Reason, pods: Sequence[Object], seconds: int) -> str:
    names = sorted(map(key_of, pods))
    who = f"gang {reason.group} ({some(names)})" if reason.gang else f"Pod {names[0]}"
    return "; ".join(filter(None, [f"held behind the gate for {_spoken(seconds)}: {who}: {reason.why}", reason.then]))


def _spoken(seconds: int) -> str:
    """Return a time in minutes, if it has some."""
    return f"{seconds} s" if seconds < 60 else f"{seconds // 60} min"
