"""Simulated kubelets: they start bound pods that fit, and remove terminating ones."""

from __future__ import annotations

from typing import Any

from tests.api_server.actors.worker import Worker
from tests.api_server.core import Core, Entry
from tests.api_server.resources import CLAIMS, DEVICE_CLAIMS, NODES, PODS
from tests.api_server.rules.claims import device_claims, volume_claims
from tests.api_server.rules.node_usage import NodeUsage
from tests.api_server.rules.selectors import affinity_matches, repelled
from tests.api_server.store import Change, copy, is_ready
from tests.api_server.writes.binding import set_condition
from tests.api_server.writes.deleting import finish

Object = dict[str, Any]


class Kubelets(Worker):
    """An actor that starts a bound pod after a delay. A pod with unbound or unallocated claims waits indefinitely.

    Pods that are on a node in the loaded snapshot keep their state, because the cause that kept them from running may persist.
    """

    name = "kubelet"

    def __init__(self, core: Core, delay: float) -> None:
        super().__init__(core, delay)
        self._taken: set[str] = set()
        self._loaded: set[str] = set()

    def hear(self, change: Change, entry: Entry) -> None:
        behaviour = self.core.behaviour
        if change.resource is PODS and not change.deleted:
            pod = change.new
            if not pod["spec"].get("nodeName"):
                return
            if entry.actor == "load":
                self._loaded.add(pod["metadata"]["uid"])
            if "deletionTimestamp" in pod["metadata"]:
                if behaviour.stuck is None or not behaviour.stuck(pod):
                    self.note(f"stop {change.key} {pod['metadata']['uid']}", behaviour.stop)
            elif (pod.get("status") or {}).get("phase", "Pending") == "Pending" and pod["metadata"]["uid"] not in self._loaded:
                self.note(f"start {change.key} {pod['metadata']['uid']}")
        elif change.resource in (CLAIMS, DEVICE_CLAIMS, NODES) and change.type != "DELETED":
            self._look_again(change)

    def _look_again(self, change: Change) -> None:
        if change.resource is NODES:
            if change.old is not None:
                return
            found = self.core.store.pods_on(change.key)
        else:
            namespace = change.new["metadata"]["namespace"]
            found = [pod for pod in self.core.store.all(PODS).values() if pod["metadata"]["namespace"] == namespace]
        for pod in found:
            waits = pod["spec"].get("nodeName") and (pod.get("status") or {}).get("phase", "Pending") == "Pending"
            if (
                waits
                and pod["metadata"]["uid"] not in self._loaded
                and (change.resource is NODES or pod["spec"].get("volumes") or pod["spec"].get("resourceClaims"))
            ):
                self.note(f"start {pod['metadata']['namespace']}/{pod['metadata']['name']} {pod['metadata']['uid']}")

    def work(self, key: str) -> None:
        what, name, uid = key.split(" ")
        pod = self.core.store.get(PODS, name)
        if pod is None or pod["metadata"]["uid"] != uid or self.core.store.get(NODES, pod["spec"].get("nodeName") or "") is None:
            return
        if what == "stop":
            finish(self.core, self.caller, PODS, name)
        elif "deletionTimestamp" in pod["metadata"]:
            return
        elif what == "ready":
            self._ready(name, pod)
        elif (pod.get("status") or {}).get("phase", "Pending") == "Pending":
            self._start(name, pod)

    def _start(self, key: str, pod: Object) -> None:
        node = self.core.store.all(NODES)[pod["spec"]["nodeName"]]
        refusal = self._refusal(pod, node)
        if refusal:
            new = copy(pod)
            new["status"] = (new.get("status") or {}) | {"phase": "Failed", "reason": refusal, "message": f"Pod was rejected: {refusal}"}
            self.core.commit(self.caller, "update", PODS, key, new)
            return
        self._taken.add(pod["metadata"]["uid"])
        if not self._claims_are_there(pod, node):
            return
        new = copy(pod)
        started = {"name": "", "ready": True, "restartCount": 0, "state": {"running": {"startedAt": self.core.timestamp()}}}
        new["status"] |= {
            "phase": "Running",
            "startTime": self.core.timestamp(),
            "containerStatuses": [started | {"name": one["name"], "image": one.get("image") or ""} for one in pod["spec"]["containers"]],
        }
        set_condition(new, {"type": "Initialized", "status": "True"})
        if self.core.behaviour.ready:
            set_condition(new, {"type": "Ready", "status": "False"})
            self.note(f"ready {key} {pod['metadata']['uid']}", self.core.behaviour.ready)
        else:
            self._set_ready(new)
        self.core.commit(self.caller, "update", PODS, key, new)

    def _ready(self, key: str, pod: Object) -> None:
        if not is_ready(pod):
            new = copy(pod)
            self._set_ready(new)
            self.core.commit(self.caller, "update", PODS, key, new)

    def _set_ready(self, pod: Object) -> None:
        never = self.core.behaviour.unready is not None and self.core.behaviour.unready(pod)
        for kind in ("ContainersReady", "Ready"):
            set_condition(pod, {"type": kind, "status": "False" if never else "True", "lastTransitionTime": self.core.timestamp()})

    def _refusal(self, pod: Object, node: Object) -> str:
        """Return the reason for which the kubelet rejects a pod, or "" (``pkg/kubelet/lifecycle/predicate.go``)."""
        usage, name, own = self.core.store.usage, node["metadata"]["name"], True
        if usage.lacking(pod, node, own=True) is not None or usage.ports_clash(pod, name, own=True):
            usage, own = self._processed_usage(pod, name), False
        lacking = usage.lacking(pod, node, own=own)
        if lacking is not None:
            return f"OutOf{lacking}"
        if not affinity_matches(pod, node):
            return "NodeAffinity"
        if usage.ports_clash(pod, name, own=own):
            return "NodePorts"
        return "TaintToleration" if repelled(pod, node, ("NoExecute",)) else ""

    def _processed_usage(self, pod: Object, node: str) -> NodeUsage:
        """Return the usage of the node by other pods, without bound pods that its kubelet has not yet processed."""
        usage = NodeUsage()
        for other in self.core.store.pods_on(node):
            uid = other["metadata"]["uid"]
            if uid != pod["metadata"]["uid"] and (uid in self._taken or (other.get("status") or {}).get("phase") == "Running"):
                usage.change(other, 1)
        return usage

    def _claims_are_there(self, pod: Object, node: Object) -> bool:
        for key in volume_claims(pod):
            claim = self.core.store.get(CLAIMS, key)
            if claim is None or (claim.get("status") or {}).get("phase") != "Bound":
                return False
        for key in device_claims(pod):
            device = self.core.store.get(DEVICE_CLAIMS, key) if key else None
            reserved = ((device or {}).get("status") or {}).get("reservedFor") or ()
            if not any(one["uid"] == pod["metadata"]["uid"] for one in reserved):
                return False
        return True
