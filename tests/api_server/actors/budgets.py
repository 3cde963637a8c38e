"""The disruption controller: it updates the status of budgets."""

from __future__ import annotations

from tests.api_server.actors.worker import Worker
from tests.api_server.core import Entry
from tests.api_server.resources import BUDGETS, PODS
from tests.api_server.rules.budgets import budgets_of, demand
from tests.api_server.store import Change


class Budgets(Worker):
    """A controller that processes a budget after every change to it, to its pods, and to pod owners in its namespace."""

    def hear(self, change: Change, entry: Entry) -> None:
        if change.resource is BUDGETS:
            if not change.deleted:
                self.note(change.key)
        elif change.resource is PODS:
            for pod in (change.old, change.now):
                for budget in budgets_of(self.core.store, pod) if pod is not None else ():
                    self.note(f"{budget['metadata']['namespace']}/{budget['metadata']['name']}")
        elif change.resource.kind in ("Deployment", "ReplicaSet", "StatefulSet", "ReplicationController"):
            before = ((change.old or {}).get("spec") or {}).get("replicas")
            if change.deleted or change.old is None or before != (change.new.get("spec") or {}).get("replicas"):
                namespace = change.new["metadata"]["namespace"]
                for key, budget in self.core.store.all(BUDGETS).items():
                    if budget["metadata"]["namespace"] == namespace:
                        self.note(key)

    def work(self, key: str) -> None:
        budget = self.core.store.get(BUDGETS, key)
        if budget is None:
            return
        about = (budget.get("status") or {}).get("disruptedPods") or {}
        pods, namespace = self.core.store.all(PODS), budget["metadata"]["namespace"]
        named = {name: pods.get(f"{namespace}/{name}") for name in about}
        kept = {name: about[name] for name, pod in named.items() if pod is not None and "deletionTimestamp" not in pod["metadata"]}
        if kept != about:
            self.set_status(BUDGETS, key, disruptedPods=kept)
            budget = self.core.store.all(BUDGETS)[key]
        found = demand(self.core.store, budget)
        condition = {"type": "DisruptionAllowed", "status": "True" if found.allowed else "False"}
        condition |= {"reason": "SufficientPods" if found.allowed else "InsufficientPods", "message": ""}
        if found.fault:
            condition |= {"reason": "SyncFailed", "message": found.fault}
        self.set_status(
            BUDGETS,
            key,
            currentHealthy=found.healthy,
            desiredHealthy=found.desired,
            expectedPods=found.expected,
            disruptionsAllowed=found.allowed,
            disruptedPods=kept,
            observedGeneration=budget["metadata"].get("generation", 1),
            conditions=[condition],
        )
