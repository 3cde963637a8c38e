"""DoNotSchedule constraints while pods come and go: the limit of each domain, and whether a wave can exceed it.

A constraint limits how far the count of a domain d may exceed the minimum over all domains. In a wave each moving
pod is at one of several places, independently of the other pods. The maximum of count(d) - count(e) is therefore
the sum of each pod's maximum contribution: 1 if it may be in d, else -1 if it is certainly in e, else 0. Hence,
exactly,

    max over states of (count(d) - min over e of count(e)) = max(0, high(d) - min over e ≠ d of low(e))

The term 0 is the case e = d. high(d) counts the pods that stay in d and all moving pods that may be there. low(e)
counts the pods that stay in e and, while no pod is nowhere, the moving pods that only change nodes inside e. When a
pod lands, others may be nowhere, so low(e) counts only pods that stay. With too few domains for minDomains the
minimum is 0.

A pod that is counted at its place breaks its constraint if and only if count(d) - min > maxSkew, with or without
the pod itself. Removing it lowers d by one, which its own arrival compensates. It lowers the minimum only if d is
the minimum, and then nothing is broken.

Source: kube-scheduler plugin podtopologyspread (filtering.go).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, NamedTuple

from kubestow.checker.rules.pod_topology_spread import state as spread
from kubestow.models.kube import objects
from kubestow.models.kube.feature_gates import FeatureGates

Counts = Mapping[str, int]
Levels = Mapping[int, int]
_NONE: Final[Counts] = {}


class DomainMove(NamedTuple):
    """The domains in which a moving pod is counted before and after a wave; None if in none."""

    before: str | None
    after: str | None


@dataclass(eq=False)
class DomainWatch:
    """One constraint on the domains of a tally.

    Attributes:
        tally: Pod counts per domain.
        min_domains: The constraint's minDomains.
        allowed: Names of the pods that impose a limit, by domain and by the limit above the minimum.
    """

    tally: spread.Count
    min_domains: int
    allowed: dict[str, dict[int, dict[str, None]]] = field(default_factory=dict)


class Stake(NamedTuple):
    """A limit that a running pod imposes on a domain.

    Attributes:
        watch: The constraint.
        domain: The domain.
        allowed: Number of pods that the domain may have above the minimum.
    """

    watch: DomainWatch
    domain: str
    allowed: int


class SpreadFlow:
    """All pods of a wave that one tally counts.

    Args:
        tally: Pod counts per domain.
        values: All domains with an eligible node.
        moves: Moves of the pods.
    """

    def __init__(self, tally: spread.Count, values: Collection[str], moves: Collection[DomainMove]) -> None:
        self.tally, self._values = tally, values
        self.leaving = Counter(move.before for move in moves if move.before is not None)
        self.able = Counter(domain for move in moves for domain in {move.before, move.after} if domain is not None)
        self.inside = Counter(move.before for move in moves if move.before is not None and move.before == move.after)

    def stay(self, domain: str) -> int:
        """Return the number of pods in the domain that do not move."""
        return self.tally.domains.get(domain, 0) - self.leaving[domain]

    def high(self, domain: str) -> int:
        """Return the maximum number of pods in the domain."""
        return self.stay(domain) + self.able[domain]

    @cached_property
    def bare(self) -> Levels:
        """:meth:`levels` without any moving pod."""
        return self.levels(_NONE)

    @cached_property
    def lows(self) -> Levels:
        """:meth:`levels` with the moving pods that certainly stay in their domain."""
        return self.levels(self.inside)

    def levels(self, more: Counts) -> Levels:
        """Return the number of domains per count, without moving pods but with ``more`` pods per domain."""
        levels = dict(self.tally.levels)
        for domain in {*self.leaving, *more}:
            if domain in self._values:
                self._shift(levels, self.tally.domains.get(domain, 0), -1)
                self._shift(levels, self.stay(domain) + more.get(domain, 0), 1)
        return levels

    @staticmethod
    def _shift(levels: dict[int, int], level: int, by: int) -> None:
        levels[level] = levels.get(level, 0) + by
        if not levels[level]:
            del levels[level]

    def least(self, domain: str, min_domains: int, levels: Levels, more: Counts) -> int | None:
        """Return the minimum over the other domains; 0 with too few domains, None without another domain.

        Args:
            domain: The domain.
            min_domains: The constraint's minDomains.
            levels: :meth:`levels` of ``more``.
            more: Additional pods per domain.
        """
        if self.tally.size < max(1, min_domains):
            return 0
        own = self.stay(domain) + more.get(domain, 0) if domain in self._values else None
        return min((level for level, number in levels.items() if number > (level == own)), default=None)


class Tallies(spread.SpreadState):
    """The constraints of all pods that run now or later. All are read before the first pod is counted."""

    def __init__(self, nodes: Mapping[str, objects.Node], gates: FeatureGates) -> None:
        super().__init__(nodes, gates)
        self._nodes = nodes
        self._watches: dict[tuple[spread.Count, int], DomainWatch] = {}
        self._by_tally: dict[spread.Count, list[DomainWatch]] = {}
        self._domains: dict[tuple[frozenset[str], str], frozenset[str]] = {}

    def values(self, tally: spread.Count) -> Collection[str]:
        """Return the domains with an eligible node."""
        memo = tally.census.eligible, tally.census.key
        if memo not in self._domains:
            key = tally.census.key
            self._domains[memo] = frozenset((self._nodes[name].metadata.labels or {})[key] for name in tally.census.eligible)
        return self._domains[memo]

    def flow(self, tally: spread.Count, moves: Collection[DomainMove] = ()) -> SpreadFlow:
        """Return the flow of a tally for the moves of a wave."""
        return SpreadFlow(tally, self.values(tally), moves)

    # --- a pod and its constraints ------------------------------------------------------------------------------------------

    def _domain(self, constraint: spread.SpreadConstraint, node: str) -> str | None:
        return (self._nodes[node].metadata.labels or {}).get(constraint.tally.census.key)

    @staticmethod
    def _uncounted(constraint: spread.SpreadConstraint, node: str) -> int:
        """Return 1 if the pod matches its own constraint but its node is not counted, else 0."""
        return int(constraint.own and node not in constraint.tally.census.eligible)

    def landing_faults(
        self,
        own: spread.PodSpread,
        node: str,
        flows: Mapping[spread.Count, SpreadFlow],
        moves: Mapping[spread.Count, DomainMove],
        mates: Mapping[spread.Count, Counts],
    ) -> Iterator[str]:
        """Yield constraints that the pod may break when it lands on a node while others are in any phase.

        Args:
            own: Constraints of the pod.
            node: The node.
            flows: Flows of the wave.
            moves: The pod's own moves, by tally.
            mates: Moving pods that are certainly present, by tally and domain.
        """
        if own.fault is not None:
            yield f"a topology spread constraint cannot be read: {own.fault}"
        for constraint in own.constraints:
            tally, domain = constraint.tally, self._domain(constraint, node)
            if domain is None:
                yield f"the node lacks the topology key {tally.census.key} of a spread constraint"
                continue
            flow, more = flows.get(tally) or self.flow(tally), mates.get(tally, _NONE)
            high = flow.high(domain) - (domain in moves.get(tally, ()))
            least = flow.least(domain, constraint.min_domains, flow.levels(more) if more else flow.bare, more)
            if least is not None and constraint.own + high - least > constraint.max_skew:
                yield _why(tally, domain, constraint.own + high, least, constraint.max_skew)

    # --- limits that running pods impose ------------------------------------------------------------------------------------

    def stakes(self, own: spread.PodSpread, node: str, *, depth: bool) -> list[Stake]:
        """Return the limits that a pod on a node imposes on its domains.

        Args:
            own: Constraints of the pod.
            node: The node.
            depth: True if the pod breaks constraints and may continue to, up to the current excess.
        """
        found = []
        for constraint in own.constraints:
            tally, domain = constraint.tally, self._domain(constraint, node)
            if domain is None:
                continue
            allowed = constraint.max_skew - self._uncounted(constraint, node)
            if depth:
                now = tally.domains.get(domain, 0) - tally.minimum(constraint.min_domains)
                allowed = max(constraint.max_skew, now)
            found.append(Stake(self._watch(tally, constraint.min_domains), domain, allowed))
        return found

    def _watch(self, tally: spread.Count, min_domains: int) -> DomainWatch:
        watch = self._watches.get((tally, min_domains))
        if watch is None:
            watch = self._watches[tally, min_domains] = DomainWatch(tally, min_domains)
            self._by_tally.setdefault(tally, []).append(watch)
        return watch

    @staticmethod
    def hold(stakes: Iterable[Stake], name: str) -> None:
        """Register the limits that a pod imposes."""
        for stake in stakes:
            stake.watch.allowed.setdefault(stake.domain, {}).setdefault(stake.allowed, {})[name] = None

    @staticmethod
    def release(stakes: Iterable[Stake], name: str) -> None:
        """Undo :meth:`hold`."""
        for stake in stakes:
            by_allowed = stake.watch.allowed.get(stake.domain, {})
            names = by_allowed.get(stake.allowed, {})
            names.pop(name, None)
            if not names:
                by_allowed.pop(stake.allowed, None)
                if not by_allowed:
                    stake.watch.allowed.pop(stake.domain, None)

    def rest_faults(self, flow: SpreadFlow) -> Iterator[tuple[str, str]]:
        """Yield the pods that stay and whose spread constraint may be broken, by name with the reason.

        Only one pod is named for each domain and constraint.
        """
        for watch in self._by_tally.get(flow.tally, ()):
            falls = min(flow.lows, default=0) < flow.tally.minimum(watch.min_domains)
            for domain in list(watch.allowed) if falls else [d for d in flow.able if d in watch.allowed]:
                allowed = min(watch.allowed[domain])
                why = self._excess(flow, Stake(watch, domain, allowed), 0)
                if why is not None:
                    yield next(iter(watch.allowed[domain][allowed])), why

    def own_faults(
        self, stakes: Iterable[Stake], flows: Mapping[spread.Count, SpreadFlow], moves: Mapping[spread.Count, DomainMove]
    ) -> Iterator[str]:
        """Yield why a pod that moves in the wave may have its spread constraints broken before it moves.

        Args:
            stakes: Limits that the pod imposes.
            flows: Flows of the wave.
            moves: The pod's own moves, by tally.
        """
        for stake in stakes:
            flow = flows.get(stake.watch.tally)
            if flow is not None:
                before, after = moves.get(flow.tally, DomainMove(None, None))
                away = int(after == stake.domain and before != stake.domain)  # before the move the target domain does not count it
                why = self._excess(flow, stake, away)
                if why is not None:
                    yield why

    @staticmethod
    def _excess(flow: SpreadFlow, stake: Stake, away: int) -> str | None:
        """Return why the domain may exceed the limit of a stake, or None. ``away``: pods of the flow that do not count in it."""
        high = flow.high(stake.domain) - away
        least = flow.least(stake.domain, stake.watch.min_domains, flow.lows, flow.inside)
        if least is None or high - least <= stake.allowed:
            return None
        return _why(flow.tally, stake.domain, high, least, stake.allowed)


def _why(tally: spread.Count, domain: str, high: int, least: int, allowed: int) -> str:
    where = f"{tally.census.key}={domain}"
    return f"{where} can have {high} matching pods while another domain has {least}: skew {high - least} over {allowed}"
