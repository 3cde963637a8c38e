"""PodTopologySpread (DoNotSchedule) for the checker, over pods that are bound or placed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from kubestow.checker.rules.base import CheckedRule, Fault, Place, World
from kubestow.checker.rules.pod_topology_spread import state
from kubestow.checker.rules.pod_topology_spread.changing_nodes import ChangingTallies
from kubestow.checker.rules.pod_topology_spread.flows import Tallies
from kubestow.models.kube import objects


class SpreadReading(NamedTuple):
    """The constraints and counts of a pod.

    Attributes:
        own: Its constraints.
        counts: The pod counts that include it.
    """

    own: state.PodSpread
    counts: Sequence[state.Count]


class PodTopologySpread(CheckedRule[SpreadReading]):
    """Pod counts per domain, and the placed pods whose constraints the final state must obey."""

    names, order, mutual, for_moves, can_undo, local = ("PodTopologySpread",), 90, True, True, True, False

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.state = (ChangingTallies if world.nodes_change else Tallies)(world.nodes, world.snapshot.gates)
        self._guards: dict[tuple[int, str], tuple[state.PodSpread, objects.Node, objects.Pod]] = {}

    def announce(self, pods: Iterable[objects.Pod], *, judged: bool) -> None:
        for pod in pods if judged else ():
            self.state.read(pod)

    def read(self, pod: objects.Pod, *, judged: bool) -> SpreadReading | None:
        own = self.state.read(pod) if judged else state.NO_SPREAD
        counts = self.state.watching(pod, self.world.members.profile(pod))
        return SpreadReading(own, counts) if counts or own is not state.NO_SPREAD else None

    def faults(self, reading: SpreadReading, pod: objects.Pod, place: Place) -> list[Fault]:
        return [("PodTopologySpread", why) for why in state.faults(reading.own, place.node)]

    def add(self, reading: SpreadReading, pod: objects.Pod, place: Place, *, placed: bool) -> None:
        if placed and reading.own.constraints:  # remembered once for equal pods
            self._guards.setdefault((id(reading.own), place.name), (reading.own, place.node, pod))
        state.count(reading.counts, place.node)

    def remove(self, reading: SpreadReading, pod: objects.Pod, place: Place, *, placed: bool) -> None:
        state.count(reading.counts, place.node, -1)

    def leave(self, name: str) -> None:
        if isinstance(self.state, ChangingTallies):
            self.state.leave(name)

    def join(self, name: str) -> None:
        if isinstance(self.state, ChangingTallies):
            self.state.join(name)

    def reset(self) -> None:
        self._guards.clear()

    def disturbs(self, reading: SpreadReading, pod: objects.Pod, place: Place) -> bool:
        if not self._guards:
            return False
        namespace = self.world.members.profile(pod)[0]
        state.count(reading.counts, place.node)
        fed = [
            (guard, where) for guard, where, _ in self._guards.values()
            if any(c.tally.census.namespace == namespace for c in guard.constraints)
        ]  # fmt: skip
        disturbed = bool(state.final_faults(fed))
        state.count(reading.counts, place.node, -1)
        return disturbed

    def final_faults(self) -> Iterator[tuple[objects.Pod, str, str, str]]:
        guards = list(self._guards.values())
        for position, why in state.final_faults((own, node) for own, node, _ in guards):
            yield guards[position][2], guards[position][1].metadata.name or "", "PodTopologySpread", why

    def welcome(self, reading: SpreadReading, place: Place, guests: Iterable[objects.Pod]) -> None:
        state.welcome(reading.own, place.node, guests)
