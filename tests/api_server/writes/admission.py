"""Admission of new pods: defaults of LimitRanges, and limits of ResourceQuotas."""

from __future__ import annotations

from typing import Any

from tests.api_server.core import Core
from tests.api_server.refusals import Refused
from tests.api_server.resources import PODS, by_kind
from tests.api_server.rules.quantities import amount, requests

Object = dict[str, Any]


def default_resources(core: Core, pod: Object) -> None:
    """Set missing requests and limits of containers from LimitRanges (``plugin/pkg/admission/limitranger``).

    Requests of containers that only have limits are set to these limits."""
    ranges = by_kind("LimitRange")
    assert ranges is not None
    namespace, spec = pod["metadata"]["namespace"], pod["spec"]
    found = [one for one in core.store.all(ranges).values() if one["metadata"]["namespace"] == namespace]
    items = [item for one in found for item in (one.get("spec") or {}).get("limits") or () if item.get("type") == "Container"]
    for container in [*(spec.get("initContainers") or ()), *spec["containers"]]:
        resources = container.setdefault("resources", {})
        if resources.get("limits"):
            resources["requests"] = {**resources["limits"], **(resources.get("requests") or {})}
        for item in items:
            wanted = {"limits": item.get("default"), "requests": {**(item.get("default") or {}), **(item.get("defaultRequest") or {})}}
            for field, values in wanted.items():
                if values:
                    resources[field] = {**values, **(resources.get(field) or {})}


def _usage(pod: Object) -> dict[str, int]:
    """Return the usage of a pod by quota resource."""
    found = {"pods": 1, "count/pods": 1}
    for name, value in requests(pod).items():
        if name != "pods":
            found |= {f"requests.{name}": value} | ({name: value} if name in ("cpu", "memory", "ephemeral-storage") else {})
    for container in pod["spec"].get("containers") or ():
        for name, value in ((container.get("resources") or {}).get("limits") or {}).items():
            found[f"limits.{name}"] = found.get(f"limits.{name}", 0) + amount(name, str(value))
    return found


def _plain(name: str, value: int) -> str:
    return f"{value}m" if name.endswith("cpu") else str(value)


def check_quotas(core: Core, pod: Object) -> None:
    """Check that a new pod is within the namespace's quotas without scopes. Terminating pods count until they are gone.

    Raises:
        Refused: 403 if a quota would be exceeded.
    """
    quotas = by_kind("ResourceQuota")
    assert quotas is not None
    namespace = pod["metadata"]["namespace"]
    mine = [one for one in core.store.all(quotas).values() if one["metadata"]["namespace"] == namespace]
    mine = [one for one in mine if not (one.get("spec") or {}).get("scopes") and not (one.get("spec") or {}).get("scopeSelector")]
    if not mine:
        return
    used: dict[str, int] = {}
    for other in core.store.all(PODS).values():
        if other["metadata"]["namespace"] == namespace and (other.get("status") or {}).get("phase") not in ("Succeeded", "Failed"):
            for name, value in _usage(other).items():
                used[name] = used.get(name, 0) + value
    asked = _usage(pod)
    for quota in mine:
        hard = {name: amount(name.rpartition(".")[2], str(value)) for name, value in ((quota.get("spec") or {}).get("hard") or {}).items()}
        over = [name for name in sorted(hard) if asked.get(name) and used.get(name, 0) + asked[name] > hard[name]]
        if over:
            said = [",".join(f"{one}={_plain(one, many.get(one, 0))}" for one in over) for many in (asked, used, hard)]
            message = f"exceeded quota: {quota['metadata']['name']}, requested: {said[0]}, used: {said[1]}, limited: {said[2]}"
            raise Refused(403, "Forbidden", f'pods "{pod["metadata"]["name"]}" is forbidden: {message}')
