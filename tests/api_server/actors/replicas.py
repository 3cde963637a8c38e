"""The controllers of ReplicaSets and ReplicationControllers: they immediately replace a terminated or terminating pod."""

from __future__ import annotations

from typing import Any

from tests.api_server.actors.worker import Controller
from tests.api_server.resources import PODS, REPLICA_SETS, REPLICATION_CONTROLLERS
from tests.api_server.store import is_active, is_ready
from tests.api_server.writes.deleting import delete

Object = dict[str, Any]


def _first_to_go(pod: Object) -> tuple[bool, bool, bool, int, str]:
    """Return the sort key by which a ReplicaSet deletes surplus pods: unbound, pending, unready, then by deletion cost."""
    cost = (pod["metadata"].get("annotations") or {}).get("controller.kubernetes.io/pod-deletion-cost", "0")
    pending = (pod.get("status") or {}).get("phase") == "Pending"
    return bool(pod["spec"].get("nodeName")), not pending, is_ready(pod), int(cost), pod["metadata"]["name"]


class ReplicaSets(Controller):
    """A controller that keeps ``spec.replicas`` pods."""

    resource = REPLICA_SETS

    def work(self, key: str) -> None:
        owner = self.current(key)
        if owner is None:
            return
        pods = [pod for pod in self.core.store.pods_of(owner["metadata"]["uid"]) if is_active(pod)]
        spec = owner.get("spec") or {}
        wanted = 1 if spec.get("replicas") is None else int(spec["replicas"])
        for _ in range(wanted - len(pods)):
            if not self.create_pod(self.new_pod(owner, spec.get("template") or {}, generateName=f"{owner['metadata']['name']}-")):
                break
        for pod in sorted(pods, key=_first_to_go)[: max(0, len(pods) - wanted)]:
            delete(self.core, self.caller, PODS, f"{pod['metadata']['namespace']}/{pod['metadata']['name']}")
        pods = [pod for pod in self.core.store.pods_of(owner["metadata"]["uid"]) if is_active(pod)]
        ready = sum(map(is_ready, pods))
        generation = owner["metadata"].get("generation", 1)
        self.set_status(self.resource, key, replicas=len(pods), readyReplicas=ready, availableReplicas=ready, observedGeneration=generation)


class ReplicationControllers(ReplicaSets):
    """The same controller for ReplicationControllers."""

    resource = REPLICATION_CONTROLLERS
