"""The API server's validation of new pods' tolerations, affinity and topology spread constraints.

Source: https://github.com/kubernetes/kubernetes/blob/v1.36.2/pkg/apis/core/validation/validation.go
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kubestow.models.kube.validation.new_pods import NewPods, Refused, label_selector, listed, mapping, named, requirements, texts
from kubestow.models.kube.validation.texts import dns_label, dns_subdomain, invalid, label_value, qualified_name, required

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


def tolerations(pods: NewPods) -> Refused:
    """Yield the fields of tolerations that the server rejects, each with its reason."""
    for index, toleration in listed(pods.spec.get("tolerations")):
        where = f"{pods.start}.tolerations[{index}]"
        key, operator = toleration.get("key") or "", toleration.get("operator") or ""
        value, effect = toleration.get("value") or "", toleration.get("effect") or ""
        yield from named(key, f"{where}.key", qualified_name)
        if not key and operator != "Exists":
            reason = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
            yield f"{where}.operator", invalid(operator, reason)
        if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
            yield f"{where}.effect", invalid(effect, "effect must be 'NoExecute' when `tolerationSeconds` is set")
        if operator in ("", "Equal") and isinstance(value, str):
            reasons = list(label_value(value))
            if reasons:
                yield f"{where}.operator", invalid(value, ";".join(reasons))
        elif operator == "Exists" and value:
            yield f"{where}.operator", invalid(value, "value must be empty when `operator` is 'Exists'")


def node_affinity(pods: NewPods) -> Refused:
    """Yield the fields of node affinity that the server rejects, each with its reason.

    Preferred terms may contain invalid label values.
    """
    affinity = mapping(mapping(pods.spec.get("affinity")).get("nodeAffinity"))
    path = f"{pods.start}.affinity.nodeAffinity"
    selector = affinity.get(_REQUIRED)
    if isinstance(selector, Mapping):
        where = f"{path}.{_REQUIRED}.nodeSelectorTerms"
        terms = list(listed(selector.get("nodeSelectorTerms")))
        if not terms:
            yield where, required("must have at least one node selector term")
        for index, term in terms:
            yield from _node_term(term, f"{where}[{index}]", values=True)
    for index, preferred in listed(affinity.get(_PREFERRED)):
        yield from _node_term(mapping(preferred.get("preference")), f"{path}.{_PREFERRED}[{index}].preference", values=False)


def _node_term(term: Mapping[str, Any], path: str, *, values: bool) -> Refused:
    yield from requirements(term.get("matchExpressions"), f"{path}.matchExpressions", values=values)
    for index, each in listed(term.get("matchFields")):
        where, key = f"{path}.matchFields[{index}]", each.get("key")
        if each.get("operator") in ("In", "NotIn"):
            if len(list(texts(each.get("values")))) != 1:
                reason = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
                yield f"{where}.values", required(reason)
        else:
            yield f"{where}.operator", invalid(each.get("operator"), "not a valid selector operator")
        if key != "metadata.name":
            yield f"{where}.key", invalid(key, "not a valid field selector key")
        else:
            for i, value in texts(each.get("values")):
                yield from ((f"{where}.values[{i}]", invalid(value, reason)) for reason in dns_subdomain(value))


def pod_affinity(pods: NewPods) -> Refused:
    """Yield the fields of pod affinity and anti-affinity that the server rejects, each with its reason."""
    affinity = mapping(pods.spec.get("affinity"))
    for name in ("podAffinity", "podAntiAffinity"):
        fields, path = mapping(affinity.get(name)), f"{pods.start}.affinity.{name}"
        for index, term in listed(fields.get(_REQUIRED)):
            yield from _pod_term(term, f"{path}.{_REQUIRED}[{index}]")
        for index, weighted in listed(fields.get(_PREFERRED)):
            yield from _pod_term(mapping(weighted.get("podAffinityTerm")), f"{path}.{_PREFERRED}[{index}].podAffinityTerm")


def _pod_term(term: Mapping[str, Any], path: str) -> Refused:
    yield from label_selector(term.get("labelSelector"), f"{path}.labelSelector")
    yield from label_selector(term.get("namespaceSelector"), f"{path}.namespaceSelector")
    for index, name in texts(term.get("namespaces")):
        yield from ((f"{path}.namespaces[{index}]", invalid(name, reason)) for reason in dns_label(name))
    yield from named(term.get("topologyKey"), f"{path}.topologyKey", qualified_name)
    kept = dict(texts(term.get("mismatchLabelKeys")))
    for index, key in texts(term.get("matchLabelKeys")):
        if key in kept.values():
            yield f"{path}.matchLabelKeys[{index}]", invalid(key, "exists in both matchLabelKeys and mismatchLabelKeys")
    for field in ("matchLabelKeys", "mismatchLabelKeys"):
        for index, key in texts(term.get(field)):
            yield from ((f"{path}.{field}[{index}]", invalid(key, reason)) for reason in qualified_name(key))
    yield from _keys_twice(term, path)


def _keys_twice(term: Mapping[str, Any], path: str) -> Refused:
    """Yield keys of matchLabelKeys that are twice in the selector. Once is allowed, because the server adds each key on creation."""
    selector = mapping(term.get("labelSelector"))
    keys = [*map(str, mapping(selector.get("matchLabels")))]
    wanted = {key: index for index, key in texts(term.get("matchLabelKeys"))}
    for _, each in listed(selector.get("matchExpressions")):
        key = str(each.get("key"))
        if key in wanted and key in keys:
            yield f"{path}[{wanted[key]}]", invalid(key, "exists in both matchLabelKeys and labelSelector")
        keys.append(key)


def spread(pods: NewPods) -> Refused:
    """Yield the fields of topology spread constraints that the server rejects, each with its reason."""
    for index, constraint in listed(pods.spec.get("topologySpreadConstraints")):
        where = f"{pods.start}.topologySpreadConstraints[{index}]"
        yield from label_selector(constraint.get("labelSelector"), f"{where}.labelSelector")
        for i, key in texts(constraint.get("matchLabelKeys")):
            yield from ((f"{where}.matchLabelKeys[{i}]", invalid(key, reason)) for reason in qualified_name(key))
        yield from _keys_twice(constraint, where)
