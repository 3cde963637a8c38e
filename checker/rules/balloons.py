"""Whether the BalloonsPolicy of a node lets the containers of a pod be created there.

Read once more from the objects: https://containers.github.io/nri-plugins/stable/docs/resource-policy/policy/balloons.html and the source of
the policy (chooseBalloonDef). A type that is chosen by expressions, and the CPUs that are left for balloons, are not judged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from models.kube import objects, quantity, topology_objects

RULE = "BalloonsPolicy"
_DOMAIN = "resource-policy.nri.io"
_KEY = f"balloon.balloons.{_DOMAIN}"
_KEPT = f"cpu.preserve.{_DOMAIN}"


class Policies:
    """The BalloonsPolicies of a snapshot, by name."""

    def __init__(self, policies: Mapping[str, topology_objects.BalloonsPolicy]) -> None:
        self._by_name: dict[str, topology_objects.BalloonsPolicySpec] = {}
        for key, policy in sorted(policies.items()):
            namespace, _, name = key.partition("/")
            if name not in self._by_name or namespace == "kube-system":
                self._by_name[name] = policy.spec or topology_objects.BalloonsPolicySpec()

    def __bool__(self) -> bool:
        return bool(self._by_name)

    def faults(self, pod: objects.Pod, node: objects.Node) -> Iterator[tuple[str, str]]:
        """Yield the rule, with the reason, for each container that the node's policy does not create."""
        spec = self._governing(node)
        if spec is None or spec.preserve is not None:
            return
        for container in [*(pod.spec.containers or ()), *(pod.spec.initContainers or ())]:
            if _annotation(pod, _KEPT, container.name or "") != "true":
                why = _fault(spec, pod, container)
                if why:
                    yield RULE, f"container {container.name}: {why}"

    def _governing(self, node: objects.Node) -> topology_objects.BalloonsPolicySpec | None:
        name, labels = f"node.{node.metadata.name}", node.metadata.labels or {}
        if name in self._by_name:
            return self._by_name[name]
        for label in ("config.nri/group", "group.config.nri", f"{_DOMAIN}/group"):
            if labels.get(label):
                return self._by_name.get(f"group.{labels[label]}")
        return self._by_name.get("default")


def _annotation(pod: objects.Pod, key: str, container: str) -> str | None:
    given = pod.metadata.annotations or {}
    for scope in (f"/container.{container}", "/pod", ""):
        if key + scope in given:
            return given[key + scope]
    return None


def _fault(spec: topology_objects.BalloonsPolicySpec, pod: objects.Pod, container: objects.Container) -> str | None:
    limits = {"reserved": 0, "default": 0} | {each.name: each.maxCPUs or 0 for each in reversed(spec.balloonTypes or [])}
    name = _annotation(pod, _KEY, container.name or "")
    if name is None:
        name = _by_namespace(spec, pod.metadata.namespace or "default")
    if name is None:
        return None
    if name not in limits:
        return f"no type of balloon is called {name!r}"
    raw = ((container.resources.requests if container.resources is not None else None) or {}).get("cpu", 0)
    if limits[name] != 0 and quantity.parse(raw) > limits[name]:
        return f"{raw} CPUs are more than a balloon of type {name!r} can have"
    return None


def _by_namespace(spec: topology_objects.BalloonsPolicySpec, namespace: str) -> str | None:
    """Return the type of containers without the annotation; None if an expression may decide."""
    system = ["kube-system", *(spec.reservedPoolNamespaces or ())]
    types = spec.balloonTypes or []
    if all(each.name != "reserved" for each in types) and any(_matches(namespace, each) for each in system):
        return "reserved"
    for each in types:
        if each.matchExpressions:
            return None
        patterns = [*(each.namespaces or ()), *(system if each.name == "reserved" else ())]
        if any(_matches(namespace, pattern) for pattern in patterns):
            return each.name
    return "default"


def _matches(text: str, pattern: str) -> bool:
    """Match a pattern of Go's filepath.Match against a text without slashes; a malformed pattern matches nothing."""
    if not pattern:
        return not text
    if pattern[0] == "*":
        rest = pattern[1:]
        return any(_matches(text[i:], rest) for i in range(len(text) + 1))
    if pattern[0] == "[":
        return _in_class(text, pattern)
    if pattern[0] == "\\":
        pattern = pattern[1:]
        return bool(pattern) and text[:1] == pattern[0] and _matches(text[1:], pattern[1:])
    return bool(text) and (pattern[0] == "?" or pattern[0] == text[0]) and _matches(text[1:], pattern[1:])


def _in_class(text: str, pattern: str) -> bool:
    place, negated, hit, ranges = 1, False, False, 0
    if pattern[1:2] == "^":
        place, negated = 2, True
    while True:
        if pattern[place : place + 1] == "]" and ranges:
            break
        low, place = _character(pattern, place)
        high = low
        if low and pattern[place : place + 1] == "-":
            high, place = _character(pattern, place + 1)
        if not low or not high:
            return False
        ranges += 1
        hit = hit or low <= text[:1] <= high
    return bool(text) and hit != negated and _matches(text[1:], pattern[place + 1 :])


def _character(pattern: str, place: int) -> tuple[str, int]:
    """Return a character of a class and the place behind it; empty text where there is none."""
    if pattern[place : place + 1] == "\\":
        place += 1
    elif pattern[place : place + 1] in ("-", "]"):
        return "", place
    return pattern[place : place + 1], place + 1
