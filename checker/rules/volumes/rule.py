"""The four rules about volumes for the checker, over pods that are bound or placed."""

from __future__ import annotations

from kubestow.checker.rules.base import CheckedRule, Fault, Place, World
from kubestow.checker.rules.volumes.mounts import Volumes, claims
from kubestow.models.kube import objects


class VolumeRules(CheckedRule[bool]):
    """Volumes and claims, with their use by pods."""

    names = "VolumeBinding", "VolumeZone", "VolumeRestrictions", "NodeVolumeLimits"
    order, mutual, for_moves, can_undo, local = 80, False, True, True, False

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.state = Volumes(world.snapshot)

    def read(self, pod: objects.Pod, *, judged: bool) -> bool | None:
        return any(True for _ in claims(pod)) or None

    def faults(self, reading: bool, pod: objects.Pod, place: Place) -> list[Fault]:
        return self.state.faults(pod, place.node)

    def add(self, reading: bool, pod: objects.Pod, place: Place, *, placed: bool) -> None:
        if placed:
            self.state.settle(pod, place.node)
        self.state.mount(pod, place.name)

    def remove(self, reading: bool, pod: objects.Pod, place: Place, *, placed: bool) -> None:
        self.state.unmount(pod, place.name)

    def leave(self, name: str) -> None:
        self.state.give_back(name)

    def reset(self) -> None:
        self.state.take_back()
        self.state.reset()
