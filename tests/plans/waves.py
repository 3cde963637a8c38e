"""The best plan of a tiny cluster in a given number of waves, by breadth-first search over all sequences of safe waves.

A wave is a set of steps of different pods. A wave is safe under three conditions, for every combination of steps that have not begun,
that are between stop and replacement, and that are done:

* each replacement is accepted;
* nothing is worse than in the snapshot;
* no budget evicts more than it allows when the wave begins.

Every subset of a safe wave is safe. Bindings of gangs that are accepted only together are left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any

from kubestow.models.documents.rebalance_plan import Limits
from tests.plans.accepting import Position
from tests.plans.brute import Best, Brute, Step, TooLarge
from tests.plans.cluster import ABSENT

Object = Mapping[str, Any]
Way = tuple[int, int]  # a pod and where it goes, or ABSENT


def best_in_waves(
    objects: Iterable[Object], goals: Sequence[str], drain: Collection[str], limits: Limits, *, most_states: int = 3_000
) -> Best:
    """Return the best plan within ``limits.maxWaves``, the only limit that counts apart from ``allowEviction``.

    Raises:
        TooLarge: there are more states, or waves of too many steps.
    """
    assert limits == Limits(maxWaves=limits.maxWaves, allowEviction=limits.allowEviction, alsoMove=limits.alsoMove)
    return _InWaves(objects, goals, drain, allow_eviction=limits.allowEviction, limits=limits).search(limits.maxWaves or 0, most_states)


class _InWaves(Brute):
    looks = 0  # phases of waves that may yet be looked at

    def search(self, most: int, most_states: int) -> Best:
        """The best end over all that ``most`` waves lead to."""
        self.looks = 40 * most_states
        seen: dict[tuple[Position, int], None] = {(self._key(self.first), 0): None}
        level: list[tuple[Position, tuple[Step, ...]]] = [(self.first, ())]
        found: tuple[tuple[int, ...], Best] | None = None
        for wave in range(most + 1):
            following: list[tuple[Position, tuple[Step, ...]]] = []
            for position, steps in level:
                moves = sum(step.source is not None and step.to is not None for step in steps)
                tiers = self.tiers(position, moves)
                if tiers is not None:
                    value = (*(tier[2] for tier in tiers), -moves)
                    if found is None or value > found[0]:
                        found = value, Best(tiers, sum(step.to is None for step in steps), moves, steps, 0)
                for ways in self._waves(position) if wave < most else ():
                    after = self._after(position, ways, ways)
                    made = moves + sum(n != ABSENT and i in self.movable for i, n in ways)
                    key = self._key(after), made
                    if key not in seen:
                        seen[key] = None
                        following.append((after, (*steps, *(self._step(position, i, n) for i, n in ways))))
            if len(seen) > most_states:
                raise TooLarge(f"{len(seen)} states")
            level = following
        assert found is not None
        best = found[1]
        return Best(best.tiers, best.evictions, best.moves, best.steps, len(seen))

    def _waves(self, position: Position) -> Iterator[tuple[Way, ...]]:
        """All safe waves from a position, the smaller ones of a set before the larger."""
        single = [(i, n) for i, n in self.next(position, 0) if self.accepted(position, i, n) is not None]
        queue: list[tuple[Way, ...]] = [(way,) for way in single]
        for ways in queue:
            yield ways
            queue += [(*ways, way) for way in single if way[0] > ways[-1][0] and self._safe(position, (*ways, way))]

    def _safe(self, position: Position, ways: tuple[Way, ...]) -> bool:
        """Whether a set of steps is safe of which all without the last are, and the last alone is."""
        self.looks -= len(ways) * 3 ** (len(ways) - 1)
        if self.looks < 0:
            raise TooLarge("waves that are too large")
        requested = Counter(id(self._guard[i]) for i, _ in ways if i in self._guard)
        for i, _ in ways:
            guard = self._guard.get(i)
            if guard is not None:
                gone = sum(position.at[j] == ABSENT for j in guard.pods - guard.free)
                if requested[id(guard)] > guard.allowed - gone:
                    return False
        for k, (i, n) in enumerate(ways):
            others = [*ways[:k], *ways[k + 1 :]]
            for phase in product((0, 1, 2), repeat=len(others)) if n != ABSENT else ():
                there = self._phase(position, others, phase)
                if self.cluster.rejecting(i, n, there.at, there.done) or not self._joins(i, n, there.at):
                    return False
        return all(
            self.valid(self._after(position, ways, [way for way, done in zip(ways, phase, strict=True) if done]))
            for phase in product((False, True), repeat=len(ways))
        )

    def _phase(self, position: Position, others: Sequence[Way], phase: Sequence[int]) -> Position:
        """Others not begun (0), between stop and replacement (1), or done (2)."""
        at, done = list(position.at), set(position.done)
        for (i, n), how in zip(others, phase, strict=True):
            if how:
                at[i] = n if how == 2 else ABSENT
                done.add(i)
        return Position(tuple(at), frozenset(done))

    def _after(self, position: Position, ways: Sequence[Way], taken: Sequence[Way]) -> Position:
        return self._phase(position, ways, [2 * (way in taken) for way in ways])
