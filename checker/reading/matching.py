"""Label selectors and node selectors as the checker reads them.

The checker has its own matching code on purpose. It shares none with the solver, so that a fault there cannot hide here.

Source: k8s.io/apimachinery/pkg/labels and k8s.io/component-helpers/scheduling/corev1.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, Generic, NamedTuple, TypeVar

import msgspec

from kubestow.models.kube import objects, storage_objects

Labels = Mapping[str, str]
Profile = tuple[str, frozenset[tuple[str, str]]]  # namespace and labels: everything that selectors read of a pod

_VALUE: Final = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)?\Z")
_WHOLE: Final = re.compile(r"[0-9]+\Z")
_NAMESPACE_NAME: Final = "kubernetes.io/metadata.name"
_INT64_LIMIT: Final = 2**63
_LABEL_OPERATORS: Final = frozenset({"In", "NotIn", "Exists", "DoesNotExist"})
_NODE_OPERATORS: Final = _LABEL_OPERATORS | {"Gt", "Lt"}
#: Largest number of values or terms that are searched linearly. Longer lists are indexed.
_MAX_LINEAR_ITEMS: Final = 16
#: Largest number of objects whose results :class:`Once` keeps.
_MAX_CACHED_OBJECTS: Final = 4096

T = TypeVar("T")
R = TypeVar("R")


def namespace_labels(known: Mapping[str, Labels], name: str) -> Labels:
    """Return the labels of a namespace. A namespace without an object has only the label with its name."""
    return known.get(name, {_NAMESPACE_NAME: name})


class Once(Generic[T, R]):
    """A cached function of an object, keyed by the object's identity. The object must not change."""

    def __init__(self, make: Callable[[T], R]) -> None:
        self._make = make
        self._made: dict[int, tuple[T, R]] = {}

    def __call__(self, thing: T) -> R:
        """Return the result for an object."""
        found = self._made.get(id(thing))
        if found is None:  # the cache keeps the object in memory, so that its id is not reused
            if len(self._made) >= _MAX_CACHED_OBJECTS:
                self._made.clear()
            found = self._made[id(thing)] = thing, self._make(thing)
        return found[1]

    def clear(self) -> None:
        """Forget every object and its result."""
        self._made.clear()


def text(*parts: object) -> bytes | str:
    """Return a text that is equal for parts of equal content, so that replicas share results."""
    try:
        return msgspec.json.encode(parts)
    except (OverflowError, ValueError):  # numbers beyond 64 bits, lone surrogates
        return repr(parts)


class InvalidSelector(ValueError):
    """A selector that the API server would reject. The scheduler rejects the pod, or ignores the term of a running one."""


class SelectorRequirement(NamedTuple):
    """One expression of a selector.

    Attributes:
        key: Label key.
        operator: In, NotIn, Exists, DoesNotExist, Gt or Lt.
        values: Values, sorted.
    """

    key: str
    operator: str
    values: tuple[str, ...]

    def holds(self, labels: Labels) -> bool:
        """Return True if the labels satisfy the expression."""
        value = labels.get(self.key)
        match self.operator:
            case "In":
                return value is not None and self._lists(value)
            case "NotIn":
                return value is None or not self._lists(value)
            case "Exists":
                return value is not None
            case "DoesNotExist":
                return value is None
        if value is None or not _is_whole(value):
            return False
        return int(value) > int(self.values[0]) if self.operator == "Gt" else int(value) < int(self.values[0])

    def _lists(self, value: str) -> bool:
        """Return True if the sorted values include this one."""
        if len(self.values) <= _MAX_LINEAR_ITEMS:
            return value in self.values
        at = bisect_left(self.values, value)
        return at < len(self.values) and self.values[at] == value


#: Requirements in canonical order that must all hold; ``None`` selects nothing, ``()`` everything.
Selector = tuple[SelectorRequirement, ...] | None


def _is_whole(text: str) -> bool:
    return len(text) <= 63 and _WHOLE.match(text) is not None and int(text) < _INT64_LIMIT


def _requirement(key: str, operator: str, values: Sequence[str], operators: frozenset[str]) -> SelectorRequirement:
    if operator not in operators:
        raise InvalidSelector(f"{operator!r} is not an operator here")
    if operator in ("In", "NotIn") and not values:
        raise InvalidSelector(f"{operator} on {key!r} needs a value")
    if operator in ("Exists", "DoesNotExist") and values:
        raise InvalidSelector(f"{operator} on {key!r} takes no value")
    if operator in ("Gt", "Lt") and not (len(values) == 1 and _is_whole(values[0])):
        raise InvalidSelector(f"{operator} on {key!r} needs one whole number")
    if operators is _NODE_OPERATORS:  # values for pods' labels are not validated
        for value in values:
            if len(value) > 63 or not _VALUE.match(value):
                raise InvalidSelector(f"{value!r} is not a label value")
    return SelectorRequirement(key, operator, tuple(sorted(set(values))))


def _node_requirements(term: objects.NodeSelectorTerm) -> list[SelectorRequirement] | None:
    """Return the matchExpressions of a node selector term, or None if one is invalid."""
    try:
        return [_requirement(each.key, each.operator, each.values or (), _NODE_OPERATORS) for each in term.matchExpressions or ()]
    except InvalidSelector:
        return None


_requirements_of: Final = Once(_node_requirements)


def label_selector(selector: objects.LabelSelector | None, extra: Iterable[SelectorRequirement] = ()) -> Selector:
    """Return the canonical form of a label selector. A nil selector stays nil.

    Args:
        selector: The selector.
        extra: Requirements to add (matchLabelKeys).

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
    """Return True if the labels satisfy the selector."""
    return selector is not None and all(requirement.holds(labels) for requirement in selector)


class Shelf(Generic[T]):
    """An index of items by selector. Each item is filed under one `In` requirement, so that a pod is tested only
    against items that may select it.
    """

    def __init__(self) -> None:
        self._things: dict[T, int] = {}  # numbers, because an item with thousands of values is slow to hash
        self._filed: list[T] = []
        self._by_label: dict[tuple[str, str], dict[int, None]] = {}
        self._loose: dict[int, None] = {}

    def file(self, selector: Selector, thing: T) -> None:
        """Add an item under its selector."""
        anchor = next((requirement for requirement in selector or () if requirement.operator == "In"), None)
        number = self._things.setdefault(thing, len(self._filed))
        if number == len(self._filed):
            self._filed.append(thing)
        if anchor is None:
            self._loose[number] = None
        else:
            for value in anchor.values:
                self._by_label.setdefault((anchor.key, value), {})[number] = None

    def candidates(self, labels: Labels) -> Iterator[T]:
        """Yield the items that may select these labels, each once. The caller decides whether they do."""
        yield from map(self._filed.__getitem__, self._loose)
        for pair in labels.items():
            yield from map(self._filed.__getitem__, self._by_label.get(pair, ()))


def _field_holds(expression: objects.NodeSelectorRequirement, node_name: str) -> bool:
    """Return True if a matchFields expression holds for the node."""
    values = expression.values or []
    if expression.key != "metadata.name" or len(values) != 1:
        return False
    if expression.operator == "In":
        return values[0] == node_name
    return expression.operator == "NotIn" and values[0] != node_name


def term_holds(term: objects.NodeSelectorTerm, labels: Labels, node_name: str) -> bool:
    """Return True if a node selector term holds. An empty term, or one with an invalid expression, never holds."""
    if not term.matchExpressions and not term.matchFields:
        return False
    requirements = _requirements_of(term)
    if requirements is None or not all(requirement.holds(labels) for requirement in requirements):
        return False
    return all(_field_holds(expression, node_name) for expression in term.matchFields or ())


class _Alternatives:
    """An index of the terms of a long node selector, by the node name or label that each requires."""

    def __init__(self, terms: Sequence[objects.NodeSelectorTerm]) -> None:
        self._named: dict[str, list[objects.NodeSelectorTerm]] = {}
        self._labelled: dict[str, dict[str, list[objects.NodeSelectorTerm]]] = {}
        self._loose: list[objects.NodeSelectorTerm] = []
        for term in terms:
            field = next((each for each in term.matchFields or () if each.operator == "In"), None)
            label = next((each for each in term.matchExpressions or () if each.operator == "In"), None)
            if field is not None:
                for name in field.values or ():
                    self._named.setdefault(name, []).append(term)
            elif label is not None:
                by_value = self._labelled.setdefault(label.key, {})
                for value in label.values or ():
                    by_value.setdefault(value, []).append(term)
            else:
                self._loose.append(term)

    def candidates(self, labels: Labels, node_name: str) -> Iterator[objects.NodeSelectorTerm]:
        """Yield the terms that may hold on a node."""
        yield from self._named.get(node_name, ())
        for key, by_value in self._labelled.items():
            yield from by_value.get(labels.get(key, ""), ()) if key in labels else ()
        yield from self._loose


_alternatives: Final = Once(_Alternatives)


def node_selector_holds(selector: objects.NodeSelector | None, labels: Labels, node_name: str) -> bool:
    """Return True if any term holds. No selector always holds; a selector without terms never does."""
    if selector is None:
        return True
    terms = selector.nodeSelectorTerms or ()
    among = terms if len(terms) <= _MAX_LINEAR_ITEMS else _alternatives(terms).candidates(labels, node_name)
    return any(term_holds(term, labels, node_name) for term in among)


def is_node_selector(selector: objects.NodeSelector) -> bool:
    """Return True if every term can be parsed. An unparsable term makes the whole selector an error for readers that do not skip it."""
    terms = selector.nodeSelectorTerms or ()
    fields = [field for term in terms for field in term.matchFields or ()]
    if not all(field.operator in ("In", "NotIn") and len(field.values or ()) == 1 for field in fields):
        return False
    return all(_requirements_of(term) is not None for term in terms)


def node_affinity_fault(spec: objects.PodSpec, node: objects.Node) -> str | None:
    """Return why the pod's nodeSelector or required node affinity rejects the node, or None."""
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


def in_topology_terms(terms: Sequence[storage_objects.TopologySelectorTerm] | None, labels: Labels) -> bool:
    """Return True if a StorageClass's allowedTopologies allow the node.

    Terms are ORed, expressions ANDed. No terms allow every node; an empty term allows none.
    """
    if not terms:
        return True
    return any(
        term.matchLabelExpressions and all(labels.get(e.key) in (e.values or ()) for e in term.matchLabelExpressions) for term in terms
    )
