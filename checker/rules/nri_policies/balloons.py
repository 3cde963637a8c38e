"""The BalloonsPolicy of a node, which may prevent the containers of a pod from being created there.

Read independently from the objects:
https://containers.github.io/nri-plugins/stable/docs/resource-policy/policy/balloons.html and the source of the
policy (chooseBalloonDef). Types chosen by expressions, and CPUs left for further balloons, are not judged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction

from kubestow.checker.reading.governing_policies import by_name, governing, is_kept, matches, nearest
from kubestow.models.kube import objects, quantity, topology_objects
from kubestow.models.snapshot.snapshot import Snapshot

RULE = "BalloonsPolicy"


class BalloonsPolicies:
    """The BalloonsPolicies of a snapshot."""

    def __init__(self, snapshot: Snapshot) -> None:
        specs = {key: policy.spec or topology_objects.BalloonsPolicySpec() for key, policy in snapshot.balloons_policies.items()}
        self._by_name, self._topologies = by_name(specs), snapshot.node_topologies
        self._by_node: dict[str, dict[str, Fraction]] = {}

    def __bool__(self) -> bool:
        return bool(self._by_name)

    def faults(self, pod: objects.Pod, node: objects.Node) -> Iterator[tuple[str, str]]:
        """Yield the rule, with the reason, for each container that the node's policy does not create."""
        spec = governing(self._by_name, node, self._topologies.get(node.metadata.name or ""), "balloons")
        if spec is None or spec.preserve is not None:
            return
        for container in [*(pod.spec.containers or ()), *(pod.spec.initContainers or ())]:
            if is_kept(pod, container):
                continue
            why = _fault(spec, pod, container, self._sizes(node.metadata.name or ""))
            if why:
                yield RULE, f"container {container.name}: {why}"

    def _sizes(self, node: str) -> dict[str, Fraction]:
        """Return the number of CPUs that an empty balloon of each type can have, as far as the node reports it."""
        if node not in self._by_node:
            topology, sizes = self._topologies.get(node), dict[str, Fraction]()
            for zone in (topology.zones if topology is not None else None) or ():
                cpus = [each.allocatable for each in zone.resources or () if each.name == "cpu"] if zone.type.lower() == "balloon" else []
                if "[" in zone.name and cpus and cpus[0] is not None:
                    name = zone.name[: zone.name.rindex("[")]
                    sizes[name] = max(sizes.get(name, Fraction(0)), quantity.parse(cpus[0]))
            self._by_node[node] = sizes
        return self._by_node[node]


def _fault(
    spec: topology_objects.BalloonsPolicySpec, pod: objects.Pod, container: objects.Container, sizes: Mapping[str, Fraction]
) -> str | None:
    """Return why a container cannot be created in its balloon, or None."""
    limits = {"reserved": 0, "default": 0} | {each.name: each.maxCPUs or 0 for each in reversed(spec.balloonTypes or [])}
    balloon_type = nearest(pod, "balloon.balloons", container)
    name = balloon_type[1] if balloon_type is not None else _by_namespace(spec, pod.metadata.namespace or "default")
    if name is None:
        return None
    if name not in limits:
        return f"no type of balloon is called {name!r}"
    raw = ((container.resources.requests if container.resources is not None else None) or {}).get("cpu", 0)
    if limits[name] != 0 and quantity.parse(raw) > limits[name]:
        return f"{raw} CPUs are more than a balloon of type {name!r} can have"
    composite = next((bool(each.components) for each in spec.balloonTypes or () if each.name == name), False)
    if name in sizes and not composite and quantity.ceil(quantity.parse(raw) * 1000) > sizes[name] * 1000:
        return f"{raw} CPUs are more than a balloon of type {name!r} can have on the node"
    return None


def _by_namespace(spec: topology_objects.BalloonsPolicySpec, namespace: str) -> str | None:
    """Return the balloon type of containers without the annotation, or None if an expression may decide."""
    system = ["kube-system", *(spec.reservedPoolNamespaces or ())]
    types = spec.balloonTypes or []
    if all(each.name != "reserved" for each in types) and any(matches(namespace, each) for each in system):
        return "reserved"
    for each in types:
        if each.matchExpressions:
            return None
        patterns = [*(each.namespaces or ()), *(system if each.name == "reserved" else ())]
        if any(matches(namespace, pattern) for pattern in patterns):
            return each.name
    return "default"
