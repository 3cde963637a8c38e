"""DoNotSchedule constraints while pods come and go: what a domain may hold, and whether a wave can go beyond it.

A constraint allows a domain d so many pods above the least count of all domains. Of the pods that move in a wave, each is at one of several
places, independently of the others; so the most that count(d) - count(e) can be is the sum of what each pod can add: 1 if it may be in d,
else -1 if it is in e whatever happens, else 0. Hence, exactly,

    max over states of (count(d) - min over e of count(e)) = high(d) - min over e ≠ d of low(e), or 0 if that is less (e = d),

where high(d) counts the pods that stay in d and all moving ones that may be there, and low(e) those that stay in e and, while no pod is
nowhere, moving ones that only change nodes inside e. When a pod lands, others may be nowhere, so low(e) counts only those that stay.
With too few domains for minDomains the minimum is 0.

A pod that is counted where it is breaks its constraint if and only if count(d) - min > maxSkew, whether it is taken out or not: being taken
out lowers d by one, which its own arrival makes up for, and lowers the minimum only where d is the least, where nothing is broken.

Source: kube-scheduler plugin podtopologyspread (filtering.go).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, NamedTuple

from kubestow.checker.rules import spread
from kubestow.models.kube import objects
from kubestow.models.kube.feature_gates import FeatureGates

Counts = Mapping[str, int]
Levels = Mapping[int, int]
_NONE: Final[Counts] = {}


class Move(NamedTuple):
    """Of one pod that moves in a wave: the domain it is counted in before and after (None: in none)."""

    before: str | None
    after: str | None


@dataclass(eq=False)
class Watch:
    """One constraint on the domains of a tally. ``allowed``: by domain, and by how many pods it may have above the minimum, the names of
    those that hold it to that."""

    tally: spread.Count
    min_domains: int
    allowed: dict[str, dict[int, dict[str, None]]] = field(default_factory=dict)


class Stake(NamedTuple):
    """A running pod holds the domain to a constraint."""

    watch: Watch
    domain: str
    allowed: int


class Flow:
    """All the pods of a wave that one tally counts. ``values``: all domains with an eligible node."""

    def __init__(self, tally: spread.Count, values: Collection[str], moves: Collection[Move]) -> None:
        self.tally, self._values = tally, values
        self.leaving = Counter(move.before for move in moves if move.before is not None)
        self.able = Counter(domain for move in moves for domain in {move.before, move.after} if domain is not None)
        self.inside = Counter(move.before for move in moves if move.before is not None and move.before == move.after)

    def stay(self, domain: str) -> int:
        """Pods of the domain that do not move."""
        return self.tally.domains.get(domain, 0) - self.leaving[domain]

    def high(self, domain: str) -> int:
        """Return the most that the domain may have."""
        return self.stay(domain) + self.able[domain]

    @cached_property
    def bare(self) -> Levels:
        """:meth:`levels` without anybody that moves."""
        return self.levels(_NONE)

    @cached_property
    def lows(self) -> Levels:
        """:meth:`levels` with those that stay in a domain whatever happens."""
        return self.levels(self.inside)

    def levels(self, more: Counts) -> Levels:
        """Return how many domains have each count if none of the moving pods were there, and ``more`` by domain were."""
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
        """Return the minimum over the other domains; 0 if there are too few domains, None if there is no other. ``levels``: those of
        ``more``."""
        if self.tally.size < max(1, min_domains):
            return 0
        own = self.stay(domain) + more.get(domain, 0) if domain in self._values else None
        return min((level for level, number in levels.items() if number > (level == own)), default=None)


class Tallies(spread.SpreadState):
    """The constraints of all pods that run or will, all read before the first is counted."""

    def __init__(self, nodes: Mapping[str, objects.Node], gates: FeatureGates) -> None:
        super().__init__(nodes, gates)
        self._nodes = nodes
        self._watches: dict[tuple[spread.Count, int], Watch] = {}
        self._by_tally: dict[spread.Count, list[Watch]] = {}
        self._domains: dict[tuple[frozenset[str], str], frozenset[str]] = {}

    def values(self, tally: spread.Count) -> Collection[str]:
        """Return the domains with an eligible node."""
        memo = tally.census.eligible, tally.census.key
        if memo not in self._domains:
            key = tally.census.key
            self._domains[memo] = frozenset((self._nodes[name].metadata.labels or {})[key] for name in tally.census.eligible)
        return self._domains[memo]

    def flow(self, tally: spread.Count, moves: Collection[Move] = ()) -> Flow:
        return Flow(tally, self.values(tally), moves)

    # --- a pod and its constraints ------------------------------------------------------------------------------------------

    def _domain(self, constraint: spread.Constraint, node: str) -> str | None:
        return (self._nodes[node].metadata.labels or {}).get(constraint.tally.census.key)

    @staticmethod
    def _uncounted(constraint: spread.Constraint, node: str) -> int:
        """1 if the pod matches its own constraint and is on a node that this does not count."""
        return int(constraint.own and node not in constraint.tally.census.eligible)

    def landing_faults(
        self,
        own: spread.Spread,
        node: str,
        flows: Mapping[spread.Count, Flow],
        moves: Mapping[spread.Count, Move],
        mates: Mapping[spread.Count, Counts],
    ) -> Iterator[str]:
        """Constraints that the pod may break as it lands on a node, others being anywhere on their way.

        ``flows``: of the wave; ``moves``: the pod's own, by tally; ``mates``: by tally and domain, moving pods that are there for certain.
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

    # --- what running pods hold domains to ----------------------------------------------------------------------------------

    def stakes(self, own: spread.Spread, node: str, *, depth: bool) -> list[Stake]:
        """Return what a pod on a node holds its domains to: to break nothing. ``depth``: it breaks constraints and may go on, as far as
        now."""
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

    def _watch(self, tally: spread.Count, min_domains: int) -> Watch:
        watch = self._watches.get((tally, min_domains))
        if watch is None:
            watch = self._watches[tally, min_domains] = Watch(tally, min_domains)
            self._by_tally.setdefault(tally, []).append(watch)
        return watch

    @staticmethod
    def hold(stakes: Iterable[Stake], name: str) -> None:
        for stake in stakes:
            stake.watch.allowed.setdefault(stake.domain, {}).setdefault(stake.allowed, {})[name] = None

    @staticmethod
    def release(stakes: Iterable[Stake], name: str) -> None:
        """The opposite of :meth:`hold`."""
        for stake in stakes:
            by_allowed = stake.watch.allowed.get(stake.domain, {})
            names = by_allowed.get(stake.allowed, {})
            names.pop(name, None)
            if not names:
                by_allowed.pop(stake.allowed, None)
                if not by_allowed:
                    stake.watch.allowed.pop(stake.domain, None)

    def rest_faults(self, flow: Flow) -> Iterator[tuple[str, str]]:
        """Pods that stay where they are and whose domain may get more than it may have, by name, with the reason. One pod for each domain
        and constraint."""
        for watch in self._by_tally.get(flow.tally, ()):
            falls = min(flow.lows, default=0) < flow.tally.minimum(watch.min_domains)
            for domain in list(watch.allowed) if falls else [d for d in flow.able if d in watch.allowed]:
                allowed = min(watch.allowed[domain])
                why = self._excess(flow, Stake(watch, domain, allowed), 0)
                if why is not None:
                    yield next(iter(watch.allowed[domain][allowed])), why

    def own_faults(self, stakes: Iterable[Stake], flows: Mapping[spread.Count, Flow], moves: Mapping[spread.Count, Move]) -> Iterator[str]:
        """Return the same for one pod that moves in the wave, before it does. ``moves``: its own, by tally."""
        for stake in stakes:
            flow = flows.get(stake.watch.tally)
            if flow is not None:
                before, after = moves.get(flow.tally, Move(None, None))
                away = int(after == stake.domain and before != stake.domain)  # it is not yet where its source does not count it
                why = self._excess(flow, stake, away)
                if why is not None:
                    yield why

    @staticmethod
    def _excess(flow: Flow, stake: Stake, away: int) -> str | None:
        high = flow.high(stake.domain) - away
        least = flow.least(stake.domain, stake.watch.min_domains, flow.lows, flow.inside)
        if least is None or high - least <= stake.allowed:
            return None
        return _why(flow.tally, stake.domain, high, least, stake.allowed)


def _why(tally: spread.Count, domain: str, high: int, least: int, allowed: int) -> str:
    where = f"{tally.census.key}={domain}"
    return f"{where} can have {high} matching pods while another domain has {least}: skew {high - least} over {allowed}"
