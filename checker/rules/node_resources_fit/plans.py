"""NodeResourcesFit in plans: pods that hold more or less than they request, until the plan moves them."""

from __future__ import annotations

from collections.abc import Iterator

from kubestow.checker.reading.resources import Amounts
from kubestow.checker.rules.base import Place
from kubestow.checker.rules.node_resources_fit.rule import NodeResourcesFit
from kubestow.checker.rules.plans import IndependentFace, IndependentWave, PlanRunner, Presence, Worse

RULE = "NodeResourcesFit"


class CapacityWave(IndependentWave[Amounts]):
    """Pods that no longer fit by their spec."""

    face: CapacityInPlans

    def crowded(self) -> Iterator[Worse]:
        for name in {there.node: None for change in self.wave.changes for there in change.both()}:
            for runner in list(self.face.resized.get(name, ())):
                if runner.steady and RULE not in runner.broke and not self.face.fits(runner, self.wave.board.places[name]):
                    yield Worse(runner.key, RULE, "by its spec it no longer fits with the pods that may be on the node")


class CapacityInPlans(IndependentFace[Amounts]):
    """Requests against the resources that a place counts for all rules.

    Attributes:
        resized: Pods of each node whose status and spec differ in requests.
    """

    of = NodeResourcesFit

    in_wave = CapacityWave
    resized: dict[str, dict[PlanRunner, None]]

    def begin(self) -> None:
        self.resized = {}

    def put(self, reading: Amounts, there: Presence) -> None:
        if not there.placed and self.rule.world.requests.requests(there.runner.pod, bound=True) != reading:
            self.resized.setdefault(there.node, {})[there.runner] = None

    def lift(self, reading: Amounts, there: Presence) -> None:
        self.resized.get(there.node, {}).pop(there.runner, None)

    def broken(self, reading: Amounts, runner: PlanRunner, place: Place) -> tuple[str, ...]:
        return () if self.fits(runner, place) else (RULE,)

    def judges_away(self, reading: Amounts) -> bool:
        return False

    def fits(self, runner: PlanRunner, place: Place) -> bool:
        """Return True if a running pod, counted by its spec, fits on its node."""
        if place.pods > place.capacity.get("pods", 0):
            return False
        world = self.rule.world
        placed = runner.at is not None and runner.at.placed
        own = world.requests.requests(runner.pod, bound=not placed)
        for resource, amount in world.left_to_the_node(world.requests.requests(runner.pod, bound=False), place.capacity).items():
            if place.used.get(resource, 0) - own.get(resource, 0) + amount > place.capacity.get(resource, 0):
                return False
        return True
