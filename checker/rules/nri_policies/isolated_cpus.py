"""The isolated CPUs that a pod's containers require under a node's TopologyAwarePolicy, and those that the node has.

Read independently from
https://containers.github.io/nri-plugins/stable/docs/resource-policy/policy/topology-aware.html and the source of
the policy (pod-preferences.go, resources.go). Isolated CPUs taken by other containers are not counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from kubestow.checker.reading import resources
from kubestow.checker.reading.governing_policies import by_name, governing, is_kept, matches, nearest, well_formed
from kubestow.models.kube import objects, pod_spec, quantity, topology_objects
from kubestow.models.snapshot.snapshot import Snapshot

RULE = "TopologyAwarePolicy"
_KEY = "require-isolated-cpus.resource-policy.nri.io"
_WRITTEN = {
    **dict.fromkeys(("1", "t", "T", "true", "TRUE", "True"), True),
    **dict.fromkeys(("0", "f", "F", "false", "FALSE", "False"), False),
}
_Spec = topology_objects.TopologyAwarePolicySpec


class TopologyAwarePolicies:
    """The TopologyAwarePolicies of a snapshot."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._by_name = by_name({key: policy.spec or _Spec() for key, policy in snapshot.topology_aware_policies.items()})
        self._topologies = snapshot.node_topologies
        self._there: dict[str, list[objects.Pod]] = {}
        for pod in snapshot.pods if self._by_name else ():
            if pod.spec.nodeName and not objects.is_terminal(pod):
                self._there.setdefault(pod.spec.nodeName, []).append(pod)
        self._has: dict[str, int | None] = {}

    def __bool__(self) -> bool:
        return bool(self._by_name)

    def faults(self, pod: objects.Pod, node: objects.Node) -> Iterator[tuple[str, str]]:
        """Yield the rule, with the reason, if the pod's containers require more isolated CPUs than the node can have."""
        if not any(_KEY in key for key in pod.metadata.annotations or ()):
            return
        name = node.metadata.name or ""
        spec = governing(self._by_name, node, self._topologies.get(name), "topology-aware")
        if spec is None:
            return
        wanted = _at_once(pod, spec)
        if name not in self._has:
            self._has[name] = self._isolated(name, spec)
        has = self._has[name]
        if wanted and has is not None and wanted > has:
            yield RULE, f"its containers require {wanted} isolated CPUs, the node has {has or 'none free'}"

    def _isolated(self, name: str, spec: _Spec) -> int | None:
        """Return the number of isolated CPUs of a node, or None if it is unknown."""
        topology = self._topologies.get(name)
        if topology is None:
            return None
        lists = [a.value for zone in topology.zones or () for a in zone.attributes or () if a.name == "isolated cpuset"]
        if not lists and all(a.name != "TopologyPolicy" for a in topology.attributes or ()):
            return None
        spans = []
        for part in ",".join(lists).split(","):
            low, _, high = part.strip().partition("-")
            if part.strip():
                if not _is_cpu(low) or ("-" in part and not _is_cpu(high)):
                    return None
                spans.append((int(low), int(high or low)))
        found = _size(spans)
        in_use = any(_wants(pod, each, spec) for pod in self._there.get(name, ()) for each in _containers(pod))
        return None if not found and in_use else found


def _is_cpu(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 6


def _size(spans: list[tuple[int, int]]) -> int:
    """Return the number of integers in at least one span."""
    steps = sorted([(low, 0) for low, high in spans if low <= high] + [(high + 1, 1) for low, high in spans if low <= high])
    depth = total = since = 0
    for at, closes in sorted(steps):
        if depth:
            total += at - since
        depth += -1 if closes else 1
        since = at
    return total


def _containers(pod: objects.Pod) -> list[objects.Container]:
    return [*(pod.spec.containers or ()), *(pod.spec.initContainers or ())]


def _at_once(pod: objects.Pod, spec: _Spec) -> int:
    """Return the maximum number of isolated CPUs that a pod requires at one time."""
    cpu = resources.most_at_once(pod.spec, lambda container, running: {"cpu": Fraction(_strictly(pod, container, spec))})
    return int(cpu.get("cpu", 0))


def _strictly(pod: objects.Pod, container: objects.Container, spec: _Spec) -> int:
    """Return the number of isolated CPUs without which a container is not created."""
    must, may = nearest(pod, "require-isolated-cpus", container), nearest(pod, "prefer-isolated-cpus", container)
    if must is None or (may is not None and may[0] < must[0]):
        return 0
    return _wants(pod, container, spec)


def _wants(pod: objects.Pod, container: objects.Container, spec: _Spec) -> int:
    """Return the number of isolated CPUs that a container is given if available."""
    requested = container.resources or objects.ResourceRequirements()
    raw = {**(requested.limits or {}), **(requested.requests or {})}.get("cpu", 0)
    cpus = Fraction(quantity.ceil(quantity.parse(raw) * 1000), 1000)
    whole = cpus.numerator // cpus.denominator
    if whole < 1 or pod_spec.qos_class(pod) != "Guaranteed" or is_kept(pod, container) or _from_reserved(pod, container, spec):
        return 0
    shared = nearest(pod, "prefer-shared-cpus", container)
    said = _WRITTEN.get(shared[1]) if shared is not None else None
    shares = said if said is not None else bool(spec.preferSharedCPUs)
    isolated, explicit = _isolation(pod, container, spec)
    if whole == 1:
        return 1 if isolated and not shares else 0
    if cpus != whole:
        return whole if isolated and said is False else 0
    return whole if isolated and explicit and not shares else 0


def _isolation(pod: objects.Pod, container: objects.Container, spec: _Spec) -> tuple[bool, bool]:
    """Return two flags: the container gets isolated CPUs, and an annotation says so explicitly."""
    must, may = nearest(pod, "require-isolated-cpus", container), nearest(pod, "prefer-isolated-cpus", container)
    default = spec.preferIsolatedCPUs is not False
    value = ""
    if must is not None and (may is None or must[0] <= may[0]):
        value = must[1]
    elif may is not None and (must is not None or may[0] < 2):
        value = may[1]
    said = _WRITTEN.get(value)
    return (default, False) if said is None else (said, True)


def _from_reserved(pod: objects.Pod, container: objects.Container, spec: _Spec) -> bool:
    """Return True if a container's CPUs come from the reserved pool."""
    found = nearest(pod, "prefer-reserved-cpus", container)
    said = _WRITTEN.get(found[1]) if found is not None else None
    if said is not None:
        return said
    namespace = pod.metadata.namespace or "default"
    if namespace == "kube-system":
        return True
    for pattern in spec.reservedPoolNamespaces or ():
        if not well_formed(pattern):
            return False
        if matches(namespace, pattern):
            return True
    return False
