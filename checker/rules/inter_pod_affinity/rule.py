"""InterPodAffinity for the checker, over pods that are bound or placed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kubestow.checker.reading.affinity_terms import AffinityMember
from kubestow.checker.rules.base import CheckedRule, Fault, Place, World
from kubestow.checker.rules.inter_pod_affinity.flows import PlanAffinityState
from kubestow.checker.rules.inter_pod_affinity.units import affinity_faults
from kubestow.models.kube import objects


class InterPodAffinity(CheckedRule[AffinityMember]):
    """The pods of each domain by the terms that select them. All replicas of a pod share a reading."""

    names, order, mutual, for_moves, can_undo, local = ("InterPodAffinity",), 100, True, True, True, False

    def __init__(self, world: World) -> None:
        super().__init__(world)
        namespaces = {name: namespace.metadata.labels or {} for name, namespace in world.snapshot.namespaces.items()}
        self.state = PlanAffinityState(namespaces, world.exempt)
        self._members: dict[int, AffinityMember] = {}  # by id of the pod

    def announce(self, pods: Iterable[objects.Pod], *, judged: bool) -> None:
        self.state.announce(map(self.world.members.member, pods), judged=judged)

    def read(self, pod: objects.Pod, *, judged: bool) -> AffinityMember | None:
        member = self.world.members.member(pod)
        return member if self.state.is_tied(member) else None

    def _own(self, known: AffinityMember | None, pod: objects.Pod) -> AffinityMember:
        """Return the member of the pod under its own name."""
        member = self._members.get(id(pod))
        if member is None:
            known = known or self.world.members.member(pod)
            member = AffinityMember(objects.pod_key(pod), known.namespace, known.labels, known.terms, known.profile)
            self._members[id(pod)] = member
        return member

    def faults(self, reading: AffinityMember, pod: objects.Pod, place: Place) -> list[Fault]:
        return [("InterPodAffinity", why) for why in self.state.faults(reading, place.node)]

    def add(self, reading: AffinityMember, pod: objects.Pod, place: Place, *, placed: bool) -> None:
        self.state.add(self._own(reading, pod), place.node)

    def remove(self, reading: AffinityMember, pod: objects.Pod, place: Place, *, placed: bool) -> None:
        self.state.remove(self._own(reading, pod), place.node)

    def open_unit(self, unit: Sequence[tuple[AffinityMember | None, objects.Pod, Place]]) -> list[list[str]]:
        return affinity_faults(self.state, [(self._own(reading, pod), place.node) for reading, pod, place in unit])

    def unit_faults(self, reading: AffinityMember, pod: objects.Pod, place: Place, opened: Sequence[str]) -> list[Fault]:
        return [("InterPodAffinity", why) for why in (*self.state.anti_faults(self._own(reading, pod), place.node), *opened)]

    def second_pass(self, reading: AffinityMember | None) -> bool:
        return reading is not None and self.state.is_asked(reading)
