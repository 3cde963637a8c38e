"""Selectors, expressions, taints and domains as short phrases in kubectl's notation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from kubestow.models.kube import objects, quantity
from kubestow.models.kube.selectors import LabelRequirement, Selector
from kubestow.report.documents import numbers
from kubestow.report.documents.output import some

#: Maximum number of values or names in a phrase.
_MAX_LISTED: Final = 8
_DOMAINS: Final = {
    "kubernetes.io/hostname": "node",
    "topology.kubernetes.io/zone": "zone",
    "failure-domain.beta.kubernetes.io/zone": "zone",
    "topology.kubernetes.io/region": "region",
    "failure-domain.beta.kubernetes.io/region": "region",
}
_NUMERIC: Final = {"Gt": ">", "Lt": "<"}


def listed(names: Sequence[str], separator: str = ", ") -> str:
    """Return the first names and the number of the others."""
    return some(names, _MAX_LISTED, separator)


def one_domain(key: str) -> str:
    """Return a noun for one value of a topology key: ``a node``, ``a zone``, ``a domain of rack``."""
    known = _DOMAINS.get(key)
    return f"a {known}" if known is not None else f"a domain of {key}"


def domains(key: str) -> str:
    """Return a noun for the values of a topology key: ``nodes``, ``zones``, ``domains of rack``."""
    known = _DOMAINS.get(key)
    return f"{known}s" if known is not None else f"domains of {key}"


def preposition(key: str) -> str:
    return "on" if _DOMAINS.get(key) == "node" else "in"


def requirement(key: str, operator: str, values: Iterable[str] | None) -> str:
    """Return a requirement on a label or field in kubectl's notation: ``app=db``, ``tier in (a,b)``, ``!gpu``, ``cores>8``."""
    found = list(values or ())
    if operator in ("In", "NotIn"):
        if len(found) == 1:
            return f"{key}{'=' if operator == 'In' else '!='}{found[0]}"
        return f"{key} {operator.lower()} ({listed(found, ',')})"
    if operator in ("Exists", "DoesNotExist"):
        return key if operator == "Exists" else f"!{key}"
    return f"{key}{_NUMERIC.get(operator, f' {operator} ')}{listed(found, ',')}"


def selector(found: Selector) -> str:
    """Return the requirements of a label selector, all of which must hold."""
    return listed([_requirement(each) for each in found], ",")


def _requirement(found: LabelRequirement) -> str:
    return requirement(found.key, found.operator, found.values)


def pods(found: Selector, namespaces: frozenset[str] | None, own: str, *, others: bool = False) -> str:
    """Return the pods that a term selects, as text such as ``pods of app=db in namespace shop``.

    Args:
        found: Requirements of the selector.
        namespaces: Names of the namespaces; None: all namespaces.
        own: Namespace of the pod with the term. It is not mentioned if it is the only one.
        others: True to say ``other pods``, because the selector also matches the pod itself.
    """
    noun = f"{'other' if others else 'any'} pods" if not found else f"{'other ' if others else ''}pods of {selector(found)}"
    if namespaces is None:
        return f"{noun} in any namespace"
    if namespaces == {own}:
        return noun
    if not namespaces:
        return f"{noun} in no namespace"
    return f"{noun} in namespace{'s' if len(namespaces) > 1 else ''} {listed(sorted(namespaces))}"


def node_term(term: objects.NodeSelectorTerm) -> str:
    """Return the expressions of a node selector term, all of which must hold. Empty for an empty term, which matches nothing."""
    parts = [requirement(e.key, e.operator, e.values) for e in term.matchExpressions or ()]
    parts += [requirement(e.key, e.operator, e.values) for e in term.matchFields or ()]
    return listed(parts, ",")


def node_selector(found: objects.NodeSelector) -> str:
    """Return the terms of a node selector, one of which must hold. Empty if none can."""
    terms = [text for term in found.nodeSelectorTerms or () if (text := node_term(term))]
    if not terms:
        return ""
    return terms[0] if len(terms) == 1 else listed([f"({term})" for term in terms], " or ")


def labels(found: dict[str, str]) -> str:
    return listed([f"{key}={value}" for key, value in sorted(found.items())], ",")


def taint(found: objects.Taint) -> str:
    """Return ``key=value:Effect`` in kubectl's notation."""
    return f"{found.key}{'=' + found.value if found.value else ''}:{found.effect}"


def offer(resource: str, value: int) -> str:
    """Return a total capacity as text: ``74.3 cores``, ``500m``, ``1,290 cores``, ``255 GiB``."""
    if resource == "cpu":
        return numbers.cpu(value) + ("" if abs(value) < 1_000 else " core" if value == 1_000 else " cores")
    units = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
    power = min(len(units) - 1, max(0, abs(value).bit_length() - 1) // 10)
    return f"{quantity.rounded(value, 1 << 10 * power)} {units[power]}"
