"""Exact packings: whether the devices of a node can serve several pods together in any order, which first-fit does not decide.

The search is over classes of devices. Clusters with the same structure and state are interchangeable
(:mod:`kubestow.solver.devices.clusters`): only one is tried, and dead ends are remembered up to this
symmetry.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from kubestow.models.devices.demand import DemandedConstraint
from kubestow.models.devices.inventory import DeviceBooks, DeviceKind
from kubestow.solver.devices.clusters import Amounts, ClaimOption, Claims, DeviceClusters

#: Maximum number of pod orders, and of steps of each search.
MAX_ATTEMPTS: Final = 6
MAX_STEPS: Final = 1_500
#: By constraint of a claim, the typed values that it has fixed or used.
Held = tuple[frozenset[tuple[str, object]] | None, ...]
#: The group of each device that a pod gets, in the order of its claims.
Taken = tuple[int, ...]


def pack(
    clusters: DeviceClusters, books: DeviceBooks, pods: Sequence[Claims], *, tries: int = MAX_ATTEMPTS, steps: int = MAX_STEPS
) -> tuple[list[Taken] | None, bool]:
    """Return the groups of the devices that each pod gets, in the given order and in addition to the books, and True.

    If none are found, return None, and True if it is proved that there are none. The first attempt places the
    hardest pods first; later ones add noise to the order.
    """
    rng = random.Random(len(pods))
    for attempt in range(tries):
        groups, sure = _PackingSearch(clusters, books, pods, steps, rng if attempt else None).run()
        if sure:
            return groups, True
    return None, False


@dataclass(frozen=True)
class _SearchPosition:
    """The position of a search: the pod in the order and in the query, its claim and request."""

    position: int
    pod: int
    claim: int
    request: int
    constraints: tuple[DemandedConstraint, ...]


class _PackingSearch:
    def __init__(self, clusters: DeviceClusters, books: DeviceBooks, pods: Sequence[Claims], steps: int, rng: random.Random | None) -> None:
        self._p, self._pods, self._steps = clusters, pods, steps
        self._options = [clusters.options[claims] for claims in pods]
        groups, scale = clusters.groups, clusters.scale
        self._free = [group.free(books) for group in groups]
        self._left = [int(books.left[counter] * scale) for counter in clusters.counters]
        #: Of shared devices: the number of shares, and the remaining capacity.
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
            return [tuple(groups) for groups in self._taken], True
        return None, not self._cut

    def _size(self, i: int) -> float:
        """Return the minimum fraction of the supply that a pod takes. The hardest pods come first."""
        total = 0.0
        for claim in self._options[i]:
            for alternatives in claim:
                total += min((self._weight(option) for option in alternatives), default=0.0)
        return total + 1e-3 * sum(bool(claim.constraints) for claim in self._pods[i])

    def _weight(self, option: ClaimOption) -> float:
        count = len(option.groups) if option.request.count is None else option.request.count
        return count * min((self._share(g, amounts) for g, amounts in option.groups), default=0.0)

    def _share(self, g: int, amounts: Amounts) -> float:
        if amounts:
            return max((amount / max(1, self._p.capacity[g][name]) for name, amount in amounts), default=0.0)
        if self._p.uses[g]:
            return max(amount / max(1, int(self._p.totals[c] * self._p.scale)) for c, amount in self._p.uses[g])
        return 1.0

    # --- shortages --------------------------------------------------------------------------------------------------------------

    def _needed(self) -> list[dict[object, tuple[int, int]]]:
        """Return the least amounts that the pods from each position of the order on need together.

        Returns:
            By position, for each kind of amount, the minimum total of these pods and the smallest piece.
        """
        needs: list[dict[object, tuple[int, int]]] = [{}]
        uses: list[set[int]] = [set()]
        for i in reversed(self._order):
            options = [option for claim in self._options[i] for alternatives in claim for option in alternatives]
            uses.append(uses[-1].union(g for option in options for g, _ in option.groups))
            total = dict(needs[-1])
            for claim in self._options[i]:
                for alternatives in claim:
                    for name, (count, least) in self._least(alternatives).items():
                        before, smallest = total.get(name, (0, least))
                        total[name] = before + count * least, min(smallest, least)
            needs.append(total)
        needs.reverse()
        self._uses = [sorted(groups) for groups in reversed(uses)]  # groups whose devices pods from a position on may get
        return needs

    def _least(self, alternatives: Sequence[ClaimOption]) -> dict[object, tuple[int, int]]:
        """Return for each kind of amount the number of devices of a request, and the minimum amount of each.

        Empty if the request has alternatives, or if it takes no fixed number of devices.
        """
        if len(alternatives) != 1 or not alternatives[0].groups or not alternatives[0].request.count or alternatives[0].request.admin:
            return {}
        option = alternatives[0]
        by_group = [dict(self._amounts(g, amounts)) for g, amounts in option.groups]
        names = set.intersection(*(set(each) for each in by_group))
        return {name: (alternatives[0].request.count or 0, min(each[name] for each in by_group)) for name in names}

    def _amounts(self, g: int, amounts: Amounts) -> Iterator[tuple[object, int]]:
        """Yield the amounts that a device of a group takes, by kind: capacity by name, counters by position, or the device itself."""
        yield from amounts
        if not self._p.groups[g].kind.shared:
            yield from ((position, amount) for position, (_, amount) in enumerate(self._p.uses[g]))
            if not self._p.uses[g]:
                yield None, 1

    def _short(self, position: int) -> bool:
        """Return True if the remainder is insufficient for the pods from a position on. Scraps below the smallest piece do not count."""
        needs = self._needs[position]
        if not needs:
            return False
        have = dict.fromkeys(needs, 0)
        seen: set[tuple[int, int]] = set()
        for g in self._uses[position]:
            if self._p.groups[g].kind.shared:
                for name, residual in self._rest[g].items():
                    if name in needs and residual >= needs[name][1] and self._free[g]:
                        have[name] += residual
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
        state = self._states[c]
        if state is None:
            members = self._p.members[c]
            state = self._states[c] = (
                tuple(self._free[g] for g in members),
                tuple(self._left[counter] for counter in self._p.owned[c]),
                tuple(tuple(self._rest[g].values()) for g in members if self._rest[g]),
                tuple(self._shares[g] > 0 for g in members if self._rest[g]),
            )
        return state

    def _key(self, position: int) -> tuple[object, ...]:
        clusters = sorted((built, self._state(c)) for c, built in enumerate(self._p.built))
        return position, tuple(clusters)

    def _take(self, g: int, amounts: Amounts) -> bool:
        """Take a device of group g, with its counters, if it is available. Return False, with nothing changed, if it is not.

        Args:
            amounts: Amount of each capacity that is taken.
        """
        charge = not self._shares[g]  # counters are consumed once, for any number of shares
        if not self._free[g] or (charge and any(self._left[c] < amount for c, amount in self._p.uses[g])):
            return False
        if any(self._rest[g][name] < amount for name, amount in amounts):
            return False
        self._book(g, amounts, 1)
        return True

    def _book(self, g: int, amounts: Amounts, times: int) -> None:
        """Take a device, or return it if ``times`` is -1."""
        shared = self._p.groups[g].kind.shared
        if not shared or self._shares[g] == (0 if times > 0 else 1):
            for c, amount in self._p.uses[g]:
                self._left[c] -= times * amount
        if shared:
            self._shares[g] += times
            for name, amount in amounts:
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

    def _request(self, position: int, c: int, r: int, values: Held) -> bool:
        pod = self._order[position]
        claims = self._pods[pod]
        alternatives = self._options[pod][c]
        if r == len(alternatives):
            return self._claim(position, c + 1)
        at = _SearchPosition(position, pod, c, r, claims[c].constraints)
        for option in alternatives[r]:
            if option.request.admin:
                served = self._request(position, c, r + 1, values)
            elif option.request.count is None:
                served = self._all(at, option, values)
            else:
                order = sorted(option.groups, key=lambda pair: (self._fit(*pair), pair[0]))
                served = self._pick(at, option, order, option.request.count, values)
            if served:
                return True
        return False

    def _fit(self, g: int, amounts: Amounts) -> float:
        """Return the supply that other requests could use instead of a device of group g. The tightest one is tried first."""
        if self._p.groups[g].kind.shared:
            return float(sum(self._rest[g][name] for name, _ in amounts))
        if self._p.uses[g]:
            return float(sum(self._left[c] for c, _ in self._p.uses[g]))
        return float(sum(self._free[h] for h in self._p.members[self._p.cluster_of[g]]))

    def _pick(self, at: _SearchPosition, option: ClaimOption, order: Sequence[tuple[int, Amounts]], count: int, values: Held) -> bool:
        """Take ``count`` devices for a request, and devices for all later requests and pods. Return False, with nothing taken, on failure.

        Args:
            order: Groups to choose from, with the amounts taken. Devices before one already taken are excluded.
            values: Values of the claim's constraints so far.
        """
        if not count:
            return self._request(at.position, at.claim, at.request + 1, values)
        tried: set[tuple[object, ...]] = set()
        for i, (g, amounts) in enumerate(order):
            now = _constrained(at.constraints, option.constraints, self._p.groups[g].kind, values)
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
            if not self._take(g, amounts):
                continue
            self._taken[at.pod].append(g)
            if self._pick(at, option, order[i + 1 :] if self._p.groups[g].kind.shared else order[i:], count - 1, now):
                return True
            self._taken[at.pod].pop()
            self._book(g, amounts, -1)
        return False

    def _all(self, at: _SearchPosition, option: ClaimOption, values: Held) -> bool:
        """Take every device that a request for all devices matches, and devices for all later requests and pods.

        Return False, with nothing taken, on failure.
        """
        done: list[tuple[int, Amounts]] = []
        now: Held | None = values
        for g, amounts in option.groups:
            for _ in self._p.groups[g].units:
                now = None if now is None else _constrained(at.constraints, option.constraints, self._p.groups[g].kind, now)
                if now is None or not self._take(g, amounts):
                    now = None
                    break
                self._taken[at.pod].append(g)
                done.append((g, amounts))
        if now is not None and done and self._request(at.position, at.claim, at.request + 1, now):
            return True
        for g, amounts in reversed(done):
            self._taken[at.pod].pop()
            self._book(g, amounts, -1)
        return False


def _constrained(constraints: Sequence[DemandedConstraint], about: Sequence[int], kind: DeviceKind, values: Held) -> Held | None:
    """Return the values of the constraints with one more device; None if one of them rejects it."""
    if not about:
        return values
    narrowed = list(values)
    for k in about:
        attribute = kind.attributes.get(constraints[k].attribute)
        if attribute is None:
            return None
        own = frozenset((attribute[0], value) for value in attribute[1])
        before = narrowed[k]
        if before is None:
            narrowed[k] = own
        elif constraints[k].distinct:
            if before & own:
                return None
            narrowed[k] = before | own
        elif not before & own:
            return None
        else:
            narrowed[k] = before & own
    return tuple(narrowed)
