"""Expressions over containers: keys, operators and glob patterns of the container affinity annotations.

Source: docs/sources.md#container-affinity; Go's path/filepath.Match (patterns).
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from kubestow.models.kube.lenient_decode import shorten


class ExpressionError(ValueError):
    """An invalid expression: an unknown key or operator, or a wrong number of values. The message is one line."""


@dataclass(frozen=True, slots=True)
class ContainerView:
    """The data of a container that expressions can read. ``id`` and ``pod_uid`` are empty if unknown."""

    namespace: str
    pod: str
    container: str
    pod_uid: str
    qosclass: str
    id: str
    pod_labels: Mapping[str, str]
    tags: Mapping[str, str]

    def value_of(self, key: str) -> str | None:
        """Return the value of a key, single or joint; None if it does not exist (an empty value does).

        Raises:
            ExpressionError: The key is unknown.
        """
        return _resolver(key)(self)


@dataclass(frozen=True, slots=True)
class Expression:
    """``key operator values``, true or false for a container. Equal expressions are equal, hashable values."""

    key: str
    operator: str
    values: tuple[str, ...]

    def holds(self, view: ContainerView) -> bool:
        """Return True if the expression is true for a container.

        Raises:
            ExpressionError: See :meth:`check`.
        """
        return _predicate(self)(view)

    def check(self) -> None:
        """Reject an invalid expression.

        Raises:
            ExpressionError: Unknown operator or key, missing key, or wrong number of values.
        """
        _predicate(self)

    def remark(self) -> str | None:
        """Return a warning about a valid but odd expression, or None."""
        if self.operator == "AlwaysTrue" and self.values:
            return "AlwaysTrue takes no values, those given have no effect"
        if self.operator in ("In", "MatchesAny") and not self.values:
            return f"{self.operator} without values is never true"
        if self.operator in ("NotIn", "MatchesNone") and not self.values:
            return f"{self.operator} without values is always true"
        if self.operator.startswith("Matches"):
            problem = next((f"{shorten(value)}: {why}" for value in self.values if (why := _malformed(value)) is not None), None)
            return problem and f"{problem}, so that the pattern matches nothing"
        return None


# --- keys -------------------------------------------------------------------------------------------------------------

_Resolver = Callable[[ContainerView], str | None]

_POD_KEYS: Final[dict[str, _Resolver]] = {
    "name": lambda view: view.pod,
    "namespace": lambda view: view.namespace,
    "qosclass": lambda view: view.qosclass,
    "uid": lambda view: view.pod_uid or None,
    "id": lambda view: None,  # of the pod's sandbox, which no Kubernetes object states
}
_CONTAINER_KEYS: Final[dict[str, _Resolver]] = {
    "name": lambda view: view.container,
    "namespace": lambda view: view.namespace,
    "qosclass": lambda view: view.qosclass,
    "id": lambda view: view.id or None,
}
#: The labels that the kubelet sets on containers; they do not include their pod's.
_CONTAINER_LABELS: Final[dict[str, _Resolver]] = {
    "io.kubernetes.container.name": _CONTAINER_KEYS["name"],
    "io.kubernetes.pod.name": _POD_KEYS["name"],
    "io.kubernetes.pod.namespace": _POD_KEYS["namespace"],
    "io.kubernetes.pod.uid": _POD_KEYS["uid"],
}
#: Characters of the shortest joint key.
_MIN_JOINT_CHARACTERS: Final = 4
_NO_SEPARATOR: Final = re.compile(r"[A-Za-z0-9/.]")


def _absent(view: ContainerView) -> str | None:
    return None


def clean(key: str) -> str:
    """Return a single key in its shortest spelling, like Go's path.Clean (except for keys unknown in any spelling)."""
    return posixpath.normpath(key) if key else ""


@lru_cache(maxsize=4096)
def _resolver(key: str) -> _Resolver:
    """Return the function that reads a key, single or joint."""
    if not key.startswith(":") or len(key) < _MIN_JOINT_CHARACTERS:
        return _single(key)
    remainder = key[1:]
    if _NO_SEPARATOR.match(remainder[0]) or _NO_SEPARATOR.match(remainder[1]):
        splitter, joiner = ":", ":"
    else:
        splitter, joiner, remainder = remainder[0], remainder[1], remainder[2:]
    # An empty subkey, like a missing one, yields "".
    parts = [_single(subkey) if subkey else _absent for subkey in remainder.split(splitter)]

    def joined(view: ContainerView) -> str | None:
        values = [part(view) for part in parts]
        if all(value is None for value in values):
            return None
        return joiner.join(value or "" for value in values)

    return joined


def _single(key: str) -> _Resolver:
    head, _, remainder = clean(key).partition("/")
    resolver: _Resolver | None
    if head == "pod":
        head, _, remainder = remainder.partition("/")
        resolver = (
            (lambda view: view.pod_labels.get(remainder)) if head == "labels" and remainder else None if remainder else _POD_KEYS.get(head)
        )
    elif remainder:
        resolver = (
            _CONTAINER_LABELS.get(remainder, _absent)
            if head == "labels"
            else (lambda view: view.tags.get(remainder))
            if head == "tags"
            else None
        )
    else:
        resolver = _CONTAINER_KEYS.get(head)
    if resolver is None:
        raise ExpressionError(
            f"unknown key {shorten(key)}, expected name, namespace, qosclass, id, labels/<key>, tags/<key>, pod/<name, namespace, "
            "qosclass, id, uid or labels/<key>>, or a joint key such as :pod/name:name"
        )
    return resolver


# --- operators --------------------------------------------------------------------------------------------------------

_Test = Callable[[str], bool]

#: Number of values that an operator takes: 0, 1, or any number (None).
_ARITY: Final[dict[str, int | None]] = {
    "Equals": 1,
    "NotEqual": 1,
    "In": None,
    "NotIn": None,
    "Exists": 0,
    "NotExists": 0,
    "NotExist": 0,  # the name in the reference code
    "AlwaysTrue": None,
    "Matches": 1,
    "MatchesNot": 1,
    "MatchesAny": None,
    "MatchesNone": None,
}
_NEGATED: Final = frozenset({"NotEqual", "NotIn", "NotExists", "NotExist", "MatchesNot", "MatchesNone"})
OPERATORS: Final = tuple(name for name in _ARITY if name != "NotExist")
_ANY_VALUE: Final = "*"


@lru_cache(maxsize=8192)
def _predicate(expression: Expression) -> Callable[[ContainerView], bool]:
    """Return the predicate of an expression. Raises ExpressionError if it is invalid."""
    operator, values = expression.operator, expression.values
    if operator not in _ARITY:
        raise ExpressionError(f"unknown operator {shorten(operator)}, expected {', '.join(OPERATORS[:-1])} or {OPERATORS[-1]}")
    arity = _ARITY[operator]
    if arity is not None and len(values) != arity:
        raise ExpressionError(f"got {len(values)} values, expected {('none', 'exactly one')[arity]} with operator {operator}")
    if operator == "AlwaysTrue":
        if expression.key:
            _resolver(expression.key)
        return lambda view: True
    if not expression.key:
        raise ExpressionError(f"missing key, expected one with operator {operator}")
    resolve, test, negated = _resolver(expression.key), _test(operator, values), operator in _NEGATED

    def holds(view: ContainerView) -> bool:
        value = resolve(view)
        return (value is not None and test(value)) is not negated

    return holds


def _test(operator: str, values: tuple[str, ...]) -> _Test:
    """Return the test of an operator on an existing value, before any negation."""
    if operator in ("Exists", "NotExists", "NotExist"):
        return lambda value: True
    if operator == "NotEqual":  # the only comparison in which * is ordinary text
        return lambda value: value == values[0]
    if operator in ("Equals", "In", "NotIn"):
        if _ANY_VALUE in values:
            return lambda value: True
        return frozenset(values).__contains__
    patterns = [pattern for pattern in map(glob, values) if pattern is not None]
    return lambda value: any(pattern.match(value) for pattern in patterns)


# --- glob patterns ----------------------------------------------------------------------------------------------------


def _malformed(pattern: str) -> str | None:
    """Return the error in a pattern, or None."""
    try:
        for _ in _tokens(pattern):
            pass
    except ExpressionError as error:
        return str(error)
    return None


@lru_cache(maxsize=8192)
def glob(pattern: str) -> re.Pattern[str] | None:
    """Return a pattern of Go's filepath.Match as a regular expression; None if it is malformed.

    ``*`` and ``?`` do not match ``/``; a class does. It works on characters, where Go works on bytes. The
    results are equal for ASCII, and names and labels are ASCII. Go matches the text between two stars at its
    first occurrence and never backtracks. An atomic group does the same. This keeps matching quadratic at
    worst, and equals Go's result even if a class matches ``/``.
    """
    chunks: list[list[str]] = [[]]
    try:
        for token in _tokens(pattern):
            if token is None:
                chunks.append([])
            else:
                chunks[-1].append(token)
    except ExpressionError:
        return None
    texts = ["".join(chunk) for chunk in chunks]
    first, *starred = texts
    inner = "".join(f"(?>[^/]*?{chunk})" for chunk in starred[:-1] if chunk)
    last = f"[^/]*?{starred[-1]}" if starred else ""
    return re.compile(rf"{first}{inner}{last}\Z", re.DOTALL)


def _tokens(pattern: str) -> Iterator[str | None]:
    """Yield a regular expression for each character of the pattern, None for a star.

    Raises ExpressionError if the pattern is malformed.
    """
    i = 0
    while i < len(pattern):
        char = pattern[i]
        if char == "*":
            yield None
            i += 1
        elif char == "?":
            yield "[^/]"
            i += 1
        elif char == "[":
            token, i = _class(pattern, i + 1)
            yield token
        else:
            if char == "\\":
                i += 1
            if i == len(pattern):
                raise ExpressionError("malformed pattern: nothing follows the last backslash")
            yield re.escape(pattern[i])
            i += 1


def _class(pattern: str, i: int) -> tuple[str, int]:
    """Return the regular expression of the class whose ``[`` precedes ``i``, and the position after the class."""
    negated = pattern[i : i + 1] == "^"
    i += negated
    start = i
    ranges: list[str] = []
    while i == start or pattern[i : i + 1] != "]":
        low, i = _bound(pattern, i)
        high = low
        if pattern[i : i + 1] == "-":
            high, i = _bound(pattern, i + 1)
        if low <= high:
            ranges.append(f"{re.escape(low)}-{re.escape(high)}")
    if not ranges:  # only ranges such as z-a, which are empty
        return ("." if negated else "(?!)"), i + 1
    return f"[{'^' if negated else ''}{''.join(ranges)}]", i + 1


def _bound(pattern: str, i: int) -> tuple[str, int]:
    """Return one end of a range in a class, and the position after it, which is still inside the pattern."""
    char = pattern[i : i + 1]
    if char in ("", "-", "]"):
        raise ExpressionError("malformed pattern: expected a character in a class")
    if char == "\\":
        i += 1
    if i + 1 >= len(pattern):
        raise ExpressionError("malformed pattern: a class is not closed")
    return pattern[i], i + 1
