"""The strategies LowNodeUtilization and HighNodeUtilization, based on pod requests.

Source: https://github.com/kubernetes-sigs/descheduler, pkg/framework/plugins/nodeutilization. Percentages are
floats, computed in the same order of operations as there, so that results agree at thresholds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from kubestow.audit.descheduler.arguments import HighUtilization, LowUtilization, Namespaces
from kubestow.audit.descheduler.plugin_run import PluginRun
from kubestow.models.kube.objects import Pod

_BASIC: Final = ("cpu", "memory", "pods")
_Shares = Mapping[str, float]
_Amounts = dict[str, int]


@dataclass
class _NodeInfo:
    """A node during a strategy. Both amounts change as pods are evicted.

    Attributes:
        n: Index of the node.
        usage: Requests of its pods.
        available: Capacity up to its upper threshold.
    """

    n: int
    usage: _Amounts
    available: _Amounts

    def size(self) -> int:
        """Return the sort key of nodes: the sum over all resources, regardless of units."""
        return sum(self.usage.values())

    def above(self) -> bool:
        return any(self.available[name] < value for name, value in self.usage.items())


@dataclass
class _Eviction:
    """Eviction of pods from a list of nodes.

    Attributes:
        run: The running plugin.
        room: Remaining capacity of the receiving nodes.
        receiving: Indices of the receiving nodes.
        namespaces: Evictable namespaces.
        goes_on: Returns True to continue with a node.
        counts: Returns True if a pod may be evicted.
        why: Reason for the evictions.
        away: Nodes on which a replacement would not help.
        frees: True if an eviction helps only if its node becomes free.
        max_evictions: Maximum evictions per node.
    """

    run: PluginRun
    room: _Amounts
    receiving: list[int]
    namespaces: Namespaces
    goes_on: Callable[[_NodeInfo], bool]
    counts: Callable[[Pod], bool]
    why: str
    away: frozenset[int]
    frees: bool
    max_evictions: int | None = None

    def evict(self, sources: list[_NodeInfo]) -> None:
        """Evict pods from the nodes, one node after another."""
        evictor = self.run.evictor
        facts = evictor.state.facts
        for info in sources:
            removable = [i for i in evictor.state.on(info.n) if evictor.may(i) and self.counts(facts.pods[i])]
            if not self._from(info, sorted(removable, key=facts.rank)):
                return

    def _from(self, info: _NodeInfo, pods: list[int]) -> bool:
        """Evict pods from one node. Return True to continue with the next node."""
        evictor, evicted = self.run.evictor, 0
        facts = evictor.state.facts
        if not pods or not self._continues(info):
            return True
        for i in pods:
            if self.max_evictions is not None and evicted >= self.max_evictions:
                break
            namespace = facts.pods[i].metadata.namespace or "default"
            if not self._tolerates(i) or namespace in self.namespaces.exclude or not evictor.now(i):
                continue
            answer = self.run.evict(i, info.n, self.why, away=self.away, frees=self.frees)
            if answer == "total limit":
                return False
            if answer == "node limit":
                break
            if answer == "refused":
                continue
            evicted += 1
            for name in self.room:
                amount = 1 if name == "pods" else facts.request(i).get(name, 0)
                info.usage[name] -= amount
                self.room[name] -= amount
            if not self._continues(info):
                break
        return True

    def _continues(self, info: _NodeInfo) -> bool:
        return self.goes_on(info) and all(amount > 0 for amount in self.room.values())

    def _tolerates(self, i: int) -> bool:
        """Return True if a pod tolerates all taints of a receiving node and has at least as many tolerations as it has taints."""
        facts = self.run.evictor.state.facts
        listed = len(facts.pods[i].spec.tolerations or ())
        return any(listed >= len(facts.table.taints(n)) and facts.tolerated(i, soft=True)[n] for n in self.receiving)


def low_node_utilization(run: PluginRun, args: LowUtilization) -> None:
    """Evict pods from nodes above the target thresholds while nodes below the thresholds have room up to the target."""
    if args.metricsUtilization is not None:
        return
    usage, shares = _usages(run, args.thresholds)
    low, high = args.thresholds, args.targetThresholds
    if args.useDeviationThresholds:
        shares = {n: {name: value for name, value in own.items() if name in low} for n, own in shares.items()}
        average = _average(shares)
        low, high = (
            {name: min(max(value - args.thresholds.get(name, 0.0), 0.0), 100.0) for name, value in average.items()},
            {name: min(max(value + args.targetThresholds.get(name, 0.0), 0.0), 100.0) for name, value in average.items()},
        )
    closed = run.evictor.state.facts.table.unschedulable
    under = [n for n in shares if not closed[n] and not _over(shares[n], low)]
    over = [n for n in shares if n not in under and _over(shares[n], high)]
    if _nothing(run, under, args.numberOfNodes):
        return
    if not over:
        run.notes.append("no node is over the target thresholds")
        return
    sources, destinations = _infos(run, over, usage, high), _infos(run, under, usage, high)
    _Eviction(
        run,
        _room(destinations),
        under,
        args.evictableNamespaces,
        _NodeInfo.above,
        lambda pod: True,
        "its node is over the target thresholds",
        frozenset(over),
        False,
        args.evictionLimits.node,
    ).evict(sorted(sources, key=lambda info: -info.size()))


def high_node_utilization(run: PluginRun, args: HighUtilization) -> None:
    """Evict pods from nodes below the thresholds, so that a bin-packing scheduler can move them to other nodes."""
    usage, shares = _usages(run, args.thresholds)
    closed = run.evictor.state.facts.table.unschedulable
    under = [n for n in shares if not _over(shares[n], args.thresholds)]
    others = [n for n in shares if n not in under and not closed[n]]
    if _nothing(run, under, args.numberOfNodes):
        return
    if not others:
        run.notes.append("no other node may take pods")
        return
    whole = dict.fromkeys(args.thresholds, 100.0)
    sources, destinations = _infos(run, under, usage, whole), _infos(run, others, usage, whole)
    _Eviction(
        run,
        _room(destinations),
        others,
        args.evictableNamespaces,
        lambda info: True,
        lambda pod: not args.evictionModes or _requests_any(pod, args.thresholds),
        "its node is below the thresholds",
        frozenset(),
        True,
    ).evict(sorted(sources, key=lambda info: info.size()))


def _nothing(run: PluginRun, under: list[int], least: int) -> bool:
    """Return True and note the reason if there is nothing to do."""
    text = None
    if not under:
        text = "no node is below the thresholds"
    elif len(under) <= least:
        text = f"{len(under)} nodes are below the thresholds, and numberOfNodes allows {least}"
    elif len(under) == len(run.evictor.nodes):
        text = "all nodes are below the thresholds"
    if text is not None:
        run.notes.append(text)
    return text is not None


def _usages(run: PluginRun, thresholds: _Shares) -> tuple[dict[int, _Amounts], dict[int, dict[str, float]]]:
    """Return requests by node, in amounts and in percent of capacity."""
    state = run.evictor.state
    names = [*_BASIC, *(name for name in thresholds if name not in _BASIC)]
    usage = {n: {name: state.used(n, name) for name in names} for n in run.evictor.nodes}
    shares = {}
    for n, own in usage.items():
        there = state.facts.capacity[n]
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


def _infos(run: PluginRun, nodes: list[int], usage: Mapping[int, _Amounts], upper: _Shares) -> list[_NodeInfo]:
    capacity = run.evictor.state.facts.capacity
    return [_NodeInfo(n, dict(usage[n]), {name: _capped(capacity[n], name, upper) for name in usage[n]}) for n in nodes]


def _capped(there: Mapping[str, int], name: str, upper: _Shares) -> int:
    """Return a node's capacity of a resource, up to a threshold."""
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
    """Return True if some container of a pod requests one of the resources."""
    containers = (*(pod.spec.containers or ()), *(pod.spec.initContainers or ()))
    return any(name in ((c.resources.requests if c.resources else None) or {}) for c in containers for name in names)
