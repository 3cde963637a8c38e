"""Selectors of labels, fields and nodes, tolerations."""

from __future__ import annotations

import re
from typing import Any

Object = dict[str, Any]


def _requirement(one: Object, labels: dict[str, str]) -> bool:
    key, operator, values = one["key"], one["operator"], one.get("values") or []
    match operator:
        case "In":
            return key in labels and labels[key] in values
        case "NotIn":
            return key not in labels or labels[key] not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
        case "Gt" | "Lt":
            try:
                found, bound = int(labels[key]), int(values[0])
            except (KeyError, ValueError, IndexError):
                return False
            return found > bound if operator == "Gt" else found < bound
    return False


def labels_match(selector: Object | None, labels: dict[str, str] | None) -> bool:
    """Return True if a LabelSelector selects these labels. None selects nothing, an empty selector everything."""
    if selector is None:
        return False
    labels = labels or {}
    wanted = selector.get("matchLabels") or {}
    return all(labels.get(key) == value for key, value in wanted.items()) and all(
        _requirement(one, labels) for one in selector.get("matchExpressions") or ()
    )


_SET = re.compile(r"(!?)\s*([^\s=!,()]+)\s*(?:(==|=|!=)\s*([^,\s]*)|(in|notin)\s*\(([^)]*)\))?\s*(?:,|$)")


def parse_labels(text: str) -> Object:
    """Return the query parameter ``labelSelector`` as a LabelSelector.

    Raises:
        ValueError: The parameter is malformed.
    """
    found: list[Object] = []
    at = 0
    while at < len(text):
        one = _SET.match(text, at)
        if one is None:
            raise ValueError(f"unable to parse requirement: {text!r}")
        at = one.end()
        absent, key, sign, value, word, values = one.groups()
        if sign in ("=", "=="):
            found.append({"key": key, "operator": "In", "values": [value]})
        elif sign == "!=":
            found.append({"key": key, "operator": "NotIn", "values": [value]})
        elif word:
            listed = [item.strip() for item in values.split(",")]
            found.append({"key": key, "operator": "In" if word == "in" else "NotIn", "values": listed})
        else:
            found.append({"key": key, "operator": "DoesNotExist" if absent else "Exists"})
    return {"matchExpressions": found}


def fields_match(selector: str, obj: Object) -> bool:
    """Return True if the query parameter ``fieldSelector`` selects an object.

    Raises:
        ValueError: The parameter is malformed.
    """
    for one in filter(None, selector.split(",")):
        path, sign, value = re.fullmatch(r"([^=!]+)(==|=|!=)(.*)", one).groups()  # type: ignore[union-attr]
        found: Any = obj
        for part in path.split("."):
            found = found.get(part) if isinstance(found, dict) else None
        text = "true" if found is True else "false" if found is False else "" if found is None else str(found)
        if path == "spec.unschedulable" and found is None:
            text = "false"
        if (text == value) == (sign == "!="):
            return False
    return True


def term_matches(term: Object, node: Object) -> bool:
    """Return True if a NodeSelectorTerm selects a node. An empty term selects no node."""
    expressions, fields = term.get("matchExpressions") or [], term.get("matchFields") or []
    if not expressions and not fields:
        return False
    metadata = node["metadata"]
    return all(_requirement(one, metadata.get("labels") or {}) for one in expressions) and all(
        _requirement(one, {"metadata.name": metadata["name"]}) for one in fields
    )


def node_selector_matches(selector: Object | None, node: Object) -> bool:
    """Return True if any term of a NodeSelector selects a node. None selects every node."""
    return selector is None or any(term_matches(term, node) for term in selector.get("nodeSelectorTerms") or ())


def affinity_matches(pod: Object, node: Object) -> bool:
    """Return True if a pod's nodeSelector and required node affinity select a node."""
    labels = node["metadata"].get("labels") or {}
    if any(labels.get(key) != value for key, value in (pod["spec"].get("nodeSelector") or {}).items()):
        return False
    affinity = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    return node_selector_matches(affinity.get("requiredDuringSchedulingIgnoredDuringExecution"), node)


def _tolerates(toleration: Object, taint: Object) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint.get("effect"):
        return False
    key, operator = toleration.get("key") or "", toleration.get("operator") or "Equal"
    if key and key != taint["key"]:
        return False
    if operator == "Exists":
        return True
    if not key:
        return False
    found, bound = taint.get("value") or "", toleration.get("value") or ""
    if operator in ("Gt", "Lt"):
        try:
            return int(found) > int(bound) if operator == "Gt" else int(found) < int(bound)
        except ValueError:
            return False
    return bool(found == bound)


def tolerates(pod: Object, taint: Object) -> bool:
    """Return True if a pod tolerates a taint."""
    return any(_tolerates(one, taint) for one in pod["spec"].get("tolerations") or ())


UNSCHEDULABLE = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}


def repelled(pod: Object, node: Object, effects: tuple[str, ...] = ("NoSchedule", "NoExecute")) -> bool:
    """Return True if a cordon or an untolerated taint prevents a new pod on a node."""
    spec = node.get("spec") or {}
    if "NoSchedule" in effects and spec.get("unschedulable") and not tolerates(pod, UNSCHEDULABLE):
        return True
    return any(taint.get("effect") in effects and not tolerates(pod, taint) for taint in spec.get("taints") or ())
