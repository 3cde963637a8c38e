"""Node policies of nri-plugins, which may prevent the containers of a pod from being created on a node."""

from __future__ import annotations

from collections.abc import Iterator

from kubestow.checker.rules.base import Fault, Place, StaticRule, World
from kubestow.checker.rules.nri_policies import balloons, isolated_cpus
from kubestow.models.kube import objects


class NriPolicies(StaticRule[bool]):
    """The node policies of a snapshot. They depend on pod and node only."""

    names, order = (balloons.RULE, isolated_cpus.RULE), 20

    def __init__(self, world: World) -> None:
        super().__init__(world)
        snapshot = world.snapshot
        self._given = [each for each in (balloons.BalloonsPolicies(snapshot), isolated_cpus.TopologyAwarePolicies(snapshot)) if each]

    def read(self, pod: objects.Pod, *, judged: bool) -> bool | None:
        return bool(self._given) or None

    def faults(self, reading: bool, pod: objects.Pod, place: Place) -> Iterator[Fault]:
        for each in self._given:
            yield from each.faults(pod, place.node)
