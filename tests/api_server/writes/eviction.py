"""``pods/eviction`` (``pkg/registry/core/pod/storage/eviction.go``)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.api_server.core import Caller, Core
from tests.api_server.refusals import Refused, bad_request, not_found, too_many
from tests.api_server.resources import BUDGETS, PODS
from tests.api_server.rules.budgets import budgets_of
from tests.api_server.store import copy, is_ready
from tests.api_server.writes.binding import set_condition
from tests.api_server.writes.deleting import delete
from tests.api_server.writes.options import Deletion, deletion

Object = dict[str, Any]
_VIOLATES = "Cannot evict pod as it would violate the pod's disruption budget."


def evict(core: Core, caller: Caller, key: str, body: Object) -> None:
    """Evict a pod if its budget allows it.

    Raises:
        Refused: The pod does not exist or has another uid, its budget refuses (429), or it has several budgets (500).
    """
    name = key.rpartition("/")[2]
    if (body.get("metadata") or {}).get("name") != name:
        raise bad_request("name in URL does not match name in Eviction object")
    options = deletion(body.get("deleteOptions"))
    caller = replace(caller, dry=caller.dry or options.dry)
    pod = core.store.get(PODS, key)
    if pod is None:
        raise not_found(PODS, name)
    phase = (pod.get("status") or {}).get("phase")
    if phase not in ("Succeeded", "Failed", "Pending") and "deletionTimestamp" not in pod["metadata"]:
        _ask_budget(core, caller, pod)
    _delete(core, caller, key, options)


def _delete(core: Core, caller: Caller, key: str, options: Deletion) -> None:
    pod = core.store.get(PODS, key)
    assert pod is not None
    options.check(PODS, pod)
    if not caller.dry:
        new = copy(pod)
        target = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI", "message": "Eviction API: evicting"}
        set_condition(new, target | {"lastTransitionTime": core.timestamp()})
        core.commit(caller, "patch", PODS, key, new)
    delete(core, caller, PODS, key, replace(options, version=None), verb="evict")


def _ask_budget(core: Core, caller: Caller, pod: Object) -> None:
    """Count an eviction against the pod's budget.

    Raises:
        Refused: The budget does not allow the eviction.
    """
    found = budgets_of(core.store, pod)
    if len(found) > 1:
        raise Refused(500, "", "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.")
    if not found:
        return
    budget, status = found[0], found[0].get("status") or {}
    name = budget["metadata"]["name"]
    if not is_ready(pod):
        healthy, desired = status.get("currentHealthy", 0), status.get("desiredHealthy", 0)
        if budget["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow" or healthy >= desired > 0:
            return
    if status.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
        message = f"The disruption budget {name} is still being processed by the server."
        raise too_many(_VIOLATES, [{"reason": "DisruptionBudget", "message": message}], 10)
    if status.get("disruptionsAllowed", 0) <= 0:
        raise too_many(_VIOLATES, [{"reason": "DisruptionBudget", "message": _why(name, status)}], 0)
    new = copy(budget)
    new["status"]["disruptionsAllowed"] -= 1
    new["status"]["disruptedPods"] = (new["status"].get("disruptedPods") or {}) | {pod["metadata"]["name"]: core.timestamp()}
    core.commit(replace(caller, name="controller"), "update", BUDGETS, f"{budget['metadata']['namespace']}/{name}", new)


def _why(name: str, status: Object) -> str:
    healthy, desired = status.get("currentHealthy", 0), status.get("desiredHealthy", 0)
    failed = next((one for one in status.get("conditions") or () if one.get("reason") == "SyncFailed"), None)
    if failed is not None:
        return f"The disruption budget {name} does not allow evicting pods currently because it failed sync: {failed.get('message', '')}"
    if healthy <= desired:
        return f"The disruption budget {name} needs {desired} healthy pods and has {healthy} currently"
    return f"The disruption budget {name} does not allow evicting pods currently"
