"""The checker's count of container affinity on a node: Σ A(C1, C2) · closeness over ordered pairs of containers.

Annotations and expressions are parsed by shared code; selection and points are computed here. Containers are
counted per position, so the work grows with the number of containers, not of pairs.

Source: docs/sources.md#container-affinity.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain

import msgspec

from kubestow.checker.objective.colocation import Colocation
from kubestow.checker.objective.families.base import Family
from kubestow.checker.objective.kinds import Kinds
from kubestow.checker.objective.topology_manager import Machine
from kubestow.models.documents.policy import Closeness, Policy
from kubestow.models.kube import objects
from kubestow.models.numa.annotations import TAGS, has_hints
from kubestow.models.numa.container_affinity import COLOCATION_POINTS, AffinityEntry, AnnotationError, parse, views
from kubestow.models.numa.container_expressions import ContainerView, Expression

_Place = tuple[int, bool]  # pool as a bitmask (0: anywhere on the node), and True if the pod is placed


@dataclass(eq=False)
class _Member:
    """A container on the node.

    Attributes:
        view: The container as expressions see it.
        place: Its position.
        entries: Its own affinity entries.
    """

    view: ContainerView
    place: _Place
    entries: list[AffinityEntry]


class ContainerAffinity(Family):
    """Container affinity. Its points come with the zones of a document (:mod:`kubestow.checker.objective.numa_zones`) and
    claims about gains and losses by it are not checked."""

    name, recounts = "containerAffinity", "none"

    def points(self, kinds: Kinds) -> int:
        return 0


class NodeContainerAffinity:
    """Container affinity on one node."""

    def __init__(self, machine: Machine | None, policy: Policy, colocation: Colocation) -> None:
        self._machine = machine if machine is not None and len(machine.zones) > 1 else None
        self._policy, self._colocation = policy, colocation
        self._levels: Closeness = policy.closeness

    def points(self, placed: Sequence[tuple[objects.Pod, Mapping[str, int]]], fixed: Sequence[objects.Pod]) -> int:
        """Return Σ A(C1, C2) · closeness over ordered pairs of containers with at least one container in a placed pod.

        Args:
            placed: Placed pods, with the zones of their containers as bitmasks. Containers without zones are anywhere on the node.
            fixed: Pods that stay. Their containers are anywhere on the node.

        Raises:
            QuantityError: a malformed quantity of cpu or memory.
        """
        if not any(self._colocation) and not any(has_hints(pod) for pod in chain((pod for pod, _ in placed), fixed)):
            return 0
        groups = [self._members(pod, pools) for pod, pools in placed]
        groups += [self._members(pod, None) for pod in fixed]
        total = sum(self._inside_pod(members) for members in groups)
        return total + self._across([member for members in groups for member in members])

    def _members(self, pod: objects.Pod, pools: Mapping[str, int] | None) -> list[_Member]:
        """Return the containers of a pod. A fixed pod has no pools. Unreadable annotations are ignored."""
        entries: Sequence[AffinityEntry] = ()
        with suppress(AnnotationError):
            entries = parse(pod, symmetric=self._policy.shorthand == "symmetric").entries
        try:
            seen = views(pod)
        except AnnotationError:
            kept = {name: text for name, text in (pod.metadata.annotations or {}).items() if not name.startswith(TAGS)}
            seen = views(msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, annotations=kept)))
        return [
            _Member(view, ((pools or {}).get(view.container, 0), pools is not None), [e for e in entries if e.container == view.container])
            for view in seen
        ]

    def _inside_pod(self, members: Sequence[_Member]) -> int:
        """Return the points of entries with the default scope and of colocatePods."""
        total = 0
        for own in members:
            for entry in own.entries:
                if entry.scope is None:
                    total += self._sum([(entry.weight, own)], [m for m in members if entry.match.holds(m.view)])
        if self._colocation.pods:
            total += self._sum([(COLOCATION_POINTS, m) for m in members if not m.entries], members)
        return total

    def _across(self, members: Sequence[_Member]) -> int:
        """Return the points of entries with a scope and of colocateNamespaces. Equal entries are evaluated once per container."""
        wishes: dict[tuple[Expression, Expression], list[tuple[int, _Member]]] = {}
        for member in members:
            for entry in member.entries:
                if entry.scope is not None:
                    wishes.setdefault((entry.scope, entry.match), []).append((entry.weight, member))
        total = 0
        for (scope, match), owners in wishes.items():
            total += self._sum(owners, [m for m in members if scope.holds(m.view) and match.holds(m.view)])
        if self._colocation.namespaces:
            spaces: dict[str, list[_Member]] = {}
            for member in members:
                spaces.setdefault(member.view.namespace, []).append(member)
            for inside in spaces.values():
                total += self._sum([(COLOCATION_POINTS, m) for m in inside if not m.entries], inside)
        return total

    def _sum(self, owners: Sequence[tuple[int, _Member]], others: Sequence[_Member]) -> int:
        """Return Σ weight · closeness of each owner to each other container. Containers at one position are counted together."""
        wished: Counter[_Place] = Counter()
        for weight, owner in owners:
            wished[owner.place] += weight
        there = Counter(other.place for other in others)
        total = sum(weight * count * self._closeness(a, b) for a, weight in wished.items() for b, count in there.items())
        present = {id(other) for other in others}
        itself = sum(weight * self._closeness(owner.place, owner.place) for weight, owner in owners if id(owner) in present)
        return total - itself

    def _closeness(self, a: _Place, b: _Place) -> int:
        """Return the points per unit of affinity; 0 for two containers of fixed pods."""
        levels, machine = self._levels, self._machine
        if not a[1] and not b[1]:
            return 0
        if machine is None:
            return levels.sameZone
        both = a[0] | b[0]
        if not a[0] or not b[0]:
            return levels.sameNode
        if both.bit_count() == 1:
            return levels.cache if machine.around else levels.sameZone
        if any(both & zone == both for zone in machine.around):
            return levels.sameZone
        return levels.sameSocket if any(both & socket == both for socket in machine.sockets) else levels.sameNode
