"""The strategies LowNodeUtilization and HighNodeUtilization, by what pods request.

Source: https://github.com/kubernetes-sigs/descheduler, pkg/framework/plugins/nodeutilization. Percentages are floats there, computed
here in the same order of operations, so that a node at a threshold falls to the same side.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from kubestow.audit.descheduler.arguments import HighUtilization, LowUtilization, Namespaces
from kubestow.audit.descheduler.turn import Turn
from kubestow.models.kube.objects import Pod

_BASIC: Final = ("cpu", "memory", "pods")
_Shares = Mapping[str, float]
_Amounts = dict[str, int]


@dataclass
class _NodeInfo:
    """A node. ``usage``: what its pods request; ``available``: what it has up to its upper threshold. Both change as pods go."""

    n: int
    usage: _Amounts
    available: _Amounts

    def size(self) -> int:
        """What nodes are sorted by: the amounts of all resources, summed up whatever their units."""
        return sum(self.usage.values())

    def above(self) -> bool:
        return any(self.available[name] < value for name, value in self.usage.items())


@dataclass
class _Eviction:
    """How pods are taken from nodes. ``room``: what is left on the nodes that are to receive them; ``goes_on``: whether to go on with a
    node; ``counts``: whether a pod may be taken at all; ``most``: pods of one node."""

    turn: Turn
    room: _Amounts
    receiving: list[int]
    namespaces: Namespaces
    goes_on: Callable[[_NodeInfo], bool]
    counts: Callable[[Pod], bool]
    why: str
    away: frozenset[int]
    frees: bool
    most: int | None = None

    def run(self, sources: list[_NodeInfo]) -> None:
        """Take pods from the nodes, one node after the other."""
        evictor = self.turn.evictor
        facts = evictor.world.facts
        for info in sources:
            removable = [i for i in evictor.world.on(info.n) if evictor.may(i) and self.counts(facts.pods[i])]
            if not self._from(info, sorted(removable, key=facts.rank)):
                return

    def _from(self, info: _NodeInfo, pods: list[int]) -> bool:
        """Take pods from one node; return whether to go on with the next."""
        evictor, taken = self.turn.evictor, 0
        facts = evictor.world.facts
        if not pods or not self._continues(info):
            return True
        for i in pods:
            if self.most is not None and taken >= self.most:
                break
            namespace = facts.pods[i].metadata.namespace or "default"
            if not self._tolerates(i) or namespace in self.namespaces.exclude or not evictor.now(i):
                continue
            answer = self.turn.evict(i, info.n, self.why, away=self.away, frees=self.frees)
            if answer == "total limit":
                return False
            if answer == "node limit":
                break
            if answer == "refused":
                continue
            taken += 1
            for name in self.room:
                amount = 1 if name == "pods" else facts.request(i).get(name, 0)
                info.usage[name] -= amount
                self.room[name] -= amount
            if not self._continues(info):
                break
        return True

    def _continues(self, info: _NodeInfo) -> bool:
        return self.goes_on(info) and all(left > 0 for left in self.room.values())

    def _tolerates(self, i: int) -> bool:
        """Return whether a pod tolerates all taints of one of the nodes that are to receive, and has at least as many tolerations."""
        facts = self.turn.evictor.world.facts
        listed = len(facts.pods[i].spec.tolerations or ())
        return any(listed >= len(facts.table.taints(n)) and facts.tolerated(i, soft=True)[n] for n in self.receiving)


def low_node_utilization(turn: Turn, args: LowUtilization) -> None:
    """Evict pods from nodes above the target thresholds, as long as nodes below the thresholds have room up to the target."""
    if args.metricsUtilization is not None:
        return
    usage, shares = _usages(turn, args.thresholds)
    low, high = args.thresholds, args.targetThresholds
    if args.useDeviationThresholds:
        shares = {n: {name: value for name, value in own.items() if name in low} for n, own in shares.items()}
        average = _average(shares)
        low, high = (
            {name: min(max(value - args.thresholds.get(name, 0.0), 0.0), 100.0) for name, value in average.items()},
            {name: min(max(value + args.targetThresholds.get(name, 0.0), 0.0), 100.0) for name, value in average.items()},
        )
    closed = turn.evictor.world.facts.table.unschedulable
    under = [n for n in shares if not closed[n] and not _over(shares[n], low)]
    over = [n for n in shares if n not in under and _over(shares[n], high)]
    if _nothing(turn, under, args.numberOfNodes):
        return
    if not over:
        turn.notes.append("no node is over the target thresholds")
        return
    sources, destinations = _infos(turn, over, usage, high), _infos(turn, under, usage, high)
    _Eviction(
        turn,
        _room(destinations),
        under,
        args.evictableNamespaces,
        _NodeInfo.above,
        lambda pod: True,
        "its node is over the target thresholds",
        frozenset(over),
        False,
        args.evictionLimits.node,
    ).run(sorted(sources, key=lambda info: -info.size()))


def high_node_utilization(turn: Turn, args: HighUtilization) -> None:
    """Evict pods from nodes below the thresholds, so that a scheduler which packs may put them on the others."""
    usage, shares = _usages(turn, args.thresholds)
    closed = turn.evictor.world.facts.table.unschedulable
    under = [n for n in shares if not _over(shares[n], args.thresholds)]
    others = [n for n in shares if n not in under and not closed[n]]
    if _nothing(turn, under, args.numberOfNodes):
        return
    if not others:
        turn.notes.append("no other node may take pods")
        return
    whole = dict.fromkeys(args.thresholds, 100.0)
    sources, destinations = _infos(turn, under, usage, whole), _infos(turn, others, usage, whole)
    _Eviction(
        turn,
        _room(destinations),
        others,
        args.evictableNamespaces,
        lambda info: True,
        lambda pod: not args.evictionModes or _requests_any(pod, args.thresholds),
        "its node is below the thresholds",
        frozenset(),
        True,
    ).run(sorted(sources, key=lambda info: info.size()))


def _nothing(turn: Turn, under: list[int], least: int) -> bool:
    """Return whether there is nothing to do, and say why."""
    text = None
    if not under:
        text = "no node is below the thresholds"
    elif len(under) <= least:
        text = f"{len(under)} nodes are below the thresholds, and numberOfNodes {least} of them may be"
    elif len(under) == len(turn.evictor.nodes):
        text = "all nodes are below the thresholds"
    if text is not None:
        turn.notes.append(text)
    return text is not None


def _usages(turn: Turn, thresholds: _Shares) -> tuple[dict[int, _Amounts], dict[int, dict[str, float]]]:
    """Return by node what pods request, in amounts and in percent of what the node has."""
    world = turn.evictor.world
    names = [*_BASIC, *(name for name in thresholds if name not in _BASIC)]
    usage = {n: {name: world.used(n, name) for name in names} for n in turn.evictor.nodes}
    shares = {}
    for n, own in usage.items():
        there = world.facts.capacity[n]
        shares[n] = {name: _percent(used, there[name]) for name, used in own.items() if name in there}
    return usage, shares


def _percent(used: int, capacity: int) -> float:
    return float(used) / float(capacity) * 100 if capacity > 0 else 0.0


def _average(shares: Mapping[int, _Shares]) -> dict[str, float]:
    total: dict[str, float] = {}
    count: dict[str, int] = {}
    for own in shares.values():
        for name, value in own.items():
            total[name] = total.get(name, 0.0) + value
            count[name] = count.get(name, 0) + 1
    return {name: value / float(count[name]) for name, value in total.items()}


def _over(share: _Shares, threshold: _Shares) -> bool:
    return any(value < share.get(name, 0.0) for name, value in threshold.items())


def _infos(turn: Turn, nodes: list[int], usage: Mapping[int, _Amounts], upper: _Shares) -> list[_NodeInfo]:
    capacity = turn.evictor.world.facts.capacity
    return [_NodeInfo(n, dict(usage[n]), {name: _capped(capacity[n], name, upper) for name in usage[n]}) for n in nodes]


def _capped(there: Mapping[str, int], name: str, upper: _Shares) -> int:
    """Return what a node has of a resource, up to a threshold."""
    if name not in there:
        return 0
    return int(upper[name] * 0.01 * float(there[name])) if name in upper else there[name]


def _room(nodes: list[_NodeInfo]) -> _Amounts:
    total: _Amounts = {}
    for info in nodes:
        for name, value in info.usage.items():
            total[name] = total.get(name, 0) + info.available[name] - value
    return total


def _requests_any(pod: Pod, names: Mapping[str, float]) -> bool:
    """Return whether some container of a pod has a request for one of the resources."""
    containers = (*(pod.spec.containers or ()), *(pod.spec.initContainers or ()))
    return any(name in ((c.resources.requests if c.resources else None) or {}) for c in containers for name in names)
