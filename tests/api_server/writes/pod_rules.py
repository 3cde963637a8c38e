"""Validation of pod updates (``ValidatePodUpdate`` of ``pkg/apis/core/validation``)."""

from __future__ import annotations

import json
from typing import Any

from tests.api_server.refusals import Refused, invalid
from tests.api_server.resources import PODS
from tests.api_server.store import copy

Object = dict[str, Any]
Cause = tuple[str, str, str]
_UPDATABLE = ",".join(
    (
        "`spec.containers[*].image`",
        "`spec.initContainers[*].image`",
        "`spec.activeDeadlineSeconds`",
        "`spec.tolerations` (only additions to existing tolerations)",
        "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)",
    )
)
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def _forbidden(field: str, message: str) -> Cause:
    return field, "FieldValueForbidden", f"Forbidden: {message}"


def _invalid(field: str, value: object, message: str) -> Cause:
    return field, "FieldValueInvalid", f"Invalid value: {json.dumps(value)}: {message}"


def _tolerations(new: list[Object], old: list[Object]) -> list[Cause]:
    def bare(one: Object) -> Object:
        return {key: value for key, value in one.items() if key != "tolerationSeconds"}

    kept = [bare(one) for one in new]
    if all(bare(one) in kept for one in old):
        return []
    return [_forbidden("spec.tolerations", "existing toleration can not be modified except its tolerationSeconds")]


def _gates(new: list[Object], old: list[Object]) -> list[Cause]:
    names = {one["name"] for one in old}
    return [
        _forbidden(f"spec.schedulingGates[{i}].name", f"only deletion is allowed, but found new scheduling gate '{one['name']}'")
        for i, one in enumerate(new)
        if one["name"] not in names
    ]


def _only_additions(new: Object, old: Object) -> bool:
    pairs = [(new.get(field) or [], old.get(field) or []) for field in ("matchExpressions", "matchFields")]
    if not any(before for _, before in pairs) and any(after for after, _ in pairs):
        return False
    return all(after[: len(before)] == before for after, before in pairs)


def _node_affinity(new: Object, old: Object) -> list[Cause]:
    before = (old.get(_REQUIRED) or {}).get("nodeSelectorTerms") or []
    after = (new.get(_REQUIRED) or {}).get("nodeSelectorTerms") or []
    if not before:
        return []
    path = f"spec.affinity.nodeAffinity.{_REQUIRED}.nodeSelectorTerms"
    if len(before) != len(after):
        return [_invalid(path, after, "no additions/deletions to non-empty NodeSelectorTerms list are allowed")]
    return [
        _invalid(f"{path}[{i}]", after[i], "only additions are allowed (no mutations or deletions)")
        for i in range(len(before))
        if not _only_additions(after[i], before[i])
    ]


def _settled(spec: Object, old: Object, *, gated: bool) -> Object:
    """Return a spec without differences that are allowed or already reported."""
    spec = copy(spec)
    for field in ("containers", "initContainers"):
        for one, before in zip(spec.get(field) or (), old.get(field) or (), strict=False):
            one["image"] = before.get("image")
    fields = ["tolerations", "schedulingGates", "activeDeadlineSeconds"]
    if (old.get("terminationGracePeriodSeconds") or 0) < 0 and spec.get("terminationGracePeriodSeconds") == 1:
        fields.append("terminationGracePeriodSeconds")
    if gated:
        fields.append("nodeSelector")
        affinity = {key: value for key, value in (spec.get("affinity") or {}).items() if key != "nodeAffinity"}
        before = (old.get("affinity") or {}).get("nodeAffinity")
        spec["affinity"] = affinity | ({"nodeAffinity": before} if before is not None else {})
    for field in fields:
        spec[field] = old.get(field)
    return {key: value for key, value in spec.items() if value not in (None, [], {})}


def check_update(name: str, new: Object, old: Object) -> None:
    """Check that an update of a pod's spec is allowed.

    Raises:
        Refused: The update is not allowed.
    """
    gated = bool(old.get("schedulingGates"))
    causes: list[Cause] = []
    for field in ("containers", "initContainers"):
        if len(new.get(field) or ()) != len(old.get(field) or ()):
            refusal = _forbidden(f"spec.{field}", "pod updates may not add or remove containers")
            raise _refused(name, [refusal])
    causes += _tolerations(new.get("tolerations") or [], old.get("tolerations") or [])
    causes += _gates(new.get("schedulingGates") or [], old.get("schedulingGates") or [])
    if gated:
        selector = new.get("nodeSelector") or {}
        if any(selector.get(key) != value for key, value in (old.get("nodeSelector") or {}).items()):
            why = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
            causes.append(_invalid("spec.nodeSelector", selector, why))
        affinities = [(spec.get("affinity") or {}).get("nodeAffinity") or {} for spec in (new, old)]
        causes += _node_affinity(*affinities)
    if _settled(new, old, gated=gated) != _settled(old, old, gated=gated):
        causes.append(_forbidden("spec", f"pod updates may not change fields other than {_UPDATABLE}"))
    if causes:
        raise _refused(name, causes)


def _refused(name: str, causes: list[Cause]) -> Refused:
    return invalid(PODS, name, causes)
