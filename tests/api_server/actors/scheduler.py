"""A scheduler that competes for capacity: it binds every pending pod that fits a node."""

from __future__ import annotations

from typing import Any

from tests.api_server.actors.worker import Worker
from tests.api_server.core import Core, Entry
from tests.api_server.refusals import Refused
from tests.api_server.resources import CLAIMS, DEVICE_CLAIMS, NODES, PODS, SLICES, VOLUMES
from tests.api_server.rules.attachments import limits_fit, shared_wrongly
from tests.api_server.rules.claims import volume_claims
from tests.api_server.rules.selectors import affinity_matches, repelled
from tests.api_server.rules.topology import Topology, has_terms
from tests.api_server.rules.volumes import Volumes
from tests.api_server.store import Change, copy
from tests.api_server.writes.binding import bind, set_condition

Object = dict[str, Any]


def _waits(pod: Object) -> bool:
    spec = pod["spec"]
    return (
        not spec.get("nodeName")
        and not spec.get("schedulingGates")
        and "deletionTimestamp" not in pod["metadata"]
        and (pod.get("status") or {}).get("phase", "Pending") == "Pending"
        and spec.get("schedulerName", "default-scheduler") == "default-scheduler"
    )


class Scheduler(Worker):
    """An actor that tries new pods on every node, and other pending pods on nodes that may have free capacity since the last attempt.

    Pods are tried by priority, then by waiting time. The chosen node has the least used CPU, or is random among those that fit. A pod with
    claims that wait for a consumer reserves its node until they are bound, as in kube-scheduler.
    """

    name = "scheduler"

    def __init__(self, core: Core, delay: float) -> None:
        super().__init__(core, delay)
        self._waiting: dict[str, int] = {}
        self._fresh: set[str] = set()
        self._freed: set[str] = set()
        self._choosy: set[str] = set()  # pods whose fit depends on the nodes or volumes of other pods
        self._reserved: dict[str, str] = {}
        self._arrived = 0
        self._volumes = Volumes(core.store)
        for key, pod in core.store.all(PODS).items():
            if _waits(pod):
                self._arrive(key, pod)
                self._fresh.add(key)
        if self._waiting:
            self._soon()

    def hear(self, change: Change, entry: Entry) -> None:
        if change.resource is PODS:
            self._hear_pod(change)
        elif change.resource is NODES:
            if not change.deleted and (change.old is None or _without_heartbeat(change.old) != _without_heartbeat(change.new)):
                self._free(change.key)
        elif change.resource in (CLAIMS, VOLUMES, DEVICE_CLAIMS, SLICES):
            pods = self.core.store.all(PODS)
            found = [
                key
                for key in self._waiting
                if key in pods and (pods[key]["spec"].get("volumes") or pods[key]["spec"].get("resourceClaims"))
            ]
            if found:
                self._fresh.update(found)
                self._soon()

    def _hear_pod(self, change: Change) -> None:
        pod, key = change.now, change.key
        if pod is not None and _waits(pod):
            if key not in self._waiting:
                self._arrive(key, pod)
            if change.old is None or change.old["spec"] != pod["spec"] or change.old["metadata"] != pod["metadata"]:
                self._fresh.add(key)
                self._soon()
        elif key in self._waiting:
            del self._waiting[key]
            self._fresh.discard(key)
            self._choosy.discard(key)
            if node := self._reserved.pop(key, None):
                self._free(node)
        node = change.old["spec"].get("nodeName") if change.old is not None else None
        here = pod["spec"].get("nodeName") if pod is not None else None
        ended = pod is None or (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
        if node and ended and self._waiting:
            self._free(node)
        if self._choosy and ((node and ended) or here != node):
            self._fresh |= self._choosy
            self._soon()

    def _arrive(self, key: str, pod: Object) -> None:
        self._arrived += 1
        self._waiting[key] = self._arrived
        if has_terms(pod) or pod["spec"].get("volumes"):
            self._choosy.add(key)

    def _free(self, node: str) -> None:
        if self._waiting:
            self._freed.add(node)
            self._soon()

    def _soon(self) -> None:
        behaviour = self.core.behaviour
        if behaviour.scheduler == "random":
            self.note("round", self.core.rng("round").random() * behaviour.scheduling)
        else:
            self.note("round")

    def work(self, key: str) -> None:
        """Try the pods that may fit now."""
        store = self.core.store
        fresh, self._fresh = self._fresh, set()
        freed, self._freed = self._freed, set()
        pods = store.all(PODS)
        waiting = [one for one in self._waiting if one in pods]
        waiting.sort(key=lambda one: (-int(pods[one]["spec"].get("priority") or 0), self._waiting[one]))
        for one in waiting:
            pod = pods.get(one)
            if pod is None or one not in self._waiting:
                continue
            everywhere = one in fresh or one in self._reserved
            nodes = (
                store.all(NODES).values() if everywhere else [store.all(NODES)[name] for name in sorted(freed) if name in store.all(NODES)]
            )
            self._try(one, pod, list(nodes))

    def _try(self, key: str, pod: Object, nodes: list[Object]) -> None:
        if not self._volumes.are_known(pod):
            return
        if (reserved := self._reserved.get(key)) is not None:
            if self._volumes.are_bound(pod):
                self._bind(key, pod, reserved)
            return
        pods, claims = self.core.store.all(PODS), set(volume_claims(pod))
        if claims and any(claims & set(volume_claims(pods[other])) for other in self._reserved if other in pods):
            return  # another pod will decide the nodes of its volumes
        found = [node for node in nodes if self._fits(key, pod, node)]
        if found:
            topology = Topology(self.core.store, pod)
            found = [node for node in found if topology.fits(node)]
        if not found:
            self._unschedulable(key, pod)
            return
        usage = self.core.store.usage
        if self.core.behaviour.scheduler == "random":
            node = self.core.rng("node", key).choice(found)
        else:
            node = min(found, key=lambda one: (usage.taken(one["metadata"]["name"], "cpu"), one["metadata"]["name"]))
        name = node["metadata"]["name"]
        if self._volumes.reserve(self.core, self.caller, pod, name):
            self._bind(key, pod, name)
        else:
            self._reserved[key] = name

    def _fits(self, key: str, pod: Object, node: Object) -> bool:
        if repelled(pod, node) or not affinity_matches(pod, node):
            return False
        name, pods = node["metadata"]["name"], self.core.store.all(PODS)
        beside = [pods[other] for other, where in self._reserved.items() if where == name and other != key and other in pods]
        usage = self.core.store.usage
        if usage.lacking(pod, node, additional=beside) is not None or usage.ports_clash(pod, name, additional=beside):
            return False
        return self._volumes.fit(pod, node) and limits_fit(self.core.store, pod, name) and not shared_wrongly(self.core.store, pod, name)

    def _bind(self, key: str, pod: Object, node: str) -> None:
        body = {"metadata": {"name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}, "target": {"kind": "Node", "name": node}}
        try:
            bind(self.core, self.caller, key, body)
        except Refused:
            self._reserved.pop(key, None)

    def _unschedulable(self, key: str, pod: Object) -> None:
        """Set the condition of an unschedulable pod, with the number of cordoned nodes, as kube-scheduler does."""
        nodes = self.core.store.all(NODES).values()
        closed = sum(bool((node.get("spec") or {}).get("unschedulable")) for node in nodes)
        why = f"{closed} node(s) were unschedulable, no other fits" if closed else "none fits"
        message = f"0/{len(nodes)} nodes are available: {why}"
        known: Object = next((one for one in (pod.get("status") or {}).get("conditions") or () if one["type"] == "PodScheduled"), {})
        if known.get("message") == message:
            return
        new = copy(pod)
        set_condition(new, {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message})
        self.core.commit(self.caller, "update", PODS, key, new)


def _without_heartbeat(node: Object) -> Object:
    """Return a node without the fields that a scheduler ignores."""
    metadata = node["metadata"]
    return {"spec": node.get("spec"), "labels": metadata.get("labels"), "allocatable": (node.get("status") or {}).get("allocatable")}
