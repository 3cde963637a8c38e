"""Tolerations of pods, and the taints that they cover.

Source: k8s.io/api/core/v1 (toleration.go) and k8s.io/component-helpers (scheduling/corev1), as of v1.36.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from typing import Final

from kubestow.checker.reading import matching
from kubestow.models.kube import objects
from kubestow.models.kube.feature_gates import FeatureGates

CORDON: Final = objects.Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
_HARD: Final = frozenset({"NoSchedule", "NoExecute"})
_CORDON: Final = objects.Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
_INT64_LIMIT: Final = 2**63
#: Largest number of tolerations or taints that are searched linearly. Longer lists are indexed.
_MAX_LINEAR_ITEMS: Final = 16
_INTEGER: Final = re.compile(r"(?:0|-?[1-9][0-9]*)\Z")


def _integer(text: str | None) -> int | None:
    """Return a taint's or toleration's value as a 64-bit integer in canonical form, for Gt and Lt; None for other values."""
    if text is None or len(text) > 20 or not _INTEGER.match(text):
        return None
    value = int(text)
    return value if -_INT64_LIMIT <= value < _INT64_LIMIT else None


def _compares(toleration: objects.Toleration, taint: objects.Taint) -> bool:
    offered, requested = _integer(taint.value), _integer(toleration.value)
    if offered is None or requested is None:
        return False
    return offered > requested if toleration.operator == "Gt" else offered < requested


def tolerates(toleration: objects.Toleration, taint: objects.Taint, *, compare: bool) -> bool:
    """Return True if one toleration covers one taint.

    An empty key or effect of the toleration covers all keys or effects. The operators Gt and Lt count only with ``compare``.
    """
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    match toleration.operator:
        case "Exists":
            return True
        case None | "" | "Equal":
            return (toleration.value or "") == (taint.value or "")
        case "Gt" | "Lt":
            return compare and _compares(toleration, taint)
    return False


_First = matching.Once[Sequence[objects.Taint], objects.Taint | None]


class _Tolerations:
    """An index of many tolerations by key and value, with the effects that they cover. Tolerations without a value are
    filed under None.
    """

    def __init__(self, tolerations: Sequence[objects.Toleration], *, compare: bool) -> None:
        self._effects: dict[tuple[str, str | None], set[str]] = {}
        self._comparing = [each for each in tolerations if compare and each.operator in ("Gt", "Lt")]
        for each in tolerations:
            if each.operator in (None, "", "Equal", "Exists"):
                value = None if each.operator == "Exists" else each.value or ""
                self._effects.setdefault((each.key or "", value), set()).add(each.effect or "")
        self.first_untolerated: _First = matching.Once(lambda taints: self._first(taints, None))
        self.first_but_cordon: _First = matching.Once(lambda taints: self._first(taints, CORDON.key))

    def cover(self, taint: objects.Taint) -> bool:
        """Return True if a toleration covers the taint."""
        found = (self._effects.get((key, value), ()) for key in (taint.key, "") for value in (taint.value or "", None))
        if any(taint.effect in effects or "" in effects for effects in found):
            return True
        return any(tolerates(each, taint, compare=True) for each in self._comparing)

    def _first(self, taints: Sequence[objects.Taint], but: str | None) -> objects.Taint | None:
        return next((taint for taint in taints if taint.effect in _HARD and taint.key != but and not self.cover(taint)), None)


#: Indexed tolerations: without and with support for Gt and Lt.
_filed: Final = (matching.Once(partial(_Tolerations, compare=False)), matching.Once(partial(_Tolerations, compare=True)))


def _compare(tolerations: Sequence[objects.Toleration], gates: FeatureGates) -> bool:
    if not gates.enabled("TaintTolerationComparisonOperators"):
        return False
    return len(tolerations) > _MAX_LINEAR_ITEMS or any(each.operator in ("Gt", "Lt") for each in tolerations)


def tolerated(tolerations: Sequence[objects.Toleration] | None, taint: objects.Taint, gates: FeatureGates) -> bool:
    """Return True if one of the tolerations covers the taint."""
    given = tolerations or ()
    compare = _compare(given, gates)
    return (
        any(tolerates(each, taint, compare=compare) for each in given)
        if len(given) <= _MAX_LINEAR_ITEMS
        else _filed[compare](given).cover(taint)
    )


def untolerated_taint(
    tolerations: Sequence[objects.Toleration] | None, taints: Sequence[objects.Taint], gates: FeatureGates, *, running: bool = False
) -> objects.Taint | None:
    """Return the first NoSchedule or NoExecute taint that no toleration covers. For a ``running`` pod a cordon's taint is ignored."""
    if not taints:
        return None
    given = tolerations or ()
    compare = _compare(given, gates)
    if len(given) > _MAX_LINEAR_ITEMS or len(taints) > _MAX_LINEAR_ITEMS:
        filed = _filed[compare](given)
        return (filed.first_but_cordon if running else filed.first_untolerated)(taints)
    but = CORDON.key if running else None
    for taint in taints:
        if taint.effect in _HARD and taint.key != but and not any(tolerates(each, taint, compare=compare) for each in given):
            return taint
    return None
