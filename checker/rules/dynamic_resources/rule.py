"""DynamicResources for the checker: the devices of the cluster, first-fit allocation, and the devices of documents."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import cast

from kubestow.checker.reading.resources import Amounts
from kubestow.checker.rules.base import CheckedRule, Fault, NamedDevices, Place, World
from kubestow.checker.rules.dynamic_resources import document, entry
from kubestow.checker.rules.dynamic_resources.state import Grant
from kubestow.models.kube import objects
from kubestow.models.snapshot.snapshot import Snapshot


class DynamicResources(CheckedRule[bool]):
    """The devices of a snapshot, with those that were allocated to placed pods."""

    names, order, mutual, for_moves, can_undo, local = (entry.RULE,), 60, False, True, False, False

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.devices = entry.state(world.snapshot, world.candidates, world.replaced)

    def read(self, pod: objects.Pod, *, judged: bool) -> bool | None:
        if self.devices is None or not judged or self.devices.demand(pod, self._requests(pod)).is_none:
            return None
        return True

    def _requests(self, pod: objects.Pod) -> Amounts:
        return self.world.requests.requests(pod, bound=False)

    def faults(self, reading: bool, pod: objects.Pod, place: Place) -> list[Fault]:
        why = self.devices.judge(pod, place.node, self._requests(pod), place.capacity).fault if self.devices is not None else None
        return [] if why is None else [(entry.RULE, why)]

    def add(self, reading: bool, pod: objects.Pod, place: Place, *, placed: bool) -> None:
        if not placed or self.devices is None:
            return
        held = self.world.held.get(objects.pod_key(pod))
        if held is None:
            self.devices.allocate(pod, place.node, self._requests(pod), place.capacity)
        else:
            grants = cast("Sequence[Grant]", held.get(entry.RULE, ()))
            self.devices.allocate_again(pod, place.node, self._requests(pod), grants)

    def remove(self, reading: bool, pod: objects.Pod, place: Place, *, placed: bool) -> None:
        """Do nothing: devices that were allocated stay allocated (``can_undo``)."""

    def sources(self, pod: objects.Pod, place: Place) -> frozenset[object]:
        """Return the pools and shared claims from which a placed pod's devices can come."""
        if self.devices is None:
            return frozenset()
        return self.devices.sources(pod, place.node, self._requests(pod), place.capacity)

    def second_pass(self, reading: bool | None) -> bool:
        return False

    def left_to_the_node(self, requests: Amounts, capacity: Amounts) -> Amounts:
        return requests if self.devices is None else self.devices.left_to_the_node(requests, capacity)

    def content(self, pod: objects.Pod) -> object:
        return None if self.devices is None else self.devices.content(pod, self._requests(pod))

    def holdings(self, pod: objects.Pod) -> Sequence[Grant]:
        return () if self.devices is None else self.devices.own(pod)

    def entry_faults(self, pod: objects.Pod, claimed: NamedDevices, *, later: bool) -> list[Fault]:
        if self.devices is None and not claimed.devices:
            return []
        if later:
            found = document.others(self.devices, pod, claimed.devices)
        else:
            grants = [] if self.devices is None else self.devices.allocated(pod)
            found = document.faults(self.devices, grants, self.world.nodes[claimed.node], claimed.devices)
        return [(entry.RULE, why) for why in found]

    @classmethod
    def released(cls, snapshot: Snapshot, gone: Collection[str]) -> Snapshot:
        return replace(snapshot, resource_claims=entry.remaining(snapshot, gone))

    @classmethod
    def supplied(cls, snapshot: Snapshot) -> Collection[str]:
        return entry.backed(snapshot)
