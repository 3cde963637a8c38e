"""Matching of label selectors, node selectors and tolerations, for single objects and for all nodes at once.

Sources: k8s.io/apimachinery/pkg/labels/selector.go, k8s.io/component-helpers/scheduling/corev1/nodeaffinity and
k8s.io/api/core/v1/toleration.go.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kubestow.models.kube.feature_gates import FeatureGates
from kubestow.models.kube.objects import LabelSelector, Node, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Taint, Toleration

Bools = NDArray[np.bool_]
Codes = NDArray[np.int32]

UNSCHEDULABLE_TAINT = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")


class LabelRequirement(NamedTuple):
    """One label requirement.

    Attributes:
        key: Label key.
        operator: ``In``, ``NotIn``, ``Exists`` or ``DoesNotExist``.
        values: Values, sorted.
    """

    key: str
    operator: str
    values: tuple[str, ...]


#: Largest number of values that are searched linearly. Longer lists are searched by bisection.
_MAX_LINEAR_VALUES = 16

#: A label selector in canonical form: sorted requirements that must all hold. ``()`` matches everything, None nothing.
Selector = tuple[LabelRequirement, ...]


def canonical(selector: LabelSelector | None, extra: Iterable[LabelRequirement] = ()) -> Selector | None:
    """Return the canonical form of a selector joined with ``extra`` requirements. A nil selector stays nil and ignores ``extra``."""
    if selector is None:
        return None
    requirements = {LabelRequirement(k, "In", (v,)) for k, v in (selector.matchLabels or {}).items()}
    requirements |= {LabelRequirement(e.key, e.operator, tuple(sorted(set(e.values or ())))) for e in selector.matchExpressions or ()}
    requirements |= set(extra)
    return tuple(sorted(requirements))


def label_key_requirements(
    labels: Mapping[str, str], match_keys: Iterable[str] | None, mismatch_keys: Iterable[str] | None = None
) -> list[LabelRequirement]:
    """Return the requirements that matchLabelKeys and mismatchLabelKeys add to a selector.

    Only keys that the pod carries count (pkg/registry/core/pod/strategy.go, applyMatchLabelKeysAndMismatchLabelKeys).
    """
    return [LabelRequirement(k, "In", (labels[k],)) for k in match_keys or () if k in labels] + [
        LabelRequirement(k, "NotIn", (labels[k],)) for k in mismatch_keys or () if k in labels
    ]


def requirement_holds(requirement: LabelRequirement, labels: Mapping[str, str]) -> bool:
    key, operator, values = requirement
    if operator == "In":
        return key in labels and _among(labels[key], values)
    if operator == "NotIn":
        return key not in labels or not _among(labels[key], values)
    if operator == "Exists":
        return key in labels
    if operator == "DoesNotExist":
        return key not in labels
    return False  # only without validation: a selector with an unknown operator matches nothing


def _among(value: str, values: tuple[str, ...]) -> bool:
    """Return True if the sorted values include a value."""
    if len(values) <= _MAX_LINEAR_VALUES:
        return value in values
    at = bisect_left(values, value)
    return at < len(values) and values[at] == value


def selector_matches(selector: Selector | None, labels: Mapping[str, str]) -> bool:
    return selector is not None and all(requirement_holds(r, labels) for r in selector)


# --- nodes ------------------------------------------------------------------------------------------------------------


_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?\Z", re.ASCII)


_KEY = re.compile(
    r"((?=[^/]{1,253}/)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?\Z",
    re.ASCII,
)


def is_label_key(text: str) -> bool:
    """Return True if a text is a valid key of a label or taint."""
    return _KEY.match(text) is not None


@lru_cache(maxsize=4096)
def is_label_value(text: str) -> bool:
    """Return True if a text is a valid label value.

    A node selector term with an invalid value matches no node, regardless of its operator (labels.NewRequirement rejects it).
    """
    return _VALUE.match(text) is not None


@lru_cache(maxsize=4096)
def _whole(text: str) -> int | None:
    """Return a label value as a whole number for Gt and Lt, or None. Label values have no sign, so ``-5`` and ``+2``
    are never numbers.
    """
    if text.isascii() and text.isdigit():
        value = int(text)
        return value if value < 2**63 else None
    return None


class NodeColumns:
    """Labels, taints and names of all nodes, by column.

    Attributes:
        size: Number of nodes N.
        names: Names of the nodes.
        unschedulable: bool[N], True for cordoned nodes.
        taint_sets: int32[N], equal for nodes with equal taints.
    """

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.size = len(nodes)
        self.names = [n.metadata.name or "" for n in nodes]
        self._labels = [n.metadata.labels or {} for n in nodes]
        self._taints: list[tuple[Taint, ...]] = [tuple((n.spec.taints if n.spec else None) or ()) for n in nodes]
        self.unschedulable: Bools = np.array([bool(n.spec and n.spec.unschedulable) for n in nodes], dtype=bool)
        self._columns: dict[str, tuple[Codes, list[str]]] = {}
        self._codes: dict[str, dict[str, int]] = {}
        self._keyed: dict[tuple[str, ...], Bools] = {}
        sets = {taints_key(t): t for t in self._taints}
        keys = {k: i for i, k in enumerate(sets)}
        self._taint_sets = list(sets.values())
        self.taint_sets = np.array([keys[taints_key(t)] for t in self._taints], dtype=np.int32)

    @cached_property
    def _named(self) -> dict[str, list[int]]:
        """Indices of nodes by name."""
        found: dict[str, list[int]] = {}
        for n, name in enumerate(self.names):
            found.setdefault(name, []).append(n)
        return found

    def column(self, key: str) -> tuple[Codes, list[str]]:
        """Return the values of a label key, which are its topology domains.

        Returns:
            The code of each node's value (int32[N], -1 if the node lacks the key), and the values by code.
        """
        column = self._columns.get(key)
        if column is None:
            codes = np.full(self.size, -1, dtype=np.int32)
            index: dict[str, int] = {}
            for n, labels in enumerate(self._labels):
                value = labels.get(key)
                if value is not None:
                    codes[n] = index.setdefault(value, len(index))
            self._codes[key] = index
            column = self._columns[key] = (codes, list(index))
        return column

    def labels(self, node: int) -> Mapping[str, str]:
        return self._labels[node]

    def taints(self, node: int) -> tuple[Taint, ...]:
        return self._taints[node]

    def _by_value(self, key: str, wanted: Iterable[bool], missing: bool) -> Bools:
        codes, _ = self.column(key)
        table = np.array([*wanted, missing], dtype=bool)  # code -1 selects the last entry
        return table[codes]

    def with_values(self, key: str, values: Iterable[str]) -> Bools:
        """Return bool[N], True for nodes whose label has one of the values, found by lookup."""
        codes, listed = self.column(key)
        index = self._codes[key]
        table = np.zeros(len(listed) + 1, dtype=bool)  # code -1 selects the last entry
        table[[index[value] for value in values if value in index]] = True
        return np.asarray(table[codes], dtype=bool)

    def _expression(self, requirement: NodeSelectorRequirement) -> Bools:
        key, operator, values = requirement.key, requirement.operator, requirement.values or []
        if not all(is_label_value(v) for v in values):
            return np.zeros(self.size, dtype=bool)
        codes, listed = self.column(key)
        if operator in ("In", "NotIn"):
            among = self.with_values(key, values)
            return among if operator == "In" else ~among
        if operator == "Exists":
            return np.asarray(codes >= 0, dtype=bool)
        if operator == "DoesNotExist":
            return np.asarray(codes < 0, dtype=bool)
        limit = _whole(values[0]) if operator in ("Gt", "Lt") and len(values) == 1 else None
        if limit is None:
            return np.zeros(self.size, dtype=bool)
        numbers = [_whole(v) for v in listed]
        if operator == "Gt":
            return self._by_value(key, (x is not None and x > limit for x in numbers), False)
        return self._by_value(key, (x is not None and x < limit for x in numbers), False)

    def _field(self, requirement: NodeSelectorRequirement) -> Bools:
        values = requirement.values or []
        if len(values) != 1 or requirement.operator not in ("In", "NotIn"):
            return np.zeros(self.size, dtype=bool)
        equal = np.full(self.size, requirement.key != "metadata.name" and not values[0], dtype=bool)
        if requirement.key == "metadata.name":
            equal[self._named.get(values[0], [])] = True
        return equal if requirement.operator == "In" else ~equal

    def term(self, term: NodeSelectorTerm) -> Bools:
        """Return bool[N], True for nodes that a node selector term matches. An empty term matches none."""
        parts = [self._expression(e) for e in term.matchExpressions or ()] + [self._field(f) for f in term.matchFields or ()]
        if not parts:
            return np.zeros(self.size, dtype=bool)
        return np.asarray(np.logical_and.reduce(parts), dtype=bool)

    def selector(self, selector: NodeSelector) -> Bools:
        """Return bool[N], True for nodes that any of the nodeSelectorTerms matches. An empty list matches none."""
        mask = np.zeros(self.size, dtype=bool)
        for term in selector.nodeSelectorTerms or ():
            mask |= self.term(term)
        return mask

    def has_labels(self, labels: Mapping[str, str]) -> Bools:
        """Return bool[N], True for nodes that carry all these label values (a pod's nodeSelector)."""
        mask = np.ones(self.size, dtype=bool)
        for key, value in labels.items():
            mask &= self.with_values(key, (value,))
        return mask

    def with_keys(self, keys: Iterable[str]) -> Bools:
        """Return bool[N], True for nodes that carry all these label keys. The array is shared and read-only."""
        wanted = tuple(keys)
        if wanted not in self._keyed:
            mask = np.ones(self.size, dtype=bool)
            for key in wanted:
                mask &= self.column(key)[0] >= 0
            mask.setflags(write=False)
            self._keyed[wanted] = mask
        return self._keyed[wanted]

    def tolerated(self, tolerations: Tolerations, effects: frozenset[str]) -> Bools:
        """Return bool[N], True for nodes whose taints with these effects are all tolerated."""
        ok = [all(tolerations.cover(taint) for taint in taints if taint.effect in effects) for taints in self._taint_sets]
        return np.array(ok, dtype=bool)[self.taint_sets] if ok else np.ones(self.size, dtype=bool)


def taints_key(taints: Iterable[Taint]) -> tuple[tuple[str, str, str], ...]:
    return tuple(sorted((t.key, t.value or "", t.effect) for t in taints))


_NUMBER = re.compile(r"(0|-?[1-9][0-9]{0,18})\Z", re.ASCII)


def _number(text: str | None) -> int | None:
    """Return a taint's or toleration's value as a number for Gt and Lt, or None: 64 bits, without plus sign, leading zeros, or ``-0``."""
    value = int(text) if text is not None and _NUMBER.match(text) else None
    return value if value is not None and -(2**63) <= value < 2**63 else None


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Return True if one toleration covers one taint (core/v1 Toleration.ToleratesTaint).

    The operators Gt and Lt count here. :class:`Tolerations` checks whether the feature gates enable them.
    """
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    operator = toleration.operator or "Equal"
    if operator in ("Gt", "Lt"):
        offered, threshold = _number(taint.value), _number(toleration.value)
        return offered is not None and threshold is not None and (offered > threshold if operator == "Gt" else offered < threshold)
    return operator == "Exists" or (operator == "Equal" and (toleration.value or "") == (taint.value or ""))


class Tolerations:
    """The tolerations of a pod, indexed so that checking a taint takes constant time."""

    def __init__(self, tolerations: Iterable[Toleration] | None, gates: FeatureGates) -> None:
        self._exists: set[tuple[str, str]] = set()
        self._equal: set[tuple[str, str, str]] = set()
        self._comparing: list[Toleration] = []
        for toleration in tolerations or ():
            key, effect, operator = toleration.key or "", toleration.effect or "", toleration.operator or "Equal"
            if operator == "Exists":
                self._exists.add((key, effect))
            elif operator == "Equal":
                self._equal.add((key, effect, toleration.value or ""))
            elif operator in ("Gt", "Lt") and gates.enabled("TaintTolerationComparisonOperators"):
                self._comparing.append(toleration)

    def cover(self, taint: Taint) -> bool:
        """Return True if any toleration covers the taint. An empty key or effect covers all."""
        value = taint.value or ""
        for key in (taint.key, ""):
            for effect in (taint.effect, ""):
                if (key, effect) in self._exists or (key, effect, value) in self._equal:
                    return True
        return any(tolerates(each, taint) for each in self._comparing)
