"""Required pod affinity while pods come and go: who has to be near whom, and whether that can fail in the middle of a wave.

Pods are counted by domain for each distinct set of terms and keys (:class:`Ask`). A pod is content where others match all its terms in its
domain of every key, or where it matches them itself and no other pod does on a node with any of the keys (it came first).

In a wave every pod that moves is at one of several places, each pod independently of the others. The pod in question is content in all
these states if and only if

* for each key its domain holds a matching pod in every state: one that does not move, or one that moves inside the domain (except
  while moves are under way, when a moving pod may be nowhere); or else
* it matches its own terms, no matching pod that stays is on a node with any of the keys, and no place of a moving one is on such a
  node outside the domain of a key that may be empty: then whoever is there is near it, and if nobody is, it is the first.

Both directions hold: each violated condition names a state, in which one moving pod is where it says and the others are elsewhere.

Source: kube-scheduler plugin interpodaffinity (filtering.go).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from kubestow.checker.rules import affinity, matching
from kubestow.models.kube import objects

#: The domain of each key that a node is in; None where it lacks the key.
Place = tuple[str | None, ...]


class Seat(NamedTuple):
    """Where a pod with the terms is, and whether it matches them itself."""

    place: Place
    itself: bool


class State(affinity.AffinityState):
    """As for placements; says besides whether anti-affinity concerns a pod at all."""

    def is_concerned(self, member: affinity.Member) -> bool:
        """Return whether the pod has anti-affinity terms, or matches one of some pod."""
        return bool(member.terms.anti or member.terms.fault or self._seen(member).owned)


@dataclass(eq=False)
class Ask:
    """``counts``: matching pods by domain of each key; ``visible``: those on nodes with any of the keys. ``seats``: names of the pods with
    these terms that have to stay content, ``by_domain``: the same seats by key (its index) and domain."""

    group: affinity.Group
    keys: tuple[str, ...]
    counts: list[dict[str, int]] = field(init=False)
    visible: int = 0
    seats: dict[Seat, dict[str, None]] = field(default_factory=dict)
    by_domain: dict[tuple[int, str | None], dict[Seat, None]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.counts = [{} for _ in self.keys]

    def place(self, labels: matching.Labels) -> Place:
        return tuple([labels.get(key) for key in self.keys])

    def count(self, place: Place, by: int) -> None:
        if any(domain is not None for domain in place):
            self.visible += by
            for counts, domain in zip(self.counts, place, strict=True):
                if domain is not None:
                    counts[domain] = counts.get(domain, 0) + by

    def sit(self, seat: Seat, name: str) -> None:
        if seat not in self.seats:
            self.seats[seat] = {}
            for k, domain in enumerate(seat.place):
                self.by_domain.setdefault((k, domain), {})[seat] = None
        self.seats[seat][name] = None

    def rise(self, seat: Seat, name: str) -> None:
        """The opposite of :meth:`sit`; nothing if the pod has no seat."""
        if name in self.seats.get(seat, ()):
            del self.seats[seat][name]
            if not self.seats[seat]:
                del self.seats[seat]
                for k, domain in enumerate(seat.place):
                    del self.by_domain[k, domain][seat]


@dataclass(frozen=True, slots=True)
class Removal:
    """Of one pod that moves in a wave: where it is before and after, as an ask sees it (None: absent)."""

    before: Place | None
    after: Place | None

    def places(self) -> Iterator[Place]:
        """Return where it may be and be counted."""
        for place in (self.before, self.after):
            if place is not None and any(domain is not None for domain in place):
                yield place

    def inside(self, k: int) -> str | None:
        """Return the domain of a key that it never leaves but to be nowhere."""
        same = self.before is not None and self.after is not None and self.before[k] == self.after[k]
        return self.before[k] if same and self.before is not None else None


class Flow:
    """All the pods of a wave that match the terms of one ask."""

    def __init__(self, ask: Ask, ways: Collection[Removal]) -> None:
        self.ask = ask
        keys = range(len(ask.keys))
        self.leaving: list[Counter[str | None]] = [Counter(way.before[k] for way in ways if way.before is not None) for k in keys]
        self._inside: list[Counter[str | None]] = [Counter(way.inside(k) for way in ways) for k in keys]
        self._places = Counter(place for way in ways for place in way.places())
        self._stay = ask.visible - sum(way.before is not None and any(d is not None for d in way.before) for way in ways)

    def can_miss(self, seat: Seat, own: Removal | None = None, *, rests: bool, midway: bool, mates: Iterable[Place] = ()) -> bool:
        """Return whether a pod in this seat may miss a pod that it has to be near, in some state of the others.

        ``own``: the pod's own way, if it moves in the wave; ``rests``: it does not, and is counted among the others. ``midway``: others may
        be nowhere between two places. ``mates``: places of others that are there for certain.
        """
        ask, itself = self.ask, int(seat.itself)
        mates = list(mates)
        lonely = []
        for k, domain in enumerate(seat.place):
            if domain is None:
                return True
            near = ask.counts[k].get(domain, 0) - self.leaving[k][domain] - (itself if rests else 0)
            near += sum(mate[k] == domain for mate in mates)
            if not midway:
                near += self._inside[k][domain] - (own is not None and own.inside(k) == domain)
            if near <= 0:
                lonely.append(k)
        if not lonely:
            return False
        if not itself or self._stay - (itself if rests else 0) > 0 or any(d is not None for mate in mates for d in mate):
            return True
        mine = Counter(own.places()) if own is not None else Counter()
        return any(number > mine[place] and any(place[k] != seat.place[k] for k in lonely) for place, number in self._places.items())

    def affected(self) -> Iterable[Seat]:
        """Seats that the wave can make discontent: a pod near them leaves, or they were the first and others come."""
        if self.ask.visible <= 1:
            return list(self.ask.seats)
        found: dict[Seat, None] = {}
        for k, leaving in enumerate(self.leaving):
            for domain in leaving:
                if domain is not None:
                    found.update(self.ask.by_domain.get((k, domain), {}))
        return list(found)


class Asks:
    """The affinity terms of all pods that run or will. ``state``: with these pods announced."""

    def __init__(self, state: State, nodes: Mapping[str, objects.Node]) -> None:
        self._state = state
        self._labels = {name: node.metadata.labels or {} for name, node in nodes.items()}
        self._asks: dict[tuple[affinity.Group, tuple[str, ...]], Ask] = {}
        self._by_group: dict[affinity.Group, list[Ask]] = {}
        self._answered: dict[matching.Profile, list[Ask]] = {}

    def read(self, members: Iterable[affinity.Member]) -> None:
        """Take note of what pods ask for; all of them before the first is counted."""
        for member in members:
            if member.terms.affinity:
                self.of(member)

    def of(self, member: affinity.Member) -> Ask:
        """Return what the pod asks for."""
        wants = self._state.wants(member)
        key = wants.group, tuple(tally.key for tally in wants.affinity)
        ask = self._asks.get(key)
        if ask is None:
            ask = self._asks[key] = Ask(*key)
            self._by_group.setdefault(wants.group, []).append(ask)
        return ask

    def answered(self, member: affinity.Member) -> list[Ask]:
        """Return the asks whose terms the pod matches."""
        if not self._asks:
            return []
        found = self._answered.get(member.profile)
        if found is None:
            groups = self._state.answers(member)
            found = self._answered[member.profile] = [ask for group in groups for ask in self._by_group.get(group, ())]
        return found

    def count(self, member: affinity.Member, node: str, by: int) -> None:
        for ask in self.answered(member):
            ask.count(ask.place(self._labels[node]), by)

    def seat(self, member: affinity.Member, node: str) -> Seat:
        """Return where the pod is, as its own terms see it."""
        ask = self.of(member)
        return Seat(ask.place(self._labels[node]), ask.group in self._state.answers(member))

    def place(self, ask: Ask, node: str | None) -> Place | None:
        return None if node is None else ask.place(self._labels[node])

    def is_lonely(self, member: affinity.Member, node: str) -> bool:
        """Return whether a pod that is counted on the node misses others there now."""
        return Flow(self.of(member), ()).can_miss(self.seat(member, node), rests=True, midway=False)
