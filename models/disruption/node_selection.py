"""Selection of nodes on the command line, by name or label selector."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from kubestow.models.kube.lenient_decode import near_names, shorten
from kubestow.models.kube.objects import LabelSelector, LabelSelectorRequirement
from kubestow.models.kube.selectors import canonical, selector_matches
from kubestow.models.snapshot.snapshot import InputError, Snapshot

_KEY: Final = r"(?:[A-Za-z0-9][-A-Za-z0-9.]*/)?[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?"
_VALUE: Final = r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?)?"
#: Commas that separate requirements; those in parentheses separate values.
_COMMA: Final = re.compile(r",(?![^()]*\))")
_EQUALITY: Final = re.compile(rf"({_KEY})\s*(==?|!=)\s*({_VALUE})", re.ASCII)
_SET: Final = re.compile(rf"({_KEY})\s+(in|notin)\s*\(\s*({_VALUE}(?:\s*,\s*{_VALUE})*)\s*\)", re.ASCII)
_PRESENCE: Final = re.compile(rf"(!?)\s*({_KEY})", re.ASCII)
_OPERATORS: Final = {"=": "In", "==": "In", "in": "In", "!=": "NotIn", "notin": "NotIn"}


def choose(snapshot: Snapshot, values: Iterable[str]) -> list[str]:
    """Return the distinct names of the nodes that the values select.

    A value that is no node's name is a label selector in kubectl's notation (``pool=old``, ``zone!=a``, ``pool
    in (a,b)``, ``key``, ``!key``, several separated by commas). Source:
    k8s.io/apimachinery/pkg/labels/selector.go (Parse), without its comparisons of numbers.

    Raises:
        InputError: A value is neither a node nor a selector, or selects no node; one line each.
    """
    names = [node.metadata.name or "" for node in snapshot.nodes]
    known = set(names)
    found: dict[str, None] = {}
    problems = []
    for value in values:
        if value in known:
            found[value] = None
            continue
        selector = parse(value)
        if selector is None:
            wanted = "a label selector such as pool=old,zone!=a"
            problems.append(f"--drain {shorten(value)}: no such node in the snapshot, nor {wanted}{near_names(value, names)}")
            continue
        chosen = _selected(snapshot, selector)
        if not chosen:
            problems.append(f"--drain {shorten(value)}: no such node in the snapshot, nor one with such labels{near_names(value, names)}")
        found.update(dict.fromkeys(chosen))
    if problems:
        raise InputError(problems)
    return list(found)


def selected(snapshot: Snapshot, text: str) -> list[str] | None:
    """Return the names of the nodes that a label selector in kubectl's notation selects; None if it is not a selector."""
    selector = parse(text)
    return None if selector is None else _selected(snapshot, selector)


def _selected(snapshot: Snapshot, selector: LabelSelector) -> list[str]:
    wanted = canonical(selector)
    return [node.metadata.name or "" for node in snapshot.nodes if selector_matches(wanted, node.metadata.labels or {})]


def pool(snapshot: Snapshot, text: str) -> list[str]:
    """Return the names of a pool's nodes, given by a label selector in kubectl's notation.

    Raises:
        InputError: The text is not a selector, or selects no node.
    """
    names = selected(snapshot, text)
    if names is None:
        raise InputError([f"--pool {shorten(text)}: not a label selector, expected one such as pool=old,zone!=a"])
    if not names:
        raise InputError([f"--pool {shorten(text)}: no node of the snapshot has such labels"])
    return names


def parse(text: str) -> LabelSelector | None:
    """Return a label selector in kubectl's notation; None if the text is none or empty."""
    requirements = []
    for part in _COMMA.split(text):
        if match := _EQUALITY.fullmatch(part.strip()):
            requirements.append(LabelSelectorRequirement(match[1], _OPERATORS[match[2]], [match[3]]))
        elif match := _SET.fullmatch(part.strip()):
            requirements.append(LabelSelectorRequirement(match[1], _OPERATORS[match[2]], re.split(r"\s*,\s*", match[3])))
        elif match := _PRESENCE.fullmatch(part.strip()):
            requirements.append(LabelSelectorRequirement(match[2], "DoesNotExist" if match[1] else "Exists"))
        else:
            return None
    return LabelSelector(matchExpressions=requirements)
