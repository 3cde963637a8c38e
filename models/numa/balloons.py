"""The nodes that create the containers of a pod under their BalloonsPolicy.

A node uses the policy ``node.NAME``, or else that of its group, or else ``default``. A container gets the
balloon type that its annotation names, or else the first type whose namespaces match. Creation fails without
such a type. It also fails if no balloon of the type can have as many CPUs as requested. The limits are those of
the policy and those that the NodeResourceTopology states for balloons without containers. Types chosen by
expressions, and the free capacity of balloons, are not checked.

Source: nri-plugins cmd/plugins/balloons/policy/balloons-policy.go (chooseBalloonDef, fillableBalloonInstances),
pkg/agent/agent.go.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from kubestow.models.kube import quantity
from kubestow.models.kube.lenient_decode import shorten
from kubestow.models.kube.objects import Container, Node, Pod
from kubestow.models.kube.selectors import Bools
from kubestow.models.kube.topology_objects import BalloonsPolicy, BalloonType, NodeResourceTopology
from kubestow.models.numa.container_expressions import glob
from kubestow.models.numa.node_policies import BALLOONS, governed
from kubestow.models.numa.nri_annotations import BALLOON, PRESERVE, effective

#: Types that every policy has, and the namespaces of the first.
_RESERVED, _DEFAULT, _SYSTEM = "reserved", "default", "kube-system"


@dataclass(frozen=True)
class _Policy:
    """A policy on equal nodes.

    Attributes:
        preserves: True if it preserves (leaves alone) some containers.
        largest: See :func:`_largest`.
    """

    types: list[BalloonType]
    preserves: bool
    largest: dict[str, int]


class Balloons:
    """The policies of nodes, and their verdicts on pods. ``governed``: numbers of the nodes with a policy."""

    def __init__(
        self, nodes: Sequence[Node], policies: Mapping[str, BalloonsPolicy], topologies: Mapping[str, NodeResourceTopology]
    ) -> None:
        governed_nodes = governed(nodes, policies, topologies, BALLOONS)
        self.governed = np.flatnonzero(governed_nodes.of >= 0).tolist()
        types = [_types(each) for each in governed_nodes.policies]
        kinds: dict[tuple[int, tuple[tuple[str, int], ...]], int] = {}  # (policy, largest requests by type) -> number
        self._policies: list[_Policy] = []
        self._of = np.full(len(nodes), -1, dtype=np.int64)
        for n in self.governed:
            largest = _largest(topologies.get(nodes[n].metadata.name or ""))
            kind = int(governed_nodes.of[n]), tuple(sorted(largest.items()))
            if kinds.setdefault(kind, len(self._policies)) == len(self._policies):
                self._policies.append(_Policy(*types[kind[0]], largest))
            self._of[n] = kinds[kind]

    def key(self, pod: Pod) -> list[object]:
        """Return all data of a pod that a policy reads, except for its namespace."""
        found: list[object] = []
        for each in (*(pod.spec.initContainers or ()), *(pod.spec.containers or ())):
            name = each.name or ""
            found.append((name, effective(pod, BALLOON, name), effective(pod, PRESERVE, name) == "true", _millis(each)))
        return found

    def allowed(self, pod: Pod) -> Bools | None:
        """Return the nodes whose policy creates all containers of a pod (bool[N]); None: all nodes."""
        refused = [i for i in range(len(self._policies)) if self.refusal(pod, i) is not None]
        return None if not refused else ~np.isin(self._of, refused)

    def reasons(self, pod: Pod, rejected: Bools) -> list[str]:
        """Return the distinct reasons why the policies of some nodes refuse a pod."""
        refusals = (self.refusal(pod, int(i)) for i in np.unique(self._of[rejected]) if i >= 0)
        return list(dict.fromkeys(reason for reason in refusals if reason is not None))

    def refusal(self, pod: Pod, policy: int) -> str | None:
        """Return the reason why a policy refuses a container of a pod, or None."""
        governing = self._policies[policy]
        if governing.preserves:
            return None
        for container in (*(pod.spec.initContainers or ()), *(pod.spec.containers or ())):
            reason = _refusal(pod, container, governing)
            if reason is not None:
                return reason
        return None


def _largest(topology: NodeResourceTopology | None) -> dict[str, int]:
    """Return by balloon type the largest request that an empty balloon can have on a node, in mCPU: zones ``TYPE[0]``."""
    found: dict[str, int] = {}
    for zone in (topology.zones if topology is not None else None) or ():
        name, bracket, _ = zone.name.rpartition("[")
        if bracket and zone.type.lower() == "balloon":
            for each in zone.resources or ():
                if each.name == "cpu" and each.allocatable is not None:
                    found[name] = max(found.get(name, 0), int(1000 * quantity.parse(each.allocatable)))
    return found


def _types(policy: BalloonsPolicy) -> tuple[list[BalloonType], bool]:
    """Return the balloon types in matching order, and True if the policy preserves containers.

    The policy object does not say which containers it preserves (leaves alone).
    """
    spec = policy.spec
    listed = list((spec.balloonTypes if spec is not None else None) or ())
    names = {each.name for each in listed}
    more = [_SYSTEM, *((spec.reservedPoolNamespaces if spec is not None else None) or ())]
    found = [] if _RESERVED in names else [BalloonType(_RESERVED, more)]
    for each in listed:
        spaces = [*(each.namespaces or ()), *more] if each.name == _RESERVED else each.namespaces
        found.append(BalloonType(each.name, spaces, each.matchExpressions, each.maxCPUs, each.components))
    return found + ([] if _DEFAULT in names else [BalloonType(_DEFAULT)]), spec is not None and spec.preserve is not None


def _refusal(pod: Pod, container: Container, policy: _Policy) -> str | None:
    types = policy.types
    if effective(pod, PRESERVE, container.name or "") == "true":
        return None
    named_type = effective(pod, BALLOON, container.name or "")
    if named_type is not None:
        chosen = next((each for each in types if each.name == named_type), None)
        if chosen is None:
            return f"the node's BalloonsPolicy has no type {shorten(named_type)} for container {container.name}"
    else:
        space = pod.metadata.namespace or "default"
        chosen = next((each for each in types if each.matchExpressions or _fits(space, each.namespaces)), None)
        if chosen is None:
            chosen = next(each for each in types if each.name == _DEFAULT)
        elif chosen.matchExpressions:
            return None
    max_cpus, wanted = chosen.maxCPUs or 0, _millis(container)
    if max_cpus and wanted > 1000 * max_cpus:
        return (
            f"balloons of type {shorten(chosen.name)} have at most {max(max_cpus, 0)} CPUs, container {container.name} asks for {wanted}m"
        )
    largest = None if chosen.components else policy.largest.get(chosen.name)
    if largest is not None and wanted > largest:
        there = f"balloons of type {shorten(chosen.name)} can have at most {largest}m CPU on the node"
        return f"{there}, container {container.name} asks for {wanted}m"
    return None


def _millis(container: Container) -> int:
    resources = container.resources
    raw = None if resources is None else (resources.requests or {}).get("cpu")
    return 0 if raw is None else quantity.ceil(1000 * quantity.parse(raw))


def _fits(space: str, patterns: Sequence[str] | None) -> bool:
    return any(pattern is not None and pattern.fullmatch(space) is not None for pattern in map(_pattern, patterns or ()))


@cache
def _pattern(text: str) -> re.Pattern[str] | None:
    return glob(text)
