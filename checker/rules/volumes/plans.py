"""The rules about volumes in plans: leaving pods take their mounts along, and claims that were bound stay bound."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import cast

from kubestow.checker.rules.base import Fault, Place
from kubestow.checker.rules.plans import PlanFace, PlanRunner, PodChange, Presence, Refusal, Step, Wave, WaveFace, Worse
from kubestow.checker.rules.volumes.mounts import Volumes, claims
from kubestow.checker.rules.volumes.rule import VolumeRules

_LIMITS = "NodeVolumeLimits"


class VolumeWave(WaveFace[bool]):
    """Volumes that the pods of a wave mount."""

    face: VolumesInPlans

    def __init__(self, face: VolumesInPlans, wave: Wave) -> None:
        super().__init__(face, wave)
        self._state = face.state
        self._settled: list[PodChange] = []
        self._bound: list[str] = []
        self._changed = False
        self._changes = [change for change in wave.changes if self.reading(change)]
        self._at: dict[str, list[PodChange]] = {}  # pods that arrive at a node or leave it
        for change in self._changes:
            for there in change.both():
                self._at.setdefault(there.node, []).append(change)

    def order(self) -> Iterator[Refusal]:
        """Yield steps whose result depends on the order in which they bind claims."""
        first: dict[tuple[str, str], Step] = {}
        for step in self.wave.steps if not self.wave.alone else ():
            for change in step:
                if change.target is None or not self.reading(change):
                    continue
                pod = change.runner.pod
                wants = [("claim", key) for key in self._state.open_claims(pod)]
                wants += [("free volumes of class", name) for name in sorted(self._state.stock(pod))]
                for want in wants:
                    if first.setdefault(want, step) is not step:
                        other = first[want][0].runner.key
                        why = f"{want[0]} {want[1]} is wanted by {other} in the same wave: the binding depends on their order"
                        yield Refusal(change, "VolumeBinding", why)

    def crowded(self) -> Iterator[Worse]:
        """Yield pods that would no longer be admitted on nodes where volumes arrive. Pods that leave attach none, though a
        shared volume then counts for a remaining pod.
        """
        board, moving = self.wave.board, {change.runner for change in self.wave.changes}
        for name in self._at:
            for runner in list(self.face.mounting.get(name, ())) if self._state.is_limited(name) else ():
                there = runner.at
                if there is None or there.node != name or not runner.steady or _LIMITS in runner.broke:
                    continue
                if self.wave.alone and runner in moving:
                    continue
                board.lift(there)
                others = [other.runner.pod for other in self._at[name] if other.runner is not runner]
                full = self._state.full(runner.pod, name, others)
                board.put(there)
                if full is not None:
                    yield Worse(runner.key, _LIMITS, full)

    def landing(self, change: PodChange, place: Place, mates: Step, opened: None) -> Iterator[Fault]:
        if not self.reading(change):
            return
        pod = change.runner.pod
        others = [other.runner.pod for other in self._at.get(place.name, ()) if other is not change and other not in mates]
        found = self._state.faults(pod, place.node)
        yield from found
        if all(rule != _LIMITS for rule, _ in found):
            why = self._state.full(pod, place.name, others)
            if why is not None:
                yield _LIMITS, why

    def landed(self, change: PodChange, place: Place, *, unit: bool) -> None:
        if unit and self.reading(change):
            self._state.settle(change.runner.pod, place.node)
            self._settled.append(change)

    def finish(self) -> None:
        opened = {change: self._state.open_claims(change.runner.pod) for change in self._changes}
        self._changed = bool(self._settled)
        for change in self._changes:
            if change not in self._settled and change.target is not None:
                self._changed |= bool(self._state.settle(change.runner.pod, self.wave.board.places[change.target.node].node))
        self._bound = [key for change, keys in opened.items() if change.target is not None for key in keys]

    def after(self) -> Iterator[Worse]:
        """Yield pods that mount claims bound by the wave; all pods with volumes if static volumes were used."""
        if not (self._bound or self._changed):
            return
        board, landed = self.wave.board, {change.runner for change in self.wave.changes}  # judged when they landed
        everyone = (runner for runner in board.runners.values() if self.face in runner.readings)
        found = everyone if self._changed else (runner for key in self._bound for runner in self.face.claimants[key])
        for runner in dict.fromkeys(found):
            there = runner.at
            if there is None or not runner.steady or runner in landed:
                continue
            board.lift(there)
            for rule, why in self._state.faults(runner.pod, board.places[there.node].node):
                if rule not in runner.broke:
                    yield Worse(runner.key, rule, why)
            board.put(there)


class VolumesInPlans(PlanFace[bool]):
    """Mounts of running pods.

    Attributes:
        state: Volumes and claims.
        mounting: Pods with volumes, by node.
    """

    of = VolumeRules

    in_wave = VolumeWave
    state: Volumes
    mounting: dict[str, dict[PlanRunner, None]]

    def begin(self) -> None:
        self.state, self.mounting = cast("VolumeRules", self.rule).state, {}

    @cached_property
    def claimants(self) -> dict[str, list[PlanRunner]]:
        """The pods that mount each claim."""
        found: dict[str, list[PlanRunner]] = {}
        for runner in self.board.runners.values():
            for key, _ in claims(runner.pod):
                found.setdefault(key, []).append(runner)
        return found

    def put(self, reading: bool, there: Presence) -> None:
        self.state.mount(there.runner.pod, there.node)
        self.mounting.setdefault(there.node, {})[there.runner] = None

    def lift(self, reading: bool, there: Presence) -> None:
        self.state.unmount(there.runner.pod, there.node)
        self.mounting[there.node].pop(there.runner, None)

    def bind(self, reading: bool, there: Presence) -> None:
        self.state.settle(there.runner.pod, self.board.places[there.node].node)

    def reset(self) -> Iterable[PlanRunner]:
        return [runner for runner in self.board.runners.values() if self in runner.readings] if self.state.reset() else ()

    def due(self) -> Iterable[PlanRunner]:
        return ()
