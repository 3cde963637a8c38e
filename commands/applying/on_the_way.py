"""What the cluster has not finished yet when a round has ended, and budgets that are used up for the moment."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from kubestow.live.api.answers import Object
from kubestow.live.apply.waiting import Verdict, looked_at, verdict, waits
from kubestow.models.disruption.pod_disruption_budgets import budgets, is_ready
from kubestow.models.documents.rebalance_plan import RebalancePlan
from kubestow.models.kube.lenient_decode import some
from kubestow.models.kube.objects import controller_of, is_terminal, is_terminating, is_waiting, pod_key
from kubestow.models.snapshot.snapshot import Snapshot

#: Controllers that replace pods which are gone.
_REPLACING: Final = ("ReplicaSet", "StatefulSet", "ReplicationController")
#: Seconds between two looks at the cluster.
_PAUSE: Final = 0.5
#: Seconds after which a scheduler has tried a pod again: the longest backoff of kube-scheduler, and a little more.
_TRIED_AGAIN: Final = 15.0
#: Looks take no more than this fraction of the time, however large the cluster is.
_LOOK_FRACTION: Final = 0.2


class Cluster(Protocol):
    """The readings of a cluster, which :class:`kubestow.live.api.live_cluster.LiveCluster` has."""

    def objects(self, kind: str) -> Mapping[str, Object]: ...
    async def refresh(self) -> None: ...


@dataclass
class OnTheWay:
    """Pods that were begun and have not arrived, beyond those that had not when the snapshot ``before`` was taken.

    What was so before may be so for ever: a pod that crashes, one that fits nowhere, or a finalizer that nobody removes.
    """

    cluster: Cluster
    before: Snapshot
    _stuck: dict[str, str] = field(default_factory=dict)
    _short: set[str] = field(default_factory=set)
    _said: dict[str, Verdict] = field(default_factory=dict)
    _since: float | None = None

    def __post_init__(self) -> None:
        """Find what had not arrived before."""
        living: dict[str, int] = {}
        for pod in self.before.pods:
            if is_terminal(pod):
                continue
            uid, owner = pod.metadata.uid or "", controller_of(pod)
            if is_terminating(pod):
                self._stuck[uid] = "going"
                continue
            if is_waiting(pod):
                self._stuck[uid] = "pending"
            elif not is_ready(pod):
                self._stuck[uid] = "unready"
            if owner is not None and owner.uid:
                living[owner.uid] = living.get(owner.uid, 0) + 1
        for kind in _REPLACING:
            for obj in self.before.workloads.get(kind, ()):
                wanted = obj.spec.replicas if obj.spec is not None else 0
                if obj.metadata.uid and living.get(obj.metadata.uid, 0) < wanted:
                    self._short.add(obj.metadata.uid)

    def find(self) -> list[str]:
        """Return what is on its way, a sentence each."""
        pods = [pod for pod in self.cluster.objects("Pod").values() if _phase(pod) not in ("Succeeded", "Failed")]
        closed = sum(bool((node.get("spec") or {}).get("unschedulable")) for node in self.cluster.objects("Node").values())
        if self._since is None:  # from now on the scheduler looks at them with the nodes that are open now
            self._since = time.monotonic()
            self._said = {pod["metadata"]["uid"]: verdict(pod) for pod in pods if waits(pod)}
        return [*(text for pod in pods for text in self._pod(pod, closed)), *self._lacking(pods)]

    def _pod(self, pod: Object, closed: int) -> Iterator[str]:
        metadata, uid = pod["metadata"], pod["metadata"]["uid"]
        name, before = f"pod {metadata.get('namespace', 'default')}/{metadata['name']}", self._stuck.get(uid)
        if metadata.get("deletionTimestamp"):
            if before != "going":
                yield f"{name} is being deleted"
        elif (pod.get("spec") or {}).get("nodeName"):
            if before != "unready" and not _is_ready(pod):
                yield f"{name} is not Ready yet"
        elif before != "pending" and waits(pod) and not self._is_refused(pod, closed):
            yield f"{name} has no node yet"

    def _is_refused(self, pod: Object, closed: int) -> bool:
        """Return True if the scheduler has found no node for a pod since only this number of nodes is closed."""
        late = self._since is not None and time.monotonic() - self._since >= _TRIED_AGAIN
        return looked_at(pod, () if late else self._said.get(pod["metadata"]["uid"], ()), closed)

    def _lacking(self, pods: list[Object]) -> Iterator[str]:
        """Yield the controllers that have fewer pods than they are to have."""
        living: dict[str, int] = {}
        for pod in pods:
            for owner in () if pod["metadata"].get("deletionTimestamp") else pod["metadata"].get("ownerReferences") or ():
                if owner.get("controller"):
                    living[owner["uid"]] = living.get(owner["uid"], 0) + 1
        for kind in _REPLACING:
            for uid, obj in self.cluster.objects(kind).items():
                wanted, there = (obj.get("spec") or {}).get("replicas"), living.get(uid, 0)
                if isinstance(wanted, int) and there < wanted and uid not in self._short and not _fails(obj):
                    metadata = obj["metadata"]
                    yield f"{kind} {metadata.get('namespace', 'default')}/{metadata['name']} has {there} of {wanted} pods"

    async def arrived(self, seconds: float, tell: Callable[[str], object]) -> None:
        """Wait until nothing is on its way, for the given time at most; say once for what."""
        deadline, told = time.monotonic() + seconds, False
        while True:
            await self.cluster.refresh()
            began = time.monotonic()
            found = self.find()
            now = time.monotonic()
            if not found or now >= deadline:
                if found:
                    tell(f"not waited for any longer: {some(found)}")
                return
            if not told:
                tell(f"waiting for what is on its way, for {seconds:g} s at most: {some(found)}")
                told = True
            await asyncio.sleep(min(max(_PAUSE, (now - began) / _LOOK_FRACTION), deadline - now))


def used_up(snapshot: Snapshot, document: RebalancePlan, before: Snapshot) -> list[str]:
    """Return the budgets that allow no eviction at the moment, and without which the plan might reach more.

    These guard a pod that an obstacle of the plan names, or allowed something in the snapshot ``before``. Budgets that never allow anything
    are none of them, nor are those of pods that several select.
    """
    keys = [pod_key(pod) for pod in snapshot.pods]
    every = budgets(snapshot)
    guards: dict[str, int] = {}
    for budget in every:
        for i in budget.pods:
            guards[keys[i]] = guards.get(keys[i], 0) + 1
    named = {each.pod for each in document.obstacles if each.pod is not None and guards.get(each.pod) == 1}
    open_before = {budget.name for budget in budgets(before) if budget.allowed}
    closed = [budget for budget in every if not budget.allowed and not budget.never]
    return sorted(budget.name for budget in closed if budget.name in open_before or any(keys[i] in named for i in budget.pods))


def _phase(pod: Object) -> str:
    return str((pod.get("status") or {}).get("phase") or "")


def _is_ready(pod: Object) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(each.get("type") == "Ready" and each.get("status") == "True" for each in conditions)


def _fails(controller: Object) -> bool:
    """Return True if a controller cannot create pods: a quota or an admission plugin refuses them."""
    conditions = (controller.get("status") or {}).get("conditions") or ()
    return any(each.get("type") == "ReplicaFailure" and each.get("status") == "True" for each in conditions)
