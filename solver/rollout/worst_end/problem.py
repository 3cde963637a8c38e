"""A rollout in numbers: the pods of both revisions by node, the room of nodes, and the domains that constraints count.

Nothing here refers to objects, so that many courses can be tried. ``reader`` derives it from a compiled cluster.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from kubestow.models.workloads.deployment_rollout import Pace

#: The pods of a rollout on one node: old pods of each kind, then new pods.
Content = tuple[int, ...]
#: The contents of the nodes, in the order of :attr:`WorstEndProblem.blocks`.
State = tuple[tuple[Content, ...], ...]


@dataclass(frozen=True)
class OldKind:
    """Old pods that the controllers treat alike, apart from their nodes.

    Attributes:
        family: Rank of their ReplicaSet by age, 0 for the oldest.
        before: Deletion rank within the family, lower first, above the number of pods on the node.
        available: True if they are available.
        assigned: True if they have a node.
    """

    family: int
    before: tuple[int, ...]
    available: bool
    assigned: bool


@dataclass(frozen=True)
class SpreadTopic:
    """A topology spread constraint of the new pods.

    Attributes:
        key: Its topologyKey.
        names: By domain, the value of the key.
        max_skew: Its maxSkew.
        few: True if there are fewer domains than minDomains, so that the global minimum counts as 0.
        domain: By node, its domain; -1 if it has none.
        eligible: By node, True if its pods count.
        base: By domain, matching pods that do not belong to the rollout.
        counted: By domain, True if it has a node that counts.
        idle: Smallest ``base`` of counted domains without any node of the problem; None if there are none.
        new: 1 if the constraint counts new pods, otherwise 0.
        old: The same for each kind of old pods.
    """

    key: str
    names: tuple[str, ...]
    max_skew: int
    few: bool
    domain: tuple[int, ...]
    eligible: tuple[bool, ...]
    base: tuple[int, ...]
    counted: tuple[bool, ...]
    idle: int | None
    new: int
    old: tuple[int, ...]

    @property
    def mixes(self) -> bool:
        """True if it counts pods of both revisions."""
        return bool(self.new) and any(self.old)

    def minimum(self, counts: Sequence[int]) -> int:
        """Return the global minimum. ``counts`` are the matching pods by domain."""
        if self.few:
            return 0
        found = [count for count, counted in zip(counts, self.counted, strict=True) if counted]
        return min(found if self.idle is None else [*found, self.idle], default=0)

    def skew(self, counts: Sequence[int]) -> int:
        """Return the largest number of pods in a counted domain above the global minimum."""
        found = [count for count, counted in zip(counts, self.counted, strict=True) if counted]
        return max(found, default=0) - self.minimum(counts)


@dataclass(frozen=True)
class WorstEndProblem:
    """A rollout whose ends are searched.

    Attributes:
        pace: Its strategy.
        kinds: Kinds of old pods.
        start: The contents of each node before the rollout.
        room: By node and number of old pods there, the number of new pods that fit.
        hard: DoNotSchedule constraints, which the scheduler obeys.
        soft: ScheduleAnyway constraints, which the scheduler follows if ``follow`` is set.
        follow: True if the scheduler chooses among the nodes that serve ``soft`` best.
        exact: True if the nodes that accept a pod are known exactly. Otherwise more nodes may be listed.
    """

    pace: Pace
    kinds: tuple[OldKind, ...]
    start: tuple[Content, ...]
    room: tuple[tuple[int, ...], ...]
    hard: tuple[SpreadTopic, ...]
    soft: tuple[SpreadTopic, ...]
    follow: bool
    exact: bool

    @property
    def gauges(self) -> tuple[SpreadTopic, ...]:
        """The constraints whose skew is measured."""
        return self.soft if self.follow else self.hard

    @cached_property
    def topics(self) -> tuple[SpreadTopic, ...]:
        """The constraints that matter for the choice of nodes."""
        return (*self.hard, *(self.soft if self.follow else ()))

    def counts(self, topic: SpreadTopic, contents: Sequence[Content]) -> list[int]:
        """Return the matching pods by domain. ``contents`` are the contents of each node."""
        found = list(topic.base)
        for n, content in enumerate(contents):
            if topic.eligible[n] and topic.domain[n] >= 0:
                found[topic.domain[n]] += content[-1] * topic.new + sum(k * m for k, m in zip(content, topic.old, strict=False))
        return found

    def accepts(self, contents: Sequence[Content]) -> list[int]:
        """Return the nodes that the scheduler may choose for the next new pod."""
        fits = [n for n, content in enumerate(contents) if content[-1] < self.room[n][sum(content[:-1])]]
        for topic in self.hard:
            counts = self.counts(topic, contents)
            most = topic.minimum(counts) + topic.max_skew - topic.new
            fits = [n for n in fits if topic.domain[n] >= 0 and counts[topic.domain[n]] <= most]
        return self._preferred(fits, contents) if self.follow else fits

    def _preferred(self, fits: list[int], contents: Sequence[Content]) -> list[int]:
        """Return the nodes that no other node beats: no more matching pods in any domain, and fewer in one."""
        counts = [self.counts(topic, contents) for topic in self.soft]
        nowhere = 1 << 60  # a node without the key has the lowest score
        rows = {n: tuple(c[t.domain[n]] if t.domain[n] >= 0 else nowhere for t, c in zip(self.soft, counts, strict=True)) for n in fits}
        best = {row for row in set(rows.values()) if not any(other != row and all(map(int.__le__, other, row)) for other in rows.values())}
        return [n for n in fits if rows[n] in best]
