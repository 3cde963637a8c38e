"""DynamicResources in plans: devices are allocated as pods land, so the order of steps must not matter."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from kubestow.checker.rules.base import Place
from kubestow.checker.rules.dynamic_resources.entry import RULE
from kubestow.checker.rules.dynamic_resources.rule import DynamicResources
from kubestow.checker.rules.plans import IndependentFace, IndependentWave, PodChange, Presence, Refusal, Step


class DeviceWave(IndependentWave[bool]):
    """Devices that the pods of a wave take."""

    def order(self) -> Iterator[Refusal]:
        """Yield pods that may take devices from one pool or share a claim with those of another step."""
        first: dict[object, Step] = {}
        rule, places = cast("DynamicResources", self.face.rule), self.wave.board.places
        for step in self.wave.steps if not self.wave.alone else ():
            for change in step:
                concerned = change.target is not None and self.reading(change) is not None
                sources = rule.sources(change.runner.pod, places[change.target.node]) if change.target is not None and concerned else ()
                others = [first.setdefault(source, step) for source in sources]
                other = next((other[0].runner.key for other in others if other is not step), None)
                if other is not None:
                    yield Refusal(change, RULE, f"{other} takes devices in the same wave: the allocation depends on their order")

    def landed(self, change: PodChange, place: Place, *, unit: bool) -> None:
        if self.reading(change) is not None:
            self.face.rule.add(True, change.runner.pod, place, placed=True)


class DevicesInPlans(IndependentFace[bool]):
    """Devices of landing pods. Those of running pods stay allocated."""

    of = DynamicResources

    in_wave = DeviceWave

    def put(self, reading: bool, there: Presence) -> None:
        """Do nothing."""

    def lift(self, reading: bool, there: Presence) -> None:
        """Do nothing."""

    def judges_away(self, reading: bool) -> bool:
        return False
