"""Label selectors, node selectors, taints and tolerations, as the checker reads them.

The checker has matching code of its own on purpose: it shares none with the solver, so that a fault there cannot hide here.

Source: k8s.io/apimachinery/pkg/labels, k8s.io/component-helpers/scheduling/corev1 and k8s.io/api/core/v1 (toleration.go).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final, Generic, NamedTuple, TypeVar

import msgspec

from models.kube import objects, storage_objects

Labels = Mapping[str, str]
Profile = tuple[str, frozenset[tuple[str, str]]]  # namespace and labels: all that selectors see of a pod

_VALUE: Final = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)?\Z")
_WHOLE: Final = re.compile(r"[0-9]+\Z")
_INT64_LIMIT: Final = 2**63
_LABEL_OPERATORS: Final = frozenset({"In", "NotIn", "Exists", "DoesNotExist"})
_NODE_OPERATORS: Final = _LABEL_OPERATORS | {"Gt", "Lt"}


def text(*parts: object) -> bytes | str:
    """Equal for parts that read the same; replicas then share what is worked out for one of them."""
    try:
        return msgspec.json.encode(parts)
    except (OverflowError, ValueError):  # numbers beyond 64 bits, lone surrogates
        return repr(parts)


class InvalidSelector(ValueError):
    """A selector that the API server would refuse; the scheduler then rejects the pod, or ignores the term of a running one."""


class Requirement(NamedTuple):
    """One expression: ``operator`` is In, NotIn, Exists, DoesNotExist, Gt or Lt."""

    key: str
    operator: str
    values: tuple[str, ...]

    def holds(self, labels: Labels) -> bool:
        value = labels.get(self.key)
        match self.operator:
            case "In":
                return value is not None and value in self.values
            case "NotIn":
                return value is None or value not in self.values
            case "Exists":
                return value is not None
            case "DoesNotExist":
                return value is None
        if value is None or not _is_whole(value):
            return False
        return int(value) > int(self.values[0]) if self.operator == "Gt" else int(value) < int(self.values[0])


_CORDON: Final = objects.Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
#: Requirements in a canonical order, all of which must hold; ``None`` selects nothing, ``()`` everything.
Selector = tuple[Requirement, ...] | None


def _is_whole(text: str) -> bool:
    return len(text) <= 63 and _WHOLE.match(text) is not None and int(text) < _INT64_LIMIT


def _requirement(key: str, operator: str, values: Sequence[str], operators: frozenset[str]) -> Requirement:
    if operator not in operators:
        raise InvalidSelector(f"{operator!r} is not an operator here")
    if operator in ("In", "NotIn") and not values:
        raise InvalidSelector(f"{operator} on {key!r} needs a value")
    if operator in ("Exists", "DoesNotExist") and values:
        raise InvalidSelector(f"{operator} on {key!r} takes no value")
    if operator in ("Gt", "Lt") and not (len(values) == 1 and _is_whole(values[0])):
        raise InvalidSelector(f"{operator} on {key!r} needs one whole number")
    if operators is _NODE_OPERATORS:  # pods' labels are taken as they are, in any script
        for value in values:
            if len(value) > 63 or not _VALUE.match(value):
                raise InvalidSelector(f"{value!r} is not a label value")
    return Requirement(key, operator, tuple(sorted(set(values))))


@lru_cache(maxsize=4096)
def _node_requirement(key: str, operator: str, values: tuple[str, ...]) -> Requirement | None:
    """An expression of a node selector, None if it is invalid."""
    try:
        return _requirement(key, operator, values, _NODE_OPERATORS)
    except InvalidSelector:
        return None


def label_selector(selector: objects.LabelSelector | None, extra: Iterable[Requirement] = ()) -> Selector:
    """Return the canonical form of a label selector, with ``extra`` requirements joined (matchLabelKeys); a nil selector stays nil.

    Raises:
        InvalidSelector: an operator that the API does not allow, or a wrong number of values.
    """
    if selector is None:
        return None
    found = set(extra)
    for key, value in (selector.matchLabels or {}).items():
        found.add(_requirement(key, "In", (value,), _LABEL_OPERATORS))
    for expression in selector.matchExpressions or ():
        found.add(_requirement(expression.key, expression.operator, expression.values or (), _LABEL_OPERATORS))
    return tuple(sorted(found))


def selects(selector: Selector, labels: Labels) -> bool:
    """Return whether the labels satisfy the selector."""
    return selector is not None and all(requirement.holds(labels) for requirement in selector)


T = TypeVar("T")


class Shelf(Generic[T]):
    """Things that have a selector, filed under one of its `In` requirements: a pod then meets only those that may select it."""

    def __init__(self) -> None:
        self._by_label: dict[tuple[str, str], dict[T, None]] = {}
        self._loose: dict[T, None] = {}

    def file(self, selector: Selector, thing: T) -> None:
        anchor = next((requirement for requirement in selector or () if requirement.operator == "In"), None)
        if anchor is None:
            self._loose[thing] = None
        else:
            for value in anchor.values:
                self._by_label.setdefault((anchor.key, value), {})[thing] = None

    def candidates(self, labels: Labels) -> Iterator[T]:
        """Return each thing at most once (a pod has one value per label); whether it does select is the caller's to decide."""
        yield from self._loose
        for pair in labels.items():
            yield from self._by_label.get(pair, ())


def _field_holds(expression: objects.NodeSelectorRequirement, node_name: str) -> bool:
    values = expression.values or []
    if expression.key != "metadata.name" or len(values) != 1:
        return False
    if expression.operator == "In":
        return values[0] == node_name
    return expression.operator == "NotIn" and values[0] != node_name


def term_holds(term: objects.NodeSelectorTerm, labels: Labels, node_name: str) -> bool:
    """Return whether a node selector term holds. An empty term holds nowhere; a term with an invalid expression neither."""
    if not term.matchExpressions and not term.matchFields:
        return False
    for expression in term.matchExpressions or ():
        requirement = _node_requirement(expression.key, expression.operator, tuple(expression.values or ()))
        if requirement is None or not requirement.holds(labels):
            return False
    return all(_field_holds(expression, node_name) for expression in term.matchFields or ())


def node_selector_holds(selector: objects.NodeSelector | None, labels: Labels, node_name: str) -> bool:
    """Terms are ORed; no selector holds everywhere, a selector without terms nowhere."""
    if selector is None:
        return True
    return any(term_holds(term, labels, node_name) for term in selector.nodeSelectorTerms or ())


def node_affinity_fault(spec: objects.PodSpec, node: objects.Node) -> str | None:
    """Return why the pod's nodeSelector or required node affinity refuses the node; None if both accept it."""
    if not spec.nodeSelector and spec.affinity is None:
        return None
    labels = node.metadata.labels or {}
    for key, value in (spec.nodeSelector or {}).items():
        if labels.get(key) != value:
            return f"nodeSelector wants {key}={value}, the node has {labels.get(key)!r}"
    affinity = spec.affinity.nodeAffinity if spec.affinity else None
    if affinity is None:
        return None
    for field, selector in (
        ("requiredDuringSchedulingIgnoredDuringExecution", affinity.requiredDuringSchedulingIgnoredDuringExecution),
        ("requiredDuringSchedulingRequiredDuringExecution", affinity.requiredDuringSchedulingRequiredDuringExecution),
    ):
        if not node_selector_holds(selector, labels, node.metadata.name or ""):
            return f"no term of nodeAffinity.{field} matches the node"
    return None


def tolerates(toleration: objects.Toleration, taint: objects.Taint) -> bool:
    """Return whether one toleration covers one taint; an empty key or effect of the toleration covers all keys or effects."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    return toleration.operator in (None, "", "Equal") and (toleration.value or "") == (taint.value or "")


def untolerated_taint(tolerations: Sequence[objects.Toleration] | None, taints: Iterable[objects.Taint]) -> objects.Taint | None:
    """Return the first NoSchedule or NoExecute taint that no toleration covers."""
    for taint in taints:
        hard = taint.effect in ("NoSchedule", "NoExecute")
        if hard and not any(tolerates(toleration, taint) for toleration in tolerations or ()):
            return taint
    return None


def node_faults(spec: objects.PodSpec, node: objects.Node, *, running: bool = False) -> list[tuple[str, str]]:
    """Return the rules in which no other pod has a part and that reject a pod on the node, with the reason. ``running``: it is there
    already, and a cordon turns nobody out."""
    found: list[tuple[str, str]] = []
    if node.spec is not None:
        if node.spec.unschedulable and not running and untolerated_taint(spec.tolerations, [_CORDON]):
            found.append(("NodeUnschedulable", "the node is cordoned"))
        taint = untolerated_taint(spec.tolerations, (t for t in node.spec.taints or () if not running or t.key != _CORDON.key))
        if taint:
            found.append(("TaintToleration", f"taint {taint.key}={taint.value or ''}:{taint.effect} is not tolerated"))
    refused = node_affinity_fault(spec, node)
    return [*found, ("NodeAffinity", refused)] if refused else found


def in_topology_terms(terms: Sequence[storage_objects.TopologySelectorTerm] | None, labels: Labels) -> bool:
    """StorageClass.allowedTopologies: terms are ORed, expressions ANDed; no terms allow every node, an empty term none."""
    if not terms:
        return True
    return any(
        term.matchLabelExpressions and all(labels.get(e.key) in (e.values or ()) for e in term.matchLabelExpressions) for term in terms
    )
