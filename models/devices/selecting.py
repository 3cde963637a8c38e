"""Cached results of selectors on kinds of devices, and the attributes that selectors read."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from kubestow.models.cel import selectors
from kubestow.models.devices.inventory import DeviceKind
from kubestow.models.kube.feature_gates import FeatureGates
from kubestow.models.kube.lenient_decode import shorten

#: ("attributes" or "capacity", domain, name).
Read = tuple[str, str, str]

_TOKEN: Final = re.compile(r""""[^"\n]*"|'[^'\n]*'|[A-Za-z_]\w*|\s+|.""")
_ENTRIES: Final = ("attributes", "capacity")
_PLAIN: Final = ("driver", "allowMultipleAllocations")


def reads(expressions: Iterable[str]) -> frozenset[Read] | None:
    """Return the device data that expressions read beyond driver and allowMultipleAllocations; None if unclear."""
    found: set[Read] = set()
    for expression in expressions:
        if "\\" in expression or '"""' in expression or "'''" in expression:
            return None
        tokens = [token for token in _TOKEN.findall(expression) if not token.isspace()]
        at = 0
        while at < len(tokens):
            if tokens[at] != "device":
                at += 1
                continue
            read, at = _path(tokens, at)
            if read is None:
                return None
            found.update(read)
    return frozenset(found)


def _path(tokens: list[str], at: int) -> tuple[list[Read] | None, int]:
    """Return the data read by the path that starts with ``device`` at a position, and its end. None: it may read anything."""
    if tokens[at + 1 : at + 2] != ["."] or at + 2 >= len(tokens):
        return None, at
    field, at = tokens[at + 2], at + 3
    if field in _PLAIN:
        return [], at
    domain, at = _index(tokens, at)
    if field not in _ENTRIES or domain is None:
        return None, at
    name, after = _index(tokens, at)
    if name is None and tokens[at : at + 1] == ["."]:
        start = at + 2 if tokens[at + 1 : at + 2] == ["?"] else at + 1
        # otherwise a macro over all names
        if start < len(tokens) and tokens[start].isidentifier() and tokens[start + 1 : start + 2] != ["("]:
            name, after = tokens[start], start + 1
    return (None, at) if name is None else ([(field, domain, name)], after)


def _index(tokens: list[str], at: int) -> tuple[str | None, int]:
    """Return the literal of ``["literal"]`` or ``[?"literal"]`` at a position, and its end."""
    if tokens[at : at + 1] == ["["]:
        start = at + 2 if tokens[at + 1 : at + 2] == ["?"] else at + 1
        if tokens[start + 1 : start + 2] == ["]"] and tokens[start][0] in "\"'":
            return tokens[start][1:-1], start + 2
    return None, at


class DeviceSelecting:
    """Cached test of whether all selectors of a request hold for devices of a kind."""

    def __init__(self, kinds: list[DeviceKind], gates: FeatureGates) -> None:
        self._kinds, self._gates = kinds, gates
        self._found: dict[tuple[tuple[str, ...], int], bool | selectors.CelError] = {}

    def __call__(self, expressions: tuple[str, ...], kind: int) -> bool:
        """Evaluate the selectors in order until one does not hold.

        Raises:
            CelError: An evaluated selector does not compile, fails, or returns no boolean.
        """
        matched = self._found.get((expressions, kind))
        if matched is None:
            one, expression, matched = self._kinds[kind], "", True
            try:
                for expression in expressions:
                    if not selectors.compile_selector(expression, self._gates).matches(one.driver, one.example):
                        matched = False
                        break
            except (selectors.CelError, selectors.UnsupportedExpression) as error:
                matched = selectors.CelError(f"selector {shorten(expression)} fails: {error}")
            self._found[expressions, kind] = matched
        if isinstance(matched, selectors.CelError):
            raise matched
        return matched
