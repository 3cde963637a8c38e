"""Common parts of nri-plugins' policies: the object that governs a node, annotations by scope, and namespace patterns.

Read independently from https://containers.github.io/nri-plugins/stable/docs/resource-policy/setup.html and the
source (pkg/agent/agent.go).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from kubestow.models.kube import objects, topology_objects

T = TypeVar("T")
_DOMAIN = "resource-policy.nri.io"


def by_name(policies: Mapping[str, T]) -> dict[str, T]:
    """Return policy objects by name; kube-system has precedence. The input is keyed by ``namespace/name``."""
    found: dict[str, T] = {}
    for key, policy in sorted(policies.items()):
        namespace, _, name = key.partition("/")
        if name not in found or namespace == "kube-system":
            found[name] = policy
    return found


def governing(
    policies: Mapping[str, T], node: objects.Node, topology: topology_objects.NodeResourceTopology | None, plugin: str
) -> T | None:
    """Return the policy object of a plugin that governs a node. None if there is none, or if the node reports another plugin."""
    for attribute in (topology.attributes if topology is not None else None) or ():
        if attribute.name == "TopologyPolicy":
            if attribute.value != plugin:
                return None
            break
    name, labels = f"node.{node.metadata.name}", node.metadata.labels or {}
    if name in policies:
        return policies[name]
    for label in ("config.nri/group", "group.config.nri", f"{_DOMAIN}/group"):
        if labels.get(label):
            return policies.get(f"group.{labels[label]}")
    return policies.get("default")


def nearest(pod: objects.Pod, name: str, container: objects.Container) -> tuple[int, str] | None:
    """Return the distance and the value of an annotation that is nearest to a container; None if there is none.

    The distance is 0 for the container's own annotation, 1 for the pod's, and 2 for one without a scope.
    """
    given = pod.metadata.annotations or {}
    for distance, scope in enumerate((f"/container.{container.name or ''}", "/pod", "")):
        value = given.get(f"{name}.{_DOMAIN}{scope}")
        if value is not None:
            return distance, value
    return None


def is_kept(pod: objects.Pod, container: objects.Container) -> bool:
    """Return True if policies do not touch the container's CPUs."""
    found = nearest(pod, "cpu.preserve", container)
    return found is not None and found[1] == "true"


def well_formed(pattern: str) -> bool:
    """Return True if Go's filepath.Match can parse the pattern."""
    while pattern:
        if pattern[0] == "[":
            end = _class(pattern)[0]
            if not end:
                return False
            pattern = pattern[end:]
        elif pattern[0] == "\\":
            if len(pattern) == 1:
                return False
            pattern = pattern[2:]
        else:
            pattern = pattern[1:]
    return True


def matches(text: str, pattern: str) -> bool:
    """Return True if a pattern of Go's filepath.Match matches a text without slashes. A malformed pattern matches nothing."""
    return well_formed(pattern) and _matches(text, pattern)


def _matches(text: str, pattern: str) -> bool:
    if not pattern:
        return not text
    if pattern[0] == "*":
        suffix = pattern[1:]
        return any(_matches(text[i:], suffix) for i in range(len(text) + 1))
    if pattern[0] == "[":
        end, negated, ranges = _class(pattern)
        hit = any(low <= text[:1] <= high for low, high in ranges)
        return bool(text) and hit != negated and _matches(text[1:], pattern[end:])
    if pattern[0] == "\\":
        pattern = pattern[1:]
    elif pattern[0] == "?":
        return bool(text) and _matches(text[1:], pattern[1:])
    return bool(text) and pattern[0] == text[0] and _matches(text[1:], pattern[1:])


def _class(pattern: str) -> tuple[int, bool, list[tuple[str, str]]]:
    """Parse a character class; return its end (0 if malformed), True if it is negated, and its ranges."""
    negated = pattern[1:2] == "^"
    place, ranges = 1 + negated, list[tuple[str, str]]()
    while pattern[place : place + 1] != "]" or not ranges:
        low, place = _character(pattern, place)
        high = low
        if low and pattern[place : place + 1] == "-":
            high, place = _character(pattern, place + 1)
        if not low or not high:
            return 0, negated, []
        ranges.append((low, high))
    return place + 1, negated, ranges


def _character(pattern: str, place: int) -> tuple[str, int]:
    """Return a character of a class and the position after it; an empty text if there is none."""
    if pattern[place : place + 1] == "\\":
        place += 1
    elif pattern[place : place + 1] in ("-", "]"):
        return "", place
    return pattern[place : place + 1], place + 1
