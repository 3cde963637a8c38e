"""The nodes with the isolated CPUs that a pod's containers require under their TopologyAwarePolicy.

A container of a Guaranteed pod with whole exclusive CPUs may require isolated ones. Its creation fails if no
pool of the node has enough. A node's isolated CPUs are those that its NodeResourceTopology lists. The plugin
lists them only while at least one is free. So a node without a list has none free. CPUs taken by other
containers are not listed and not counted here.

Source: nri-plugins cmd/plugins/topology-aware/policy: pod-preferences.go (cpuAllocationPreferences,
isolatedCPUsPreference), resources.go (verifyStrictCPUPreferences), topology-aware-policy.go (GetTopologyZones).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Final

import numpy as np

from kubestow.models.kube import quantity
from kubestow.models.kube.objects import Container, Node, Pod, is_terminal
from kubestow.models.kube.pod_requests import at_once
from kubestow.models.kube.pod_spec import GUARANTEED, qos_class
from kubestow.models.kube.selectors import Bools
from kubestow.models.kube.topology_objects import NodeResourceTopology, TopologyAwarePolicy, TopologyAwarePolicySpec
from kubestow.models.numa.container_expressions import glob
from kubestow.models.numa.node_policies import TOPOLOGY_AWARE, governed, running
from kubestow.models.numa.nri_annotations import FALSE, POLICY, PRESERVE, TRUE, UNSCOPED_RANK, effective, scope

RULE: Final = "TopologyAwarePolicy"
REQUIRE: Final = f"require-isolated-cpus.{POLICY}"
_PREFER: Final = f"prefer-isolated-cpus.{POLICY}"
_SHARED: Final = f"prefer-shared-cpus.{POLICY}"
_RESERVED: Final = f"prefer-reserved-cpus.{POLICY}"
_SYSTEM: Final = "kube-system"
#: The attribute of a zone with its isolated CPUs.
_ATTRIBUTE: Final = "isolated cpuset"
#: An item of a CPU list: ``3``, ``0-7``.
_RANGE: Final = re.compile(r"(\d{1,6})(?:-(\d{1,6}))?", re.ASCII)
_NOTHING: Final = TopologyAwarePolicySpec()


class IsolatedCPUs:
    """The TopologyAwarePolicies of nodes, and the isolated CPUs of each node.

    Attributes:
        governed: Numbers of the nodes with a policy.
        known: Nodes with a policy whose isolated CPUs are known, bool[N].
    """

    def __init__(
        self,
        nodes: Sequence[Node],
        policies: Mapping[str, TopologyAwarePolicy],
        topologies: Mapping[str, NodeResourceTopology],
        pods: Sequence[Pod] = (),
    ) -> None:
        """Read policies and topologies. ``pods``: pods of the cluster; running ones may hold isolated CPUs."""
        governed_nodes = governed(nodes, policies, topologies, TOPOLOGY_AWARE)
        self._specs = [each.spec or _NOTHING for each in governed_nodes.policies]
        self._of = governed_nodes.of
        self.governed = np.flatnonzero(self._of >= 0).tolist()
        number = {node.metadata.name or "": n for n, node in enumerate(nodes)}
        holding = {n for pod in pods if (n := number.get(pod.spec.nodeName or "", -1)) >= 0 and self._of[n] >= 0 and self._may_hold(pod, n)}
        self._cpus = np.full(len(nodes), -1, dtype=np.int64)
        for n in self.governed:
            listed = isolated(topologies.get(nodes[n].metadata.name or ""))
            if listed is not None and (listed or n not in holding):
                self._cpus[n] = listed
        self.known = self._cpus >= 0

    def _may_hold(self, pod: Pod, n: int) -> bool:
        return not is_terminal(pod) and any(self.preferred(pod, each, int(self._of[n])) for each in _all(pod))

    def key(self, pod: Pod) -> list[int]:
        """Return all data of a pod that the policies read."""
        return [self.required(pod, i) for i in range(len(self._specs))]

    def allowed(self, pod: Pod) -> Bools | None:
        """Return the nodes that may have the isolated CPUs that a pod requires (bool[N]); None: all nodes."""
        wanted = np.array([*self.key(pod), 0], dtype=np.int64)
        if not wanted.any():
            return None
        mask: Bools = ~self.known | (wanted[self._of] <= self._cpus)
        return mask

    def reasons(self, pod: Pod, rejected: Bools) -> list[str]:
        """Return the distinct reasons why some nodes have too few isolated CPUs for a pod."""
        rows = np.flatnonzero(rejected & self.known).tolist()
        pairs = sorted({(self.required(pod, int(self._of[n])), int(self._cpus[n])) for n in rows})
        return [f"{wanted} isolated CPUs required, {f'{has} there' if has else 'none free'}" for wanted, has in pairs]

    def required(self, pod: Pod, policy: int) -> int:
        """Return the isolated CPUs that the containers of a pod require at a time under a policy."""
        if REQUIRE not in " ".join(pod.metadata.annotations or ()):
            return 0
        amounts = at_once(pod.spec, lambda container, _: {"cpu": Fraction(self._required(pod, container, policy))})
        return int(amounts.get("cpu", 0))

    def _required(self, pod: Pod, container: Container, policy: int) -> int:
        name = container.name or ""
        required, preferred = scope(pod, REQUIRE, name), scope(pod, _PREFER, name)
        strict = required is not None and (preferred is None or required <= preferred)
        return self.preferred(pod, container, policy) if strict else 0

    def preferred(self, pod: Pod, container: Container, policy: int) -> int:
        """Return the number of isolated CPUs that a container gets if enough are available; 0 if it gets none.

        Args:
            policy: Index of the policy that governs the node.
        """
        spec, name = self._specs[policy], container.name or ""
        cores, fraction = divmod(millis(container), 1000)
        if not cores or qos_class(pod) != GUARANTEED or effective(pod, PRESERVE, name) == "true" or _is_reserved(pod, name, spec):
            return 0
        isolated, annotated = self._isolation(pod, name, spec)
        shared = _truth(effective(pod, _SHARED, name))
        exclusive = not (bool(spec.preferSharedCPUs) if shared is None else shared)
        if cores >= 2 and fraction:
            exclusive = shared is False  # a fraction makes all CPUs shared unless an annotation says otherwise
        elif cores >= 2:
            isolated = isolated and annotated
        return cores if isolated and exclusive else 0

    @staticmethod
    def _isolation(pod: Pod, name: str, spec: TopologyAwarePolicySpec) -> tuple[bool, bool]:
        """Return whether a container prefers isolated CPUs, and whether an annotation says so.

        The policy decides if the annotation's value is invalid.
        """
        default = True if spec.preferIsolatedCPUs is None else spec.preferIsolatedCPUs
        required, preferred = scope(pod, REQUIRE, name), scope(pod, _PREFER, name)
        if required is None and preferred in (None, UNSCOPED_RANK):
            return default, False  # the plugin reads the other key only if the key without a scope is alone
        first = required is not None and (preferred is None or required <= preferred)
        value = _truth(effective(pod, REQUIRE if first else _PREFER, name))
        return (default, False) if value is None else (value, True)


def isolated(topology: NodeResourceTopology | None) -> int | None:
    """Return the number of isolated CPUs of a node, 0 if none is free; None if its NodeResourceTopology does not say."""
    if topology is None:
        return None
    listed = [a.value for zone in topology.zones or () for a in zone.attributes or () if a.name == _ATTRIBUTE]
    if not listed and running(topology) != TOPOLOGY_AWARE:
        return None
    parts = [part.strip() for text in listed for part in text.split(",") if part.strip()]
    ranges = [_RANGE.fullmatch(part) for part in parts]
    total, end = 0, -1
    for low, high in sorted((int(each[1]), int(each[2] or each[1])) for each in ranges if each is not None):
        total += max(0, high - max(low - 1, end))
        end = max(end, high)
    return None if None in ranges else total


def millis(container: Container) -> int:
    """Return the CPU request of a container, in mCPU."""
    resources = container.resources
    amounts = {**((resources.limits if resources else None) or {}), **((resources.requests if resources else None) or {})}
    return quantity.ceil(1000 * quantity.parse(amounts["cpu"])) if "cpu" in amounts else 0


def _all(pod: Pod) -> list[Container]:
    return [*(pod.spec.initContainers or ()), *(pod.spec.containers or ())]


def _truth(value: str | None) -> bool | None:
    return True if value in TRUE else False if value in FALSE else None


def _is_reserved(pod: Pod, name: str, spec: TopologyAwarePolicySpec) -> bool:
    """Return True if a container gets reserved CPUs, which are never isolated."""
    stated = _truth(effective(pod, _RESERVED, name))
    if stated is not None:
        return stated
    space = pod.metadata.namespace or "default"
    if space == _SYSTEM:
        return True
    for text in spec.reservedPoolNamespaces or ():
        pattern = glob(text)
        if pattern is None:
            return False  # the plugin stops reading here
        if pattern.fullmatch(space):
            return True
    return False
