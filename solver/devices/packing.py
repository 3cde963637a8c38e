"""Whether the devices that a node sees can serve several pods together, however they arrive: the question that first-fit does not answer.

An exact search over classes of devices instead of devices. Clusters that are built alike and in the same state are interchangeable
(:mod:`kubestow.solver.devices.clusters`): one of them is tried, and states that led nowhere are remembered up to their exchange.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from kubestow.models.devices.demand import Constraint
from kubestow.models.devices.inventory import Books, Kind
from kubestow.solver.devices.clusters import Amounts, Claims, DeviceClusters, Option

#: Orders of the pods that are tried, and steps of each search.
TRIES: Final = 6
STEPS: Final = 1_500
#: Per constraint of a claim the values, with their types, that it holds on to.
Held = tuple[frozenset[tuple[str, object]] | None, ...]
#: Of each claim of a pod, the group of each device that it gets.
Taken = tuple[int, ...]


def pack(
    clusters: DeviceClusters, books: Books, pods: Sequence[Claims], *, tries: int = TRIES, steps: int = STEPS
) -> tuple[list[Taken] | None, bool]:
    """Return the groups of the devices that each pod gets, in the order given, such that all are served beside what is in the books, and
    True; or None and whether it is proved that there is no such choice. The hardest pods first, then in orders with noise."""
    rng = random.Random(len(pods))
    for attempt in range(tries):
        found, sure = _Search(clusters, books, pods, steps, rng if attempt else None).run()
        if sure:
            return found, True
    return None, False


@dataclass(frozen=True)
class _At:
    """Where a search is: in a request of a claim of a pod, by position in the order and in the question."""

    position: int
    pod: int
    claim: int
    request: int
    constraints: tuple[Constraint, ...]


class _Search:
    def __init__(self, clusters: DeviceClusters, books: Books, pods: Sequence[Claims], steps: int, rng: random.Random | None) -> None:
        self._p, self._pods, self._steps = clusters, pods, steps
        self._options = [clusters.options[claims] for claims in pods]
        groups, scale = clusters.groups, clusters.scale
        self._free = [group.free(books) for group in groups]
        self._left = [int(books.left[counter] * scale) for counter in clusters.counters]
        #: Of shared devices: the number of shares, and what is left of the capacity.
        self._shares = [int(books.shares[group.units[0]]) if group.kind.shared else 0 for group in groups]
        self._rest = [
            {name: value - int(books.consumed.get((group.units[0], name), 0) * scale) for name, value in capacity.items()}
            for group, capacity in zip(groups, clusters.capacity, strict=True)
        ]
        self._states: list[tuple[object, ...] | None] = [None] * len(clusters.members)
        self._dead: set[tuple[object, ...]] = set()
        size = [self._size(i) * (1.0 if rng is None else rng.uniform(0.6, 1.4)) for i in range(len(pods))]
        self._order = sorted(range(len(pods)), key=lambda i: (-size[i], i))
        self._taken: list[list[int]] = [[] for _ in pods]
        self._cut = False
        self._needs = self._needed()

    def run(self) -> tuple[list[Taken] | None, bool]:
        if self._next(0):
            return [tuple(taken) for taken in self._taken], True
        return None, not self._cut

    def _size(self, i: int) -> float:
        """What a pod takes at least, as a share of what there is: the hardest first."""
        total = 0.0
        for claim in self._options[i]:
            for alternatives in claim:
                total += min((self._weight(option) for option in alternatives), default=0.0)
        return total + 1e-3 * sum(bool(claim.constraints) for claim in self._pods[i])

    def _weight(self, option: Option) -> float:
        count = len(option.groups) if option.request.count is None else option.request.count
        return count * min((self._share(g, taken) for g, taken in option.groups), default=0.0)

    def _share(self, g: int, taken: Amounts) -> float:
        if taken:
            return max((amount / max(1, self._p.capacity[g][name]) for name, amount in taken), default=0.0)
        if self._p.uses[g]:
            return max(amount / max(1, int(self._p.totals[c] * self._p.scale)) for c, amount in self._p.uses[g])
        return 1.0

    # --- what is short for sure -------------------------------------------------------------------------------------------------

    def _needed(self) -> list[dict[object, tuple[int, int]]]:
        """Per position in the order, of each kind of amount: what all pods from there on take at least, and the least that one device
        gives at a time."""
        found: list[dict[object, tuple[int, int]]] = [{}]
        uses: list[set[int]] = [set()]
        for i in reversed(self._order):
            options = [option for claim in self._options[i] for alternatives in claim for option in alternatives]
            uses.append(uses[-1].union(g for option in options for g, _ in option.groups))
            total = dict(found[-1])
            for claim in self._options[i]:
                for alternatives in claim:
                    for name, (count, least) in self._least(alternatives).items():
                        before, smallest = total.get(name, (0, least))
                        total[name] = before + count * least, min(smallest, least)
            found.append(total)
        found.reverse()
        self._uses = [sorted(groups) for groups in reversed(uses)]  # groups that pods from a position on may get devices of
        return found

    def _least(self, alternatives: Sequence[Option]) -> dict[object, tuple[int, int]]:
        """Of each kind of amount how many devices a request takes, and the least of each, whatever devices it gets."""
        if len(alternatives) != 1 or not alternatives[0].groups or not alternatives[0].request.count or alternatives[0].request.admin:
            return {}
        option = alternatives[0]
        taken = [dict(self._amounts(g, taken)) for g, taken in option.groups]
        names = set.intersection(*(set(each) for each in taken))
        return {name: (alternatives[0].request.count or 0, min(each[name] for each in taken)) for name in names}

    def _amounts(self, g: int, taken: Amounts) -> Iterator[tuple[object, int]]:
        """What a device of a group takes, by kind of amount: capacity by name, counters by position, or itself."""
        yield from taken
        if not self._p.groups[g].kind.shared:
            yield from ((position, amount) for position, (_, amount) in enumerate(self._p.uses[g]))
            if not self._p.uses[g]:
                yield None, 1

    def _short(self, position: int) -> bool:
        """Return whether what is left is too little for the pods from a position on; less than anybody takes is nothing."""
        needs = self._needs[position]
        if not needs:
            return False
        have = dict.fromkeys(needs, 0)
        seen: set[tuple[int, int]] = set()
        for g in self._uses[position]:
            if self._p.groups[g].kind.shared:
                for name, rest in self._rest[g].items():
                    if name in needs and rest >= needs[name][1] and self._free[g]:
                        have[name] += rest
                continue
            if not self._free[g] or any(self._left[counter] < amount for counter, amount in self._p.uses[g]):
                continue
            for at, (counter, _) in enumerate(self._p.uses[g]):
                if at in needs and (at, counter) not in seen:
                    seen.add((at, counter))
                    have[at] += self._left[counter]
            if not self._p.uses[g] and None in needs:
                have[None] += self._free[g]
        return any(have[name] < total for name, (total, _) in needs.items())

    # --- states -----------------------------------------------------------------------------------------------------------------

    def _state(self, c: int) -> tuple[object, ...]:
        found = self._states[c]
        if found is None:
            members = self._p.members[c]
            found = self._states[c] = (
                tuple(self._free[g] for g in members),
                tuple(self._left[counter] for counter in self._p.owned[c]),
                tuple(tuple(self._rest[g].values()) for g in members if self._rest[g]),
                tuple(self._shares[g] > 0 for g in members if self._rest[g]),
            )
        return found

    def _key(self, position: int) -> tuple[object, ...]:
        clusters = sorted((built, self._state(c)) for c, built in enumerate(self._p.built))
        return position, tuple(clusters)

    def _take(self, g: int, taken: Amounts) -> bool:
        """Take a device of a group; whether there is one, with the counters and the capacity that it needs."""
        charge = not self._shares[g]  # counters are consumed once, for however many shares
        if not self._free[g] or (charge and any(self._left[c] < amount for c, amount in self._p.uses[g])):
            return False
        if any(self._rest[g][name] < amount for name, amount in taken):
            return False
        self._book(g, taken, 1)
        return True

    def _book(self, g: int, taken: Amounts, times: int) -> None:
        """Take a device, or with -1 give it back."""
        shared = self._p.groups[g].kind.shared
        if not shared or self._shares[g] == (0 if times > 0 else 1):
            for c, amount in self._p.uses[g]:
                self._left[c] -= times * amount
        if shared:
            self._shares[g] += times
            for name, amount in taken:
                self._rest[g][name] -= times * amount
        else:
            self._free[g] -= times
        self._states[self._p.cluster_of[g]] = None

    # --- the search -------------------------------------------------------------------------------------------------------------

    def _next(self, position: int) -> bool:
        if position == len(self._order):
            return True
        key = self._key(position)
        if key in self._dead or self._short(position):
            return False
        if self._claim(position, 0):
            return True
        self._dead.add(key)
        return False

    def _claim(self, position: int, c: int) -> bool:
        claims = self._pods[self._order[position]]
        if c == len(claims):
            return self._next(position + 1)
        return self._request(position, c, 0, (None,) * len(claims[c].constraints))

    def _request(self, position: int, c: int, r: int, held: Held) -> bool:
        pod = self._order[position]
        claims = self._pods[pod]
        alternatives = self._options[pod][c]
        if r == len(alternatives):
            return self._claim(position, c + 1)
        at = _At(position, pod, c, r, claims[c].constraints)
        for option in alternatives[r]:
            if option.request.admin:
                served = self._request(position, c, r + 1, held)
            elif option.request.count is None:
                served = self._all(at, option, held)
            else:
                order = sorted(option.groups, key=lambda pair: (self._fit(*pair), pair[0]))
                served = self._pick(at, option, order, option.request.count, held)
            if served:
                return True
        return False

    def _fit(self, g: int, taken: Amounts) -> float:
        """How much a device is of other use: the tightest first."""
        if self._p.groups[g].kind.shared:
            return float(sum(self._rest[g][name] for name, _ in taken))
        if self._p.uses[g]:
            return float(sum(self._left[c] for c, _ in self._p.uses[g]))
        return float(sum(self._free[h] for h in self._p.members[self._p.cluster_of[g]]))

    def _pick(self, at: _At, option: Option, order: Sequence[tuple[int, Amounts]], count: int, held: Held) -> bool:
        """Take ``count`` devices of the groups in ``order``, in which no device comes before one that was taken already."""
        if not count:
            return self._request(at.position, at.claim, at.request + 1, held)
        tried: set[tuple[object, ...]] = set()
        for i, (g, taken) in enumerate(order):
            now = _constrained(at.constraints, option.constraints, self._p.groups[g].kind, held)
            if now is None:
                continue
            cluster = self._p.cluster_of[g]
            alike = (self._p.built[cluster], self._p.place_of[g], self._state(cluster))
            if alike in tried:
                continue
            tried.add(alike)
            self._steps -= 1
            if self._steps < 0:
                self._cut = True
                return False
            if not self._take(g, taken):
                continue
            self._taken[at.pod].append(g)
            if self._pick(at, option, order[i + 1 :] if self._p.groups[g].kind.shared else order[i:], count - 1, now):
                return True
            self._taken[at.pod].pop()
            self._book(g, taken, -1)
        return False

    def _all(self, at: _At, option: Option, held: Held) -> bool:
        """Take every device that a request for all of them matches."""
        done: list[tuple[int, Amounts]] = []
        now: Held | None = held
        for g, taken in option.groups:
            for _ in self._p.groups[g].units:
                now = None if now is None else _constrained(at.constraints, option.constraints, self._p.groups[g].kind, now)
                if now is None or not self._take(g, taken):
                    now = None
                    break
                self._taken[at.pod].append(g)
                done.append((g, taken))
        if now is not None and done and self._request(at.position, at.claim, at.request + 1, now):
            return True
        for g, taken in reversed(done):
            self._taken[at.pod].pop()
            self._book(g, taken, -1)
        return False


def _constrained(constraints: Sequence[Constraint], about: Sequence[int], kind: Kind, held: Held) -> Held | None:
    """What constraints hold on to with one more device; None where one of them does not allow it."""
    if not about:
        return held
    found = list(held)
    for k in about:
        attribute = kind.attributes.get(constraints[k].attribute)
        if attribute is None:
            return None
        own = frozenset((attribute[0], value) for value in attribute[1])
        before = found[k]
        if before is None:
            found[k] = own
        elif constraints[k].distinct:
            if before & own:
                return None
            found[k] = before | own
        elif not before & own:
            return None
        else:
            found[k] = before & own
    return tuple(found)
