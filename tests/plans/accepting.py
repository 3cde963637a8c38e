"""Which single steps a tiny cluster accepts, on plain API objects: movable pods, and states no worse than the snapshot.

See the documentation of plans ("Rebalancing") for the definitions.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from kubestow.models.documents.rebalance_plan import Limits
from tests.plans import guards
from tests.plans.cluster import ABSENT, State, TinyCluster, matches_node, node_terms, required, takes

Object = Mapping[str, Any]

_GOALS: Final = ("repair", "admit", "consolidate", "improve")


class Position(NamedTuple):
    """``at``: node of each pod or ABSENT; ``done``: pods that the plan moved, bound or evicted."""

    at: State
    done: frozenset[int]


class Accepting:
    """A cluster with the permissions of a plan.

    ``drain``: names of nodes. ``goals``: as on the command line, without drain.
    """

    def __init__(
        self,
        objects: Iterable[Object],
        goals: Sequence[str] = (),
        drain: Collection[str] = (),
        *,
        allow_eviction: bool = False,
        limits: Limits | None = None,
    ) -> None:
        self.cluster = cluster = TinyCluster(objects, drain)
        self.goals = tuple(goals)
        assert set(self.goals) <= set(_GOALS)
        self.closed = {cluster.names.index(name) for name in drain}
        self.limits = limits or Limits()
        running = [pod for pod in cluster.pods if pod.home != ABSENT]
        self.guards = guards.read(cluster)
        self.movable = {p.index for p in running if guards.exclusion(cluster, p, self.guards, self.limits.alsoMove) is None}
        self.pending = {p.index for p in cluster.pods if p.home == ABSENT and not p.terminating} if "admit" in self.goals else set[int]()
        self._guard = {i: guard for guard in self.guards for i in guard.pods - guard.free}
        self._once = {i for guard in self.guards for i in guard.free}
        start = cluster.start
        self.before = {p.index: cluster.breaks(p.index, start) for p in running if not p.terminating}
        self._filters = {i: cluster.broken(i, start) for i in self.before}
        self.depths = {p.index: cluster.excess(p.index, p.home, start) for p in running if not p.terminating}
        self.subjects = {i for i in self.before if i in self.movable or cluster.pods[i].spread or self._required(i)}
        self.evictable = self._evictable() if allow_eviction else set[int]()
        self.gangs = self._gangs()
        self.rank = {i: cluster.pods[i].priority for i in self.pending}
        for members, _, _ in self.gangs:
            self.rank |= dict.fromkeys(members, min(cluster.pods[i].priority for i in members))
        self._alike = self._twins()
        self._valid: dict[Position, bool] = {}

    # --- reading ----------------------------------------------------------------------------------------------------

    def _required(self, i: int) -> bool:
        affinity = self.cluster.pods[i].spec.get("affinity", {})
        return any(required(affinity.get(part)) for part in ("podAffinity", "podAntiAffinity"))

    def _evictable(self) -> set[int]:
        """Pods that may go for good: on nodes to be drained, of less priority than one that waits, or breaking an enforced rule."""
        cluster, found = self.cluster, set[int]()
        if "repair" in self.goals:
            for i in self.before:
                found |= self._enforced(i)
            found |= self._followers(found)
        preempting = [cluster.pods[i].priority for i in self.pending if cluster.pods[i].spec.get("preemptionPolicy") != "Never"]
        if preempting:
            top = max(preempting)
            found |= {i for i in self.movable if cluster.pods[i].priority < top}
        found |= {i for i in self.movable if cluster.start[i] in self.closed}
        return found & self.movable

    def _enforced(self, i: int) -> set[int]:
        """Who goes for the rules of pod ``i`` that hold during execution and are broken."""
        cluster, found = self.cluster, set[int]()
        pod = cluster.pods[i]
        labels = cluster.labels
        here = labels[pod.home]
        if any(not matches_node(terms, here) for terms in node_terms(pod.spec, enforced=True)):
            found.add(i)
        affinity = pod.spec.get("affinity", {})
        terms = required(affinity.get("podAffinity"), enforced=True)
        if terms and "lacking" in self.before[i]:
            others = [other for other in cluster.pods if other is not pod and all(takes(term, pod, other) for term in terms)]
            there = [labels[other.home] for other in others if other.home != ABSENT]
            if not all(any(t["topologyKey"] in here and p.get(t["topologyKey"]) == here[t["topologyKey"]] for p in there) for t in terms):
                found.add(i)
        for term in required(affinity.get("podAntiAffinity"), enforced=True):
            key = term["topologyKey"]
            for other in cluster.pods:
                if other is pod or other.home == ABSENT or other.terminating or not takes(term, pod, other):
                    continue
                if key in here and labels[other.home].get(key) == here[key]:
                    found.add(other.index if other.priority < pod.priority else i)
        return found

    def _followers(self, going: set[int]) -> set[int]:
        """Return pods whose required neighbours are all in ``going``, or follow these in turn."""
        cluster, found = self.cluster, set(going)
        for _ in cluster.pods:
            for pod in cluster.pods:
                terms = required(pod.spec.get("affinity", {}).get("podAffinity"), enforced=True)
                for term in terms if pod.home != ABSENT else ():
                    key, here = term["topologyKey"], cluster.labels[pod.home]
                    mates = {
                        other.index
                        for other in cluster.pods
                        if other is not pod and other.home != ABSENT and all(takes(each, pod, other) for each in terms)
                        and key in here and cluster.labels[other.home].get(key) == here[key]
                    }  # fmt: skip
                    if mates and mates <= found:
                        found.add(pod.index)
        return found

    def _gangs(self) -> list[tuple[list[int], int, str | None]]:
        """Of each gang that waits: its members, how many are needed if any is placed, and the key whose domain they share."""
        found: dict[str, list[int]] = {}
        for i in sorted(self.pending):
            name = self.cluster.pods[i].annotations.get("kubestow.dev/gang")
            if name:
                found.setdefault(name, []).append(i)
        gangs = []
        for members in found.values():
            notes = self.cluster.pods[members[0]].annotations
            gangs.append((members, int(notes.get("kubestow.dev/min-member", len(members))), notes.get("kubestow.dev/required-topology")))
        return gangs

    def _twins(self) -> list[list[int]]:
        """Pods that may change and that differ in their node only."""
        groups: dict[str, list[int]] = {}
        for i in sorted(self.movable | self.pending):
            pod = self.cluster.pods[i]
            spec = {key: value for key, value in pod.spec.items() if key != "nodeName"}
            metadata = {key: value for key, value in pod.raw["metadata"].items() if key != "name"}
            groups.setdefault(repr((spec, metadata, pod.holding, i in self.pending, i in self._once, i in self.evictable)), []).append(i)
        return [group for group in groups.values() if len(group) > 1]

    # --- steps ------------------------------------------------------------------------------------------------------

    @property
    def first(self) -> Position:
        return Position(self.cluster.start, frozenset())

    def accepted(self, position: Position, i: int, n: int) -> Position | None:
        """The state after pod ``i`` went to node ``n`` (ABSENT: for good); None: some rule is against it. Budgets, limits and what may
        move at all are not looked at."""
        at = position.at
        if n == at[i] or n in self.closed:
            return None
        if i in self._once and i in position.done:
            return None  # its replacement is Ready, and was not when the budget was read
        if n != ABSENT and (self.cluster.rejecting(i, n, at, position.done) or not self._joins(i, n, at)):
            return None
        after = Position((*at[:i], n, *at[i + 1 :]), position.done | {i})
        if after not in self._valid:
            self._valid[after] = self.valid(after)
        return after if self._valid[after] else None

    def _joins(self, i: int, n: int, at: State) -> bool:
        """Return whether a pending pod comes to the domain that its gang must share."""
        for members, _, key in self.gangs:
            if key is not None and i in members:
                homes = [self.cluster.labels[m].get(key) for m in (n, *(at[j] for j in members if at[j] != ABSENT))]
                return homes[0] is not None and len(set(homes)) == 1
        return True

    def valid(self, position: Position) -> bool:
        """Return whether nothing is worse than in the snapshot, and moved pods violate no rule."""
        cluster, at = self.cluster, position.at
        for i, n in enumerate(at):
            if n == ABSENT or cluster.pods[i].terminating:
                continue
            broken = cluster.broken(i, at, position.done)
            if i in position.done:
                if broken:
                    return False
            elif not broken <= self._filters[i]:
                return False
            elif broken:
                pairs = zip(cluster.excess(i, n, at), self.depths[i], strict=True)
                if any(now is not None and now > max(0, then or 0) for now, then in pairs):
                    return False
        return True

    def guarded(self, position: Position, i: int) -> bool:
        """Return whether the budget of pod ``i``, if any, allows one eviction. Pods that were evicted permanently are missing."""
        guard = self._guard.get(i)
        if guard is None:
            return True
        return guard.allowed - len([j for j in guard.pods - guard.free if position.at[j] == ABSENT]) >= 1

    def broken(self, position: Position) -> dict[str, int]:
        """Return the number of subjects that violate each rule."""
        found: dict[str, int] = {}
        for i in self.subjects:
            for rule in self.cluster.broken(i, position.at, position.done) if position.at[i] != ABSENT else ():
                found[rule] = found.get(rule, 0) + 1
        return found
