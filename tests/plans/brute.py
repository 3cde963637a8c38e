"""The best plan of a tiny cluster, by breadth-first search over all sequences of accepted single steps.

Definitions of plans, accepted steps and goals: docs, "Rebalancing". Everything is read from plain API objects, with no
code of the planner. A state is the node of each pod and which of them the plan has moved; identical pods are exchangeable.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from kubestow.models.documents.rebalance_plan import Limits
from tests.plans import guards
from tests.plans.accepting import Accepting, Position
from tests.plans.cluster import ABSENT, CORDONS, State

Object = Mapping[str, Any]
Tier = tuple[str, int | None, int]  # name, priority, value
Score = Callable[[Mapping[str, str]], int]  # pods to nodes by name -> value

_KEPT: Final = ("cluster-autoscaler.kubernetes.io/scale-down-disabled", "karpenter.sh/do-not-disrupt")
_CONTROL: Final = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")


class TooLarge(Exception):
    """More states than asked for."""


class Step(NamedTuple):
    """A pod goes from a node (None: it waits) to another (None: for good)."""

    pod: str
    source: str | None
    to: str | None


@dataclass(frozen=True)
class Best:
    """``tiers``: of the goals, in order. ``steps``: one of the shortest ways. ``states``: all seen."""

    tiers: tuple[Tier, ...]
    evictions: int
    moves: int
    steps: tuple[Step, ...]
    states: int


class Brute(Accepting):
    """A cluster whose reachable states can all be searched. ``score``: of the goal improve."""

    score: Score | None = None

    # --- goals ------------------------------------------------------------------------------------------------------

    def tiers(self, position: Position, moves: int) -> tuple[Tier, ...] | None:
        """Return the value of a plan that ends here after ``moves`` moves; None if it may not end here."""
        at = position.at
        for members, needed, _ in self.gangs:
            if 0 < len([i for i in members if at[i] != ABSENT]) < needed:
                return None
        found: list[Tier] = []
        if self.closed:
            undrained = [
                p for p in self.cluster.pods if at[p.index] in self.closed and not p.terminating and not guards.stays_with_node(p)
            ]  # fmt: skip
            found.append(("drained", None, -len(undrained)))
        for goal in self.goals:
            match goal:
                case "repair":
                    found.append(("rules", None, -sum(self.broken(position).values())))
                case "admit":
                    gone = [self.cluster.pods[i].priority for i in self.movable if at[i] == ABSENT]
                    placed = [self.rank[i] for i in self.pending if at[i] != ABSENT]
                    going = {self.cluster.pods[i].priority for i in self.evictable}
                    for priority in sorted({*going, *self.rank.values()}, reverse=True):
                        if priority in going:
                            found.append(("evictions", priority, -gone.count(priority)))
                        if priority in self.rank.values():
                            found.append(("placed", priority, placed.count(priority)))
                case "consolidate":
                    found.append(("freed", None, sum(self._free(n, at) for n in range(len(self.cluster.nodes)))))
                case "improve":
                    assert self.score is not None
                    named = {p.key: self.cluster.names[at[p.index]] for p in self.cluster.pods if at[p.index] != ABSENT}
                    found.append(("improve", None, self.score(named) - 100 * self.limits.minGain * moves))
        if self.evictable and "admit" not in self.goals:
            last = max(place for place, tier in enumerate(found) if tier[0] in ("drained", "rules"))
            lost = [self.cluster.pods[i].priority for i in self.movable if at[i] == ABSENT]
            owned = sorted({self.cluster.pods[i].priority for i in self.evictable}, reverse=True)
            found[last + 1 : last + 1] = [("evictions", priority, -lost.count(priority)) for priority in owned]
        return tuple(found)

    def _free(self, n: int, at: State) -> bool:
        metadata = self.cluster.nodes[n]["metadata"]
        if any(key in metadata.get("labels", {}) for key in _CONTROL):
            return False
        if any(metadata.get("annotations", {}).get(key) == "true" for key in _KEPT):
            return False
        return all(guards.stays_with_node(p) for p in self.cluster.pods if at[p.index] == n)

    # --- search -----------------------------------------------------------------------------------------------------

    def next(self, position: Position, moves: int) -> Iterable[tuple[int, int]]:
        """Steps (pod, node) that limits and budgets allow here; the rules have not been asked."""
        at, limits = position.at, self.limits
        evicted = sum(at[i] == ABSENT for i in self.movable)
        for i in sorted(self.movable):
            if at[i] == ABSENT or not self.guarded(position, i):
                continue
            if limits.maxMoves is None or moves < limits.maxMoves:
                yield from ((i, n) for n in range(len(self.cluster.nodes)))
            if i in self.evictable and (limits.maxEvictions is None or evicted < limits.maxEvictions):
                yield i, ABSENT
        for i in sorted(self.pending):
            if at[i] == ABSENT:
                yield from ((i, n) for n in range(len(self.cluster.nodes)))

    def _key(self, position: Position) -> Position:
        """The same for all states that differ by exchangeable pods only."""
        at, done = list(position.at), set(position.done)
        for group in self._alike:
            ordered = sorted((at[i], i in done) for i in group)
            for i, (n, moved) in zip(group, ordered, strict=True):
                at[i] = n
                (done.add if moved else done.discard)(i)
        return Position(tuple(at), frozenset(done))

    def _spent(self, spent: tuple[int, ...], i: int) -> tuple[int, ...] | None:
        """Moves counted per namespace and workload after one of pod ``i``, as far as they are limited; None: too many."""
        found = list(spent)
        for slot, limit in self._slots(i):
            found[slot] += 1
            if found[slot] > limit:
                return None
        return tuple(found)

    def _slots(self, i: int) -> list[tuple[int, int]]:
        pods, limits = self.cluster.pods, self.limits
        pod, owner = pods[i], guards.controller(pods[i])
        found = []
        spaces = sorted({p.namespace for p in pods})
        if limits.maxMovesPerNamespace is not None:
            found.append((spaces.index(pod.namespace), limits.maxMovesPerNamespace))
        if limits.maxMovesPerWorkload is not None and owner is not None:
            owners = sorted({(p.namespace, o["name"]) for p in pods if (o := guards.controller(p)) is not None})
            found.append((len(spaces) + owners.index((pod.namespace, owner["name"])), limits.maxMovesPerWorkload))
        return found

    def best(self, most_states: int = 60_000) -> Best:
        """The best end over all reachable ones, with the fewest steps.

        Raises:
            TooLarge: there are more states.
        """
        nothing = (0,) * (2 * len(self.cluster.pods))
        seen = {(self._key(self.first), nothing)}
        level: list[tuple[Position, tuple[int, ...], tuple[Step, ...]]] = [(self.first, nothing, ())]
        found: tuple[tuple[int, ...], Best] | None = None
        while level:
            following = []
            for position, spent, steps in level:
                moves = sum(step.source is not None and step.to is not None for step in steps)
                tiers = self.tiers(position, moves)
                if tiers is not None:
                    evictions = sum(step.to is None for step in steps)
                    value = (*(tier[2] for tier in tiers), -moves)
                    if found is None or value > found[0]:
                        found = value, Best(tiers, evictions, moves, steps, 0)
                for i, n in self.next(position, moves):
                    after = self.accepted(position, i, n)
                    if after is None:
                        continue
                    counted = self._spent(spent, i) if n != ABSENT and i in self.movable else spent
                    if counted is None or (self._key(after), counted) in seen:
                        continue
                    seen.add((self._key(after), counted))
                    following.append((after, counted, (*steps, self._step(position, i, n))))
            if len(seen) > most_states:
                raise TooLarge(f"{len(seen)} states")
            if found is not None and self._perfect(found[1]):
                break
            level = following
        assert found is not None
        best = found[1]
        return Best(best.tiers, best.evictions, best.moves, best.steps, len(seen))

    def _step(self, position: Position, i: int, n: int) -> Step:
        names, here = self.cluster.names, position.at[i]
        return Step(self.cluster.pods[i].key, names[here] if here != ABSENT else None, names[n] if n != ABSENT else None)

    def _perfect(self, best: Best) -> bool:
        """Return whether no other end can be better: every tier at a bound that needs no search. More steps then only cost more."""
        placed = [*self.rank.values()]
        for name, priority, value in best.tiers:
            match name:
                case "drained":
                    top = 0
                case "rules":  # pods that cannot move keep violations without other pods
                    fixed = self.subjects - self.movable
                    top = -sum(len(self.cluster.pods[i].static[self.cluster.start[i]] - CORDONS) for i in fixed)
                case "evictions":
                    top = 0
                case "placed":
                    top = placed.count(priority or 0)
                case "freed":
                    top = len(self.cluster.nodes)
                case _:
                    return False
            if value < top:
                return False
        return best.evictions == 0


def best(
    objects: Iterable[Object],
    goals: Sequence[str] = (),
    drain: Collection[str] = (),
    *,
    allow_eviction: bool = False,
    limits: Limits | None = None,
    score: Score | None = None,
) -> Best:
    """The best plan of a tiny cluster; see :class:`Brute`."""
    found = Brute(objects, goals, drain, allow_eviction=allow_eviction, limits=limits)
    found.score = score
    return found.best()
