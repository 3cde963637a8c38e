"""A plan carried out on plain API objects: what the cluster is afterwards."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kubestow.models.documents.rebalance_plan import RebalancePlan
from tests.plans import guards
from tests.plans.cluster import TinyCluster

Object = dict[str, Any]


def carried_out(objects: Iterable[Mapping[str, Any]], plan: RebalancePlan) -> list[Object]:
    """The objects with moved and bound pods at their targets; evicted pods wait. Conditions of pods stay, and so does what budgets
    allow, though pods that the plan bound would soon be healthy ones."""
    objects = list(objects)
    cluster = TinyCluster(objects)
    at: dict[str, str | None] = {}
    for move in sorted(plan.moves, key=lambda move: move.step):
        at[move.pod] = move.to
    for eviction in plan.evictions:
        at[eviction.pod] = None
    found = []
    for thing in objects:
        changed = dict(thing)
        if thing["kind"] == "Pod":
            metadata = thing["metadata"]
            key = f"{metadata.get('namespace', 'default')}/{metadata['name']}"
            if key in at:
                spec = {name: value for name, value in thing["spec"].items() if name != "nodeName"}
                node = at[key]
                changed["spec"] = spec if node is None else {**spec, "nodeName": node}
                if node is None or not thing["spec"].get("nodeName"):
                    changed["status"] = {"phase": "Running" if node else "Pending"}
                else:  # the replacement gets its requests
                    kept = [each for each in thing["status"].get("conditions", ()) if each["type"] != "PodResizePending"]
                    status = {name: value for name, value in thing["status"].items() if name != "containerStatuses"}
                    changed["status"] = {**status, "conditions": kept} if kept else status
                    if not kept:
                        changed["status"].pop("conditions", None)
        elif thing["kind"] == "PodDisruptionBudget":
            changed["status"] = dict(guards.status_of(cluster, thing))
        found.append(changed)
    return found
