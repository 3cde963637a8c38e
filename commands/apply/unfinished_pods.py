"""Unfinished work of the cluster between two rounds, and disruption budgets that are used up for now."""

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

#: Controllers that replace deleted pods.
_REPLACING: Final = ("ReplicaSet", "StatefulSet", "ReplicationController")
#: Seconds between two reads of the cluster.
_POLL_SECONDS: Final = 0.5
#: Seconds after which the scheduler has retried a pod: the longest backoff of kube-scheduler plus a margin.
_RETRY_SECONDS: Final = 15.0
#: Maximum fraction of the time spent on reading the cluster.
_READ_FRACTION: Final = 0.2


class PodReader(Protocol):
    """Read access to a cluster, as in :class:`kubestow.live.api.live_cluster.LiveCluster`."""

    def objects(self, kind: str) -> Mapping[str, Object]: ...
    async def refresh(self) -> None: ...


@dataclass
class UnfinishedPods:
    """Pods on the way to being Ready or deleted, except those that already were when the snapshot ``before`` was taken.

    An earlier state may last indefinitely: a crashing pod, one that fits nowhere, or a finalizer that nobody removes.
    """

    cluster: PodReader
    before: Snapshot
    _stuck: dict[str, str] = field(default_factory=dict)
    _short: set[str] = field(default_factory=set)
    _said: dict[str, Verdict] = field(default_factory=dict)
    _since: float | None = None

    def __post_init__(self) -> None:
        """Record the unfinished pods and controllers of the earlier snapshot."""
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
        """Return one sentence for each unfinished pod or controller."""
        pods = [pod for pod in self.cluster.objects("Pod").values() if _phase(pod) not in ("Succeeded", "Failed")]
        closed = sum(bool((node.get("spec") or {}).get("unschedulable")) for node in self.cluster.objects("Node").values())
        if self._since is None:  # from now on the scheduler considers the nodes that are open now
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
        """Return True if the scheduler has rejected the pod with only this number of nodes closed."""
        late = self._since is not None and time.monotonic() - self._since >= _RETRY_SECONDS
        return looked_at(pod, () if late else self._said.get(pod["metadata"]["uid"], ()), closed)

    def _lacking(self, pods: list[Object]) -> Iterator[str]:
        """Yield the controllers that have fewer pods than desired."""
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
        """Wait until all pods have arrived or the time is over; print the awaited pods once."""
        deadline, announced = time.monotonic() + seconds, False
        while True:
            await self.cluster.refresh()
            began = time.monotonic()
            unfinished = self.find()
            now = time.monotonic()
            if not unfinished or now >= deadline:
                if unfinished:
                    tell(f"no longer waiting for: {some(unfinished)}")
                return
            if not announced:
                tell(f"waiting up to {seconds:g} s for: {some(unfinished)}")
                announced = True
            await asyncio.sleep(min(max(_POLL_SECONDS, (now - began) / _READ_FRACTION), deadline - now))


def used_up(snapshot: Snapshot, document: RebalancePlan, before: Snapshot) -> list[str]:
    """Return the budgets that are used up for now and may keep the plan from reaching more.

    Such a budget guards a pod named by an obstacle of the plan, or allowed evictions in the snapshot ``before``. Budgets that never allow
    an eviction do not count, nor do pods with several budgets.
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
