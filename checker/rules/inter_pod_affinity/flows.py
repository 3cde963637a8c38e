"""Required pod affinity while pods come and go, and whether it can fail in the middle of a wave.

Pods are counted by domain for each distinct set of terms and keys (:class:`TermSet`). A pod is content in one of two
cases. Other pods match all its terms in its domain of every key. Or it matches the terms itself, and no other
matching pod is on a node with any of the keys (it came first).

In a wave every moving pod is at one of several places, independently of the other pods. A pod is content in all
these states if and only if one of these conditions holds:

* For each key its domain holds a matching pod in every state. That is a pod that does not move, or one that moves
  inside the domain. While moves are under way, a moving pod may be nowhere and does not count.
* It matches its own terms. No remaining matching pod is on a node with any of the keys. No place of a moving pod is
  on such a node outside the domain of a key that may be empty. Any present pod is then near it, and if none is
  present, it is the first.

Both directions hold. Each violated condition names a state in which one moving pod is at the place in question and
the others are elsewhere.

Source: kube-scheduler plugin interpodaffinity (filtering.go).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from kubestow.checker.reading import affinity_terms, matching
from kubestow.checker.rules.inter_pod_affinity import state as affinity
from kubestow.models.kube import objects

#: The domain of a node for each key; None if the node lacks the key.
Place = tuple[str | None, ...]


class Seat(NamedTuple):
    """The position of a pod with affinity terms.

    Attributes:
        place: Domains of its node.
        itself: True if the pod matches its own terms.
    """

    place: Place
    itself: bool


class PlanAffinityState(affinity.AffinityState):
    """Affinity state of placements that also reports whether anti-affinity involves a pod."""

    def is_concerned(self, member: affinity_terms.AffinityMember) -> bool:
        """Return True if the pod has anti-affinity terms or matches one of another pod."""
        return bool(member.terms.anti or member.terms.fault or self._seen(member).owned)


@dataclass(eq=False)
class TermSet:
    """A distinct set of affinity terms with their topology keys.

    Attributes:
        group: The terms.
        keys: Topology keys of the terms.
        counts: Matching pods per domain, for each key.
        visible: Number of matching pods on nodes with any of the keys.
        seats: Names of the pods with these terms that must stay content, by seat.
        by_domain: The same seats by index of the key and domain.
    """

    group: affinity_terms.Group
    keys: tuple[str, ...]
    counts: list[dict[str, int]] = field(init=False)
    visible: int = 0
    seats: dict[Seat, dict[str, None]] = field(default_factory=dict)
    by_domain: dict[tuple[int, str | None], dict[Seat, None]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.counts = [{} for _ in self.keys]

    def place(self, labels: matching.Labels) -> Place:
        """Return the domains of a node with these labels."""
        return tuple([labels.get(key) for key in self.keys])

    def count(self, place: Place, by: int) -> None:
        """Add matching pods at a place."""
        if any(domain is not None for domain in place):
            self.visible += by
            for counts, domain in zip(self.counts, place, strict=True):
                if domain is not None:
                    counts[domain] = counts.get(domain, 0) + by

    def sit(self, seat: Seat, name: str) -> None:
        """Register a pod that must stay content."""
        if seat not in self.seats:
            self.seats[seat] = {}
            for k, domain in enumerate(seat.place):
                self.by_domain.setdefault((k, domain), {})[seat] = None
        self.seats[seat][name] = None

    def rise(self, seat: Seat, name: str) -> None:
        """Undo :meth:`sit`. No effect if the pod has no seat."""
        if name in self.seats.get(seat, ()):
            del self.seats[seat][name]
            if not self.seats[seat]:
                del self.seats[seat]
                for k, domain in enumerate(seat.place):
                    del self.by_domain[k, domain][seat]


@dataclass(frozen=True, slots=True)
class Removal:
    """The places of one pod that moves in a wave, as an ask sees them.

    Attributes:
        before: Place before the wave; None if absent.
        after: Place after the wave; None if absent.
    """

    before: Place | None
    after: Place | None

    def places(self) -> Iterator[Place]:
        """Yield the places where the pod may be counted."""
        for place in (self.before, self.after):
            if place is not None and any(domain is not None for domain in place):
                yield place

    def inside(self, k: int) -> str | None:
        """Return the domain of the key that the pod never leaves except while it is nowhere, or None."""
        same = self.before is not None and self.after is not None and self.before[k] == self.after[k]
        return self.before[k] if same and self.before is not None else None


class AffinityFlow:
    """All pods of a wave that match the terms of one ask."""

    def __init__(self, ask: TermSet, ways: Collection[Removal]) -> None:
        self.ask = ask
        keys = range(len(ask.keys))
        self.leaving: list[Counter[str | None]] = [Counter(way.before[k] for way in ways if way.before is not None) for k in keys]
        self._inside: list[Counter[str | None]] = [Counter(way.inside(k) for way in ways) for k in keys]
        self._places = Counter(place for way in ways for place in way.places())
        self._stay = ask.visible - sum(way.before is not None and any(d is not None for d in way.before) for way in ways)

    def can_miss(self, seat: Seat, own: Removal | None = None, *, rests: bool, midway: bool, mates: Iterable[Place] = ()) -> bool:
        """Return True if a pod in this seat may miss a required neighbour in some state of the others.

        Args:
            seat: Position of the pod.
            own: The pod's own removal if it moves in the wave.
            rests: True if it does not move and is counted among the others.
            midway: True if others may be nowhere between two places.
            mates: Places of pods that are certainly present.
        """
        ask, itself = self.ask, int(seat.itself)
        mates = list(mates)
        lonely = []
        for k, domain in enumerate(seat.place):
            if domain is None:
                return True
            neighbours = ask.counts[k].get(domain, 0) - self.leaving[k][domain] - (itself if rests else 0)
            neighbours += sum(mate[k] == domain for mate in mates)
            if not midway:
                neighbours += self._inside[k][domain] - (own is not None and own.inside(k) == domain)
            if neighbours <= 0:
                lonely.append(k)
        if not lonely:
            return False
        if not itself or self._stay - (itself if rests else 0) > 0 or any(d is not None for mate in mates for d in mate):
            return True
        mine = Counter(own.places()) if own is not None else Counter()
        return any(number > mine[place] and any(place[k] != seat.place[k] for k in lonely) for place, number in self._places.items())

    def affected(self) -> Iterable[Seat]:
        """Return the seats that the wave can make discontent: a neighbour leaves, or the pod was first and others come."""
        if self.ask.visible <= 1:
            return list(self.ask.seats)
        found: dict[Seat, None] = {}
        for k, leaving in enumerate(self.leaving):
            for domain in leaving:
                if domain is not None:
                    found.update(self.ask.by_domain.get((k, domain), {}))
        return list(found)


class Asks:
    """The affinity terms of all pods that run now or later.

    Args:
        state: The affinity state, with these pods announced.
        nodes: All nodes.
    """

    def __init__(self, state: PlanAffinityState, nodes: Mapping[str, objects.Node]) -> None:
        self._state = state
        self._labels = {name: node.metadata.labels or {} for name, node in nodes.items()}
        self._asks: dict[tuple[affinity_terms.Group, tuple[str, ...]], TermSet] = {}
        self._by_group: dict[affinity_terms.Group, list[TermSet]] = {}
        self._answered: dict[matching.Profile, list[TermSet]] = {}

    def read(self, members: Iterable[affinity_terms.AffinityMember]) -> None:
        """Register the terms of pods. Call it for all pods before the first one is counted."""
        for member in members:
            if member.terms.affinity:
                self.of(member)

    def of(self, member: affinity_terms.AffinityMember) -> TermSet:
        """Return the :class:`TermSet` with a pod's affinity terms, created if these terms are new."""
        wants = self._state.wants(member)
        key = wants.group, tuple(tally.key for tally in wants.affinity)
        ask = self._asks.get(key)
        if ask is None:
            ask = self._asks[key] = TermSet(*key)
            self._by_group.setdefault(wants.group, []).append(ask)
        return ask

    def answered(self, member: affinity_terms.AffinityMember) -> list[TermSet]:
        """Return the asks whose terms the pod matches."""
        if not self._asks:
            return []
        found = self._answered.get(member.profile)
        if found is None:
            groups = self._state.answers(member)
            found = self._answered[member.profile] = [ask for group in groups for ask in self._by_group.get(group, ())]
        return found

    def count(self, member: affinity_terms.AffinityMember, node: str, by: int) -> None:
        """Add a pod to the counts of every ask that it matches."""
        for ask in self.answered(member):
            ask.count(ask.place(self._labels[node]), by)

    def seat(self, member: affinity_terms.AffinityMember, node: str) -> Seat:
        """Return the position of a pod as its own terms see it."""
        ask = self.of(member)
        return Seat(ask.place(self._labels[node]), ask.group in self._state.answers(member))

    def place(self, ask: TermSet, node: str | None) -> Place | None:
        """Return the domains of a node for an ask, or None without a node."""
        return None if node is None else ask.place(self._labels[node])

    def is_lonely(self, member: affinity_terms.AffinityMember, node: str) -> bool:
        """Return True if a pod that is counted on the node lacks a required neighbour now."""
        return AffinityFlow(self.of(member), ()).can_miss(self.seat(member, node), rests=True, midway=False)
