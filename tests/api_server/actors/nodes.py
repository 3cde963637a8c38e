"""Controllers of nodes: they taint cordoned nodes, and delete pods of missing nodes."""

from __future__ import annotations

from tests.api_server.actors.worker import Worker
from tests.api_server.core import Entry
from tests.api_server.resources import NODES, PODS
from tests.api_server.rules.selectors import UNSCHEDULABLE
from tests.api_server.store import Change, copy
from tests.api_server.writes.deleting import delete
from tests.api_server.writes.options import Deletion


class Taints(Worker):
    """A controller that sets the taint ``node.kubernetes.io/unschedulable`` on cordoned nodes and removes it from others."""

    def hear(self, change: Change, entry: Entry) -> None:
        if change.resource is NODES and not change.deleted:
            self.note(change.key)

    def work(self, key: str) -> None:
        node = self.core.store.get(NODES, key)
        if node is None:
            return
        spec = node.get("spec") or {}
        others = [one for one in spec.get("taints") or () if (one["key"], one["effect"]) != tuple(UNSCHEDULABLE.values())]
        has = len(others) < len(spec.get("taints") or ())
        if has == bool(spec.get("unschedulable")):
            return
        new = copy(node)
        taints = others if has else [*others, {**UNSCHEDULABLE, "timeAdded": self.core.timestamp()}]
        new["spec"] = {name: value for name, value in (new.get("spec") or {}).items() if name != "taints"} | (
            {"taints": taints} if taints else {}
        )
        self.core.commit(self.caller, "update", NODES, key, new)


class Orphans(Worker):
    """A controller that deletes pods bound to a missing node (``pkg/controller/podgc``)."""

    def hear(self, change: Change, entry: Entry) -> None:
        if change.resource is NODES and change.deleted:
            for pod in self.core.store.pods_on(change.key):
                self.note(f"{pod['metadata']['namespace']}/{pod['metadata']['name']}")
        elif change.resource is PODS and not change.deleted:
            node = change.new["spec"].get("nodeName")
            if node and self.core.store.get(NODES, node) is None:
                self.note(change.key)

    def work(self, key: str) -> None:
        pod = self.core.store.get(PODS, key)
        node = pod["spec"].get("nodeName") if pod is not None else None
        if node and self.core.store.get(NODES, node) is None:
            delete(self.core, self.caller, PODS, key, Deletion(grace=0))
